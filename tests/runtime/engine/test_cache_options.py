import pytest

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.engine.cache_options import CacheOptions
from charonia_runtime.engine.caches.local import Cache as LocalCache


def test_there_is_no_cache_by_default():
    assert CacheOptions().make("/caches", {}) is None


def test_settings_of_a_cache_are_collected_and_later_ones_win():
    options = CacheOptions(cache_config=("local,size=1", "local,size=2", "local,other=a=b"))

    assert options.settings == {"local": {"size": "2", "other": "a=b"}}
    assert isinstance(options.make("/caches", {}), LocalCache)


def test_the_deprecated_size_makes_a_local_cache_and_a_warning():
    options = CacheOptions(response_cache_byte_size=4096)

    assert options.settings == {"local": {"size": "4096"}}
    assert options.warnings[0].endswith("'--cache-config=local,size=4096'")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("foo", "No cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got foo"),
        (",a=b", "No cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got ,a=b"),
        ("local,foo", "--cache-config option format is '<cache name>,<setting>=<value>'. Got local,foo"),
    ],
)
def test_malformed_values(text: str, detail: str):
    with pytest.raises(OptionError) as raised:
        CacheOptions(cache_config=(text,))

    assert (raised.value.flag, raised.value.message) == ("cache-config", detail)


def test_both_flags_contradict_each_other():
    with pytest.raises(
        InvalidArgumentError, match=r"^Incompatible flags --response-cache-byte-size and --cache-config"
    ):
        CacheOptions(cache_config=("local,size=1",), response_cache_byte_size=1)


def test_only_one_cache():
    with pytest.raises(InvalidArgumentError, match="only a single cache is currently supported"):
        CacheOptions(cache_config=("local,size=1", "redis,host=a")).make("/caches", {})


def test_unknown_caches_are_looked_for_in_the_directory():
    with pytest.raises(
        InvalidArgumentError, match=r"^unable to find 'libtritoncache_foo\.so' for cache\. Searched: /caches$"
    ):
        CacheOptions(cache_config=("foo,size=1",)).make("/caches", {})
