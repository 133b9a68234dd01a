"""How the interpreter of a process that serves is set up."""

import gc
import sys

from charonia_runtime.allocator import keep_large_blocks

_SWITCH_INTERVAL_SECONDS = 0.0005
"""How long a thread may keep the interpreter while the event loop waits for it; Python's default is ten times that."""
_YOUNG_OBJECTS = 10_000
"""
Objects that may pile up before cycles are looked for. Our requests leave none behind, those of grpc.aio five objects
each: a look every two thousand calls takes a few milliseconds, one every ten thousand is felt.
"""


def set_up() -> None:
    """Before anything is loaded."""
    keep_large_blocks()
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)


def settle() -> None:
    """When all is loaded: what there is now stays, and is looked at no more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 100)
