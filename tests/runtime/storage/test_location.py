"""URIs to places, folders of credentials to credentials, bytes to checksums."""

import hashlib
import sys
import zlib
from itertools import pairwise

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.installation import install_command
from charonia_runtime.storage.access import Access, Credentials, CredentialsFolder, as_url
from charonia_runtime.storage.checksums import ALGORITHMS, hasher
from charonia_runtime.storage.failures import CredentialsError, LocationError
from charonia_runtime.storage.location import Location, is_remote, parse_location
from charonia_runtime.storage.objects import Checksum
from charonia_runtime.storage.schemes import open_store
from tests.support.oss_server import crc64
from tests.support.s3_server import S3Server
from tests.support.stores import write_secret


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/models", Location("file", "", "/models")),
        ("models", Location("file", "", "models")),
        ("file:///data/my%20models", Location("file", "", "/data/my models")),
        ("s3://b", Location("s3", "b", "")),
        ("S3://b/", Location("s3", "b", "")),
        ("s3://b/a//c/", Location("s3", "b", "a/c/")),
        ("s3://localhost:9000/b/p", Location("s3", "b", "p/", "http://localhost:9000")),
        ("s3://10.0.0.1:80/b", Location("s3", "b", "", "http://10.0.0.1:80")),
        ("s3://http://minio/b/p", Location("s3", "b", "p/", "http://minio")),
        ("s3://https://minio.example:443/b/p", Location("s3", "b", "p/", "https://minio.example:443")),
        ("oss://b/p", Location("oss", "b", "p/")),
        ("gs://b/a//c", Location("gs", "b", "a/c/")),
        ("as://acct/b", Location("as", "b", "", "", "acct")),
        ("as://acct/b/a/c/", Location("as", "b", "a/c/", "", "acct")),
        ("as://acct.blob.core.windows.net/b/p", Location("as", "b", "p/", "https://acct.blob.core.windows.net", "acct")),
        ("oss://b.oss-cn-hangzhou-internal.aliyuncs.com/p", Location("oss", "b", "p/", "https://oss-cn-hangzhou-internal.aliyuncs.com")),
        ("oss://oss-cn-beijing.aliyuncs.com/b/p", Location("oss", "b", "p/", "https://oss-cn-beijing.aliyuncs.com")),
    ],
)  # fmt: skip
def test_locations(uri, expected):
    assert parse_location(uri) == expected


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://", "names no bucket"),
        ("s3:///p", "names no bucket"),
        ("s3://b/../c", "must not contain"),
        ("as://acct", "names no container: expected as://<account>/<container>/<path>"),
        ("as:///b/p", "names no container"),
        ("gs://", "names no bucket"),
        ("s3://key:secret@b/p", "carry no credentials"),
        ("", "empty"),
        ("a\0b", "NUL"),
    ],
)
def test_what_no_store_can_be_made_of(uri, message):
    with pytest.raises(LocationError, match=message):
        parse_location(uri)


def test_a_scheme_that_there_is_not():
    with pytest.raises(
        LocationError,
        match=r"hdfs:// file-system not supported: expected as://, file://, gs://, oss://, s3:// or a path",
    ):
        open_store(parse_location("hdfs://b/p"), Access())


@pytest.mark.parametrize(("uri", "extra"), [("gs://b/p", "gcs"), ("as://a/b/p", "azure"), ("s3://b/p", "s3")])
def test_a_scheme_without_its_library_names_the_extra(uri, extra, monkeypatch):
    scheme = uri.partition(":")[0]
    for name in ("google.cloud", "azure.core", "boto3", f"charonia_runtime.storage.schemes.{scheme}"):
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(LocationError, match="needs the package") as caught:
        open_store(parse_location(uri), Access())
    assert caught.value.message.endswith(install_command(extra))


def test_what_needs_a_copy():
    assert [is_remote(uri) for uri in ("s3://b", "oss://b", "gs://b", "file:///m", "/m", "m")] == [True] * 3 + [
        False
    ] * 3


def test_oss_needs_an_endpoint(monkeypatch):
    monkeypatch.delenv("OSS_ENDPOINT", raising=False)
    with pytest.raises(LocationError, match="needs an endpoint"):
        open_store(parse_location("oss://bucket/p"), Access())


