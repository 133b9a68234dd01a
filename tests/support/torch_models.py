"""
PyTorch models, saved in the ways that the pytorch backend reads, and loaded by it without the engine.

This module imports torch: tests import it after `pytest.importorskip("torch")`.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, List  # noqa: UP035 - TorchScript knows only these

import numpy as np
import torch
from torch import Tensor, nn

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from tests.support.batches import RecordedBatch, a_batch
from tests.support.configs import a_config, a_tensor
from tests.support.loaded_models import execute

CPU = Placement("m_0", InstanceKind.CPU)
FP32 = DataType.FP32


@contextmanager
def quietly() -> Iterator[None]:
    """torch calls TorchScript deprecated each time it makes some."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Pass(nn.Module):
    """Both inputs as they are."""

    def forward(self, first, second):
        return first, second


class Fail(nn.Module):
    def forward(self, first):
        return first.reshape(-1, 7)


class Difference(nn.Module):
    """Tells its inputs apart, and its outputs."""

    def forward(self, left, right):
        return left - right, left + right


class ByKey(nn.Module):
    def forward(self, tensors: Dict[str, Tensor]):  # noqa: UP006
        return tensors["LEFT"] - tensors["RIGHT"]


class Exclaim(nn.Module):
    def forward(self, words: List[str]):  # noqa: UP006
        return [word + "!" for word in words], torch.tensor([len(word) for word in words])


class InPlace(nn.Module):
    """Changes its input, and gives out a tensor that it keeps and changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 2))

    def forward(self, added):
        added.mul_(2)
        self.total.add_(added)
        return self.total


class Network(nn.Module):
    """128 → 64 → 10, with one non-linearity."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        return self.layers(x)


class Pictures(nn.Module):
    """A small picture classifier: [3, any, any] → 1000 classes, as the platform's manual shows it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU())
        self.classes = nn.Linear(8, 1000)

    def forward(self, pictures):
        return self.classes(self.features(pictures).mean((2, 3)))


def save_script(module: nn.Module, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with quietly():
        torch.jit.script(module.eval()).save(str(path))
    return path


def export(module: nn.Module, *arguments: Any, path: Path, batched: bool = True, **by_keyword: Any) -> Path:
    """An archive of torch.export; the first dimension of every tensor is free."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with quietly():
        torch.export.save(exported(module, *arguments, batched=batched, **by_keyword), path)
    return path


def exported(module: nn.Module, *arguments: Any, batched: bool = True, **by_keyword: Any) -> Any:
    free = {0: torch.export.Dim("rows", min=1, max=64)} if batched else None
    shapes = torch.utils._pytree.tree_map(lambda _: free, (arguments, by_keyword))
    return torch.export.export(module.eval(), arguments, by_keyword, dynamic_shapes=(*shapes[0], *shapes[1].values()))


def scripted(directory: Path, module: nn.Module) -> Path:
    """A model's folder with a TorchScript module as version 1."""
    save_script(module, directory / "1" / "model.pt")
    return directory


def torch_config(inputs: Mapping[str, Any], outputs: Mapping[str, Any], **changes: Any) -> ModelConfig:
    """Tensors by name: `(datatype, *dims)`."""
    return a_config("m", **({
        "backend": "pytorch",
        "platform": "pytorch_libtorch",
        "inputs": tuple(a_tensor(name, *spec) for name, spec in inputs.items()),
        "outputs": tuple(a_tensor(name, *spec) for name, spec in outputs.items()),
    } | changes))  # fmt: skip


class Loaded:
    """A model's folder, loaded, with one instance."""

    def __init__(self, directory: Path, config: ModelConfig, placement: Placement = CPU) -> None:
        files = ModelFiles(config.name, 1, directory, directory / "1", {}, gpus=(0,))
        self.backend: Any = load_backend("pytorch")(files)
        self.config = self.backend.auto_complete(config)
        self.backend.load(self.config)
        self.instance = self.backend.create_instance(placement)

    def run(self, *requests: Mapping[str, np.ndarray[Any, Any]], **named: Any) -> RecordedBatch:
        return execute(self.instance, a_batch(self.config, *requests, **named))


def error_of(batch: RecordedBatch, index: int = 0) -> InferenceError:
    (response,) = batch.responses_to(index)
    assert response.error is not None
    return response.error
