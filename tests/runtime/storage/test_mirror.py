"""A copy against everything that goes wrong: each fault has a clear reason, and nothing half done is ever live."""

import base64
import errno
import hashlib
import os
import shutil
import threading
import zlib

import pytest

from charonia_runtime.storage import mirror as mirror_module
from charonia_runtime.storage.download import DownloadOptions
from charonia_runtime.storage.failures import (
    ChangedError,
    CredentialsError,
    DeniedError,
    IntegrityError,
    LayoutError,
    LocationError,
    NoChecksumError,
    RevisionError,
    SpaceError,
    StoppedError,
    UnreachableError,
)
from charonia_runtime.storage.generations import Generations
from charonia_runtime.storage.patterns import Selection
from charonia_runtime.storage.retrying import Retries
from charonia_runtime.storage.schemes import scheme_names
from charonia_runtime.storage.transfer import Integrity
from tests.support.buckets import Answer, of_object, once
from tests.support.stores import SMALL_PART, a_mirror, a_place, tree_of, write_secret

LARGE = os.urandom(SMALL_PART * 5 + 11)


@pytest.fixture(params=[name for name in scheme_names() if name != "file"])
def bucket(request, tmp_path):
    with a_place(request.param, tmp_path) as place:
        place.put("a/config.pbtxt", b"a")
        place.put("a/1/model.bin", LARGE)
        place.put("b/config.pbtxt", b"b")
        yield place


@pytest.fixture
def s3(tmp_path):
    with a_place("s3", tmp_path) as place:
        place.put("a/config.pbtxt", b"a")
        place.put("a/1/model.bin", LARGE)
        yield place


@pytest.fixture
def oss(tmp_path):
    with a_place("oss", tmp_path) as place:
        place.put("a/config.pbtxt", b"a")
        place.put("a/1/model.bin", LARGE)
        yield place


@pytest.fixture
def folder(tmp_path):
    with a_place("file", tmp_path) as place:
        place.put("a/config.pbtxt", b"a")
        place.put("a/1/model.bin", LARGE)
        yield place


def checked(integrity, **options):
    return DownloadOptions(parallelism=4, part_size=SMALL_PART, integrity=integrity, **options)


def live(tmp_path):
    return tree_of(tmp_path / "models") if (tmp_path / "models").exists() else {}


# --- what changes ---


def test_only_what_changed_is_fetched_and_the_rest_keeps_its_times(bucket, tmp_path):
    a_mirror(bucket, tmp_path).sync()
    before = (tmp_path / "models/a/1/model.bin").stat()
    directory = (tmp_path / "models/a/1").stat().st_mtime_ns
    changed = (tmp_path / "models/b").stat().st_mtime_ns
    sent = bucket.server.sent_bytes
    bucket.put("b/config.pbtxt", b"b2")

    outcome = a_mirror(bucket, tmp_path).sync()

    after = (tmp_path / "models/a/1/model.bin").stat()
    assert outcome.switched
    assert live(tmp_path)["b/config.pbtxt"] == b"b2"
    assert bucket.server.sent_bytes - sent < 4096
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (tmp_path / "models/a/1").stat().st_mtime_ns == directory
    assert (tmp_path / "models/b").stat().st_mtime_ns > changed


def test_models_come_and_go(bucket, tmp_path):
    a_mirror(bucket, tmp_path).sync()
    bucket.remove("b/config.pbtxt")
    bucket.put("c/config.pbtxt", b"c")
    bucket.put("d/")

    a_mirror(bucket, tmp_path).sync()

    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["a", "c", "d"]
    assert live(tmp_path)["d"] is None


def test_going_back_to_older_content_fetches_nothing(bucket, tmp_path):
    a_mirror(bucket, tmp_path).sync()
    bucket.put("b/config.pbtxt", b"b2")
    a_mirror(bucket, tmp_path).sync()
    bucket.put("b/config.pbtxt", b"b")
    fetched = bucket.server.count()["GET"]

    a_mirror(bucket, tmp_path).sync()

    assert live(tmp_path)["b/config.pbtxt"] == b"b"
    assert bucket.server.count()["GET"] == fetched


def test_old_copies_are_removed(bucket, tmp_path):
    for number in range(4):
        bucket.put("b/config.pbtxt", b"b%d" % number)
        a_mirror(bucket, tmp_path, history_limit=2).sync()

    names = sorted(path.name[:6] for path in (tmp_path / "store/generations").iterdir())
    assert names == ["000003", "000004"]


