"""What the command line says about the response cache."""

from collections.abc import Mapping
from dataclasses import dataclass

from charonia_runtime.core.cache import ResponseCache
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.frontend import OptionError, option
from charonia_runtime.engine.caches import load_cache


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """Flags of the group Response cache. Raises OptionError for a malformed value."""

    cache_config: tuple[str, ...] = option(
        (),
        "Keep the answers of models with response_cache enabled: local,size=<bytes> in this process, or "
        "redis,host=<host> and redis,port=<port> in a Redis server. May be given several times for one cache.",
        metavar="<cache>,<setting>=<value>",
    )
    response_cache_byte_size: int = option(0, "Deprecated: use --cache-config local,size=<bytes>.")

    def __post_init__(self) -> None:
        if self.cache_config and self.response_cache_byte_size:
            raise InvalidArgumentError(
                "Incompatible flags --response-cache-byte-size and --cache-config both provided. Please provide one "
                "or the other."
            )
        self.settings  # noqa: B018 - refuse malformed values now

    @property
    def settings(self) -> dict[str, dict[str, str]]:
        """Cache → its settings, later ones win."""
        if self.response_cache_byte_size:
            return {"local": {"size": str(self.response_cache_byte_size)}}
        caches: dict[str, dict[str, str]] = {}
        for text in self.cache_config:
            name, setting, value = _parse(text)
            caches.setdefault(name, {})[setting] = value
        return caches

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to say about the deprecated flag, Triton's words."""
        if not self.response_cache_byte_size:
            return ()
        size = self.response_cache_byte_size
        warning = (
            "Warning: '--response-cache-byte-size' has been deprecated! This will default to the 'local' cache "
            "implementation with the provided byte size for its config. Please use '--cache-config' instead. The "
            f"equivalent --cache-config CLI args would be: '--cache-config=local,size={size}'"
        )
        return (warning,)

    def make(self, directory: str, defaults: Mapping[str, Mapping[str, str]]) -> ResponseCache | None:
        """
        The cache that the flags ask for, if any. Raises InvalidArgumentError; see `load_cache`.

        `defaults` are settings by cache that hold where the flags give no others.
        """
        caches = self.settings
        if len(caches) > 1:
            raise InvalidArgumentError(
                "found multiple cache configurations, but only a single cache is currently supported"
            )
        for name, settings in caches.items():
            return load_cache(name, {**defaults.get(name, {}), **settings}, directory)
        return None


def _parse(text: str) -> tuple[str, str, str]:
    """`<cache>,<setting>=<value>` to its parts. Raises OptionError."""
    name, comma, rest = text.partition(",")
    setting, equals, value = rest.partition("=")
    if not (name and comma):
        raise OptionError(
            "cache-config",
            f"No cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got {text}",
        )
    if not equals:
        raise OptionError(
            "cache-config", f"--cache-config option format is '<cache name>,<setting>=<value>'. Got {text}"
        )
    return name, setting, value
