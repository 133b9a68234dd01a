"""Every route below a gateway's path as well as below `/`."""

from collections.abc import AsyncIterator

import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.frontends.v2_http.prefixes import PathPrefixes
from tests.support.fake_server import FakeServer, echo_config
from tests.support.http_client import Client, http_frontend

BODY = '{"inputs":[{"name":"INPUT","datatype":"INT32","shape":[1],"data":[1]}]}'
PREFIXES = ("/api/predict/echo", "/api/predict", "/models.v1/")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    server = FakeServer()
    server.add(echo_config("echo", DataType.INT32))
    async with http_frontend(server, path_prefix=PREFIXES) as client:
        yield client


@pytest.mark.parametrize("prefix", ["", "/api/predict/echo", "/api/predict", "/models.v1"])
async def test_routes_answer_below_every_prefix(client: Client, prefix: str) -> None:
    for method, path, body in [
        ("POST", "/v2/models/echo/infer", BODY), ("POST", "/v2/models/echo/versions/1/infer", BODY),
        ("POST", "/v2/models/echo/generate", '{"INPUT":[1]}'), ("GET", "/v2", ""), ("GET", "/v2/health/ready?x", ""),
        ("GET", "/v2/models/echo/config", ""), ("POST", "/v2/repository/index", ""),
    ]:  # fmt: skip
        bare = await client.ask(method, path, body)
        assert bare.status == 200
        assert await client.ask(method, prefix + path, body) == bare


@pytest.mark.parametrize(
    "path",
    [
        "/api/v2", "/api/predict/other/v2", "/api/predictv2", "/models-v1/v2", "/api/predict/echo", "/api/predict/echo/",
        "/api/predict/echo/api/predict/echo/v2", "/v2/api/predict/echo/v2", "/api/predict/echo/v2/models/echo/nothing",
    ],
)  # fmt: skip
async def test_other_paths_are_not_found(client: Client, path: str) -> None:
    answer = await client.ask("GET", path)
    assert (answer.status, answer.body) == (404, b'{"error":"Not Found"}')


async def test_other_prefixes_do_not_infer(client: Client) -> None:
    assert (await client.ask("POST", "/api/predict/other/v2/models/echo/infer", BODY)).status == 404


@pytest.mark.parametrize(
    ("path", "rest"),
    [("/a/b/v2", "/v2"), ("/a/v2", "/v2"), ("/a/bb/v2", "/bb/v2"), ("/aa/v2", "/aa/v2"), ("/a", "/a"), ("/v2", "/v2")],
)
def test_the_longest_prefix_counts(path: str, rest: str) -> None:
    assert PathPrefixes(["/a", "/a/b"]).without(path) == rest


def test_a_slash_is_no_prefix() -> None:
    assert PathPrefixes(["/", ""]).pattern == ""


@pytest.mark.parametrize(
    "prefix", ["api", "//api", "/a//b", "/api/../x", "/.", "/a b", "/a%20b", "/ä", "/v2", "/v2/models", "/a?b", "/(a)"]
)
def test_what_is_no_prefix(prefix: str) -> None:
    with pytest.raises(OptionError, match=r"--path-prefix must be a path like /api/predict/name") as caught:
        PathPrefixes([prefix])
    assert caught.value.flag == "path-prefix"


@pytest.mark.parametrize("prefix", ["/v2x", "/api/v2", "/...", "/.well-known/a", "/~user/a_b-c.d"])
def test_what_is_one(prefix: str) -> None:
    assert PathPrefixes([prefix]).without(f"{prefix}/v2") == "/v2"
