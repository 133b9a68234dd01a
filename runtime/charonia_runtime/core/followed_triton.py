"""The release of Triton that the server follows where releases answer differently."""

import re
from dataclasses import dataclass

from charonia_runtime.core.frontend import OptionError

FLAG = "server-version-compatibility"
_LAST_OLD_RELEASE = (2, 51)
"""The newest release whose answers Charonia was compared with one by one; stricter rules came later."""


@dataclass(frozen=True, slots=True)
class FollowedTriton:
    """
    The release of Triton that clients expect.

    Without a release that the user named, the server shows its own version and follows the newest rules. Code that
    must choose between an old and a new rule asks `newest_rules`, and nothing else.
    """

    version: str = ""
    """The version that the server shows as its own, as in `2.51.0`. Empty where the user named none."""
    newest_rules: bool = True
    """Whether the stricter rules of releases after 2.51 apply."""

    @property
    def refuses_client_memory(self) -> bool:
        """
        Whether clients may register shared memory only where a flag allows it.

        A server that names no release lets them: clients of every release before 26.04 register without being told to.
        """
        return bool(self.version) and self.newest_rules


def parse_followed_triton(text: str) -> FollowedTriton:
    """Read `<major>.<minor>` or `<major>.<minor>.<patch>`; empty text names no release. Raises OptionError."""
    if not text:
        return FollowedTriton()
    match = re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?", text)
    if match is None:
        raise OptionError(FLAG, f"--{FLAG} must be a version of Triton, such as 2.51.0, got '{text}'")
    major, minor, patch = (int(part or 0) for part in match.groups())
    return FollowedTriton(f"{major}.{minor}.{patch}", (major, minor) > _LAST_OLD_RELEASE)
