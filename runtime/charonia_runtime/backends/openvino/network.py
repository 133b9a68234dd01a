"""A model's inputs and outputs in our types, and a model fitted to its configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from charonia_runtime.backends.openvino.library import DATATYPES, ELEMENT_NAMES, step
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.shapes import full_backend_shape


@dataclass(frozen=True, slots=True)
class NetworkTensor:
    """
    One input or output. A port may have several names; `name` is the one that openvino prefers.

    `bounds` has the least and the greatest size of each dimension (-1: no limit); None where the rank is unknown.
    `has_batch` is whether the model's layout names a batch dimension.
    """

    name: str
    names: frozenset[str]
    datatype: DataType
    bounds: tuple[tuple[int, int], ...] | None
    has_batch: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """-1 stands for every dimension that is not fixed."""
        return tuple(least if least == most else -1 for least, most in self.bounds or ())


@dataclass(frozen=True, slots=True)
class Network:
    """What a model takes and gives, in the order of its ports."""

    inputs: tuple[NetworkTensor, ...]
    outputs: tuple[NetworkTensor, ...]


def read_model(core: Any, path: Path) -> Any:
    """An `openvino.Model` of a file in any format that openvino knows. Raises InternalError when it cannot be read."""
    with step("reading model"):
        return core.read_model(str(path))


def describe(library: Any, model: Any) -> Network:
    """Return the inputs and outputs of an `openvino.Model`. Raises InternalError for ports without names."""
    _name_ports(model)
    return Network(
        tuple(_tensor(library, port) for port in model.inputs), tuple(_tensor(library, port) for port in model.outputs)
    )


def _name_ports(model: Any) -> None:
    """
    Give ports without a name the friendly name of their node: of the parameter, or of what the output comes from.

    `openvino.convert_model` names no outputs of torch models. The name of the result's own node is no use: it is made
    from a counter.
    """
    for port in model.inputs:
        if not port.get_names():
            port.get_tensor().set_names({port.get_node().get_friendly_name()})
    taken = {name for port in (*model.inputs, *model.outputs) for name in port.get_names()}
    for port in model.outputs:
        if port.get_names():
            continue
        source = port.get_node().input_value(0)
        name = source.get_node().get_friendly_name()
        if name in taken or len(source.get_node().outputs()) > 1:
            name = f"{name}.{source.get_index()}"
        taken.add(name)
        port.get_tensor().set_names({name})


def _tensor(library: Any, port: Any) -> NetworkTensor:
    with step("reading model"):
        name = port.get_any_name()
    shape = port.partial_shape
    layout = library.layout_helpers.get_layout(port)
    return NetworkTensor(
        name,
        frozenset(port.get_names()),
        DATATYPES.get(port.element_type.to_string(), DataType.INVALID),
        None if shape.rank.is_dynamic else tuple((size.get_min_length(), size.get_max_length()) for size in shape),
        bool(library.layout_helpers.has_batch(layout)),
    )


def port_of(tensors: Iterable[NetworkTensor], name: str) -> int | None:
    """The position of the port that has `name`."""
    return next((position for position, tensor in enumerate(tensors) if name in tensor.names), None)


def fit(library: Any, model: Any, network: Network, config: ModelConfig, *, reshapes: bool) -> Any:
    """The model with the batch dimension, the shapes and the element types that the configuration gives it."""
    if reshapes:
        with step("reshaping model"):
            model.reshape(
                {spec.name: library.PartialShape(list(full_backend_shape(config, spec))) for spec in config.inputs}
            )
    elif config.batches and not all(_has_free_batch(tensor) for tensor in network.inputs):
        with step("setting the batch"):
            for port in model.inputs:
                library.layout_helpers.set_layout(port, library.Layout("N..."))
            library.set_batch(model, library.Dimension())
    with step("setting element types"):
        processor = library.preprocess.PrePostProcessor(model)
        for spec in config.inputs:
            processor.input(spec.name).tensor().set_element_type(_element(library, config, spec, "input"))
        for spec in config.outputs:
            processor.output(spec.name).tensor().set_element_type(_element(library, config, spec, "output"))
        return processor.build()


def _has_free_batch(tensor: NetworkTensor) -> bool:
    return bool(tensor.bounds) and tensor.shape[0] == -1


def _element(library: Any, config: ModelConfig, spec: TensorSpec, role: str) -> Any:
    return getattr(library.Type, element_name(config, spec, role))


def element_name(config: ModelConfig, spec: TensorSpec, role: str) -> str:
    """The name that openvino has for a configured type. Raises InternalError where it has none."""
    names: Mapping[DataType, str] = ELEMENT_NAMES
    if spec.datatype not in names:
        raise InternalError(
            f"unsupported datatype {spec.datatype.config_name} for {role} '{spec.name}' for model '{config.name}'"
        )
    return names[spec.datatype]
