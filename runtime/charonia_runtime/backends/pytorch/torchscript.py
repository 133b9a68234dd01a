"""TorchScript modules (`model.pt`): loaded onto a device, called as their `forward` wants it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from charonia_runtime.backends.pytorch.library import loading
from charonia_runtime.backends.pytorch.naming import check_states, generated_inputs, input_positions, output_positions
from charonia_runtime.backends.pytorch.program import check_positions
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError

_TENSOR_TYPES = frozenset({"Tensor", "Optional[Tensor]", "List[str]"})
_NUMBER_TYPES = frozenset({"int", "float", "bool"})
_DICTIONARY = "Dict[str, Tensor]"


class TorchScriptProgram:
    """
    A module whose `forward` takes tensors and lists of strings one by one, or all tensors in one dictionary.

    Arguments that are numbers, which Triton refuses, get the only value of their tensor.
    """

    def __init__(
        self, torch: Any, module: Any, types: Sequence[str], inputs: Mapping[str, int], outputs: Mapping[str, int]
    ) -> None:
        self._tensor_class = torch.Tensor
        self._forward = module.forward
        self._keys = sorted(inputs, key=lambda name: inputs[name]) if list(types) == [_DICTIONARY] else []
        self._numbers = [position for position, name in enumerate(types) if name in _NUMBER_TYPES]
        self._names = {position: name for name, position in inputs.items()}
        self.input_positions = inputs
        self.output_positions = outputs

    def run(self, values: list[Any]) -> Sequence[Any]:
        for position in self._numbers:
            values[position] = _only_value(values[position], self._names[position])
        result = self._forward(dict(zip(self._keys, values, strict=True))) if self._keys else self._forward(*values)
        leaves: Sequence[Any] = result if isinstance(result, tuple) else (result,)
        for leaf in leaves:
            if not isinstance(leaf, self._tensor_class) and not _is_text(leaf):
                raise InternalError(
                    "PyTorch execute failure: output must be of type Tensor, List[str] or Tuple containing one of "
                    "these two types. It should not be a List / Dictionary of Tensors or a Scalar"
                )
        return leaves

    def wrong_datatype(self, name: str, expected: DataType, produced: DataType) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"configuration expects datatype {expected.config_name} for output '{name}', model provides "
            f"{produced.config_name}"
        )


def load_torchscript(torch: Any, path: Path, device: str | None, config: ModelConfig) -> TorchScriptProgram:
    """
    The module on `device`; None leaves its parts where they were saved.

    Raises InternalError with torch's text when the file cannot be read, and InvalidArgumentError when the
    configuration does not fit it.
    """
    with loading(config.name):
        module = torch.jit.load(str(path), map_location=device)
        module.eval()
        arguments = [argument for argument in module.forward.schema.arguments if argument.name != "self"]
        types = {argument.name: str(argument.type.annotation_str) for argument in arguments}
    _check_types(types)
    check_states(config)
    if list(types.values()) == [_DICTIONARY]:
        names = [spec.name for spec in config.inputs] + generated_inputs(config)
        inputs: Mapping[str, int] = {name: position for position, name in enumerate(names)}
    else:
        inputs = input_positions(config, list(types))
        check_positions(config, inputs, len(types))
    return TorchScriptProgram(torch, module, list(types.values()), inputs, output_positions(config))


def _check_types(types: Mapping[str, str]) -> None:
    if list(types.values()) == [_DICTIONARY]:
        return
    if sum(name.startswith("Dict[") for name in types.values()) > 1:
        raise InvalidArgumentError(
            "Multiple inputs of kind DictType were detected. Only a single input of type Dict(str, Tensor) is "
            "supported."
        )
    for name in types.values():
        if name not in _TENSOR_TYPES | _NUMBER_TYPES:
            raise InvalidArgumentError(
                f"An input of type '{name}' was detected in the model. Only a single input of type Dict(str, Tensor) "
                "or input(s) of type Tensor are supported."
            )


def _only_value(tensor: Any, name: str) -> int | float | bool:
    """Raises InvalidArgumentError where requests of one batch, or elements of one tensor, differ."""
    values: set[int | float | bool] = set(tensor.reshape(-1).tolist())
    if len(values) != 1:
        raise InvalidArgumentError(
            f"input '{name}' is a number to the model, so it must have one value for the whole batch, got {len(values)}"
        )
    return values.pop()


def _is_text(leaf: Any) -> bool:
    return isinstance(leaf, list) and all(isinstance(element, str) for element in leaf)
