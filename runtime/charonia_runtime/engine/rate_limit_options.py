"""What the command line says about the rate limiter."""

import re
from dataclasses import dataclass
from typing import Final

from charonia_runtime.core.frontend import OptionError, option
from charonia_runtime.engine.execution.rate_limiter import RateLimiter, ResourceLimit

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class RateLimitOptions:
    """Flags of the group Rate limiter. Raises OptionError for a malformed value."""

    rate_limit: str = option(
        "off",
        "execution_count: instances run by their configured resources and priorities. off: as soon as they are idle.",
        metavar="<off|execution_count>",
    )
    rate_limit_resource: tuple[str, ...] = option(
        (),
        "How much there is of a resource, on one device or on each. May be given several times; what is not named then "
        "is not there. Without it there is as much as the greediest instance needs.",
        metavar="<name>:<count>[:<device>]",
    )

    def __post_init__(self) -> None:
        if self.rate_limit not in {"off", "execution_count"}:
            raise OptionError("rate-limit", "invalid argument for --rate-limit")
        self.limits  # noqa: B018 - refuse malformed values now

    @property
    def limits(self) -> tuple[ResourceLimit, ...]:
        return tuple(map(_parse, self.rate_limit_resource))

    def make(self) -> RateLimiter | None:
        """The limiter that the flags ask for; None where it is off."""
        return None if self.rate_limit == "off" else RateLimiter(self.limits)

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """What the table of options shows, as Triton writes it."""
        return (
            ("rate_limit", "OFF" if self.rate_limit == "off" else "EXEC_COUNT"),
            *((f"rate_limit_resource[{index}]", _shown(limit)) for index, limit in enumerate(self.limits)),
        )


def _shown(limit: ResourceLimit) -> str:
    device = -1 if limit.device is None else limit.device
    return f'{{"name":"{limit.name}", "count":{limit.count} "device":{device}}}'


def _parse(text: str) -> ResourceLimit:
    name, *numbers = text.split(":")
    if len(numbers) not in {1, 2}:
        raise OptionError(
            "rate-limit-resource",
            "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. "
            f"Got {text}",
        )
    for number in numbers:
        if not _INTEGER.fullmatch(number):
            raise OptionError("rate-limit-resource", f"Invalid option value. Got {number}")
    count, *device = map(int, numbers)
    return ResourceLimit(name, count, device[0] if device else None)