def test_a_file_that_somebody_changed_is_repaired(bucket, tmp_path):
    a_mirror(bucket, tmp_path).sync()
    damaged = tmp_path / "models/b/config.pbtxt"
    damaged.chmod(0o644)
    damaged.write_bytes(b"?")

    outcome = a_mirror(bucket, tmp_path).sync()

    assert outcome.switched
    assert damaged.read_bytes() == b"b"


def test_what_a_crash_of_the_machine_left_is_verified_before_it_counts(bucket, tmp_path):
    """Sizes and times may be right while the bytes never reached the disk."""
    a_mirror(bucket, tmp_path).sync()
    lost = tmp_path / "models/a/1/model.bin"
    times = lost.stat()
    lost.chmod(0o644)
    lost.write_bytes(bytes(len(LARGE)))
    os.utime(lost, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not a_mirror(bucket, tmp_path).sync().switched, "no crash, no doubt"

    a_mirror(bucket, tmp_path, boot="boot-2").sync()

    assert lost.read_bytes() == LARGE
    assert not a_mirror(bucket, tmp_path, boot="boot-2").sync().switched


def test_include_and_exclude(bucket, tmp_path):
    bucket.put("a/notes.md", b"no")
    bucket.put("a//broken", b"a key that cannot be a file")

    a_mirror(bucket, tmp_path, selection=Selection(["a"], ["*.md", "a//**"])).sync()

    assert live(tmp_path).keys() == {"a/config.pbtxt", "a/1/model.bin"}


@pytest.mark.parametrize("key", ["a//b", "a/../../../etc/passwd", "x/./y", "n" * 256])
def test_a_key_that_cannot_be_a_file_is_refused(bucket, tmp_path, key):
    bucket.put(key, b"x")

    with pytest.raises(LayoutError, match="cannot be a file"):
        a_mirror(bucket, tmp_path).sync()
    assert live(tmp_path) == {}


def test_an_object_that_is_also_a_directory_is_refused_unless_it_is_a_marker(bucket, tmp_path):
    bucket.put("a/1", b"")
    a_mirror(bucket, tmp_path).sync()
    assert live(tmp_path)["a/1/model.bin"] == LARGE

    bucket.put("a/1", b"bytes")
    with pytest.raises(LayoutError, match="'a/1' is an object and also a directory"):
        a_mirror(bucket, tmp_path).sync()


# --- integrity ---


@pytest.mark.parametrize("key", ["a/1/model.bin", "b/config.pbtxt"])
def test_damaged_bytes_are_fetched_again_and_then_refused(bucket, tmp_path, key):
    found = bucket.server.objects[f"team/repo/{key}"]
    if bucket.scheme == "oss":
        bucket.server.wrong_crcs[f"team/repo/{key}"] = "12345"
    found.body = found.body[:-1] + bytes([found.body[-1] ^ 1])

    with pytest.raises(IntegrityError, match=f"'{key}' is corrupted"):
        a_mirror(bucket, tmp_path).sync()

    requests = [each for each in bucket.server.requests if each.key.endswith(key) and each.method == "GET"]
    assert len(requests) == 3 * (6 if key.startswith("a") else 1)
    assert live(tmp_path) == {}


def test_damage_on_the_way_is_cured_by_another_try(bucket, tmp_path):
    etag = bucket.server.objects["team/repo/b/config.pbtxt"].tag
    headers = {
        "ETag": f'"{etag}"', "x-oss-hash-crc64ecma": "1", "X-Goog-Hash": "crc32c=AAAAAA==",
        "x-ms-blob-content-md5": base64.b64encode(bytes.fromhex(etag)).decode(),
    }  # fmt: skip

    def damaged(request):
        ranged = "Range" in request.headers
        return Answer(206 if ranged else 200, b"X", {**headers, **({"Content-Range": "bytes 0-0/1"} if ranged else {})})

    once(bucket.server, damaged, of_object("b/config.pbtxt"))

    a_mirror(bucket, tmp_path).sync()

    assert live(tmp_path)["b/config.pbtxt"] == b"b"


def test_the_tag_of_an_upload_in_parts_is_checked(s3, tmp_path):
    s3.server.put("team/repo/a/1/model.bin", LARGE, part_size=100_000)
    a_mirror(s3, tmp_path).sync()
    assert live(tmp_path)["a/1/model.bin"] == LARGE

    s3.server.put("team/repo/a/1/model.bin", LARGE[::-1], part_size=100_000)
    s3.server.objects["team/repo/a/1/model.bin"].body = LARGE
    with pytest.raises(IntegrityError, match="md5-parts"):
        a_mirror(s3, tmp_path).sync()


def encoded(digest):
    return base64.b64encode(digest).decode()


CRC32 = encoded(zlib.crc32(b"a").to_bytes(4, "big"))
SHA256 = encoded(hashlib.sha256(b"a").digest())


@pytest.mark.parametrize(
    ("headers", "algorithm"),
    [
        ({"x-amz-checksum-crc32": CRC32, "x-amz-checksum-type": "FULL_OBJECT"}, "crc32"),
        ({"x-amz-checksum-sha256": SHA256, "x-amz-checksum-crc32": CRC32}, "sha256"),
        ({"x-amz-checksum-crc32": CRC32, "x-amz-checksum-type": "COMPOSITE"}, "md5"),
        ({"x-amz-checksum-crc32": f"{CRC32}-1"}, "md5"),
        ({"x-amz-checksum-crc32": "no base64"}, "md5"),
        ({"x-amz-checksum-crc64nvme": "AAAAAAAAAAA="}, "md5"),
    ],
)
def test_the_uploaders_checksum_comes_first(s3, tmp_path, headers, algorithm):
    """It covers more of the way than the entity tag; where it does not speak of the whole object, that tag counts."""
    s3.server.uploaders["team/repo/a/config.pbtxt"] = headers
    a_mirror(s3, tmp_path, download=checked(Integrity.CHECKSUM)).sync()
    assert live(tmp_path)["a/config.pbtxt"] == b"a"

    found = s3.server.objects["team/repo/a/config.pbtxt"]
    found.body, found.tag = b"?", found.tag[::-1]
    with pytest.raises(IntegrityError, match=f"its {algorithm} is"):
        a_mirror(s3, tmp_path).sync()


def test_uploaders_checksums_are_asked_for(s3, tmp_path):
    a_mirror(s3, tmp_path).sync()

    gets = [each for each in s3.server.requests if each.method == "GET" and each.key]
    assert {each.headers["x-amz-checksum-mode"] for each in gets} == {"ENABLED"}


def test_size_integrity_asks_for_no_checksum(s3, tmp_path):
    s3.server.objects["team/repo/a/config.pbtxt"].body = b"?"

    a_mirror(s3, tmp_path, download=checked(Integrity.SIZE)).sync()

    assert live(tmp_path)["a/config.pbtxt"] == b"?"


def test_checksum_integrity_refuses_objects_without_one(folder, tmp_path):
    with pytest.raises(NoChecksumError, match="the store offers no checksum"):
        a_mirror(folder, tmp_path, download=checked(Integrity.CHECKSUM)).sync()


def sums(files):
    from hashlib import sha256

    return "".join(f"{sha256(body).hexdigest()}  ./{key}\n" for key, body in files.items()).encode()


def test_a_manifest_is_kept_to_the_letter(bucket, tmp_path):
    files = {"a/config.pbtxt": b"a", "a/1/model.bin": LARGE, "b/config.pbtxt": b"b"}
    options = {"download": checked(Integrity.MANIFEST), "manifest": "SHA256SUMS"}
    with pytest.raises(LocationError, match="no manifest 'SHA256SUMS'"):
        a_mirror(bucket, tmp_path, **options).sync()
    bucket.put("SHA256SUMS", sums(files))
    a_mirror(bucket, tmp_path, **options).sync()
    assert live(tmp_path)["a/1/model.bin"] == LARGE

    for changed, message in (
        ({**files, "b/config.pbtxt": b"?"}, "'b/config.pbtxt' is corrupted"),
        ({key: files[key] for key in list(files)[:2]}, "'b/config.pbtxt' is not named"),
        ({**files, "c": b"c"}, "names 'c', which is not in the repository"),
    ):
        bucket.put("SHA256SUMS", sums(changed))
        with pytest.raises(IntegrityError, match=message):
            a_mirror(bucket, tmp_path, **options).sync()
    assert live(tmp_path)["SHA256SUMS"] == sums(files)


def test_only_the_pinned_content_goes_live(bucket, tmp_path):
    pinned = a_mirror(bucket, tmp_path).sync().generation.manifest.revision
    bucket.put("b/config.pbtxt", b"b2")

    a_mirror(bucket, tmp_path, revision=pinned).sync()
    assert live(tmp_path)["b/config.pbtxt"] == b"b"

    with pytest.raises(
        RevisionError, match=f"the repository's content is sha256:.*, not the pinned {'sha256:' + '0' * 64}"
    ):
        a_mirror(bucket, tmp_path, revision="sha256:" + "0" * 64).sync()
    assert live(tmp_path)["b/config.pbtxt"] == b"b"


# --- the way ---


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (429, "TooManyRequests"), (500, "InternalError")])
def test_a_busy_store_is_asked_again(bucket, tmp_path, status, code):
    for _ in range(3):
        once(bucket.server, bucket.server.error(status, code), of_object("a/1/model.bin"))
    once(bucket.server, bucket.server.error(status, code), lambda request: not request.key)

    a_mirror(bucket, tmp_path).sync()

    assert live(tmp_path)["a/1/model.bin"] == LARGE


