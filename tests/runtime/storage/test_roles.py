"""Pods that reach their bucket by their own identity: RRSA at Alibaba Cloud, IRSA at Amazon."""

from datetime import UTC, datetime

import pytest

from charonia_runtime.storage.access import Access
from charonia_runtime.storage.failures import CredentialsError, DeniedError, UnreachableError
from charonia_runtime.storage.location import parse_location
from charonia_runtime.storage.patterns import Selection
from charonia_runtime.storage.roles import Role
from charonia_runtime.storage.schemes import open_store
from charonia_runtime.storage.tree import build_tree
from tests.support.oss_server import OssServer
from tests.support.s3_server import S3Server
from tests.support.token_service import KEYS, TOKEN, TokenService

ARN = "acs:ram::1:role/models"
PROVIDER = "acs:ram::1:oidc-provider/cluster"


@pytest.fixture
def service():
    with TokenService() as running:
        yield running


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return file


@pytest.fixture
def clock():
    return [datetime(2026, 1, 1, tzinfo=UTC)]


@pytest.fixture
def role(service, token_file, clock):
    return Role(ARN, PROVIDER, token_file, service.url, now=lambda: clock[0])


@pytest.fixture
def rrsa(monkeypatch, service, token_file):
    """What ACK's webhook puts into a pod."""
    for name in ("OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET", "OSS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALIBABA_CLOUD_ROLE_ARN", ARN)
    monkeypatch.setenv("ALIBABA_CLOUD_OIDC_PROVIDER_ARN", PROVIDER)
    monkeypatch.setenv("ALIBABA_CLOUD_OIDC_TOKEN_FILE", str(token_file))
    monkeypatch.setenv("ALIBABA_CLOUD_STS_ENDPOINT", service.url)
    return token_file


@pytest.fixture
def irsa(monkeypatch, service, token_file):
    """What EKS's webhook puts into a pod."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/models")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token_file))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", service.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def keys_of(tree_of_store):
    return sorted(build_tree(tree_of_store.list_objects(), Selection()).files)


def filled(server):
    server.keys = {KEYS[0]: KEYS[1:]}
    server.put("team/repo/a/1/model.onnx", b"x")
    return server


def test_keys_are_taken_once_and_again_before_they_end(role, service, clock):
    service.expiration = "2026-01-01T01:00:00Z"

    assert role.credentials().key_id == KEYS[0]
    clock[0] = datetime(2026, 1, 1, 0, 54, tzinfo=UTC)
    role.credentials()
    assert len(service.asked) == 1
    clock[0] = datetime(2026, 1, 1, 0, 55, tzinfo=UTC)
    service.keys = ("STS.NEXT", "other", "session")
    assert role.credentials().key_id == "STS.NEXT"


def test_what_is_asked(role, service):
    role.credentials()

    (form,) = service.asked
    assert {name: form[name] for name in ("Action", "Version", "RoleArn", "OIDCProviderArn", "OIDCToken")} == {
        "Action": "AssumeRoleWithOIDC",
        "Version": "2015-04-01",
        "RoleArn": ARN,
        "OIDCProviderArn": PROVIDER,
        "OIDCToken": TOKEN,
    }


def test_a_role_that_is_not_for_this_pod(role, token_file):
    token_file.write_text("another token")

    with pytest.raises(DeniedError) as caught:
        role.credentials()

    assert ARN in caught.value.message
    assert "AuthenticationFail.OIDCToken.Invalid" in caught.value.message
    assert "another token" not in caught.value.message


@pytest.mark.parametrize(
    "answer", [(503, "busy"), (429, "{}"), (200, "no JSON"), (200, "{}"), (200, '{"Credentials": {"Expiration": "?"}}')]
)
def test_a_service_that_is_not_well(role, service, answer):
    """Worth another try."""
    service.refusals.append(answer)

    with pytest.raises(UnreachableError):
        role.credentials()
    assert role.credentials().key_id == KEYS[0]


def test_nobody_there(token_file):
    with pytest.raises(UnreachableError, match=r"no answer from http://127\.0\.0\.1:1"):
        Role(ARN, PROVIDER, token_file, "http://127.0.0.1:1").credentials()


def test_no_token(role, token_file):
    token_file.unlink()

    with pytest.raises(CredentialsError, match="cannot read the service account's token"):
        role.credentials()


@pytest.mark.parametrize(
    ("region", "internal", "endpoint"),
    [
        ("cn-hangzhou", True, "https://sts-vpc.cn-hangzhou.aliyuncs.com"),
        ("cn-hangzhou", False, "https://sts.cn-hangzhou.aliyuncs.com"),
        ("", True, "https://sts.aliyuncs.com"),
    ],
)
def test_the_service_of_the_buckets_region(rrsa, monkeypatch, region, internal, endpoint):
    monkeypatch.delenv("ALIBABA_CLOUD_STS_ENDPOINT")

    assert Role.of_environment(region, internal=internal).endpoint == endpoint


def test_a_pod_without_a_role(rrsa, monkeypatch):
    monkeypatch.delenv("ALIBABA_CLOUD_ROLE_ARN")

    assert Role.of_environment("", internal=False) is None


def test_oss_by_a_role(rrsa, service):
    with filled(OssServer()) as server:
        store = open_store(parse_location("oss://models/team/repo"), Access(server.url, region="cn-test"))

        assert keys_of(store) == ["a/1/model.onnx"]
        assert keys_of(store) == ["a/1/model.onnx"]
    assert len(service.asked) == 1


def test_keys_in_the_environment_come_before_the_role(rrsa, service, monkeypatch):
    monkeypatch.setenv("OSS_ACCESS_KEY_ID", "AKIDREADER")
    monkeypatch.setenv("OSS_ACCESS_KEY_SECRET", "the-secret")
    with OssServer() as server:
        server.put("team/repo/a/1/model.onnx", b"x")
        store = open_store(parse_location("oss://models/team/repo"), Access(server.url))

        assert keys_of(store) == ["a/1/model.onnx"]
    assert service.asked == []


def test_a_store_opens_while_the_token_service_is_away(rrsa, service):
    """What is tried again is the request, and that takes a store."""
    service.refusals.append((503, "busy"))
    with filled(OssServer()) as server:
        store = open_store(parse_location("oss://models/team/repo"), Access(server.url))
        with pytest.raises(UnreachableError):
            keys_of(store)

        assert keys_of(store) == ["a/1/model.onnx"]


def test_s3_by_a_role(irsa, service):
    with filled(S3Server()) as server:
        store = open_store(parse_location("s3://models/team/repo"), Access(server.url))

        assert keys_of(store) == ["a/1/model.onnx"]
        store.close()
    (form,) = service.asked
    assert (form["RoleArn"], form["WebIdentityToken"]) == ("arn:aws:iam::1:role/models", TOKEN)
