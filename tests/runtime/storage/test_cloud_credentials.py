"""Keys of Google's service accounts and of Azure's storage accounts, from all the places where Triton finds them."""

import json

import pytest

from charonia_runtime.storage.access import Access
from charonia_runtime.storage.failures import CredentialsError, DeniedError
from charonia_runtime.storage.location import parse_location
from charonia_runtime.storage.schemes import open_store
from tests.support.buckets import of_object
from tests.support.stores import a_mirror, a_place, a_store, tree_of, write_files


@pytest.fixture
def gs(tmp_path):
    with a_place("gs", tmp_path) as place:
        place.put("a/config.pbtxt", b"a")
        yield place


@pytest.fixture
def azure(tmp_path):
    with a_place("as", tmp_path) as place:
        place.put("a/config.pbtxt", b"a")
        yield place


def keys_with(place, **access):
    """What a store without a folder of credentials lists."""
    store = open_store(parse_location(place.uri), Access(endpoint=place.server.url, timeout_seconds=5, **access))
    return [item.key for item in store.list_objects()]


def write_credentials_file(tmp_path, monkeypatch, document):
    (tmp_path / "credentials.json").write_text(json.dumps(document))
    monkeypatch.setenv("TRITON_CLOUD_CREDENTIAL_PATH", str(tmp_path / "credentials.json"))


def test_gs_reads_the_environments_key(gs, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gs.credentials / "serviceAccountKey"))

    assert keys_with(gs) == ["a/config.pbtxt"]


@pytest.mark.parametrize("name", ["", "gs://models/team"])
def test_gs_reads_tritons_credential_file(gs, tmp_path, monkeypatch, name):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    other = "gs://models/other"
    write_credentials_file(
        tmp_path, monkeypatch, {"gs": {other: "/nowhere", name: str(gs.credentials / "serviceAccountKey")}}
    )

    assert keys_with(gs) == ["a/config.pbtxt"]


def test_gs_tells_of_a_key_that_is_not_there(gs, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")

    with pytest.raises(CredentialsError, match=r"service account cannot be used.*/nowhere/key.json"):
        keys_with(gs)


def test_gs_tells_of_a_key_that_is_none(gs):
    write_files(gs.credentials, {"serviceAccountKey": '{"type": "authorized_user"}'})

    with pytest.raises(CredentialsError, match="service account cannot be used"):
        a_store(gs)


def test_gs_tells_which_file_the_folder_lacks(gs):
    write_files(gs.credentials, {"accessKeyId": "AKIDREADER"})

    with pytest.raises(CredentialsError, match="has no serviceAccountKey: expected a file serviceAccountKey or"):
        a_store(gs)


def test_gs_checks_composed_objects_too(gs, tmp_path):
    """They have a CRC-32C and no MD5."""
    gs.server.composed.add("team/repo/a/config.pbtxt")
    gs.server.objects["team/repo/a/config.pbtxt"].body = b"?"
    item = next(iter(a_store(gs).list_objects()))

    with a_store(gs).open_object(item, 0, 1) as body:
        assert body.checksum.algorithm == "crc32c"


def test_gs_asks_for_nothing_but_objects(gs, tmp_path):
    """Its library would describe the bucket for traces as well."""
    a_mirror(gs, tmp_path).sync()

    assert {request.path for request in gs.server.requests} == {
        "/storage/v1/b/models/o",
        "/download/storage/v1/b/models/o/team%2Frepo%2Fa%2Fconfig.pbtxt",
    }


def test_as_reads_the_environments_key(azure, monkeypatch):
    for name, value in azure.environment().items():
        monkeypatch.setenv(name, value)

    assert keys_with(azure) == ["a/config.pbtxt"]


def test_as_lets_the_credentials_name_the_account(azure, monkeypatch):
    """As in Triton: AZURE_STORAGE_ACCOUNT comes before the URI."""
    for name, value in azure.environment().items():
        monkeypatch.setenv(name, value)
    azure.uri = "as://somebody/models/team/repo"

    assert keys_with(azure) == ["a/config.pbtxt"]


def test_as_reads_tritons_credential_file(azure, tmp_path, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_KEY", "of another account")
    account, (key, _) = next(iter(azure.server.keys.items()))
    entries = {"": {"account_str": "other"}, f"as://{account}/models": {"account_str": account, "account_key": key}}
    write_credentials_file(tmp_path, monkeypatch, {"as": entries})

    assert keys_with(azure) == ["a/config.pbtxt"]


def test_as_takes_a_shared_access_signature(azure, monkeypatch):
    azure.server.sas = "sv=2024-11-04&sp=rl&sig=abc"
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"?{azure.server.sas}")

    assert keys_with(azure) == ["a/config.pbtxt"]


def test_as_refuses_a_kind_of_login_that_there_is_not(azure, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_AUTH_TYPE", "password")

    with pytest.raises(CredentialsError, match="AZURE_STORAGE_AUTH_TYPE must be managed_identity or default"):
        keys_with(azure)


@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        ({"AZURE_STORAGE_AUTH_TYPE": "managed_identity"}, "ManagedIdentityCredential"),
        ({"AZURE_STORAGE_AUTH_TYPE": "default", "AZURE_STORAGE_CLIENT_ID": "1-2"}, "DefaultAzureCredential"),
        ({"AZURE_FEDERATED_TOKEN_FILE": "/token"}, "DefaultAzureCredential"),
    ],
)
def test_as_takes_the_identity_of_the_machine_or_pod(azure, monkeypatch, variables, kind):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    store = open_store(parse_location("as://acct/models/team"), Access())

    assert type(store._opened[1].credential).__name__ == kind


def test_as_without_a_key_says_so(azure):
    with pytest.raises(DeniedError, match="account akidreader, the request was not signed"):
        keys_with(azure)


def test_as_tells_of_a_key_that_is_none(azure, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_KEY", "five5")

    with pytest.raises(CredentialsError, match="could not be signed"):
        keys_with(azure)


def test_as_knows_directories_of_accounts_that_have_them(azure, tmp_path):
    azure.put("a/1")
    azure.server.folders.add("team/repo/a/1")

    a_mirror(azure, tmp_path).sync()

    assert tree_of(tmp_path / "models") == {"a/config.pbtxt": b"a", "a/1": None}


@pytest.mark.parametrize("scheme", ["gs", "as"])
def test_large_parts_come_in_pieces(scheme, tmp_path, monkeypatch):
    """The libraries hold an answer in memory until it is whole."""
    from importlib import import_module

    monkeypatch.setattr(import_module(f"charonia_runtime.storage.schemes.{scheme}"), "_PIECE", 1000)
    with a_place(scheme, tmp_path) as place:
        place.put("a/1/model.bin", bytes(range(250)) * 10)
        a_mirror(place, tmp_path).sync()

        assert (tmp_path / "models/a/1/model.bin").read_bytes() == bytes(range(250)) * 10
        assert sum(map(of_object("model.bin"), place.server.requests)) == 3