def test_credentials_follow_the_folder(tmp_path):
    now = [0.0]
    folder = CredentialsFolder(tmp_path / "secret", clock=lambda: now[0])
    write_secret(tmp_path / "secret", "FIRST", "one", "token")
    first = folder.credentials()
    assert first == Credentials("FIRST", "one", "token")

    write_secret(tmp_path / "secret", "SECOND", "two")
    assert folder.credentials() is first
    now[0] = 1.5
    assert folder.credentials() == Credentials("SECOND", "two")
    assert folder.changed(first)
    assert not folder.changed(folder.credentials())


@pytest.mark.parametrize(
    "names", [("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ("OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET"), ("accessKeyId", "accessKeySecret")]
)  # fmt: skip
def test_well_known_names(tmp_path, names):
    for name, value in zip(names, ("id", "secret\n"), strict=True):
        (tmp_path / name).write_text(value)

    assert CredentialsFolder(tmp_path).credentials() == Credentials("id", "secret")


def test_names_of_ones_own_and_settings(tmp_path):
    for name in ("user", "pass", "endpoint", "AWS_REGION"):
        (tmp_path / name).write_text(f"the {name}")
    folder = CredentialsFolder(tmp_path, {"accessKeyId": "user", "accessKeySecret": "pass"})

    assert folder.credentials() == Credentials("the user", "the pass")
    assert Access(folder=folder).setting("endpoint") == "the endpoint"
    assert Access(folder=folder).setting("region") == "the AWS_REGION"
    assert Access(folder=folder, region="mine").setting("region") == "mine"


def test_what_a_folder_lacks(tmp_path):
    with pytest.raises(CredentialsError, match="does not exist"):
        CredentialsFolder(tmp_path / "none").credentials()
    with pytest.raises(CredentialsError, match="has no accessKeyId: expected a file accessKeyId or"):
        CredentialsFolder(tmp_path).credentials()
    (tmp_path / "user").write_text("id")
    with pytest.raises(CredentialsError, match="has no accessKeySecret: expected a file pass"):
        CredentialsFolder(tmp_path, {"accessKeyId": "user", "accessKeySecret": "pass"}).credentials()


def test_secrets_are_not_printed():
    assert "hidden" not in repr(Credentials("id", "hidden", "hidden"))


def test_endpoints_are_https_unless_they_say_otherwise():
    assert [as_url(text) for text in ("", "minio:9000", "http://minio")] == ["", "https://minio:9000", "http://minio"]


@given(st.binary(max_size=300), st.integers(1, 64), st.lists(st.integers(0, 300), max_size=5))
def test_checksums_do_not_depend_on_how_bytes_arrive(body, part_size, cuts):
    server = S3Server()
    server.put("k", body, part_size)
    tag = server.objects["k"].tag if body else f"{hashlib.md5(b'').hexdigest()}-0"
    expected = {
        "md5": hashlib.md5(body).hexdigest(),
        "md5-parts": tag,
        "crc32": f"{zlib.crc32(body):08x}",
        "crc32c": google_crc32c.Checksum(body).digest().hex(),
        "crc64": str(crc64(body)),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    assert expected.keys() == ALGORITHMS.keys()
    bounds = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    for algorithm, value in expected.items():
        made = hasher(Checksum(algorithm, value, part_size))
        for start, stop in pairwise(bounds):
            made.update(body[start:stop])
        assert made.hexdigest() == value, algorithm


def test_the_crc_is_the_one_that_everybody_knows():
    made = hasher(Checksum("crc64", ""))
    made.update(b"123456789")

    assert made.hexdigest() == str(0x995DC9BBDF1939FA)


def test_tritons_credential_file(tmp_path, monkeypatch):
    """The entry with the longest name that begins the URI applies."""
    path = tmp_path / "credentials.json"
    path.write_text(
        '{"s3": {"": {"key_id": "NOBODY", "secret_key": "no"}, '
        '"s3://models": {"key_id": "AKIDREADER", "secret_key": "the-secret", "region": "us-east-1"}}}'
    )
    monkeypatch.setenv("TRITON_CLOUD_CREDENTIAL_PATH", str(path))
    with S3Server() as server:
        server.put("p/a/config.pbtxt", b"x")
        store = open_store(parse_location("s3://models/p"), Access(endpoint=server.url))

        assert [item.key for item in store.list_objects()] == ["a/config.pbtxt"]
    path.write_text("{")
    with pytest.raises(CredentialsError, match="credential file"):
        open_store(parse_location("s3://models/p"), Access())
