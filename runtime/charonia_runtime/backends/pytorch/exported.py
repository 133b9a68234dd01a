"""`model.pt2`: archives of torch.export and packages of AOTInductor."""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from charonia_runtime.backends.pytorch.library import check_inputs_of_compiled_models, loading
from charonia_runtime.backends.pytorch.naming import generated_inputs
from charonia_runtime.core.config import ModelConfig, Placement
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError

_COMPILED_FOLDER = "/data/aotinductor/"


class ExportedProgram:
    """A program that was exported together with the structure of its arguments and of its result."""

    def __init__(
        self,
        call: Callable[[list[Any]], Sequence[Any]],
        instance_name: str,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
    ) -> None:
        self.run = call
        self._instance_name = instance_name
        self.input_positions = inputs
        self.output_positions = outputs

    def wrong_datatype(self, name: str, expected: DataType, produced: DataType) -> InvalidArgumentError:
        return InvalidArgumentError(
            f'Inductor model instance "{self._instance_name}" output tensor "{name}" has datatype '
            f"{produced.config_name} but model configuration expects {expected.config_name}."
        )


def load_exported(path: Path, device: str | None, config: ModelConfig, placement: Placement) -> ExportedProgram:
    """
    The program on `device`; None leaves its parts where they were exported.

    Raises InternalError with torch's text when the file cannot be read, and InvalidArgumentError when the
    configuration does not fit it.
    """
    with loading(config.name):
        load = _load_compiled if is_compiled(path) else _load_archive
        call, takes, gives = load(path, device)
        arguments, result = _numbered(takes), _numbered(gives)
    positional, by_keyword = arguments
    known_inputs = dict(_structured_names("ARGS", positional)) | dict(_structured_names("KWARGS", by_keyword))
    known_outputs = dict(_structured_names("RESULT", result))
    names = [spec.name for spec in config.inputs] + generated_inputs(config)
    if len(names) != len(known_inputs):
        raise InvalidArgumentError(
            f'Failed to load model "{config.name}" configuration expects {len(names)} inputs, but model expects '
            f"{len(known_inputs)} inputs."
        )
    produced = [spec.name for spec in config.outputs] + [state.output_name for state in config.states]
    return ExportedProgram(
        call,
        placement.name,
        _positions("Input", names, known_inputs, placement),
        _positions("Output", produced, known_outputs, placement),
    )


def is_compiled(path: Path) -> bool:
    """Whether the file is a package of AOTInductor."""
    with zipfile.ZipFile(path) as archive:
        return any(_COMPILED_FOLDER in name for name in archive.namelist())


_Loaded = tuple[Callable[[list[Any]], Sequence[Any]], Any, Any]
"""A function of flat lists, the structure of its arguments and that of its result."""


def _load_compiled(path: Path, device: str | None) -> _Loaded:
    from torch import _inductor as inductor
    from torch.utils import _pytree as trees

    check_inputs_of_compiled_models()
    # Older releases of torch do not know `device_index`.
    on_gpu: dict[str, Any] = {"device_index": int(device.removeprefix("cuda:"))} if device not in {None, "cpu"} else {}
    loader = inductor.aoti_load_package(str(path), **on_gpu).loader
    takes, gives = (trees.treespec_loads(text) for text in loader.get_call_spec())
    return loader.run, takes, gives


def _load_archive(path: Path, device: str | None) -> _Loaded:
    from torch import export
    from torch.export import passes
    from torch.utils import _pytree as trees

    program = export.load(str(path))
    if device is not None and device != "cpu":
        program = passes.move_to_device_pass(program, device)
    module, takes = program.module(), program.call_spec.in_spec

    def call(values: list[Any]) -> Sequence[Any]:
        positional, by_keyword = trees.tree_unflatten(values, takes)
        leaves: Sequence[Any] = trees.tree_flatten(module(*positional, **by_keyword))[0]
        return leaves

    return call, takes, program.call_spec.out_spec


def _numbered(structure: Any) -> Any:
    """The structure with each leaf's position in its place."""
    from torch.utils import _pytree as trees

    return trees.tree_unflatten(list(range(structure.num_leaves)), structure)


def _structured_names(path: str, tree: Any) -> Iterator[tuple[str, int]]:
    """`ARGS[0]`, `ARGS[1][key]`, … with the positions of their leaves."""
    if isinstance(tree, Mapping):
        for key, child in tree.items():
            yield from _structured_names(f"{path}[{key}]", child)
    elif isinstance(tree, list | tuple):
        for index, child in enumerate(tree):
            yield from _structured_names(f"{path}[{index}]", child)
    else:
        yield path, tree


def _positions(role: str, names: Sequence[str], known: Mapping[str, int], placement: Placement) -> dict[str, int]:
    numbered = {f"{role.upper()}__{position}": position for position in known.values()}
    positions: dict[str, int] = {}
    for name in names:
        position = known.get(name, numbered.get(name))
        if position is None:
            raise InvalidArgumentError(
                f'{role} "{name}" for model instance "{placement.name}" is not found in model {role.lower()} map.'
            )
        positions[name] = position
    return positions
