"""Routes: paths, methods, statuses, content types and bodies, as the real server's."""

import json
from collections.abc import AsyncIterator

import pytest

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.server import IndexEntry
from tests.support.fake_server import FakeServer, echo_config
from tests.support.http_client import Client, http_frontend

JSON, TEXT = "application/json", "text/plain"
NOT_FOUND, NOT_ALLOWED = '{"error":"Not Found"}', '{"error":"Method Not Allowed"}'


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    server.add(echo_config("echo", DataType.INT32), version=1)
    server.add(echo_config("echo", DataType.INT32), version=3)
    server.add(ModelConfig("stats", inputs=(TensorSpec("INPUT", DataType.INT32, (1,)),)))
    server.documents["echo"] = {"name": "echo", "max_batch_size": 0}
    server.index = [IndexEntry("echo", 1, "READY"), IndexEntry("other")]
    return server


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with http_frontend(server) as client:
        yield client


async def test_documents(client: Client) -> None:
    """One connection after the other: GET, its status, its type, its body."""
    unknown = '{"error":"Request for unknown model: \'%s\' is not found"}'
    too_large = (
        '{"error":"failed to get model version from specified version string \'99999999999999999999\' (details: stol), '
        'version should be an integral value > 0"}'
    )
    metadata = (
        '{"name":"echo","versions":["%s"],"platform":"identity",'
        '"inputs":[{"name":"INPUT","datatype":"INT32","shape":[-1]}],'
        '"outputs":[{"name":"OUTPUT","datatype":"INT32","shape":[-1]}]}'
    )
    for path, status, content_type, body in [
        ("/v2/health/live", 200, TEXT, ""),
        ("/v2/health/ready?x=1", 200, TEXT, ""),
        ("/v2", 200, JSON, '{"name":"triton","version":"0.1.0","extensions":["classification","sequence","statistics"]}'),
        ("/v2/models/echo/ready", 200, TEXT, ""),
        ("/v2/models/echo/versions/3/ready", 200, TEXT, ""),
        ("/v2/models/echo/versions/2/ready", 400, TEXT, '{"error":"Model version not ready"}'),
        ("/v2/models/other/ready", 400, TEXT, '{"error":"Model version not ready"}'),
        ("/v2/models/stats/ready", 200, TEXT, ""),
        ("/v2/models/echo/versions/99999999999999999999/ready", 400, TEXT, too_large),
        ("/v2/models/echo/versions/99999999999999999999", 400, JSON, too_large),
        ("/v2/models/echo", 200, JSON, metadata % '1","3'),
        ("/v2/models/echo/versions/03", 200, JSON, metadata % "3"),
        ("/v2/models/ec%68o", 404, JSON, unknown % "ec%68o"),
        ("/v2/models/echo/config", 200, JSON, '{"name":"echo","max_batch_size":0}'),
        ("/v2/models/echo/versions/9/config", 404, JSON,
         '{"error":"Request for unknown model: \'echo\' version 9 is not found"}'),
        ("/v2/models/other/stats", 400, JSON, '{"error":"requested model \'other\' is not available"}'),
        ("/v2/logging", 200, JSON,
         ('{"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,'
         '"log_format":"default"}')),
        ("/v2/trace/setting", 200, JSON,
         ('{"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1","log_frequency":"0","trace_file":"",'
         '"trace_mode":"triton"}')),
        ("/v2/systemsharedmemory/status", 200, JSON, "[]"),
        ("/v2/systemsharedmemory/region/x/status", 404, JSON,
         '{"error":"Unable to find system shared memory region: \'x\'"}'),
        ("/v2/cudasharedmemory/status", 200, JSON, "[]"),
        *((path, 404, TEXT, NOT_FOUND) for path in (
            "/", "/v2/", "/v2/models", "/v2//health/live", "/v2/health/live/", "/v2/models/echo/versions/abc", "/metrics",
            "/v2/models/echo/versions/1/trace/setting", "/v2/health", "*", "/docs", "/openapi.json",
        )),
    ]:  # fmt: skip
        answer = await client.ask("GET", path)
        found = (path, answer.status, answer.headers["content-type"], answer.body.decode())
        assert found == (path, status, content_type, body)


async def test_statistics_of_all_models(client: Client) -> None:
    document = json.loads((await client.ask("GET", "/v2/models/stats")).body)
    assert [(entry["name"], entry["version"]) for entry in document["model_stats"]] == [
        ("echo", "1"), ("echo", "3"), ("stats", "1"),
    ]  # fmt: skip


async def test_methods_that_are_not_allowed(client: Client) -> None:
    for method, path, content_type in [
        ("POST", "/v2/health/live", TEXT),
        ("PATCH", "/v2/models/echo/ready", TEXT),
        ("GET", "/v2/models/echo/infer", TEXT),
        ("GET", "/v2/models/nothing/infer", TEXT),
        ("GET", "/v2/models/echo/generate", JSON),
        ("PUT", "/v2/models/echo/generate_stream", JSON),
        ("OPTIONS", "/v2", JSON),
        ("DELETE", "/v2/models/echo", JSON),
        ("FOO", "/v2", JSON),
        ("GET", "/v2/repository/index", JSON),
        ("GET", "/v2/repository/models/echo/load", JSON),
        ("POST", "/v2/models/stats", JSON),
        ("DELETE", "/v2/logging", JSON),
        ("POST", "/v2/systemsharedmemory/status", JSON),
    ]:
        answer = await client.ask(method, path)
        found = (method, path, answer.status_line, answer.headers["content-type"], answer.body.decode())
        assert found == (method, path, "HTTP/1.1 405 Not Allowed", content_type, NOT_ALLOWED)