def test_a_store_that_stays_busy_is_given_up(bucket, tmp_path):
    bucket.server.faults.append(lambda request: bucket.server.error(503, "SlowDown", "reduce your rate"))

    with pytest.raises(UnreachableError, match=r"come back later .*SlowDown"):
        a_mirror(bucket, tmp_path).sync()


def test_nobody_answers(bucket, tmp_path):
    mirror = a_mirror(bucket, tmp_path)
    bucket.server._server.socket.close()

    with pytest.raises(UnreachableError, match=r"no answer from http://127.0.0.1"):
        mirror.sync()


@pytest.mark.parametrize("key", ["a/1/model.bin", "b/config.pbtxt"])
def test_bodies_that_are_cut_short_are_fetched_again(bucket, tmp_path, key):
    def cut(request):
        answer = bucket.server._object(request)
        return Answer(answer.status, answer.body, answer.headers, len(answer.body) // 2)

    once(bucket.server, cut, of_object(key))

    a_mirror(bucket, tmp_path).sync()

    assert live(tmp_path)["a/1/model.bin"] == LARGE
    assert live(tmp_path)["b/config.pbtxt"] == b"b"


def test_an_object_that_changes_in_mid_copy_starts_the_copy_again(bucket, tmp_path):
    def second_part(request):
        return of_object("a/1/model.bin")(request) and request.headers["Range"].startswith(f"bytes={SMALL_PART}-")

    once(bucket.server, lambda request: bucket.put("a/1/model.bin", LARGE[::-1]), second_part)

    a_mirror(bucket, tmp_path).sync()

    assert live(tmp_path)["a/1/model.bin"] == LARGE[::-1]


def test_an_object_that_never_stops_changing_is_given_up(bucket, tmp_path):
    seen = []

    def replace(request):
        if request.key.endswith("a/1/model.bin"):
            seen.append(request)
            bucket.put("a/1/model.bin", LARGE + bytes([len(seen) % 256]) * len(seen))

    bucket.server.faults.append(replace)

    with pytest.raises(ChangedError, match=r"'a/1/model\.bin' changed or vanished"):
        a_mirror(bucket, tmp_path).sync()
    assert bucket.server.count()["LIST"] == 5
    assert live(tmp_path) == {}


def test_an_object_that_vanishes_between_listing_and_copy(bucket, tmp_path):
    once(bucket.server, lambda request: bucket.remove("b/config.pbtxt"), of_object("b/config.pbtxt"))

    a_mirror(bucket, tmp_path).sync()

    assert live(tmp_path).keys() == {"a/config.pbtxt", "a/1/model.bin"}


def test_a_store_that_falls_silent_is_given_up(s3, tmp_path):
    silence = threading.Event()
    s3.server.faults.append(lambda request: silence.wait(20) and None if request.key else None)

    try:
        with pytest.raises(UnreachableError, match="the download stalled: nothing arrived for"):
            a_mirror(s3, tmp_path, download=checked(Integrity.AUTO, stall_timeout_seconds=0.3)).sync()
    finally:
        silence.set()


def test_told_to_stop(s3, tmp_path):
    mirror = a_mirror(s3, tmp_path)
    s3.server.faults.append(lambda request: mirror._retries.stopping.set() if request.key else None)

    with pytest.raises(StoppedError):
        mirror.sync()
    assert live(tmp_path) == {}


# --- credentials ---


def test_credentials_that_rotate_in_mid_copy_are_read_again(bucket, tmp_path):
    once(bucket.server, lambda request: bucket.rotate_credentials(), of_object("a/1/model.bin"))

    a_mirror(bucket, tmp_path).sync()

    assert live(tmp_path)["a/1/model.bin"] == LARGE


@pytest.mark.parametrize("bucket", ["s3", "oss"], indirect=True)
def test_a_session_token_that_expires_is_waited_for(bucket, tmp_path):
    """The new token arrives in the folder only after the store has refused the old one."""
    bucket.server.keys = {"STS.OLD": ("old-secret", "old-token")}
    write_secret(bucket.credentials, "STS.OLD", "old-secret", "old-token")
    refused = []
    lock = threading.Lock()

    def expire(request):
        if request.key.endswith("a/1/model.bin") and len(bucket.server.keys) == 1:
            bucket.server.keys = {"STS.OLD": ("old-secret", None), "STS.NEW": ("new-secret", "new-token")}

    def renew(self, *arguments):
        with lock:
            refused.append(arguments)
            if len(refused) == 1:
                write_secret(bucket.credentials, "STS.NEW", "new-secret", "new-token")

    bucket.server.faults.append(expire)
    mirror = a_mirror(bucket, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Retries, "_wait", renew)
        mirror.sync()

    assert live(tmp_path)["a/1/model.bin"] == LARGE
    assert refused


@pytest.mark.parametrize("bucket", ["s3", "oss"], indirect=True)
def test_expired_credentials_without_successors(bucket, tmp_path):
    bucket.server.keys = {"AKIDREADER": ("the-secret", None)}

    with pytest.raises(DeniedError, match="Expired") as caught:
        a_mirror(bucket, tmp_path).sync()
    assert caught.value.expired


def test_a_folder_without_credentials(bucket, tmp_path):
    shutil.rmtree(bucket.credentials)

    with pytest.raises(CredentialsError, match="does not exist"):
        a_mirror(bucket, tmp_path).sync()


# --- the disk ---


def test_a_disk_without_room_is_noticed_before_the_first_byte(bucket, tmp_path, monkeypatch):
    class Full:
        f_bavail, f_frsize, f_files, f_favail = 10, 4096, 0, 0

    monkeypatch.setattr(mirror_module.os, "statvfs", lambda path: Full)

    with pytest.raises(SpaceError, match=r"are to be copied to .*, which has room for 40.0 KiB: give it more"):
        a_mirror(bucket, tmp_path).sync()
    assert bucket.server.count()["GET"] == 0


def test_too_few_inodes(bucket, tmp_path, monkeypatch):
    class Full:
        f_bavail, f_frsize, f_files, f_favail = 1 << 40, 4096, 1000, 2

    monkeypatch.setattr(mirror_module.os, "statvfs", lambda path: Full)

    with pytest.raises(SpaceError, match=r"3 files are to be made in .*, which has room for 2"):
        a_mirror(bucket, tmp_path).sync()


def test_a_size_limit_is_kept(bucket, tmp_path):
    with pytest.raises(SpaceError, match="the limit is 1000 B"):
        a_mirror(bucket, tmp_path, size_limit=1000).sync()
    assert bucket.server.count()["GET"] == 0


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "cannot write"),
    ],
)
def test_a_disk_that_refuses_a_write(bucket, tmp_path, monkeypatch, number, reason):
    def refuse(descriptor, data, offset):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", refuse)

    with pytest.raises(Exception, match=reason):
        a_mirror(bucket, tmp_path).sync()
    assert live(tmp_path) == {}


