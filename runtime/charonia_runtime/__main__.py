"""`python -m charonia_runtime` is the `charonia` command."""

from charonia_runtime.cli import main

main()
