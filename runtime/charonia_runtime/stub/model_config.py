"""`pb_utils.ModelConfig`: the configuration that `auto_complete_config` fills in."""

import json
from typing import Any

from charonia_runtime.stub.context import context

_TENSOR_KEYS = ("name", "data_type", "dims")


class ModelConfig:
    """A configuration as a dictionary, with setters that refuse what contradicts it."""

    def __init__(self, model_config: dict[str, Any] | str) -> None:
        """`model_config` may be JSON text, as `args["model_config"]` is."""
        self._model_config: dict[str, Any] = json.loads(model_config) if isinstance(model_config, str) else model_config

    def as_dict(self) -> dict[str, Any]:
        return self._model_config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Raise the batch size to `max_batch_size`. Raises ValueError when a larger one is configured."""
        configured = self._model_config.get("max_batch_size", 0)
        if configured > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {configured}, but in auto-complete-config function for model "
                f"'{context.model_name}' specified max_batch_size {max_batch_size}"
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Batch dynamically. Raises ValueError when another scheduler is configured."""
        for choice in ("sequence_batching", "ensemble_scheduling"):
            if choice in self._model_config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{choice}', but auto-complete-config function for "
                    f"model '{context.model_name}' tries to set scheduling_choice as 'dynamic_batching'"
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input: dict[str, Any]) -> None:  # noqa: A002  # Triton's name
        """Add an input, or complete the one of that name. Raises ValueError when they differ."""
        allowed = "'name', 'data_type', 'dims' and 'optional'"
        self._add("input", dict(input), {*_TENSOR_KEYS, "optional"}, allowed)

    def add_output(self, output: dict[str, Any]) -> None:
        """Add an output, or complete the one of that name. Raises ValueError when they differ."""
        self._add("output", dict(output), set(_TENSOR_KEYS), "'name', 'data_type' and 'dims'")

    def set_model_transaction_policy(self, transaction_policy_dict: dict[str, Any]) -> None:
        """Make the model decoupled, or not. Raises ValueError when the opposite is configured."""
        if set(transaction_policy_dict) - {"decoupled"}:
            raise ValueError(
                "model transaction property in auto-complete-config function for model "
                f"'{context.model_name}' contains property other than 'decoupled'."
            )
        if "decoupled" not in transaction_policy_dict:
            return
        policy = self._model_config.setdefault("model_transaction_policy", {})
        configured = policy.get("decoupled", transaction_policy_dict["decoupled"])
        if configured != transaction_policy_dict["decoupled"]:
            raise ValueError(
                f"trying to change decoupled property in auto-complete-config for model '{context.model_name}', "
                f"which is already set to '{configured}'."
            )
        policy["decoupled"] = bool(transaction_policy_dict["decoupled"])

    def _add(self, key: str, tensor: dict[str, Any], known: set[str], allowed: str) -> None:
        where = f"in auto-complete-config function for model '{context.model_name}'"
        if "name" not in tensor:
            raise ValueError(f"{key} {where} is missing 'name' property.")
        name = tensor["name"]
        if set(tensor) - known:
            raise ValueError(f"{key} '{name}' {where} contains property other than {allowed}.")
        for required in _TENSOR_KEYS[1:]:
            if required not in tensor:
                raise ValueError(f"{key} '{name}' {where} is missing '{required}' property.")
        dims = tensor["dims"]
        tensor["dims"] = [dims] if isinstance(dims, int) else [int(dim) for dim in dims]
        entries: list[dict[str, Any]] = self._model_config.setdefault(key, [])
        existing = next((entry for entry in entries if entry.get("name") == name), None)
        if existing is None:
            entries.append(tensor)
        else:
            _complete(key, existing, tensor)


def _complete(key: str, existing: dict[str, Any], tensor: dict[str, Any]) -> None:
    """Fill in what a configured tensor leaves open."""
    name = tensor["name"]
    configured = existing.get("data_type", "TYPE_INVALID")
    if configured not in {"TYPE_INVALID", tensor["data_type"]}:
        raise ValueError(
            f"unable to load model '{context.model_name}', configuration expects datatype {configured} for {key} "
            f"'{name}', model provides {tensor['data_type']}"
        )
    existing["data_type"] = tensor["data_type"]
    dims = [int(dim) for dim in existing.get("dims", [])]
    if dims and dims != tensor["dims"]:
        raise ValueError(
            f"model '{context.model_name}', tensor '{name}': the model expects dims {tensor['dims']} but the model "
            f"configuration specifies dims {dims}"
        )
    existing["dims"] = tensor["dims"]
    if "optional" in tensor:
        optional = existing.get("optional", tensor["optional"])
        if optional != tensor["optional"]:
            raise ValueError(
                f"model '{context.model_name}', tensor '{name}': the model expects optional {tensor['optional']} but "
                f"the model configuration specifies optional {optional}"
            )
        existing["optional"] = tensor["optional"]
