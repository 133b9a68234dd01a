"""The GPUs of this machine, found without loading a driver or a framework."""

import re
from collections.abc import Mapping
from pathlib import Path

_DEVICE_FILE = re.compile(r"nvidia\d+")


def visible_gpus(environment: Mapping[str, str], devices: Path = Path("/dev")) -> tuple[int, ...]:
    """
    Ids of the GPUs that models may use, as frameworks count them: 0 to one below their number.

    One for each `/dev/nvidia<n>` that the container was given; fewer where `CUDA_VISIBLE_DEVICES` names fewer, none
    with `TRITON_SERVER_CPU_ONLY`.
    """
    if environment.get("TRITON_SERVER_CPU_ONLY", "0") not in {"", "0"}:
        return ()
    count = sum(1 for path in devices.glob("nvidia*") if _DEVICE_FILE.fullmatch(path.name))
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        # CUDA stops at the first entry that names no device: -1, or nothing at all.
        valid = 0
        for entry in named.split(","):
            if not entry.strip() or entry.strip().startswith("-"):
                break
            valid += 1
        count = min(count, valid)
    return tuple(range(count))
