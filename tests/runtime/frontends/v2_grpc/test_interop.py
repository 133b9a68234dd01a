"""The cases of gRPC's own interoperability tests that apply here, with Google's client, over every transport."""

import asyncio
import shutil
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import pytest

from charonia_runtime.core.errors import InternalError
from charonia_runtime.frontends.v2_grpc import Frontend
from tests.support.fake_server import FakeServer, answer, echo_config, failure
from tests.support.grpc_calls import SERVICE, GrpcClient, message, refusal, stream_document
from tests.support.streams import OpenModel, request, rest_of, summary

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

SIZES = [31415, 9, 2653, 58979]
"""The sizes of the ping-pong case."""


def sized(size: int, identifier: str = "") -> bytes:
    """A request to the echo model with a tensor of `size` bytes."""
    fields = {"name": "INPUT", "datatype": "UINT8", "shape": [size]}
    document = message({"model_name": "echo", "id": identifier, "inputs": [fields]})
    return document + b"\x3a" + varint(size) + b"\x07" * size


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


async def test_empty_unary(client: GrpcClient) -> None:
    assert await client.raw("ServerMetadata", b"")
    assert await client.raw("RepositoryModelUnload", b"") == b""


async def test_large_unary(client: GrpcClient) -> None:
    assert (await client.raw("ModelInfer", sized(271828))).endswith(b"\x07" * 271828)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_large_unary_and_stream(client: GrpcClient, compression: grpc.Compression) -> None:
    assert (await client.raw("ModelInfer", sized(271828), compression=compression)).endswith(b"\x07" * 271828)
    sent = [sized(size, str(size)) for size in (*SIZES, 271828, 1)]
    call = client.channel.stream_stream(f"{SERVICE}/ModelStreamInfer")(sent, timeout=30, compression=compression)
    found = [stream_document(data)["infer_response"]["id"] async for data in call]
    assert found == [str(size) for size in (*SIZES, 271828, 1)]


async def test_ping_pong(client: GrpcClient) -> None:
    call = client.stream()
    for size in SIZES:
        await call.write(sized(size, str(size)))
        answered = stream_document(await call.read())["infer_response"]
        assert (answered["id"], answered["outputs"][0]["shape"]) == (str(size), [str(size)])
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_many_messages_at_once(client: GrpcClient) -> None:
    """Several messages in one frame, and messages in many."""
    sizes = [number * 997 % 70_000 for number in range(200)]
    call = client.stream(sized(size, str(index)) for index, size in enumerate(sizes))
    answered = [stream_document(data)["infer_response"] async for data in call]
    assert [(found["id"], int(found["outputs"][0]["shape"][0])) for found in answered] == [
        (str(index), size) for index, size in enumerate(sizes)
    ]


async def test_cancel_after_begin(client: GrpcClient) -> None:
    call = client.stream()
    await call.wait_for_connection()
    call.cancel()
    assert await call.code() is grpc.StatusCode.CANCELLED


async def test_cancel_after_first_response(server: FakeServer, slow: OpenModel, client: GrpcClient) -> None:
    call = client.stream()
    await call.write(sized(31415, "1"))
    assert summary([stream_document(await call.read())]) == [("1", "")]
    await call.write(message(request("slow")))
    await slow.asked(1)
    call.cancel()
    assert await call.code() is grpc.StatusCode.CANCELLED
    await server.cancel_arrived.wait()


async def test_timeout_on_a_sleeping_server(server: FakeServer, client: GrpcClient) -> None:
    call = client.stream(timeout=0.05)
    await call.write(message(request("slow")))
    assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await server.cancel_arrived.wait()


async def test_deadlines_that_have_not(client: GrpcClient) -> None:
    assert await client.raw("ModelInfer", sized(9), timeout=500_000)


@pytest.mark.parametrize(
    "text",
    [
        "test status message",
        "\t\ntest with whitespace\r\nand Unicode BMP \N{WHITE SMILING FACE} and non-BMP \N{SMILING FACE WITH HORNS}\t\n",
        "100 % of \x7f \x00 +&=/?",
        "",
    ],
)
async def test_status_code_and_special_messages(server: FakeServer, client: GrpcClient, text: str) -> None:
    server.add(echo_config("fault"), lambda asked: [failure(asked, InternalError(text))])
    assert await refusal(client.raw("ModelInfer", message({"model_name": "fault"}))) == (
        grpc.StatusCode.INTERNAL,
        text,
    )


async def test_concurrent_large_unary(client: GrpcClient) -> None:
    answered = await asyncio.gather(*(client.raw("ModelInfer", sized(271828)) for _ in range(20)))
    assert all(data.endswith(b"\x07" * 271828) for data in answered)


async def test_a_slow_reader_gets_everything(server: FakeServer, client: GrpcClient) -> None:
    """Flow control in the other direction: 64 MB for a client that reads a message now and then."""
    tensor = np.arange(1 << 20, dtype=np.uint32)
    server.add(echo_config("large"), lambda asked: [answer(asked, {"OUTPUT": tensor})])
    call = client.stream([{"model_name": "large", "id": str(number)} for number in range(16)])
    for number in range(16):
        await asyncio.sleep(0)
        data = await call.read()
        assert tensor.tobytes() in data
        assert stream_document(data)["infer_response"]["id"] == str(number)
    assert await rest_of(call) == []


async def test_settings_of_other_implementations(frontend: Frontend) -> None:
    """Small windows and frames, as embedded clients have them; large ones, as gRPC in Java has them."""
    for options in (
        [("grpc.http2.lookahead_bytes", 1 << 20), ("grpc.http2.bdp_probe", 0), ("grpc.http2.max_frame_size", 16384)],
        [("grpc.http2.lookahead_bytes", 65535), ("grpc.http2.bdp_probe", 1), ("grpc.http2.max_frame_size", 16777215)],
        [("grpc.http2.hpack_table_size.encoder", 0), ("grpc.http2.hpack_table_size.decoder", 0)],
        [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.write_buffer_size", 1)],
    ):
        limits = [("grpc.max_receive_message_length", -1)]
        async with grpc.aio.insecure_channel(frontend.address, options=[*options, *limits]) as channel:
            infer = channel.unary_unary(f"{SERVICE}/ModelInfer")
            for size in (1, 20_000, 5_000_000):
                assert (await infer(sized(size), timeout=30)).endswith(b"\x07" * size)


async def test_curl(frontend: Frontend, tmp_path: Path) -> None:
    """A client that knows HTTP/2 and nothing of gRPC."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")

    async def curl(*arguments: str) -> bytes:
        process = await asyncio.create_subprocess_exec(
            "curl", "-s", "--http2-prior-knowledge", "-o", "-", *arguments, stdout=asyncio.subprocess.PIPE
        )
        written, _ = await process.communicate()
        return written

    body = tmp_path / "body"
    sent = sized(20_000)
    body.write_bytes(b"\0" + len(sent).to_bytes(4, "big") + sent)
    url = f"http://{frontend.address}{SERVICE}/ModelInfer"
    written = await curl(
        "-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary", f"@{body}", "-D", "-", url
    )
    assert written.startswith(b"HTTP/2 200")
    assert b"\x07" * 20_000 in written
    assert b"grpc-status: 0" in written
