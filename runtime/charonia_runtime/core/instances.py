"""Instance groups: what a configuration leaves open is filled in, and what cannot be had is refused."""

from collections.abc import Collection
from dataclasses import replace

from charonia_runtime.core.backend import BackendTraits
from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import Ensemble

_MINIMUM_COMPUTE_CAPABILITY = "6.000000"


def resolve_instance_groups(config: ModelConfig, traits: BackendTraits, gpus: Collection[int]) -> ModelConfig:
    """
    `config` with the name, kind, count and GPUs of every instance group decided; `gpus` are those that may be used.

    Ensembles have no instances and come back as they are. Raises InvalidArgumentError with Triton's texts for groups
    that cannot be had here.
    """
    if isinstance(config.scheduling, Ensemble):
        return config
    groups = config.instance_groups or (_preferred_group(config.name, traits, gpus),)
    resolved = tuple(
        _resolved(replace(group, name=group.name or f"{config.name}_{index}"), traits, gpus)
        for index, group in enumerate(groups)
    )
    for group in resolved:
        _check(group, config, gpus)
    return replace(config, instance_groups=resolved)


def placements(config: ModelConfig) -> tuple[Placement, ...]:
    """The instances that a resolved configuration asks for; those on several GPUs share their names, as in Triton."""
    return tuple(
        Placement(
            name=f"{group.name}_{index}",
            kind=group.kind,
            device_id=device_id,
            profiles=group.profiles,
            passive=group.passive,
            host_policy=group.host_policy or _default_host_policy(group.kind, device_id),
            resources=group.resources,
            priority=group.priority,
        )
        for group in config.instance_groups
        for index in range(group.count)
        for device_id in (group.gpus if group.kind is InstanceKind.GPU else (0,))
    )


def _preferred_group(name: str, traits: BackendTraits, gpus: Collection[int]) -> InstanceGroup:
    unavailable = traits.preferred_kind is InstanceKind.GPU and not gpus
    return InstanceGroup(name, InstanceKind.AUTO if unavailable else traits.preferred_kind)


def _resolved(group: InstanceGroup, traits: BackendTraits, gpus: Collection[int]) -> InstanceGroup:
    kind = group.kind
    if kind is InstanceKind.AUTO:
        kind = InstanceKind.GPU if gpus and all(gpu in gpus for gpu in group.gpus) else InstanceKind.CPU
    default_count = traits.default_cpu_instances if kind is InstanceKind.CPU else 1
    return replace(
        group,
        kind=kind,
        count=group.count if group.count > 0 else default_count,
        gpus=group.gpus or (tuple(sorted(gpus)) if kind is InstanceKind.GPU else ()),
    )


def _check(group: InstanceGroup, config: ModelConfig, gpus: Collection[int]) -> None:
    subject = f"instance group {group.name} of model {config.name}"
    if group.kind is InstanceKind.GPU:
        _check_gpus(group, subject, gpus)
    elif group.gpus:
        raise InvalidArgumentError(f"{subject} has kind {group.kind.value} but specifies one or more GPUs")
    if not group.profiles:
        return
    if config.platform != "tensorrt_plan":
        raise InvalidArgumentError(
            f"{subject} and platform {config.platform}specifies profile field which is only supported for TensorRT "
            "models"
        )
    for profile in group.profiles:
        if not (profile.isascii() and profile.isdigit()):
            raise InvalidArgumentError(
                f"{subject} and platform {config.platform} specifies invalid profile {profile}. The field should "
                "contain the string representation of a non-negative integer."
            )


def _check_gpus(group: InstanceGroup, subject: str, gpus: Collection[int]) -> None:
    if not group.gpus:
        raise InvalidArgumentError(f"{subject} has kind KIND_GPU but no GPUs are available")
    for gpu in group.gpus:
        if gpu not in gpus:
            available = ", ".join(map(str, sorted(gpus)))
            raise InvalidArgumentError(
                f"{subject} specifies invalid or unsupported gpu id {gpu}. GPUs with at least the minimum required "
                f"CUDA compute compatibility of {_MINIMUM_COMPUTE_CAPABILITY} are: {available}"
            )


def _default_host_policy(kind: InstanceKind, device_id: int) -> str:
    return f"gpu_{device_id}" if kind is InstanceKind.GPU else kind.value.removeprefix("KIND_").lower()
