from pathlib import Path

import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.errors import InternalError
from charonia_runtime.engine.inspection import Fault, inspect
from charonia_runtime.engine.lifecycle.repository import ModelRepositories
from tests.support.repositories import write_model

LABELS = 'output { name: "LABELS" data_type: TYPE_FP32 dims: 4 label_filename: "labels.txt" }'
WARM = (
    'model_warmup { name: "w" batch_size: 1 inputs { key: "INPUT" value { data_type: TYPE_INT32 dims: 4 '
    'input_data_file: "data" } } }'
)
STATE = (
    'sequence_batching { state { input_name: "S" output_name: "T" data_type: TYPE_INT32 dims: 4 '
    'initial_state { name: "s" data_type: TYPE_INT32 dims: 4 data_file: "state.bin" } } }'
)

ENSEMBLE = """
platform: "ensemble"
input { name: "A" data_type: TYPE_INT32 dims: 4 }
output { name: "B" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling { step {
  model_name: "other" model_version: -1 input_map { key: "INPUT" value: "A" } output_map { key: "OUTPUT" value: "B" }
} }
"""


def faults_of(*repositories: Path) -> list[Fault]:
    return inspect(ModelRepositories(repositories), load_backend, backend_directory=Path("/nowhere"))


def test_a_sound_repository(tmp_path):
    write_model(tmp_path, "a")
    write_model(tmp_path, "b", versions=(1, 2), config="version_policy { all {} }")

    assert faults_of(tmp_path) == []


def test_a_missing_repository():
    with pytest.raises(InternalError, match=r"^failed to stat file /nowhere$"):
        faults_of(Path("/nowhere"))


@pytest.mark.parametrize(
    ("model", "file", "field", "text"),
    [
        ({"config": "nonsense: 1"}, "config.pbtxt", "", "nonsense"),
        ({"config": 'name: "other"'}, "config.pbtxt", "", "unexpected directory name 'simple' for model 'other'"),
        ({"base": "max_batch_size: -1 backend: 'identity'"}, "config.pbtxt", "max_batch_size", "must be non-negative"),
        ({"versions": ()}, "", "version_policy", "at least one version must be available"),
        (
            {"config": "version_policy { specific { versions: [1, 3] } }"},
            "config.pbtxt", "version_policy.specific.versions", "version 3 is specified for model 'simple'",
        ),
        ({"config": "input { name: 'B' dims: 1 }"}, "config.pbtxt", 'input "B"', "must specify 'data_type'"),
        (
            {"config": """dynamic_batching {} parameters {
                key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "none.py" } }"""},
            "config.pbtxt", 'parameters["TRITON_BATCH_STRATEGY_PATH"]', "Batching library path not found: ",
        ),
        ({"base": 'backend: "nothing"'}, "config.pbtxt", "backend", "unable to find backend library"),
        (
            {"config": 'runtime: "other.so"'},
            "config.pbtxt", "runtime", "unable to find backend library 'other.so' for model 'simple', searched:",
        ),
        (
            {"config": 'default_model_filename: "weights"'},
            "1/weights", "default_model_filename", "the model's file is missing",
        ),
        (
            {"config": LABELS.replace("TYPE_FP32", "TYPE_INT32") + "input { name: 'B' data_type: TYPE_INT32 dims: 4 }"},
            "config.pbtxt", "output[1].label_filename", "labels.txt",
        ),
        ({"config": STATE}, "config.pbtxt", "sequence_batching.state.initial_state", "initial_state/state.bin"),
        (
            {"base": ENSEMBLE},
            "config.pbtxt", "ensemble_scheduling.step[0].model_name", "model 'other' is in none of the repositories",
        ),
        ({"config": WARM}, "config.pbtxt", 'model_warmup[0].inputs["INPUT"].input_data_file', "warmup/data"),
    ],
)  # fmt: skip
def test_faults_name_file_and_field(tmp_path, model, file, field, text):
    directory = write_model(tmp_path, "simple", **model)
    (fault,) = faults_of(tmp_path)

    assert (fault.model, fault.file, fault.field) == ("simple", directory / file, field)
    assert text in fault.message


def test_a_directory_that_is_no_version(tmp_path):
    directory = write_model(tmp_path, "simple", versions=(1, "v2"))

    assert faults_of(tmp_path) == [
        Fault("simple", directory, "", "ignore version directory 'v2' which fails to convert to integral number")
    ]


def test_a_model_in_two_repositories(tmp_path):
    places = [write_model(tmp_path / repository, "simple") for repository in ("a", "b")]

    assert [(fault.file, fault.message) for fault in faults_of(tmp_path / "a", tmp_path / "b")] == [
        (place, "model appears in two or more repositories") for place in places
    ]
