"""Parameters of TensorFlow models."""

import json
from pathlib import Path

import pytest

from charonia_runtime.backends.tensorflow.settings import (
    BackendSettings,
    Settings,
    read_backend_settings,
    read_init_ops,
    read_settings,
)
from charonia_runtime.core.errors import InvalidArgumentError
from tests.support.backends import a_folder


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, Settings()),
        ({"TF_NUM_INTRA_THREADS": "2", "TF_NUM_INTER_THREADS": "3"}, Settings(2, 3)),
        ({"TF_USE_PER_SESSION_THREADS": "true"}, Settings(own_threads=True)),
        ({"TF_GRAPH_TAG": "train", "TF_SIGNATURE_DEF": "rank"}, Settings(tag="train", signature="rank")),
        ({"TF_INIT_OPS_FILE": "ops.json"}, Settings(init_ops_file="ops.json")),
        ({"MAX_SESSION_SHARE_COUNT": "4"}, Settings(instances_per_session=4)),
        ({"SOMETHING_ELSE": "x"}, Settings()),
    ],
)
def test_each_parameter(given: dict[str, str], read: Settings) -> None:
    assert read_settings(given, "m") == read


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"TF_NUM_INTRA_THREADS": "-1"},
            "parameter 'TF_NUM_INTRA_THREADS' must be non-negative number for TensorFlow model 'm'",
        ),
        (
            {"TF_NUM_INTER_THREADS": "-1"},
            "parameter 'TF_NUM_INTER_THREADS' must be non-negative number for TensorFlow model 'm'",
        ),
        (
            {"MAX_SESSION_SHARE_COUNT": "0"},
            "parameter 'MAX_SESSION_SHARE_COUNT' must be positive number for TensorFlow model 'm'",
        ),
        ({"TF_NUM_INTRA_THREADS": "many"}, "failed to convert 'many' to integral number"),
        ({"TF_USE_PER_SESSION_THREADS": "perhaps"}, "failed to convert 'perhaps' to boolean"),
    ],
)
def test_what_cannot_be_read(given: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_settings(given, "m")
    assert caught.value.message == text


def test_the_backend_s_own() -> None:
    assert read_backend_settings({}) == BackendSettings()
    given = {"allow-soft-placement": "false", "gpu-memory-fraction": "0.25", "version": "2"}
    assert read_backend_settings(given) == BackendSettings(soft_placement=False, gpu_memory_fraction=0.25)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"version": "1"}, "--backend-config=tensorflow,version=1: only version 2 can be had"),
        ({"gpu-memory-fraction": "half"}, "failed to convert 'half' to floating-point number"),
    ],
)
def test_what_the_backend_refuses(given: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_backend_settings(given)
    assert caught.value.message == text


class TestInitOps:
    def test_the_version_s_file_comes_first(self, tmp_path: Path) -> None:
        files = a_folder(tmp_path, "m")
        (tmp_path / "ops.json").write_text(json.dumps({"init_ops": ["a", "b"]}))
        assert read_init_ops(files, "ops.json") == ("a", "b")
        (tmp_path / "1" / "ops.json").write_text(json.dumps({"init_ops": ["c"]}))
        assert read_init_ops(files, "ops.json") == ("c",)

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"init_ops": "a"}', '{"init_ops": [1]}'])
    def test_files_that_say_nothing(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "ops.json").write_text(text)
        with pytest.raises(InvalidArgumentError, match="init_ops"):
            read_init_ops(a_folder(tmp_path, "m"), "ops.json")

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgumentError, match=r"^unable to find 'ops.json' for TensorFlow model 'm'$"):
            read_init_ops(a_folder(tmp_path, "m"), "ops.json")
