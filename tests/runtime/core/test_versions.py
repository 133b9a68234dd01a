import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.config import AllVersions, LatestVersions, SpecificVersions, VersionPolicy
from charonia_runtime.core.versions import missing_versions, select_versions


@pytest.mark.parametrize(
    ("policy", "available", "selected"),
    [
        (LatestVersions(), (1, 10, 9), (10,)),
        (LatestVersions(2), (1, 10, 9), (9, 10)),
        (LatestVersions(5), (3, 1), (1, 3)),
        (LatestVersions(0), (1, 2), ()),
        (AllVersions(), (2, 0, 1), (0, 1, 2)),
        (SpecificVersions((7, 1)), (1, 2, 7), (1, 7)),
        (SpecificVersions((7,)), (1,), ()),
        (LatestVersions(), (), ()),
    ],
)
def test_selection(policy: VersionPolicy, available: tuple[int, ...], selected: tuple[int, ...]) -> None:
    assert select_versions(policy, available) == selected


def test_missing_versions_are_named_in_the_policys_order() -> None:
    assert missing_versions(SpecificVersions((9, 1, 3)), (1, 2)) == (9, 3)
    assert missing_versions(AllVersions(), ()) == ()


@given(st.lists(st.integers(0, 2**63 - 1)), st.integers(0, 10))
def test_latest_are_the_largest(available: list[int], count: int) -> None:
    selected = select_versions(LatestVersions(count), available)
    assert len(selected) == min(count, len(set(available)))
    assert not set(available) - set(selected) or not selected or min(selected) > max(set(available) - set(selected))
