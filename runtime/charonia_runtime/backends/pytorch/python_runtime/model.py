"""
Eager PyTorch models: a `torch.nn.Module` in the user's `model.py`, or a TorchScript `model.pt`.

The python backend runs this file in a process of its own for each instance of a model of the pytorch backend that has
`runtime: "model.py"`. It imports nothing of the server.
"""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton_python_backend_utils as pb_utils

_FILES = ("model.py", "model.pt")
_COMPILE_PARAMETERS = "TORCH_COMPILE_OPTIONAL_PARAMETERS"


class TritonPythonModel:
    """What the python backend drives: one module on one device, compiled when the first request comes."""

    def initialize(self, arguments: dict[str, str]) -> None:
        config = json.loads(arguments["model_config"])
        parameters = {name: value["string_value"] for name, value in config.get("parameters", {}).items()}
        torch.set_num_threads(int(parameters.get("NUM_THREADS", 1)))
        torch.set_num_interop_threads(int(parameters.get("NUM_INTEROP_THREADS", 1)))
        self._batches = config["max_batch_size"] > 0
        self._input_names = [spec["name"] for spec in config["input"]]
        self._output_names = [spec["name"] for spec in config["output"]]
        options = _compile_options(parameters.get(_COMPILE_PARAMETERS, ""))
        device = _device_name(arguments["model_instance_kind"], arguments["model_instance_device_id"])
        path = _find_model(Path(pb_utils.get_model_dir()), config["default_model_filename"])
        module = torch.jit.load(path, map_location=device) if path.suffix == ".pt" else _eager_module(path, device)
        module.eval()
        self._device = torch.device(device) if device else _device_of(module)
        self._call = module if path.suffix == ".pt" else torch.compile(module, **options)

    def execute(self, requests: list[Any]) -> list[Any]:
        inputs = [self._inputs(request) for request in requests]
        if not self._batches:
            return [self._response(self._run(tensors)) for tensors in inputs]
        rows = [tensors[0].shape[0] for tensors in inputs]
        joined = inputs[0] if len(inputs) == 1 else [torch.cat(column) for column in zip(*inputs, strict=True)]
        columns = [torch.split(output[: sum(rows)], rows) for output in self._run(joined)]
        return [self._response(outputs) for outputs in zip(*columns, strict=True)]

    def _inputs(self, request: Any) -> list[torch.Tensor]:
        tensors = [pb_utils.get_input_tensor_by_name(request, name) for name in self._input_names]
        return [torch.from_dlpack(tensor.to_dlpack()) for tensor in tensors]

    def _run(self, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        with torch.no_grad():
            result = self._call(*[tensor.to(self._device) for tensor in inputs])
        outputs = result if isinstance(result, tuple | list) else (result,)
        if len(outputs) < len(self._output_names):
            raise pb_utils.TritonModelException(
                f"the model gives {len(outputs)} outputs, the configuration has {len(self._output_names)}"
            )
        return [output.detach().cpu().contiguous() for output in outputs[: len(self._output_names)]]

    def _response(self, outputs: Sequence[torch.Tensor]) -> Any:
        named = zip(self._output_names, outputs, strict=True)
        return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack(name, output) for name, output in named])


def _find_model(folder: Path, configured: str) -> Path:
    names = [configured, *_FILES] if configured else list(_FILES)
    found = next((folder / name for name in names if (folder / name).exists()), None)
    if found is None:
        raise pb_utils.TritonModelException(f"No model found in {folder}/{names}")
    return found


def _eager_module(path: Path, device: str) -> torch.nn.Module:
    """An object of the module class in `path`, with the weights that lie beside it."""
    module: torch.nn.Module = _module_class(_import(path))()
    weights = path.with_suffix(".pt")
    if weights.exists():
        module.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return module.to(device) if device else module


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("pytorch_model", path)
    if spec is None or spec.loader is None:
        raise pb_utils.TritonModelException(f"{path} cannot be imported")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def _module_class(found: ModuleType) -> Any:
    """The first in alphabetical order; imported ones count, as in Triton."""
    for name in dir(found):
        value = getattr(found, name)
        if isinstance(value, type) and issubclass(value, torch.nn.Module):
            return value
    raise pb_utils.TritonModelException("Cannot find a subclass of torch.nn.Module")


def _compile_options(text: str) -> dict[str, Any]:
    options: dict[str, Any] = json.loads(text) if text else {}
    if "model" in options:
        raise pb_utils.TritonModelException("'model' is not an optional parameter for 'torch.compile'")
    return options


def _device_name(kind: str, device_id: str) -> str:
    """Empty where the model itself decides."""
    return {"GPU": f"cuda:{device_id}", "CPU": "cpu"}.get(kind, "")


def _device_of(module: Any) -> torch.device:
    for parameter in module.parameters():
        return torch.device(parameter.device)
    raise pb_utils.TritonModelException("Cannot determine model device")
