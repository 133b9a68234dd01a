"""Groups of endpoints that answer only clients which send a secret header (Triton's restricted protocols)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest

from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.core.frontend import OptionError

CATEGORIES = frozenset({
    "health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics", "trace",
    "logging",
})  # fmt: skip
"""The groups that endpoints belong to."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """The header that a category asks for. `kind` is the refusal's word: `API` over HTTP, `protocol` over gRPC."""

    header: str
    value: str
    kind: str

    def check(self, value: str | None) -> None:
        """
        Raise UnavailableError unless `value`, what the client sent in the header, is the secret.

        Bytes that are no UTF-8 are surrogates in it, as `os.fsdecode` makes them; they match nothing else.
        """
        if value is None or not compare_digest(_bytes_of(value), _bytes_of(self.value)):
            raise UnavailableError(f"This {self.kind} is restricted, expecting header '{self.header}'")


def _bytes_of(text: str) -> bytes:
    """The bytes of a text that may have surrogates."""
    return text.encode("utf-8", "surrogatepass")


def parse_restrictions(
    values: Sequence[str], *, flag: str, noun: str, kind: str, header_prefix: str = ""
) -> Mapping[str, Restriction]:
    """
    Category → what it asks for, from values `<category>,<category>:<header>=<value>` of a repeatable flag.

    `noun` is what Triton's texts call a category of this flag (`api`, `protocol`). Raises OptionError.
    """
    found: dict[str, Restriction] = {}
    for text in values:
        categories, colon, pair = text.partition(":")
        header, equals, value = pair.partition("=")
        if not colon or not equals:
            raise OptionError(flag, f"--{flag} option format is '<config name>:<setting>=<value>'. Got {text}")
        for category in categories.split(","):
            if category not in CATEGORIES:
                raise OptionError(flag, f"unknown restricted {noun} '{category}' ")
            if category in found:
                raise OptionError(
                    flag, f"restricted {noun} '{category}' can not be specified in multiple config groups"
                )
            found[category] = Restriction(header_prefix + header, value, kind)
    return found
