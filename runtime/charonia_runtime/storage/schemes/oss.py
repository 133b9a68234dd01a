"""`oss://`: Alibaba Cloud's Object Storage Service, through oss2."""

import logging
import os
import re
from collections.abc import Iterator
from typing import Any

import oss2
import requests
from oss2.credentials import Credentials as OssCredentials
from oss2.credentials import CredentialsProvider
from typing_extensions import override

from charonia_runtime.storage.access import Access, Credentials, as_url
from charonia_runtime.storage.checksums import crc64_is_fast
from charonia_runtime.storage.failures import (
    ChangedError,
    CredentialsError,
    DeniedError,
    LocationError,
    MissingError,
    StorageError,
    UnreachableError,
    nothing_at,
)
from charonia_runtime.storage.http_adapter import StoreAdapter
from charonia_runtime.storage.location import Location
from charonia_runtime.storage.objects import Body, Checksum, StoredObject
from charonia_runtime.storage.roles import Role

logger = logging.getLogger(__name__)

_CHUNK = 1 << 20
_PAGE = 1000
_EXPIRED = {"SecurityTokenExpired", "InvalidSecurityToken"}
_BUSY = {"RequestTimeout", "SlowDown", "QpsLimitExceeded", "DownloadTrafficRateLimitExceeded"}
_REGION_OF_HOST = re.compile(r"oss-([a-z0-9-]+?)(?:-internal)?\.aliyuncs\.com")

logging.getLogger("oss2").setLevel(logging.CRITICAL)
"""oss2 logs what it raises as well."""


