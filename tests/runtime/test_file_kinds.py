"""Files that are not what their names say are told for what they are."""

import io
import pickle
import zipfile
from pathlib import Path

import pytest

from charonia_runtime.file_kinds import recognise


def a_zip(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("backend", "name", "content", "what", "remedy"),
    [
        ("onnxruntime", "model.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS", "git lfs pull"),
        ("onnxruntime", "model.onnx", b"\n<!DOCTYPE html><html>", "a web page", "download"),
        ("onnxruntime", "model.onnx", b"", "empty", "copy"),
        ("pytorch", "model.pt", a_zip("m/data.pkl", "m/data/0"), "a state_dict", "torch.jit.save"),
        ("pytorch", "model.pt", pickle.dumps([1]), "a Python pickle", "torch.jit.save"),
        ("fil", "xgboost.json", pickle.dumps({"a": 1}), "a Python pickle", "save_model"),
        ("", "model.joblib", b"\x78\x9c...", "a Python pickle", "ONNX"),
        ("", "model.h5", b"\x89HDF\r\n\x1a\n", "a Keras or HDF5 file", "model.export"),
        ("", "model.keras", a_zip("config.json", "model.weights.h5"), "a Keras file", "model.export"),
        ("", "model.safetensors", b'\x10\0\0\0\0\0\0\0{"a": {}}', "a safetensors file", "#weights"),
        ("tensorflow", "model.graphdef", b"\x1f\x8b\x08", "a compressed archive", "unpack"),
    ],
)  # fmt: skip
def test_what_a_file_is(  # noqa: PLR0917 - a row of the table
    tmp_path: Path, backend: str, name: str, content: bytes, what: str, remedy: str
) -> None:
    (tmp_path / name).write_bytes(content)

    found = recognise(tmp_path / name, backend)

    assert found is not None
    assert (found.path, what in found.what, remedy in found.remedy) == (tmp_path / name, True, True)
    assert str(found).startswith(f"'{tmp_path / name}' is ")


@pytest.mark.parametrize(
    ("backend", "name", "content"),
    [
        ("pytorch", "model.pt", a_zip("m/data.pkl", "m/code/__torch__.py", "m/constants.pkl")),
        ("pytorch", "model.pt2", a_zip("m/models/model.json", "m/version")),
        ("onnxruntime", "model.onnx", b"\x08\x0a\x12\x07pytorch"),
        ("fil", "xgboost.json", b'{"learner": {}}'),
        ("onnxruntime", "missing.onnx", None),
    ],
)
def test_what_may_be_a_model(tmp_path: Path, backend: str, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)

    assert recognise(tmp_path / name, backend) is None
