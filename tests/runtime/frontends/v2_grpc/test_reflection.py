"""Server reflection, as clients without .proto files use it."""

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from charonia_runtime.core.access import AccessTokens
from charonia_runtime.frontends.v2_grpc import Frontend, Options
from tests.support.fake_server import FakeServer
from tests.support.grpc_calls import GrpcClient
from tests.support.streams import rest_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

reflection_client = pytest.importorskip("grpc_reflection.v1alpha.proto_reflection_descriptor_database")
reflection_pb2 = pytest.importorskip("grpc_reflection.v1alpha.reflection_pb2")

V1ALPHA = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
SERVICES = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "inference.GRPCInferenceService",
]


async def ask(client: GrpcClient, *, path: str = V1ALPHA, **question: Any) -> Any:
    call = client.channel.stream_stream(path)(timeout=10)
    await call.write(reflection_pb2.ServerReflectionRequest(host="h", **question).SerializeToString())
    await call.done_writing()
    (answer,) = await rest_of(call)
    return reflection_pb2.ServerReflectionResponse.FromString(answer)


async def test_googles_own_client_learns_the_services(frontend: Frontend) -> None:
    def look() -> tuple[list[str], Any, Any]:
        with grpc.insecure_channel(frontend.address) as channel:
            database = reflection_client.ProtoReflectionDescriptorDatabase(channel)
            pool = DescriptorPool(database)
            service = pool.FindServiceByName("inference.GRPCInferenceService")
            health = pool.FindServiceByName("grpc.health.v1.Health")
            return sorted(database.get_services()), service, health

    services, service, health = await asyncio.to_thread(look)
    assert services == SERVICES
    infer = service.methods_by_name["ModelInfer"]
    assert infer.input_type.fields_by_name["raw_input_contents"].number == 7
    config = service.methods_by_name["ModelConfig"].output_type.fields_by_name["config"].message_type
    assert config.fields_by_name["max_batch_size"].number == 4
    status = health.methods_by_name["Watch"].output_type.fields_by_name["status"].enum_type
    assert status.values_by_name["NOT_SERVING"].number == 2


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_both_versions_describe_themselves(client: GrpcClient, version: str) -> None:
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    listed = await ask(client, path=path, list_services="*")
    assert [service.name for service in listed.list_services_response.service] == SERVICES
    assert (listed.valid_host, listed.original_request.list_services) == ("h", "*")
    found = await ask(client, path=path, file_containing_symbol=f"grpc.reflection.{version}.ServerReflection")
    (file,) = found.file_descriptor_response.file_descriptor_proto
    assert FileDescriptorProto.FromString(file).package == f"grpc.reflection.{version}"


async def test_our_schema_is_googles(client: GrpcClient) -> None:
    """Whoever has the original can do without asking."""
    health_pb2 = pytest.importorskip("grpc_health.v1.health_pb2")
    for original, name in (
        (health_pb2, "grpc/health/v1/health.proto"),
        (reflection_pb2, "grpc/reflection/v1alpha/reflection.proto"),
    ):
        found = await ask(client, file_by_filename=name)
        ours = FileDescriptorProto.FromString(found.file_descriptor_response.file_descriptor_proto[0])
        theirs = FileDescriptorProto.FromString(original.DESCRIPTOR.serialized_pb)
        described = {message.name: plain(message) for message in theirs.message_type}
        assert {message.name: plain(message) for message in ours.message_type}.items() <= described.items()
        assert {method.name: method for method in ours.service[0].method}.keys() <= {
            method.name for method in theirs.service[0].method
        }


def plain(message: Any) -> list[tuple[str, int, int, int, str]]:
    return [(field.name, field.number, field.type, field.label, field.type_name) for field in message.field]


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ({"file_by_filename": "no.proto"}, 5),
        ({"file_containing_symbol": "no.Symbol"}, 5),
        ({"file_containing_extension": {"containing_type": "inference.ModelConfig", "extension_number": 1}}, 5),
        ({"all_extension_numbers_of_type": "inference.ModelConfig"}, 5),
        ({}, 12),
    ],
)
async def test_what_is_not_known(client: GrpcClient, question: dict[str, Any], code: int) -> None:
    assert (await ask(client, **question)).error_response.error_code == code


async def test_a_method_is_in_its_services_file(client: GrpcClient) -> None:
    found = await ask(client, file_containing_symbol="inference.GRPCInferenceService.ModelInfer")
    names = [FileDescriptorProto.FromString(file).name for file in found.file_descriptor_response.file_descriptor_proto]
    assert names == ["grpc_service.proto", "model_config.proto"]


async def test_undecodable_questions_end_the_call(client: GrpcClient) -> None:
    call = client.channel.stream_stream(V1ALPHA)(timeout=10)
    await call.write(b"\xff")
    assert await call.code() is grpc.StatusCode.INTERNAL


async def test_schemas_are_told_to_clients_with_a_token_alone(server: FakeServer, local: Options) -> None:
    frontend = Frontend(replace(local, access_tokens=AccessTokens(["sesame"])), server)
    await frontend.start()
    async with GrpcClient(frontend.address) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(client, list_services="*")
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    await frontend.stop(0)
