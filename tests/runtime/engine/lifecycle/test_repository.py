import os
from pathlib import Path

import pytest

from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.engine.lifecycle.repository import ModelRepositories, is_model_name, parse_version


@pytest.fixture
def root(tmp_path: Path) -> Path:
    model = tmp_path / "simple"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.onnx").write_bytes(b"one")
    (model / "10").mkdir()
    (model / "10" / "model.onnx").write_bytes(b"ten")
    (model / "config.pbtxt").write_text("")
    (model / "labels.txt").write_text("a")
    age(model)
    return tmp_path


def age(directory: Path) -> None:
    """Make everything in a tree an hour old, so that the next change is newer whatever the file system's clock."""
    for path in (directory, *directory.rglob("*")):
        changed = path.stat().st_mtime - 3600
        os.utime(path, (changed, changed))


def read(root: Path, config_name: str = ""):
    return ModelRepositories([root], config_name).read(root / "simple")


def test_every_directory_is_a_model_and_files_are_none(root):
    (root / "readme").write_text("")
    (root / ".hidden").mkdir()

    assert ModelRepositories([root]).locate() == {".hidden": (root / ".hidden",), "simple": (root / "simple",)}


def test_a_model_in_two_repositories_has_two_directories(root, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "simple").mkdir()
    repositories = ModelRepositories([root, other])

    assert repositories.find("simple") == (root / "simple", other / "simple")
    assert repositories.locate() == {"simple": (root / "simple", other / "simple")}


def test_a_repository_that_is_named_twice_is_one(root):
    repositories = ModelRepositories([root, root, root / "simple" / ".."])

    assert {name: len(directories) for name, directories in repositories.locate().items()} == {"simple": 1}


def test_a_repository_that_cannot_be_read_is_passed_over(root, caplog):
    assert list(ModelRepositories([root / "missing", root]).locate()) == ["simple"]
    assert f"failed to open model repository '{root / 'missing'}': No such file or directory" in caplog.messages


def test_repositories_are_checked_at_startup(root):
    with pytest.raises(InternalError, match=f"^failed to stat file {root / 'missing'}$"):
        ModelRepositories([root / "missing"]).check()
    with pytest.raises(InvalidArgumentError, match=r"^repository path is not a valid directory$"):
        ModelRepositories([root / "simple" / "config.pbtxt"]).check()


@pytest.mark.parametrize("name", ["", ".", "..", "../simple", "a/b", "/etc", "a\0b"])
def test_names_that_leave_the_repository_are_not_found(root, name):
    assert not is_model_name(name)
    assert ModelRepositories([root]).find(name) == ()


@pytest.mark.parametrize("name", ["a" * 5000, "\ud800"])
def test_names_that_no_file_system_takes_are_not_found(root, name):
    assert ModelRepositories([root]).find(name) == ()


def test_versions_are_ordered_by_number(root):
    (root / "simple" / "2").mkdir()

    assert read(root).versions == (1, 2, 10)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("0", 0),
        ("12", 12),
        ("01", "ignore version directory '01' which contains leading zeros in its directory name"),
        ("1abc", "ignore version directory '1abc' which fails to convert to integral number"),
        ("-1", "ignore version directory '-1' which fails to convert to integral number"),
        ("٣", "ignore version directory '٣' which fails to convert to integral number"),
        ("9" * 30, f"ignore version directory '{'9' * 30}' which fails to convert to integral number"),
        ("warmup", ""),
        ("configs", ""),
        ("initial_state", ""),
    ],
)
def test_version_directories(name, version):
    assert parse_version(name) == version


def test_ignored_directories_are_told(root):
    (root / "simple" / "v1").mkdir()

    assert read(root).ignored == ("ignore version directory 'v1' which fails to convert to integral number",)


def test_the_first_version_in_alphabetical_order_tells_the_backend(root):
    (root / "simple" / ".cache").mkdir()
    (root / "simple" / "1" / "data").mkdir()

    assert read(root).first_version_files == {"model.onnx": False, "data": True}


def test_a_model_without_versions_shows_its_first_directory(root):
    (root / "bare" / "v1").mkdir(parents=True)
    (root / "bare" / "v1" / "model.py").write_text("")

    entry = ModelRepositories([root]).read(root / "bare")

    assert (entry.versions, entry.first_version_files) == ((), {"model.py": False})