def test_a_failure_leaves_what_was_live(bucket, tmp_path):
    a_mirror(bucket, tmp_path).sync()
    before = live(tmp_path)
    bucket.put("b/config.pbtxt", b"b2")
    bucket.put("a/1/model.bin", LARGE[::-1])
    bucket.server.objects["team/repo/a/1/model.bin"].body = LARGE
    bucket.server.wrong_crcs = {"team/repo/a/1/model.bin": "1"} if bucket.scheme == "oss" else {}

    with pytest.raises(IntegrityError):
        a_mirror(bucket, tmp_path).sync()

    assert live(tmp_path) == before


def test_what_stands_in_the_way_is_not_removed(bucket, tmp_path):
    (tmp_path / "models/a").mkdir(parents=True)

    with pytest.raises(LayoutError, match="models/a is in the way"):
        a_mirror(bucket, tmp_path).sync()


def test_store_and_target_must_be_apart(tmp_path):
    for store, target in ((tmp_path, tmp_path), (tmp_path / "a", tmp_path), (tmp_path, tmp_path / "a")):
        with pytest.raises(LayoutError, match="must be apart"):
            Generations(store, target)


def test_two_processes_do_not_write_at_once(folder, tmp_path):
    first, second = a_mirror(folder, tmp_path), a_mirror(folder, tmp_path)
    order = []

    def wait_first():
        raise AssertionError("nobody holds it")

    with first._generations.locked(wait_first):
        other = threading.Thread(target=lambda: order.append(second.sync()))
        other.start()
        other.join(0.3)
        assert order == []
    other.join(20)
    assert len(order) == 1
