import pytest

from charonia_runtime.engine.lifecycle.reading import ModelReader, Override, PollError, log_passed_over
from charonia_runtime.engine.lifecycle.repository import ModelRepositories
from tests.support.repositories import write_model


def reader_of(*directories, auto_complete=True):
    return ModelReader(ModelRepositories(directories), auto_complete=auto_complete)


def test_a_model_is_read_with_its_name_and_selected_versions(tmp_path):
    write_model(tmp_path, "simple", versions=(1, 2, 3), config="version_policy { latest { num_versions: 2 } }")
    polled = reader_of(tmp_path).read("simple")

    assert (polled.name, polled.config.name, polled.versions) == ("simple", "simple", (2, 3))
    assert polled.config.document["name"] == "simple"
    assert not polled.overridden


def test_the_backend_is_derived_from_the_files(tmp_path):
    (tmp_path / "bare" / "1").mkdir(parents=True)
    (tmp_path / "bare" / "1" / "model.onnx").write_bytes(b"")
    config = reader_of(tmp_path).read("bare").config

    assert (config.backend, config.platform, config.default_model_filename) == (
        "onnxruntime", "onnxruntime_onnx", "model.onnx",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("nonsense", "failed to read text proto from "),
        ('name: "other"', "unexpected directory name 'simple' for model 'other', directory name must equal model name"),
        ("dynamic_batching { preferred_batch_size: 9 }", "dynamic batching preferred size must be <= max batch size"),
    ],
)
def test_faults_of_the_configuration(tmp_path, config, text):
    write_model(tmp_path, "simple", config=config)
    with pytest.raises(PollError) as caught:
        reader_of(tmp_path).read("simple")

    assert str(caught.value).startswith(f"Poll failed for model directory 'simple': {text}")


def test_tensors_are_checked_early_when_nothing_is_completed(tmp_path):
    write_model(tmp_path, "simple", config="input { name: 'B' dims: 1 }")

    assert reader_of(tmp_path).read("simple").name == "simple"
    with pytest.raises(PollError, match="model input 'B' must specify 'data_type' for simple"):
        reader_of(tmp_path, auto_complete=False).read("simple")


def test_where_models_are_not(tmp_path):
    for repository in ("a", "b"):
        write_model(tmp_path / repository, "simple")
    reader = reader_of(tmp_path / "a", tmp_path / "b")

    with pytest.raises(PollError, match=r"^failed to poll model 'x': model not found in any model repository\.$"):
        reader.read("x")
    with pytest.raises(PollError, match=r"^failed to poll model 'simple': not unique across all model repositories$"):
        reader.read("simple")


def test_an_override_replaces_the_file(tmp_path):
    write_model(tmp_path, "simple")
    polled = reader_of(tmp_path).read("simple", Override('{"backend": "identity", "max_batch_size": 2}'))

    assert polled.overridden
    assert (polled.config.max_batch_size, polled.config.inputs) == (2, ())


def test_override_files_replace_the_directory(tmp_path):
    write_model(tmp_path, "simple")
    polled = reader_of(tmp_path).read("simple", Override('{"backend": "identity"}', {"file:7/weights": b"1"}))

    assert polled.versions == (7,)
    assert (polled.entry.directory / "7" / "weights").read_bytes() == b"1"
    assert polled.override_directory is not None
    polled.override_directory.remove()


def test_a_bad_override_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(PollError, match="Invalid config override: "):
        reader_of(tmp_path).read("simple", Override("{", {"file:1/weights": b"1"}))

    assert list(tmp_path.iterdir()) == []


def test_what_is_passed_over_is_logged(tmp_path, caplog):
    write_model(tmp_path, "simple", versions=("01", 2, 3), config="version_policy { specific { versions: [2, 4] } }")
    log_passed_over(reader_of(tmp_path).read("simple"))

    assert caplog.messages == [
        "ignore version directory '01' which contains leading zeros in its directory name",
        "version 4 is specified for model 'simple', but the version directory is not present",
    ]
