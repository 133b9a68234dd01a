"""Identifiers: what tells the models of one server apart where repositories may have models of the same name."""


def model_identifier(namespace: str, name: str) -> str:
    """`<namespace>::<name>`, as Triton's log has it with `--model-namespacing`; the name itself without a namespace."""
    return f"{namespace}::{name}" if namespace else name
