"""Command-line flags to frozen dataclasses."""
