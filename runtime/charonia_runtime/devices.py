"""The GPUs and cores of this machine that may be used, found without loading a driver or a framework."""

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")
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


def default_thread_count() -> int:
    """
    Threads of a framework's pool whose size nobody gave; 0 leaves it to the framework.

    Frameworks count the machine's cores, also in a container that may use only some of them.
    """
    available = allowed_cpus(_CGROUP_LIMIT, len(os.sched_getaffinity(0)))
    return available if available < (os.cpu_count() or 1) else 0


def allowed_cpus(limit_file: Path, visible: int) -> int:
    """Cores that the control group's quota and period in `limit_file` (microseconds) leave of `visible` ones."""
    try:
        quota, period = limit_file.read_text().split()
        return visible if quota == "max" else max(1, min(visible, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        return visible
