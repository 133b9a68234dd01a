"""
What a model file really is, seen from its first bytes, where that is not what a backend can load; and what to do.

The pages that the texts name are in the documentation of the runtime.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

PAGE = "runtime/docs/formats.md"
_LFS = b"version https://git-lfs.github.com/spec/"
_HEAD_BYTES = 512
_SAFETENSORS_HEADER = 8
_OLDEST_PICKLE, _NEWEST_PICKLE = 2, 5


@dataclass(frozen=True, slots=True)
class UnloadableFile:
    """A file that no backend loads as it is: what it is, and what to do instead."""

    path: Path
    what: str
    remedy: str

    @override
    def __str__(self) -> str:
        return f"'{self.path}' is {self.what}: {self.remedy}"


def recognise(path: Path, backend: str) -> UnloadableFile | None:
    """What `path` is when the backend cannot load it, None where it may be what it should be. Reads a few bytes."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    found = _by_content(path, head, backend) or _by_name(path, backend)
    return None if found is None else UnloadableFile(path, *found)


def _by_content(path: Path, head: bytes, backend: str) -> tuple[str, str] | None:
    if not head:
        return "empty", "copy the model again"
    if head.startswith(_LFS):
        return "a Git LFS pointer, not the model", "run 'git lfs pull' where it was cloned and copy the model again"
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "a web page, not the model", "the download went wrong or needs a login"
    if _is_pickle(head):
        return "a Python pickle", f"{_pickle_remedy(backend)}; see {PAGE}#pickles"
    if head.startswith(b"\x89HDF\r\n"):
        return "a Keras or HDF5 file", f"save it as a SavedModel with model.export(...); see {PAGE}#keras"
    if head.startswith(b"\x1f\x8b"):
        return "a compressed archive", "unpack it into the version's folder"
    if head[_SAFETENSORS_HEADER : _SAFETENSORS_HEADER + 2] == b'{"' and not head.startswith(b"{"):
        return "a safetensors file, weights without a model", f"see {PAGE}#weights"
    if head.startswith(b"PK\x03\x04"):
        return _in_archive(path, backend)
    return None


def _is_pickle(head: bytes) -> bool:
    return len(head) > 1 and head[0] == 0x80 and _OLDEST_PICKLE <= head[1] <= _NEWEST_PICKLE


def _pickle_remedy(backend: str) -> str:
    if backend == "fil":
        return "fil loads XGBoost's, LightGBM's and treelite's own files: save it with save_model(...)"
    if backend == "pytorch":
        return "save TorchScript with torch.jit.save(torch.jit.script(model), 'model.pt'), or torch.export"
    return "convert it to ONNX, or load it in a model.py"


def _in_archive(path: Path, backend: str) -> tuple[str, str] | None:
    """A zip: TorchScript and torch.export have code beside their weights, `torch.save` has not."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return "a damaged archive", "copy the model again"
    if any(name.endswith("model.weights.h5") for name in names):
        return "a Keras file", f"save it as a SavedModel with model.export(...); see {PAGE}#keras"
    pickled = any(name.endswith("/data.pkl") for name in names)
    if pickled and not any("/code/" in name or name.endswith("/constants.pkl") for name in names):
        return (
            "a state_dict or a model that torch.save pickled, without code",
            f"{_pickle_remedy('pytorch')}; see {PAGE}#state_dict",
        )
    if not pickled and backend in {"onnxruntime", "tensorrt", "fil", "openvino"}:
        return "a zip archive", "unpack it into the version's folder"
    return None


def _by_name(path: Path, backend: str) -> tuple[str, str] | None:
    if path.suffix in {".pkl", ".pickle", ".joblib"}:
        return "a Python pickle", f"{_pickle_remedy(backend)}; see {PAGE}#pickles"
    return None
