"""Load-time checks of a configuration against the model, with Triton's texts."""

from collections.abc import Sequence

from charonia_runtime.backends.openvino.network import Network, NetworkTensor, element_name, port_of
from charonia_runtime.core.config import InstanceKind, ModelConfig, TensorSpec
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.shapes import full_backend_shape, listed, unfit_for_batching, wrong_shape


def check_kind(config: ModelConfig, kind: InstanceKind) -> None:
    """Raises InvalidArgumentError for instances on GPUs: `TARGET_DEVICE` says where openvino runs."""
    if kind not in {InstanceKind.CPU, InstanceKind.AUTO}:
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', Triton OpenVINO backend supports only Kind CPU and AUTO"
        )


def check_network(config: ModelConfig, network: Network, *, reshapes: bool) -> None:
    """Raises InvalidArgumentError or InternalError for the first disagreement; any shape does where it `reshapes`."""
    if len(config.inputs) != len(network.inputs):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects {len(config.inputs)} inputs, model provides "
            f"{len(network.inputs)}"
        )
    for role, specs, tensors in (
        ("input", config.inputs, network.inputs),
        ("output", config.outputs, network.outputs),
    ):
        for spec in specs:
            _check_tensor(config, spec, tensors, role, any_shape=reshapes)


def _check_tensor(
    config: ModelConfig, spec: TensorSpec, tensors: Sequence[NetworkTensor], role: str, *, any_shape: bool
) -> None:
    position = port_of(tensors, spec.name)
    if position is None:
        raise InvalidArgumentError(
            f"unexpected inference {role} '{spec.name}', allowed {role}s are: "
            f"{listed(tensor.name for tensor in tensors)}"
        )
    element_name(config, spec, role)
    bounds = tensors[position].bounds
    if any_shape or bounds is None:
        return
    if config.batches and not bounds:
        raise unfit_for_batching(config, spec, "")
    full = full_backend_shape(config, spec)
    if len(full) != len(bounds) or not all(
        size == -1 or (least <= size and (most == -1 or size <= most))
        for size, (least, most) in zip(full, bounds, strict=True)
    ):
        raise wrong_shape(config, spec, tensors[position].shape)
