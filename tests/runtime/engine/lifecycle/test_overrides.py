import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.engine.lifecycle.overrides import OverrideDirectory, safe_path


def test_files_are_written_below_a_directory_of_the_models_name():
    directory = OverrideDirectory("simple", {"file:1/model.py": b"pass", "labels.txt": b"a"})

    assert directory.path.name == "simple"
    assert (directory.path / "1" / "model.py").read_bytes() == b"pass"
    assert (directory.path / "labels.txt").read_bytes() == b"a"

    directory.remove()
    assert not directory.path.parent.exists()
    directory.remove()


def test_others_cannot_read_it():
    directory = OverrideDirectory("simple", {})

    assert directory.path.parent.stat().st_mode & 0o077 == 0
    directory.remove()


@pytest.mark.parametrize(
    ("parameter", "path"),
    [("file:1/model.py", "1/model.py"), ("file:/1/model.py", "1/model.py"), ("file:1/../2/./m", "2/m"), ("a", "a")],
)
def test_paths_are_normalised(parameter, path):
    assert safe_path(parameter) == path


@pytest.mark.parametrize(
    ("parameter", "normalized"),
    [("file:../../x", "/x"), ("file:../simple2/x", "/simple2/x"), ("file:1/..", "/model"), ("file:.", "/model")],
)
def test_paths_outside_are_refused(parameter, normalized):
    with pytest.raises(InvalidArgumentError) as caught:
        safe_path(parameter)

    assert caught.value.message == (
        f"Invalid file parameter '{parameter}' with normalized path '{normalized}' must stay within model directory."
    )


@pytest.mark.parametrize("parameter", ["file:", "file:a\0b", "file:config.pbtxt", "file:1/../config.pbtxt"])
def test_useless_paths_are_refused(parameter):
    with pytest.raises(InvalidArgumentError, match=r"^Invalid file parameter"):
        safe_path(parameter)


@given(st.text(alphabet="./ab\\~$", max_size=12))
def test_no_path_leads_outside(given_path):
    try:
        path = safe_path(given_path)
    except InvalidArgumentError:
        return
    assert not path.startswith("/")
    assert ".." not in path.split("/")


@pytest.mark.parametrize("paths", [("1", "1/model.py"), ("1/model.py", "1")])
def test_a_file_that_is_also_a_directory_is_refused(paths, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with pytest.raises(InvalidArgumentError, match=r"directory has been created as a file$"):
        OverrideDirectory("simple", dict.fromkeys(paths, b""))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "path"), [("a" * 5000, "1/x"), ("simple", "b" * 5000), ("simple", "\ud800")])
def test_files_that_cannot_be_written(name, path, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with pytest.raises(InternalError, match=r"^failed to write the files of model '"):
        OverrideDirectory(name, {path: b""})

    assert list(tmp_path.iterdir()) == []