class Store:
    """A prefix of a bucket. Each request is signed with the credentials of its moment."""

    def __init__(self, location: Location, access: Access) -> None:
        self._name = location.bucket
        self._prefix = location.prefix
        self._access = access
        endpoint = (
            as_url(access.endpoint)
            or location.endpoint
            or as_url(access.setting("endpoint") or os.environ.get("OSS_ENDPOINT", ""))
        )
        if not endpoint:
            raise LocationError(
                f"oss://{self._name} needs an endpoint, for example oss-cn-hangzhou.aliyuncs.com: give --endpoint, "
                "OSS_ENDPOINT, or oss://<bucket>.<endpoint>/<path>"
            )
        self._endpoint = endpoint
        self._role = self._find_role()
        self._session = oss2.Session(adapter=StoreAdapter(access))
        self._bucket = self._connect()
        self._verifies = crc64_is_fast()
        if not self._verifies:
            logger.warning(
                "objects of OSS are not held against their CRC-64: crcmod was installed without its extension"
            )

    def list_objects(self) -> Iterator[StoredObject]:
        token = ""
        found = False
        while True:
            page = self._call("list_objects_v2", prefix=self._prefix, continuation_token=token, max_keys=_PAGE)
            for entry in page.object_list:
                found = True
                yield StoredObject(entry.key[len(self._prefix) :], entry.size, entry.etag.strip('"'))
            if not page.is_truncated:
                break
            token = page.next_continuation_token
        if not found:
            raise nothing_at(self._name, self._prefix, self._has)

    def open_object(self, item: StoredObject, start: int, stop: int) -> Body:
        byte_range = None if (start, stop) == (0, item.size) else (start, stop - 1)
        answer = self._call(
            "get_object",
            self._prefix + item.key,
            key=item.key,
            byte_range=byte_range,
            headers={"If-Match": f'"{item.tag}"'},
        )
        crc = answer.headers.get("x-oss-hash-crc64ecma", "")
        checksum = Checksum("crc64", str(int(crc))) if crc.isdecimal() and self._verifies else None
        return Body(self._read(answer, item.key), answer.close, checksum)

    def close(self) -> None:
        self._session.session.close()

    def _has(self, prefix: str) -> bool:
        return bool(self._call("list_objects_v2", prefix=prefix, max_keys=1).object_list)

    def _connect(self) -> Any:
        access, region = self._access, self._region()
        try:
            return oss2.Bucket(
                self._auth(region),
                self._endpoint,
                self._name,
                session=self._session,
                connect_timeout=(min(10.0, access.timeout_seconds), access.timeout_seconds),
                region=region or None,
                enable_crc=False,
                is_path_style=access.addressing_style == "path",
            )
        except oss2.exceptions.ClientError as error:
            raise LocationError(f"cannot use the bucket '{self._name}': {error.body}") from error

    def _region(self) -> str:
        found = _REGION_OF_HOST.search(self._endpoint)
        return self._access.setting("region") or os.environ.get("OSS_REGION", "") or (found[1] if found else "")

    def _auth(self, region: str) -> Any:
        if self._role is None and self._credentials() is None:
            return oss2.AnonymousAuth()
        provider = _Provider(self)
        return oss2.ProviderAuthV4(provider) if region else oss2.ProviderAuth(provider)

    def _credentials(self) -> Credentials | None:
        """Those of this moment; None for anonymous requests."""
        if self._access.anonymous:
            return None
        if self._access.folder is not None:
            return self._access.folder.credentials()
        return _of_environment() or (self._role.credentials() if self._role else None)

    def _find_role(self) -> Role | None:
        """The pod's own, where nobody gives keys."""
        if self._access.anonymous or self._access.folder is not None or _of_environment():
            return None
        return Role.of_environment(self._region(), internal="-internal." in self._endpoint)

    def _read(self, answer: Any, key: str) -> Iterator[bytes]:
        try:
            while chunk := answer.read(_CHUNK):
                yield chunk
        except (oss2.exceptions.OssError, requests.RequestException, OSError) as error:
            raise UnreachableError(f"the connection broke while '{key}' was read: {error}") from error

    # --- failures ---

    def _call(self, operation: str, *arguments: Any, key: str = "", **options: Any) -> Any:
        try:
            return getattr(self._bucket, operation)(*arguments, **options)
        except oss2.exceptions.RequestError as error:
            raise self._no_answer(error) from error
        except oss2.exceptions.ServerError as error:
            raise self._refusal(error, key) from error
        except oss2.exceptions.OssError as error:
            raise LocationError(f"cannot use the bucket '{self._name}': {error.body}") from error

    def _no_answer(self, error: Any) -> StorageError:
        if isinstance(error.exception, requests.exceptions.SSLError):
            return DeniedError(f"the service's certificate is not trusted: {error.exception}")
        return UnreachableError(f"no answer from {self._endpoint}: {error.exception}")

    def _refusal(self, error: Any, key: str) -> StorageError:
        status, code = error.status, error.code
        text = f"{code}: {error.message}".rstrip(": ")
        if code in _BUSY or status == 429 or status >= 500:
            seconds = error.headers.get("Retry-After", "")
            return UnreachableError(
                f"the service asks to come back later ({text})",
                retry_after_seconds=int(seconds) if seconds.isdecimal() else 0,
            )
        if key and status in {404, 412, 416}:
            return ChangedError(f"'{key}' changed or vanished while it was copied ({code})")
        if status == 404:
            return MissingError(f"there is no bucket '{self._name}' at {self._endpoint} ({text})")
        if status in {400, 401, 403}:
            credentials = self._credentials()
            masked = credentials.masked if credentials else "none, the request was not signed"
            return DeniedError(
                f"access to the bucket '{self._name}' is denied ({text}; key {masked}; request {error.request_id})",
                expired=code in _EXPIRED,
            )
        return LocationError(f"the bucket '{self._name}' cannot be used ({status} {text})")


def _of_environment() -> Credentials | None:
    key_id, secret = os.environ.get("OSS_ACCESS_KEY_ID"), os.environ.get("OSS_ACCESS_KEY_SECRET")
    return Credentials(key_id, secret, os.environ.get("OSS_SESSION_TOKEN", "")) if key_id and secret else None


class _Provider(CredentialsProvider):  # type: ignore[misc]
    """What oss2 asks for credentials before it signs a request."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @override
    def get_credentials(self) -> OssCredentials:
        found = self._store._credentials()  # noqa: SLF001 - one module
        if found is None:
            raise CredentialsError("the credentials vanished from the environment")
        return OssCredentials(found.key_id, found.secret, found.token)
