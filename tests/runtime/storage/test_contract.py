"""What every storage scheme keeps, with a fake of each; a new scheme's module fails here until it has one."""

import os
import re
from hashlib import sha256

import pytest

from charonia_runtime.storage.failures import ChangedError, DeniedError, EmptyError, MissingError
from charonia_runtime.storage.location import parse_location
from charonia_runtime.storage.patterns import Selection
from charonia_runtime.storage.schemes import open_store, scheme_names
from charonia_runtime.storage.tree import build_tree
from tests.support.stores import SMALL_PART, a_mirror, a_place, a_store, tree_of

REPOSITORY = {
    "digits/config.pbtxt": b"max_batch_size: 4",
    "digits/1/model.onnx": bytes(range(256)) * 1024,
    "digits/2/model.onnx": b"x" * (SMALL_PART * 3 + 17),
    "digits/labels.txt": b"",
    "große Modelle/1/a+b %2F?&=#'é.bin": b"names that need quoting",
}


@pytest.fixture(params=scheme_names())
def place(request, tmp_path):
    with a_place(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def filled(place):
    for key, body in REPOSITORY.items():
        place.put(key, body)
    place.put("ensemble/1/")
    return place


def listed(place):
    return build_tree(a_store(place).list_objects(), Selection())


def test_lists_files_with_sizes_and_empty_directories(filled):
    tree = listed(filled)

    assert {key: item.size for key, item in tree.files.items()} == {key: len(body) for key, body in REPOSITORY.items()}
    assert tree.empty_directories == ("ensemble/1",)


def test_lists_more_objects_than_a_page_holds(place):
    for number in range(1203):
        place.put(f"m/1/{number:04}", b"x")

    assert len(listed(place).files) == 1203
    if place.server is not None:
        assert place.server.count()["LIST"] == 2


@pytest.mark.parametrize("part", [(0, 5), (3, 7), (0, SMALL_PART * 3 + 17), (SMALL_PART * 3, SMALL_PART * 3 + 17)])
def test_opens_ranges(filled, part):
    item = listed(filled).files["digits/2/model.onnx"]
    start, stop = part

    with a_store(filled).open_object(item, start, stop) as body:
        assert b"".join(body.chunks) == REPOSITORY[item.key][start:stop]


def test_an_object_that_was_replaced_is_not_read_as_the_old_one(filled):
    item = listed(filled).files["digits/config.pbtxt"]
    filled.put(item.key, b"max_batch_size: 8")

    def read():
        with a_store(filled).open_object(item, 0, item.size) as body:
            return b"".join(body.chunks)

    with pytest.raises(ChangedError):
        read()


def test_an_object_that_vanished_counts_as_changed(filled):
    item = listed(filled).files["digits/config.pbtxt"]
    filled.remove(item.key)

    with pytest.raises(ChangedError):
        a_store(filled).open_object(item, 0, item.size)


def test_a_changed_object_has_another_tag(filled):
    before = listed(filled).files["digits/config.pbtxt"]
    filled.put(before.key, b"max_batch_size: 8")

    assert listed(filled).files[before.key].tag != before.tag


def test_nothing_at_that_place(place):
    if place.server is None:
        place.folder.rmdir()
        with pytest.raises(MissingError, match="does not exist"):
            listed(place)
    else:
        with pytest.raises(
            EmptyError, match=rf"no object under 'team/repo/' in the {place.noun} 'models'.* with any is 'team/'$"
        ):
            listed(place)
        place.server.objects.clear()
        with pytest.raises(EmptyError, match=f"the {place.noun} 'models' is empty"):
            listed(place)


def test_no_such_bucket(place):
    if place.server is None:
        pytest.skip("folders have no bucket")
    store = open_store(parse_location(place.uri_in("elsewhere")), place.access())

    with pytest.raises(MissingError, match=f"there is no {place.noun} 'elsewhere'"):
        list(store.list_objects())


def test_access_denied(filled):
    if filled.server is None:
        (filled.folder / "digits").chmod(0)
        try:
            if os.geteuid() == 0:
                pytest.skip("root may read everything")
            with pytest.raises(DeniedError):
                listed(filled)
        finally:
            (filled.folder / "digits").chmod(0o755)
        return
    filled.refuse_credentials()
    with pytest.raises(DeniedError) as caught:
        listed(filled)

    assert re.search(filled.denied, caught.value.message)
    assert "the-secret" not in caught.value.message
    assert not caught.value.expired


def test_a_copy_is_the_same_whatever_the_scheme(filled, tmp_path):
    outcome = a_mirror(filled, tmp_path).sync()

    assert tree_of(tmp_path / "models") == {**REPOSITORY, "ensemble/1": None}
    assert outcome.switched
    assert outcome.generation.manifest.revision == revision_of({**REPOSITORY, "ensemble/1": None})


def test_a_second_copy_fetches_nothing(filled, tmp_path):
    first = a_mirror(filled, tmp_path).sync()
    before = filled.server.count() if filled.server else None

    second = a_mirror(filled, tmp_path).sync()

    assert (second.switched, second.generation.name) == (False, first.generation.name)
    if filled.server:
        assert (filled.server.count() - before).keys() == {"LIST"}


def revision_of(tree):
    """The definition, once more."""
    files = {key: body for key, body in tree.items() if body is not None}
    lines = [f"file\0{key}\0{len(files[key])}\0{sha256(files[key]).hexdigest()}\n" for key in sorted(files)]
    lines += [f"directory\0{key}\n" for key in sorted(tree.keys() - files.keys())]
    return f"sha256:{sha256(''.join(lines).encode()).hexdigest()}"
