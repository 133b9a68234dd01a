"""
Look for inputs that break a parser: `python -m tests.fuzzing http1 [--inputs 1000000] [--corpus FOLDER]`.

The target `http1_sessions` speaks to a server in a process of its own, with a memory limit: try some 100,000 inputs.

Needs `pip install atheris`, which finds new paths by watching the code. Without `--corpus` it starts from the target's
seeds and keeps nothing; a failing input is written to the present folder and said.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

from tests.fuzzing.target import load_target, target_names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=target_names())
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--corpus", type=Path, help="start from these inputs too, and add the interesting ones")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="more than this is a failure")
    options = parser.parse_args()
    with atheris.instrument_imports(include=["charonia_runtime.wires", "charonia_runtime.protocols"]):
        target = load_target(options.target)
    with tempfile.TemporaryDirectory() as scratch:
        corpus = options.corpus or Path(scratch)
        for index, seed in enumerate(target.SEEDS):
            (corpus / f"seed-{index}").write_bytes(b"\x05" + seed if options.target.startswith("http") else seed)
        arguments = [
            sys.argv[0], f"-runs={options.inputs}", f"-rss_limit_mb={options.memory}", "-timeout=10", "-max_len=8192",
            "-print_final_stats=1", str(corpus),
        ]  # fmt: skip
        atheris.Setup(arguments, target.check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
