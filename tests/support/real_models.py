"""
Real ONNX models: a file-type classifier, a voice detector and three parts of a text reader.

They come out of wheels on the package index, whose names and hashes are in `model_wheels.txt`. pip downloads the wheels
once into a cache; their dependencies (torch among them) are not needed for the files inside.
"""

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

WHEELS = Path(__file__).with_name("model_wheels.txt")
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class RealModel:
    """One ONNX file. `request(rows, generator)` makes inputs that it accepts; it `batches` when rows may be many."""

    wheel: str
    member: str
    request: Callable[[int, np.random.Generator], Arrays]
    batches: bool = True


def _images(height: int, width: int) -> Callable[[int, np.random.Generator], Arrays]:
    return lambda rows, generator: {"x": generator.random((rows, 3, height, width), np.float32)}


def _bytes_of_a_file(rows: int, generator: np.random.Generator) -> Arrays:
    return {"bytes": generator.integers(0, 257, (rows, 2048), np.int32)}


def _sound(rows: int, generator: np.random.Generator) -> Arrays:
    return {
        "input": generator.random((rows, 512), np.float32) - np.float32(0.5),
        "state": np.zeros((2, rows, 128), np.float32),
        "sr": np.array([16000]),
    }


MODELS: Mapping[str, RealModel] = {
    "file_type": RealModel("magika", "magika/models/standard_v3_3/model.onnx", _bytes_of_a_file),
    "voice": RealModel("silero_vad", "silero_vad/data/silero_vad.onnx", _sound, batches=False),
    "text_detection": RealModel(
        "rapidocr_onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", _images(64, 96)
    ),
    "text_direction": RealModel(
        "rapidocr_onnxruntime", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", _images(48, 192)
    ),
    "text_recognition": RealModel(
        "rapidocr_onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", _images(48, 96)
    ),
}


def fetch(cache: Path) -> dict[str, Path]:
    """The model files by name, unpacked in `cache`; downloads what is missing there."""
    files = {name: cache / f"{name}.onnx" for name in MODELS}
    if all(path.exists() for path in files.values()):
        return files
    _download(cache)
    for name, model in MODELS.items():
        (wheel,) = cache.glob(f"{model.wheel}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            partial = files[name].with_suffix(".partial")
            partial.write_bytes(archive.read(model.member))
            partial.rename(files[name])
    return files


def fetch_voice_script(cache: Path) -> Path:
    """The voice detector as TorchScript."""
    path = cache / "voice.pt"
    if not path.exists():
        if not any(cache.glob("silero_vad-*.whl")):
            _download(cache)
        (wheel,) = cache.glob("silero_vad-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            path.with_suffix(".partial").write_bytes(archive.read("silero_vad/data/silero_vad.jit"))
        path.with_suffix(".partial").rename(path)
    return path


def write_repository(directory: Path, files: Mapping[str, Path], names: Iterable[str] = MODELS) -> Path:
    """A model repository of these models without configurations; gives back `directory`."""
    for name in names:
        version = directory / name / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").symlink_to(files[name].resolve())
    return directory


def _download(cache: Path) -> None:
    # `any` leaves out what is built for one platform, and the version what a package says of newer Pythons.
    platform = ["--only-binary=:all:", "--platform=any", "--python-version=3.11"]
    subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", *platform,
            "--require-hashes", "--requirement", str(WHEELS), "--dest", str(cache),
        ],
        check=True,
    )  # fmt: skip
