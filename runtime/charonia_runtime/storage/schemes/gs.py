"""`gs://`: Google Cloud Storage, through google-cloud-storage."""

import base64
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import google.auth
import google.auth.exceptions
import google.cloud.exceptions
import google_crc32c
import requests
import urllib3.exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession, Request
from google.cloud import storage
from google.oauth2 import service_account

from charonia_runtime.storage.access import Access, as_url
from charonia_runtime.storage.credentials_file import credentials_file_entry
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
from charonia_runtime.storage.http_adapter import mount
from charonia_runtime.storage.location import Location
from charonia_runtime.storage.objects import Body, Checksum, StoredObject

_PIECE = 4 << 20
"""Bytes of one request: the library keeps an answer in memory until it is whole."""
_PAGE = 1000
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_only",)
_FIELDS = "items(name,size,generation),nextPageToken"
_KEY = "serviceAccountKey"
_NO_ANSWER = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    google.auth.exceptions.TransportError,
    OSError,
)

os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
"""Else the library asks for the bucket's description in a thread of its own, for traces that nobody collects."""
logging.getLogger("google.auth").setLevel(logging.CRITICAL)
"""The library logs what it raises as well."""


class Store:
    """A prefix of a bucket. A service account's key is read again as its folder changes."""

    def __init__(self, location: Location, access: Access) -> None:
        self._name = location.bucket
        self._prefix = location.prefix
        self._location = location
        self._access = access
        self._endpoint = as_url(access.setting("endpoint")) or location.endpoint
        self._lock = threading.Lock()
        self._opened: tuple[str, Any] | None = None
        """The key that the client was made with, and the client."""
        self._client()

    def list_objects(self) -> Iterator[StoredObject]:
        found = False
        for blob in self._list(self._prefix, _PAGE):
            found = True
            yield StoredObject(blob.name[len(self._prefix) :], blob.size, str(blob.generation))
        if not found:
            raise nothing_at(self._name, self._prefix, self._has)

    def open_object(self, item: StoredObject, start: int, stop: int) -> Body:
        blob = self._client().bucket(self._name).blob(self._prefix + item.key)
        first = self._fetch(blob, item, start, min(start + _PIECE, stop))
        return Body(self._read(blob, item, first, start, stop), lambda: None, _checksum(blob))

    def close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()

    def _list(self, prefix: str, most: int) -> Iterator[Any]:
        pages = self._call(
            lambda: iter(
                self._client()
                .list_blobs(
                    self._name, prefix=prefix, page_size=most, fields=_FIELDS,
                    retry=None, timeout=self._access.timeout_seconds,
                )
                .pages
            )
        )  # fmt: skip
        while (page := self._call(lambda: next(pages, None))) is not None:
            yield from page

    def _has(self, prefix: str) -> bool:
        return next(self._list(prefix, 1), None) is not None

    def _read(self, blob: Any, item: StoredObject, first: bytes, start: int, stop: int) -> Iterator[bytes]:
        piece = first
        while piece:
            yield piece
            start += len(piece)
            if start >= stop:
                return
            piece = self._fetch(blob, item, start, min(start + _PIECE, stop))

    def _fetch(self, blob: Any, item: StoredObject, start: int, stop: int) -> bytes:
        found: bytes = self._call(
            lambda: blob.download_as_bytes(
                start=start,
                end=stop - 1,
                raw_download=True,
                if_generation_match=int(item.tag),
                checksum=None,
                retry=None,
                timeout=self._access.timeout_seconds,
            ),
            item.key,
        )
        return found

    # --- credentials ---

    def _client(self) -> Any:
        key = self._key_of_folder()
        with self._lock:
            if self._opened is None or self._opened[0] != key:
                self._opened = key, self._connect(key)
            return self._opened[1]

    def _key_of_folder(self) -> str:
        folder = self._access.folder
        return "" if folder is None or self._access.anonymous else folder.credentials((_KEY,)).document

    def _connect(self, key: str) -> Any:
        credentials = self._credentials(key)
        session = AuthorizedSession(credentials, auth_request=Request(mount(requests.Session(), self._access)))
        return storage.Client(
            project=None,
            credentials=credentials,
            _http=mount(session, self._access),
            client_options={"api_endpoint": self._endpoint} if self._endpoint else None,
        )

    def _credentials(self, key: str) -> Any:
        """As Triton finds them: a key of the user's, what Google's library finds by itself, none."""
        if self._access.anonymous:
            return AnonymousCredentials()
        file = ""
        try:
            if key:
                return service_account.Credentials.from_service_account_info(json.loads(key), scopes=_SCOPES)
            file = credentials_file_entry(self._location)
            if file:
                return service_account.Credentials.from_service_account_file(file, scopes=_SCOPES)
            return google.auth.default(scopes=_SCOPES)[0]
        except (ValueError, KeyError, TypeError, OSError, google.auth.exceptions.GoogleAuthError) as error:
            if not (key or file or os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")):
                return AnonymousCredentials()
            raise CredentialsError(f"the key of Google's service account cannot be used: {error}") from error

    # --- failures ---

    def _call(self, call: Any, key: str = "") -> Any:
        try:
            return call()
        except google.cloud.exceptions.GoogleCloudError as error:
            raise self._refusal(error, key) from error
        except google.auth.exceptions.RefreshError as error:
            raise self._denied(_told(error)) from error
        except google.auth.exceptions.InvalidOperation as error:
            raise self._denied("the service asks for credentials") from error
        except _NO_ANSWER as error:
            if isinstance(error, requests.exceptions.SSLError) or isinstance(
                error.args[0] if error.args else None, requests.exceptions.SSLError
            ):
                raise DeniedError(f"the service's certificate is not trusted: {error}") from error
            raise UnreachableError(f"no answer from {self._endpoint or 'Google Cloud Storage'}: {error}") from error
        except google.auth.exceptions.GoogleAuthError as error:
            raise CredentialsError(str(error)) from error

    def _refusal(self, error: Any, key: str) -> StorageError:
        status = int(error.code or 0)
        told = error.errors[0] if error.errors else {}
        text = f"{told.get('reason', status)}: {told.get('message', '')}".rstrip(": ")
        if status in {408, 429} or status >= 500:
            seconds = error.response.headers.get("Retry-After", "") if error.response is not None else ""
            return UnreachableError(
                f"the service asks to come back later ({text})",
                retry_after_seconds=int(seconds) if seconds.isdecimal() else 0,
            )
        if key and status in {404, 412, 416}:
            return ChangedError(f"'{key}' changed or vanished while it was copied ({text})")
        if status == 404:
            return MissingError(f"there is no bucket '{self._name}' ({text})")
        if status in {400, 401, 403}:
            return self._denied(text, expired=status == 401)
        return LocationError(f"the bucket '{self._name}' cannot be used ({status} {text})")

    def _denied(self, text: str, *, expired: bool = False) -> StorageError:
        return DeniedError(f"access to the bucket '{self._name}' is denied ({text}; {self._who()})", expired=expired)

    def _who(self) -> str:
        credentials = self._opened[1]._credentials if self._opened else None  # noqa: SLF001 - the only way to them
        if credentials is None or isinstance(credentials, AnonymousCredentials):
            return "no credentials, the request was not signed"
        return f"account {getattr(credentials, 'service_account_email', 'of the environment')}"


def _told(error: Any) -> str:
    """What the token service said, without its whole answer."""
    return str(error.args[0]) if error.args else str(error)


def _checksum(blob: Any) -> Checksum | None:
    """Of the whole object, from the headers of its first piece. Objects that were composed have no MD5."""
    if blob.crc32c and google_crc32c.implementation == "c":
        return Checksum("crc32c", base64.b64decode(blob.crc32c).hex())
    return Checksum("md5", base64.b64decode(blob.md5_hash).hex()) if blob.md5_hash else None
