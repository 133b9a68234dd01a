"""
Where a repository lives: URIs to their parts.

    /models, models, file:///models
    s3://bucket/path, s3://host:port/bucket/path, s3://http://host:port/bucket/path, s3://https://…
    oss://bucket/path, oss://bucket.endpoint/path, oss://endpoint/bucket/path
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from charonia_runtime.storage.failures import LocationError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_EXPLICIT_HOST = re.compile(r"(?:(https?)://)?([^/:]+(?::\d+)?)/(.*)", re.DOTALL)
_OSS_HOST = re.compile(r"(?:([a-z0-9][a-z0-9-]*)\.)?(oss-[a-z0-9-]+\.aliyuncs\.com)")


@dataclass(frozen=True, slots=True)
class Location:
    """For folders, `prefix` is the path and `bucket` empty; else `prefix` is empty or ends in `/`."""

    scheme: str
    bucket: str
    prefix: str
    endpoint: str = ""
    """URL of the service where the URI itself names one."""
    account: str = ""
    """The storage account, for schemes whose buckets are named within one."""

    @property
    def uri(self) -> str:
        """For messages and comparisons; without the endpoint."""
        if self.scheme == "file":
            return self.prefix
        account = f"{self.account}/" if self.account else ""
        return f"{self.scheme}://{account}{self.bucket}/{self.prefix}"


def is_remote(uri: str) -> bool:
    """Whether a server needs a copy of the repository."""
    found = _SCHEME.fullmatch(uri)
    return found is not None and found[1].lower() != "file"


def parse_location(uri: str) -> Location:
    """Raises LocationError for what no store can be made of; whether there is one for the scheme is not checked."""
    found = _SCHEME.fullmatch(uri)
    if found is None:
        return _folder(uri)
    scheme, rest = found[1].lower(), found[2]
    if "@" in rest.partition("/")[0]:
        raise LocationError(f"{scheme}:// URIs carry no credentials: give them in the environment or in a folder")
    if scheme == "file":
        return _folder(unquote(rest.removeprefix("localhost")))
    endpoint, rest = _endpoint(scheme, rest)
    account = ""
    if scheme == "as":
        account, _, rest = rest.partition("/")
        account, endpoint = _account(account)
    bucket, _, path = rest.partition("/")
    if scheme == "as" and not (account and bucket):
        raise LocationError(f"'{uri}' names no container: expected as://<account>/<container>/<path>")
    if not bucket:
        raise LocationError(f"'{uri}' names no bucket: expected {scheme}://<bucket>/<path>")
    parts = [part for part in path.split("/") if part]
    if any(part in {".", ".."} for part in parts):
        raise LocationError(f"'{uri}' must not contain '.' or '..'")
    return Location(scheme, bucket, "".join(f"{part}/" for part in parts), endpoint, account)


def _folder(path: str) -> Location:
    if not path or "\0" in path:
        raise LocationError("the folder's path is empty or contains NUL")
    return Location("file", "", path)


def _account(host: str) -> tuple[str, str]:
    """The account that `as://` names by itself or by its host, and the endpoint where the host is given."""
    account, dot, _ = host.partition(".")
    return account, f"https://{host}" if dot else ""


def _endpoint(scheme: str, rest: str) -> tuple[str, str]:
    """The endpoint that the URI names, if it does, and what follows it."""
    host, _, path = rest.partition("/")
    oss_host = _OSS_HOST.fullmatch(host)
    if scheme == "oss" and oss_host:
        bucket, endpoint = oss_host[1], f"https://{oss_host[2]}"
        return endpoint, f"{bucket}/{path}" if bucket else path
    explicit = _EXPLICIT_HOST.fullmatch(rest) if scheme != "as" else None
    if explicit and (explicit[1] or ":" in explicit[2]):
        return f"{explicit[1] or 'http'}://{explicit[2]}", explicit[3]
    return "", rest