async def test_head_has_no_body(client: Client) -> None:
    async with client.connect() as connection:
        for path in ("/v2/health/live", "/v2/models/echo/infer"):
            await connection.send(f"HEAD {path} HTTP/1.1\r\n\r\n".encode())
            answer = await connection.answer(head_only=True)
            assert (answer.status, answer.headers["content-length"]) == (405, "30")


async def test_repository(client: Client, server: FakeServer) -> None:
    index = "/v2/repository/index"
    assert (await client.ask("POST", index)).body == b'[{"name":"echo","version":"1","state":"READY"},{"name":"other"}]'
    assert (await client.ask("POST", "/v2/repository/main/index", '{"ready":true}')).body == (
        b'[{"name":"echo","version":"1","state":"READY"}]'
    )
    answer = await client.ask("POST", "/v2/repository/models/x/load", '{"parameters":{"config":"{}"}}')
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"", JSON)
    answer = await client.ask("POST", "/v2/repository/models/x/unload", '{"parameters":{"unload_dependents":true}}')
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"", JSON)
    assert (server.loads, server.unloads) == ([("x", "{}", None)], [("x", True)])
    server.load_error = InternalError("failed to load 'x', failed to poll from model repository")
    assert (await client.ask("POST", "/v2/repository/models/x/load")).status == 500
    for path in ("/v2/repository/main/models/x/load", "/v2/repository/main/models/x/unload"):
        answer = await client.ask("POST", path)
        assert (answer.status, answer.body) == (501, b'{"error":"\'repository_name\' specification is not supported"}')


async def test_settings(client: Client, server: FakeServer) -> None:
    answer = await client.ask("POST", "/v2/models/echo/trace/setting", '{"trace_rate":"7","trace_count":null}')
    assert json.loads(answer.body)["trace_rate"] == "7"
    assert server.settings.trace_changes == [("echo", {"trace_rate": ["7"], "trace_count": None})]
    answer = await client.ask("POST", "/v2/logging", '{"log_info":false,"log_verbose_level":-1}')
    assert answer.status == 500
    assert server.settings.log_settings["log_info"] is False


@pytest.mark.parametrize("body", ['{"trace_file":"x"}', '{"trace_rate":"x"}', "no JSON", "{}"])
async def test_trace_settings_of_an_unknown_model(client: Client, body: str) -> None:
    answer = await client.ask("POST", "/v2/models/nope/trace/setting", body)
    assert (answer.status, answer.body) == (400, b'{"error":"Request for unknown model : nope"}')


async def test_regions(client: Client, server: FakeServer) -> None:
    for kind in ("system", "cuda"):
        answer = await client.ask("POST", f"/v2/{kind}sharedmemory/register", "{}")
        assert answer.status == 400
        assert answer.body.decode() == (
            f'{{"error":"\'region name\' is necessary to register {kind} shared memory region"}}'
        )
    register = "/v2/systemsharedmemory/region/a%20b/register"
    answer = await client.ask("POST", register, '{"key":"/k","offset":4,"byte_size":8}')
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"", JSON)
    assert (await client.ask("GET", "/v2/systemsharedmemory/region/a%20b/status")).body == (
        b'[{"name":"a%20b","key":"/k","offset":4,"byte_size":8}]'
    )
    await client.ask("POST", "/v2/systemsharedmemory/unregister")
    assert server.shared_memory.system == {}


async def test_deep_json_is_only_its_own_problem(client: Client) -> None:
    depth = 50_000
    answer = await client.ask("POST", "/v2/repository/index", '{"ready":' + "[" * depth + "]" * depth + "}")
    assert (answer.status, answer.body) == (400, b'{"error":"Invalid value for \'ready\': expected a boolean"}')
    assert (await client.ask("GET", "/v2/health/live")).status == 200


async def test_a_bug_in_the_server_shows_nothing(
    client: Client, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.metadata = None  # type: ignore[assignment]
    answer = await client.ask("GET", "/v2")
    assert (answer.status, answer.body) == (500, b'{"error":"unexpected error while answering the request"}')
    assert "AttributeError" in caplog.text


async def test_restricted_routes(server: FakeServer) -> None:
    restricted = ("health,inference:admin-key=secret", "statistics:other-key=x")
    async with http_frontend(server, http_restricted_api=restricted) as client:
        refusal = b'{"error":"This API is restricted, expecting header \'admin-key\'"}'
        for method, path in [
            ("GET", "/v2/health/live"), ("POST", "/v2/health/live"), ("GET", "/v2/models/echo/ready"),
            ("POST", "/v2/models/echo/infer"), ("GET", "/v2/models/echo/infer"), ("POST", "/v2/models/echo/generate"),
        ]:  # fmt: skip
            for headers in ({}, {"admin-key": "wrong"}):
                answer = await client.ask(method, path, headers=headers)
                assert (answer.status_line, answer.headers["content-type"], answer.body) == (
                    "HTTP/1.1 403 Forbidden", TEXT, refusal,
                )  # fmt: skip
        assert (await client.ask("GET", "/v2/health/live", headers={"Admin-Key": "secret"})).status == 200
        assert (await client.ask("GET", "/v2/models/stats", headers={"admin-key": "secret"})).status == 403
        assert (await client.ask("GET", "/v2")).status == 200


async def test_errors_of_the_server_have_its_texts(client: Client, server: FakeServer) -> None:
    server.shared_memory.error = InvalidArgumentError("no é")
    answer = await client.ask("POST", "/v2/systemsharedmemory/unregister")
    assert (answer.status, answer.body) == (400, '{"error":"no é"}'.encode())
