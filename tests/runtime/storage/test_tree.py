"""Listings to trees and trees to revisions: what must hold for every repository."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.storage.failures import EmptyError, IntegrityError, LayoutError, LocationError
from charonia_runtime.storage.manifest import CopiedFile, Manifest, read_manifest, write_manifest
from charonia_runtime.storage.objects import StoredObject
from charonia_runtime.storage.patterns import Selection
from charonia_runtime.storage.sums import check_sums, parse_sums
from charonia_runtime.storage.tree import build_tree

NAMES = st.sampled_from(["a", "b", "1", "model.onnx", "ü", " ", "a.b", "__pycache__"])
KEYS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
OBJECTS = st.dictionaries(KEYS, st.tuples(st.integers(0, 9), st.sampled_from("xyz")), min_size=1)
MARKERS = st.sets(KEYS, max_size=4)


def objects(files, markers=()):
    return [
        *(StoredObject(key, size, tag) for key, (size, tag) in files.items()),
        *(StoredObject(f"{key}/", 0, "") for key in markers),
    ]


def copied(files, **others):
    entries = {key: CopiedFile(key, size, tag, f"{size:064x}", 7) for key, (size, tag) in files.items()}
    return Manifest("s3://b/", "boot", entries, **{"empty_directories": (), **others})


@given(OBJECTS, MARKERS, st.randoms())
def test_a_tree_is_one_that_a_file_system_can_have(files, markers, rng):
    listed = objects(files, markers)
    try:
        tree = build_tree(listed, Selection())
    except LayoutError:
        assert any(other.key.startswith(f"{one}/") for one, (size, _) in files.items() if size for other in listed)
        return
    directories = set(tree.directories())

    assert not directories & tree.files.keys()
    assert all("/" not in key or key.rpartition("/")[0] in directories for key in (*tree.files, *directories))
    assert set(tree.empty_directories) <= directories
    for name in tree.empty_directories:
        assert not any(key.startswith(f"{name}/") for key in (*tree.files, *directories))
    assert {key for key, (size, _) in files.items() if size} <= tree.files.keys()
    rng.shuffle(listed)
    assert build_tree(listed, Selection()) == tree


@given(OBJECTS, OBJECTS)
def test_a_manifest_holds_its_own_tree_only(files, others):
    first, second = ({f"m/{key.replace('/', '-')}": value for key, value in each.items()} for each in (files, others))
    manifest = copied(first)

    assert manifest.holds(build_tree(objects(first), Selection()))
    assert manifest.holds(build_tree(objects(second), Selection())) == (first == second)


@given(OBJECTS, st.integers(0, 9), st.data())
def test_a_revision_is_of_contents_alone(files, size, data):
    manifest = copied(files)
    same = Manifest("oss://c/", "later", dict(reversed(manifest.files.items())), ())
    key = data.draw(st.sampled_from(sorted(files)))
    changed = copied({**files, key: (size, "x")})

    assert same.revision == manifest.revision
    assert (changed.revision == manifest.revision) == (files[key][0] == size)
    assert copied(files, empty_directories=("z",)).revision != manifest.revision


@given(OBJECTS, st.lists(NAMES))
def test_manifests_survive_the_disk(tmp_path_factory, files, directories):
    path = tmp_path_factory.mktemp("m") / "manifest"
    manifest = copied(files, empty_directories=tuple(directories))
    write_manifest(manifest, path)

    assert read_manifest(path) == manifest


@given(st.integers(0, 400))
def test_a_manifest_that_is_cut_short_is_none(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("m") / "manifest"
    write_manifest(copied({"a": (1, "x"), "b": (2, "y"), "c": (3, "z")}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: min(length, len(whole) - 2)])

    assert read_manifest(path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}\n", "null", json.dumps({"format": 2, "files": 0})])
def test_a_manifest_of_another_kind_is_none(tmp_path, text):
    path = tmp_path / "manifest"
    path.write_text(text)

    assert read_manifest(path) is None
    assert read_manifest(tmp_path / "none") is None


def test_nothing_wanted_is_nothing_there():
    with pytest.raises(EmptyError):
        build_tree(objects({"a": (1, "x")}), Selection(exclude=["a"]))


def test_keys_that_no_text_holds_are_kept():
    """A folder may hold names that are not UTF-8."""
    key = b"m/\xff.bin".decode("utf-8", "surrogateescape")

    assert copied({key: (1, "x")}).revision.startswith("sha256:")


@pytest.mark.parametrize(
    ("pattern", "fits", "others"),
    [
        ("*.md", ["README.md", "a/b.md"], ["README.mdx", "a/md"]),
        ("drafts", ["drafts", "drafts/1/m", "a/drafts/m"], ["drafts2", "a/drafts.txt"]),
        ("a/*", ["a/b", "a/b/c"], ["a", "b/a/c"]),
        ("/a", ["a", "a/b"], ["b", "x/a"]),
        ("a/", ["a/b", "x/a/b"], ["ab"]),
        ("a/**/m", ["a/m", "a/1/m", "a/1/2/m"], ["a/1/mm", "b/a/m"]),
        ("a/**", ["a/b", "a/b/c"], ["ab/c", "a"]),
        ("?/1", ["a/1"], ["ab/1"]),
        ("a.b+", ["a.b+"], ["axb", "a.bb"]),
    ],
)
def test_patterns(pattern, fits, others):
    selection = Selection(include=[pattern])

    assert [key for key in fits if not selection.wants(key)] == []
    assert [key for key in others if selection.wants(key)] == []
    assert not Selection(exclude=[pattern]).wants(fits[0])


@pytest.mark.parametrize("pattern", ["", "/", "//"])
def test_a_pattern_that_fits_nothing_is_refused(pattern):
    with pytest.raises(LocationError):
        Selection(include=[pattern])


def test_sums_are_read_as_sha256sum_writes_them():
    digest = "AB" * 32
    text = f"# a comment\n\n{digest}  ./a b.bin\n{digest} *c\n"

    assert parse_sums(text, "S") == {"a b.bin": digest.lower(), "c": digest.lower()}
    with pytest.raises(IntegrityError, match="'S', line 2"):
        parse_sums(f"{digest}  a\nd41d8cd9  b\n", "S")


def test_sums_of_every_file_but_their_own():
    manifest = copied({"SUMS": (3, "x"), "a": (1, "x")})

    check_sums(manifest, {"a": f"{1:064x}"}, "SUMS")
    with pytest.raises(IntegrityError, match="'a' is corrupted"):
        check_sums(manifest, {"a": f"{2:064x}"}, "SUMS")
