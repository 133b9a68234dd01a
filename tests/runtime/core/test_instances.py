import pytest

from charonia_runtime.core.backend import BackendTraits
from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.instances import placements, resolve_instance_groups
from charonia_runtime.core.scheduling import Ensemble

AUTO, CPU, GPU, MODEL = InstanceKind.AUTO, InstanceKind.CPU, InstanceKind.GPU, InstanceKind.MODEL


def resolve(*groups: InstanceGroup, traits: BackendTraits | None = None, gpus: tuple[int, ...] = ()) -> ModelConfig:
    return resolve_instance_groups(ModelConfig("m", instance_groups=groups), traits or BackendTraits(), gpus)


@pytest.mark.parametrize(
    ("traits", "gpus", "expected"),
    [
        (BackendTraits(), (), InstanceGroup("m", CPU, 1)),
        (BackendTraits(), (1, 0), InstanceGroup("m", GPU, 1, (0, 1))),
        (BackendTraits(default_cpu_instances=2), (), InstanceGroup("m", CPU, 2)),
        (BackendTraits(default_cpu_instances=2), (0,), InstanceGroup("m", GPU, 1, (0,))),
        (BackendTraits(preferred_kind=CPU), (0,), InstanceGroup("m", CPU, 1)),
        (BackendTraits(preferred_kind=GPU), (), InstanceGroup("m", CPU, 1)),
        (BackendTraits(preferred_kind=MODEL), (0,), InstanceGroup("m", MODEL, 1)),
    ],
)
def test_a_model_without_groups_gets_one(traits: BackendTraits, gpus: tuple[int, ...], expected: InstanceGroup) -> None:
    assert resolve(traits=traits, gpus=gpus).instance_groups == (expected,)


@pytest.mark.parametrize(
    ("group", "gpus", "expected"),
    [
        (InstanceGroup(), (), InstanceGroup("m_0", CPU, 2)),
        (InstanceGroup(count=-3, kind=MODEL), (), InstanceGroup("m_0", MODEL, 1)),
        (
            InstanceGroup("g", count=5, passive=True, host_policy="h"),
            (),
            InstanceGroup("g", CPU, 5, passive=True, host_policy="h"),
        ),
        (InstanceGroup("g", AUTO, 1, (1,)), (0, 1), InstanceGroup("g", GPU, 1, (1,))),
        (InstanceGroup("g", GPU, 3), (4, 2), InstanceGroup("g", GPU, 3, (2, 4))),
    ],
)
def test_groups_are_completed(group: InstanceGroup, gpus: tuple[int, ...], expected: InstanceGroup) -> None:
    resolved = resolve(group, traits=BackendTraits(default_cpu_instances=2), gpus=gpus)
    assert resolved.instance_groups == (expected,)
    assert resolve_instance_groups(resolved, BackendTraits(), gpus) == resolved


@pytest.mark.parametrize(
    ("group", "gpus", "text"),
    [
        (InstanceGroup("g", GPU), (), "instance group g of model m has kind KIND_GPU but no GPUs are available"),
        (
            InstanceGroup("g", GPU, 1, (0, 42)),
            (1, 0),
            (
                "instance group g of model m specifies invalid or unsupported gpu id 42. GPUs with at least the minimum "
                "required CUDA compute compatibility of 6.000000 are: 0, 1"
            ),
        ),
        (
            InstanceGroup("g", AUTO, 1, (7,)),
            (0,),
            "instance group g of model m has kind KIND_CPU but specifies one or more GPUs",
        ),
        (
            InstanceGroup("g", MODEL, 1, (0,)),
            (0,),
            "instance group g of model m has kind KIND_MODEL but specifies one or more GPUs",
        ),
    ],
)
def test_groups_that_cannot_be_had(group: InstanceGroup, gpus: tuple[int, ...], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        resolve(group, gpus=gpus)
    assert raised.value.message == text


def test_ensembles_have_no_instances() -> None:
    config = ModelConfig("m", scheduling=Ensemble(()))
    assert resolve_instance_groups(config, BackendTraits(), (0,)) is config
    assert placements(config) == ()


def test_a_model_without_groups_names_its_instances_after_itself() -> None:
    assert [placement.name for placement in placements(resolve())] == ["m_0"]


def test_placements_share_names_across_gpus() -> None:
    config = resolve(InstanceGroup(count=2), InstanceGroup("c", CPU, 1, passive=True), gpus=(0, 3))
    assert [(p.name, p.kind, p.device_id, p.host_policy, p.passive) for p in placements(config)] == [
        ("m_0_0", GPU, 0, "gpu_0", False),
        ("m_0_0", GPU, 3, "gpu_3", False),
        ("m_0_1", GPU, 0, "gpu_0", False),
        ("m_0_1", GPU, 3, "gpu_3", False),
        ("c_0", CPU, 0, "cpu", True),
    ]


def test_host_policy_of_the_group_wins() -> None:
    config = resolve(InstanceGroup("g", MODEL, host_policy="numa1"), InstanceGroup("h", MODEL))
    assert [placement.host_policy for placement in placements(config)] == ["numa1", "model"]
