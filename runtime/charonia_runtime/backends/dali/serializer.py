"""
Serializes a pipeline that is written in Python: `python serializer.py <source> <target>`, a process of its own.

The source has exactly one `@pipeline_def` that is decorated with `@nvidia.dali.plugin.triton.autoserialize` too.
"""

import importlib.util
import sys
from pathlib import Path


def serialize(source: Path, target: Path) -> None:
    """Run `source` and write its pipeline. Raises whatever it raises, ValueError unless it has exactly one."""
    sys.path.insert(0, str(source.parent))
    spec = importlib.util.spec_from_file_location(source.stem, source)
    if spec is None or spec.loader is None:
        raise ValueError(f"'{source}' is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[source.stem] = module
    spec.loader.exec_module(module)
    marked = {id(value): value for value in vars(module).values() if getattr(value, "_is_autoserialize", False)}
    if len(marked) != 1:
        raise ValueError(f"exactly one pipeline of '{source}' must be decorated with @autoserialize, {len(marked)} are")
    (pipeline,) = marked.values()
    pipeline().serialize(filename=str(target))


if __name__ == "__main__":
    serialize(Path(sys.argv[1]), Path(sys.argv[2]))