def test_a_custom_configuration_is_used_where_it_exists(root):
    custom = root / "simple" / "configs" / "fast.pbtxt"
    custom.parent.mkdir()
    custom.write_text("")

    assert read(root, "fast").config_path == custom
    assert read(root, "slow").config_path == root / "simple" / "config.pbtxt"


def test_a_model_that_is_gone_cannot_be_read(root):
    with pytest.raises(InternalError, match=r"^failed to open directory .*/gone: No such file or directory$"):
        ModelRepositories([root]).read(root / "gone")


# --- modifications ---


def test_nothing_changed(root):
    assert not read(root).modifications.differ_from(read(root).modifications)


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("config.pbtxt", "config"),
        ("labels.txt", "others"),
        ("warmup/data", "others"),
        ("1/model.onnx", 1),
        ("10/parts/weights.bin", 10),
    ],
)
def test_a_changed_file_changes_its_group_only(root, path, group):
    before = read(root).modifications
    changed = root / "simple" / path
    changed.parent.mkdir(exist_ok=True)
    changed.write_text("changed")

    after = read(root).modifications

    groups = {
        "config": after.config.differs_from(before.config),
        "others": after.others.differs_from(before.others),
        1: after.versions[1].differs_from(before.versions[1]),
        10: after.versions[10].differs_from(before.versions[10]),
    }
    assert after.differ_from(before)
    assert [name for name, differs in groups.items() if differs] == [group]


def test_a_new_version_is_a_modification_of_no_other_group(root):
    before = read(root).modifications
    (root / "simple" / "11").mkdir()

    after = read(root).modifications

    assert after.differ_from(before)
    assert not after.others.differs_from(before.others)


def test_a_removed_version_is_a_modification(root):
    before = read(root).modifications
    (root / "simple" / "10" / "model.onnx").unlink()
    (root / "simple" / "10").rmdir()
    age(root / "simple")

    assert read(root).modifications.differ_from(before)


def test_a_touched_directory_is_a_modification(root):
    before = read(root).modifications
    os.utime(root / "simple" / "1")

    assert read(root).modifications.versions[1].differs_from(before.versions[1])


def test_a_file_replaced_by_an_older_one_is_a_modification(root):
    """`cp -p` of an older file: Triton would not see it."""
    before = read(root).modifications
    model = root / "simple" / "1" / "model.onnx"
    os.utime(model, (1, 1))

    assert read(root).modifications.versions[1].differs_from(before.versions[1])


def test_bytecode_is_no_modification(root):
    """Python writes it while the model loads; the model must not reload for that."""
    before = read(root).modifications
    for directory in (root / "simple", root / "simple" / "1"):
        (directory / "__pycache__").mkdir()
        (directory / "__pycache__" / "model.cpython-311.pyc").write_bytes(b"")

    assert not read(root).modifications.differ_from(before)


def test_changes_beside_bytecode_are_seen(root):
    (root / "simple" / "1" / "__pycache__").mkdir()
    (root / "simple" / "1" / "helper.py").write_text("")
    before = read(root).modifications
    (root / "simple" / "1" / "helper.py").unlink()

    assert read(root).modifications.versions[1].differs_from(before.versions[1])


def test_the_chosen_configuration_is_not_counted_with_other_files(root):
    custom = root / "simple" / "configs" / "fast.pbtxt"
    custom.parent.mkdir()
    custom.write_text("")
    before = read(root, "fast").modifications
    custom.write_text("changed")

    after = read(root, "fast").modifications

    assert after.config.differs_from(before.config)
    assert not after.others.differs_from(before.others)


def test_links_are_followed_once(root):
    (root / "simple" / "1" / "loop").symlink_to(root / "simple" / "1")
    (root / "simple" / "1" / "broken").symlink_to(root / "nowhere")
    target = root / "weights"
    target.mkdir()
    (target / "part").write_text("1")
    (root / "simple" / "1" / "weights").symlink_to(target)
    before = read(root).modifications
    (target / "part").write_text("22")

    assert read(root).modifications.versions[1].differs_from(before.versions[1])
