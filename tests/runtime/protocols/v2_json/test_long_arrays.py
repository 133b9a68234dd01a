"""More elements than the quick parser counts (0xFFFFFF): each is read or refused, and no byte is written amiss."""

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import charonia_runtime
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.protocols.generate import decode_generate
from charonia_runtime.protocols.v2_json import RequestDecoder, control
from tests.support import hostile_bodies
from tests.support.configs import a_config, a_tensor
from tests.support.hostile_bodies import HostileBody, long_arrays
from tests.support.requests import RecordingSink

UNSAFE = {"as_list", "as_dict"}
"""Methods of the quick parser's objects that make room for 0xFFFFFF elements at most, and write all that there are."""
MOST_BYTES = 1 << 30
CONTROL: dict[str, Callable[[bytes], object]] = {
    hostile_bodies.INDEX: control.decode_index,
    hostile_bodies.LOAD: control.decode_load,
    hostile_bodies.UNLOAD: control.decode_unload,
    hostile_bodies.TRACE: control.decode_trace_changes,
    hostile_bodies.LOGGING: lambda text: list(control.decode_log_changes(text)),
    hostile_bodies.SYSTEM_MEMORY: control.decode_system_registration,
    hostile_bodies.CUDA_MEMORY: control.decode_cuda_registration,
}
CHILD = """
import sys
from tests.runtime.protocols.v2_json.test_long_arrays import outcome
from tests.support.hostile_bodies import long_arrays
for body in long_arrays(int(sys.argv[1])):
    print(body.name, outcome(body), sep=": ", flush=True)
"""
ANSWERED = {"numbers": 1, "texts": 4, "booleans": 1}
"""Bytes of an element of the tensors that are read."""


def outcome(body: HostileBody) -> str:
    """How many bytes of tensors were read of the body, or that it was refused."""
    try:
        if body.path == hostile_bodies.INFER:
            request, _ = RequestDecoder(MOST_BYTES).decode(body.text, memoryview(b""), "m", 1, RecordingSink())
        elif body.path == hostile_bodies.GENERATE:
            config = a_config(inputs=(a_tensor("IN", DataType(body.datatype), -1),), max_batch_size=0)
            request = decode_generate(body.text, config, 1, RecordingSink(), MOST_BYTES)
        else:
            CONTROL[body.path](body.text)
            return "read"
    except InferenceError:
        return "refused"
    return f"{sum(tensor.byte_size for tensor in request.inputs.values())} bytes"


def check(lines: list[str], elements: int) -> None:
    found = dict(line.split(": ") for line in lines)
    assert len(found) == len(list(long_arrays(2)))
    assert found["numbers in data"] == found["single numbers"] == found["booleans in data"] == f"{elements} bytes"
    assert found["texts in data"] == found["texts one level deeper"] == f"{4 * elements} bytes"


def test_no_method_that_overflows_is_called() -> None:
    """The rule: of an array whose size is capped, only iterators and buffers are used."""
    runtime = Path(charonia_runtime.__file__).parent
    for path in runtime.rglob("*.py"):
        text = path.read_text()
        if "simdjson" not in text:
            continue
        called = {
            node.func.attr
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        assert not called & UNSAFE, f"{path} calls {called & UNSAFE}"


def test_arrays_are_read_alike_at_every_place() -> None:
    """The same bodies in small: what the slow test shows for large ones is not a mistake of its own."""
    check([f"{body.name}: {outcome(body)}" for body in long_arrays(20_000)], 20_000)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("elements", [2**24 - 1, 2**24 + 1, 2**25])
def test_more_elements_than_the_quick_parser_counts(elements: int) -> None:
    """In a process of its own: an overflow aborts it."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(elements)], capture_output=True, text=True, check=False, timeout=800
    )
    assert child.returncode == 0, child.stdout + child.stderr
    check(child.stdout.splitlines(), elements)
