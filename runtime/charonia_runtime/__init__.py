"""
Charonia's inference server: serves a Triton model repository over Triton's protocols.

Imports point down: `cli` wires frontends, engine and backends together; those three do not know each other and meet in
the protocols of `core`. What may import what is a contract in pyproject.toml and a test.
"""

__version__ = "0.1.0"
