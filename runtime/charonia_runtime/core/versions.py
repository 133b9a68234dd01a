"""Which of a model's versions are to be loaded."""

from collections.abc import Sequence
from typing import assert_never

from charonia_runtime.core.config import AllVersions, LatestVersions, SpecificVersions, VersionPolicy


def select_versions(policy: VersionPolicy, available: Sequence[int]) -> tuple[int, ...]:
    """Those of the `available` versions that `policy` wants, in ascending order; maybe none."""
    ordered = tuple(sorted(set(available)))
    match policy:
        case AllVersions():
            return ordered
        case LatestVersions(count):
            return ordered[-count:] if count else ()
        case SpecificVersions(versions):
            return tuple(version for version in ordered if version in versions)
        case _:
            assert_never(policy)


def missing_versions(policy: VersionPolicy, available: Sequence[int]) -> tuple[int, ...]:
    """The versions that `policy` names and that are not there, in the order in which it names them."""
    named = policy.versions if isinstance(policy, SpecificVersions) else ()
    return tuple(version for version in named if version not in available)
