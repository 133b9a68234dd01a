"""Documents of control routes, read in a thread where that takes long."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from charonia_runtime.protocols.json_limits import reads_slowly
from charonia_runtime.thread_pools import CODING

Result = TypeVar("Result")


async def read_document(decode: Callable[[bytes], Result], body: bytes) -> Result:
    """Return what `decode` makes of a body. Raises what it raises."""
    if not reads_slowly(body):
        return decode(body)
    return await CODING.run(partial(decode, body), size=len(body))
