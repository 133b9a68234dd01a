"""
Model repositories on disk.

    write_model(tmp_path, "simple")                                  # identity, INT32 [4], max_batch_size 8, version 1
    write_model(tmp_path, "simple", versions=(1, 2), config='version_policy { all {} }')
"""

import os
from collections.abc import Iterable
from pathlib import Path

IDENTITY = """
backend: "identity"
max_batch_size: 8
input { name: "INPUT" data_type: TYPE_INT32 dims: [4] }
output { name: "OUTPUT" data_type: TYPE_INT32 dims: [4] }
"""


def write_model(
    repository: Path, name: str = "simple", *, versions: Iterable[int] = (1,), config: str = "", base: str = IDENTITY
) -> Path:
    """Make the model's directory, or change what is there. `config` is text added to `base`. Returns the directory."""
    directory = repository / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.pbtxt").write_text(base + config)
    for version in versions:
        (directory / str(version)).mkdir(exist_ok=True)
    return directory


def touch_later(path: Path) -> None:
    """Make a file newer than it was, however coarse the file system's clock is."""
    newer = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(newer, newer))


def write_ensemble_of(repository: Path, name: str, model: str) -> Path:
    """Make an ensemble with one step, a model like `IDENTITY`. Returns its directory."""
    step = (
        f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "INPUT" value: "INPUT" }} '
        'output_map { key: "OUTPUT" value: "OUTPUT" } }'
    )
    base = IDENTITY.replace('backend: "identity"', 'platform: "ensemble"')
    return write_model(repository, name, base=f"{base}ensemble_scheduling {{ {step} }}\n")
