"""h2spec, the conformance tests of HTTP/2, against a listener that echoes; runs where h2spec is installed."""

import asyncio
import os
import shutil

import pytest

from charonia_runtime.wires.addresses import bind
from charonia_runtime.wires.http2.limits import Limits
from charonia_runtime.wires.http2.listener import Listener
from charonia_runtime.wires.http2.stream import Receiver, Stream
from tests.support.http2 import HEAD, TRAILERS

H2SPEC = os.environ.get("CHARONIA_H2SPEC") or shutil.which("h2spec")


class Answers:
    """Answers every request a little later, as a model would."""

    def begin(self, stream: Stream) -> Receiver | None:
        return Answer(stream)


class Answer:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def data(self, piece: memoryview) -> None: ...

    def ended(self) -> None:
        asyncio.get_running_loop().call_later(0.02, self._stream.respond, HEAD, [b"answer"], TRAILERS)

    def paused(self) -> None: ...

    def aborted(self, code: int) -> None: ...


@pytest.mark.slow
@pytest.mark.skipif(H2SPEC is None, reason="h2spec is not installed (CHARONIA_H2SPEC says where it is)")
async def test_h2spec() -> None:
    # Frames as small as they may be: h2spec makes header blocks that are larger than frames only for those.
    listener = Listener(Answers(), Limits(frame_bytes=16_384, concurrent_streams=100))
    bound = bind("127.0.0.1", 0)
    await listener.start(bound)
    try:
        process = await asyncio.create_subprocess_exec(
            str(H2SPEC), "--strict", "-h", "127.0.0.1", "-p", str(bound.getsockname()[1]), "-o", "2",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
    finally:
        await listener.stop(0)
    report = output.decode()

    assert process.returncode == 0, report
    assert " 0 failed" in report.splitlines()[-1]
    print(report.splitlines()[-1])
