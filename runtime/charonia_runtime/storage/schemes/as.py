"""`as://`: Azure Blob Storage, through azure-storage-blob."""

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests
from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import DefaultAzureCredential, ManagedIdentityCredential
from azure.storage.blob import ContainerClient

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
_IDENTITIES = ("managed_identity", "default")
"""The values of AZURE_STORAGE_AUTH_TYPE that ask for a token of Microsoft Entra ID, as in Triton."""
_VARIABLES = {
    "name": "AZURE_STORAGE_ACCOUNT",
    "key": "AZURE_STORAGE_KEY",
    "sas": "AZURE_STORAGE_SAS_TOKEN",
    "identity": "AZURE_STORAGE_AUTH_TYPE",
    "client_id": "AZURE_STORAGE_CLIENT_ID",
}
_SETTINGS_OF_FILE = {
    "name": "account_str", "key": "account_key", "identity": "auth_type", "client_id": "client_id",
}  # fmt: skip
"""The names that Triton's credential file has for the same."""
_BUSY = {"ServerBusy", "OperationTimedOut", "InternalError"}

logging.getLogger("azure").setLevel(logging.CRITICAL)
"""The library logs what it raises as well."""


@dataclass(frozen=True, slots=True)
class _Account:
    """A storage account and what opens it. At most one of `key`, `sas` and `identity` is given."""

    name: str
    key: str = field(default="", repr=False)
    sas: str = field(default="", repr=False)
    identity: str = ""
    client_id: str = ""


class Store:
    """A prefix of a container. The account's key is read again as its folder changes."""

    def __init__(self, location: Location, access: Access) -> None:
        self._name = location.bucket
        self._prefix = location.prefix
        self._location = location
        self._access = access
        self._lock = threading.Lock()
        self._opened: tuple[_Account, ContainerClient] | None = None
        self._container()

    def list_objects(self) -> Iterator[StoredObject]:
        found = False
        for blob in self._list(self._prefix, _PAGE):
            found = True
            # An account with a hierarchical namespace marks its directories so.
            is_folder = (blob.metadata or {}).get("hdi_isfolder") == "true" and not blob.name.endswith("/")
            key = blob.name[len(self._prefix) :] + ("/" if is_folder else "")
            yield StoredObject(key, blob.size, blob.etag.strip('"'))
        if not found:
            raise nothing_at(self._name, self._prefix, self._has, "container")

    def open_object(self, item: StoredObject, start: int, stop: int) -> Body:
        blob = self._container().get_blob_client(self._prefix + item.key)
        stream = self._call(
            lambda: blob.download_blob(
                offset=start,
                length=stop - start,
                etag=f'"{item.tag}"',
                match_condition=MatchConditions.IfNotModified,
                max_concurrency=1,
            ),
            item.key,
        )
        md5 = stream.properties.content_settings.content_md5
        checksum = Checksum("md5", bytes(md5).hex()) if md5 else None
        return Body(self._read(stream, item.key), lambda: None, checksum)

    def close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()

    def _list(self, prefix: str, most: int) -> Iterator[Any]:
        pages = self._call(
            lambda: (
                self._container()
                .list_blobs(name_starts_with=prefix, include=["metadata"], results_per_page=most)
                .by_page()
            )
        )
        while (page := self._call(lambda: next(pages, None))) is not None:
            yield from page

    def _has(self, prefix: str) -> bool:
        return next(self._list(prefix, 1), None) is not None

    def _read(self, stream: Any, key: str) -> Iterator[bytes]:
        chunks = stream.chunks()
        while (chunk := self._call(lambda: next(chunks, None), key)) is not None:
            yield chunk

    # --- credentials ---

    def _container(self) -> ContainerClient:
        account = self._account()
        with self._lock:
            if self._opened is None or self._opened[0] != account:
                self._opened = account, self._connect(account)
            return self._opened[1]

    def _account(self) -> _Account:
        """The account of this moment. That of the credentials comes before that of the URI, as in Triton."""
        access, named = self._access, self._location.account
        if access.anonymous:
            return _Account(named)
        if access.folder is not None:
            held = access.folder.content()
            if not (held.secret or held.token):
                raise CredentialsError(
                    "the credentials folder has no accessKeySecret: expected a file accessKeySecret or "
                    "AZURE_STORAGE_KEY with the account's key, or sasToken"
                )
            return _Account(held.key_id or named, held.secret, "" if held.secret else held.token)
        entry = credentials_file_entry(self._location)
        if entry is not None:
            found = {name: entry.get(setting, "") for name, setting in _SETTINGS_OF_FILE.items()}
        else:
            found = {name: os.environ.get(variable, "") for name, variable in _VARIABLES.items()}
        return _of_settings(named, found)

    def _connect(self, account: _Account) -> ContainerClient:
        access = self._access
        session = mount(requests.Session(), access)
        try:
            return ContainerClient(
                self._url(account),
                self._name,
                _credential(account),
                transport=RequestsTransport(
                    session=session,
                    session_owner=False,
                    connection_timeout=min(10.0, access.timeout_seconds),
                    read_timeout=access.timeout_seconds,
                ),
                retry_total=0,
                max_single_get_size=_PIECE,
                max_chunk_get_size=_PIECE,
            )
        except (ValueError, TypeError) as error:
            raise LocationError(f"cannot reach the container '{self._name}': {error}") from error

    def _url(self, account: _Account) -> str:
        given = as_url(self._access.setting("endpoint") or os.environ.get("AZURE_STORAGE_ENDPOINT", ""))
        if given:
            return given
        if account.name == self._location.account and self._location.endpoint:
            return self._location.endpoint
        return f"https://{account.name}.blob.core.windows.net"

    # --- failures ---

    def _call(self, call: Any, key: str = "") -> Any:
        try:
            return call()
        except HttpResponseError as error:
            raise self._refusal(error, key) from error
        except (ServiceRequestError, ServiceResponseError, OSError) as error:
            if isinstance(getattr(error, "inner_exception", None), requests.exceptions.SSLError):
                raise DeniedError(f"the service's certificate is not trusted: {error}") from error
            raise UnreachableError(f"no answer from {self._at()}: {error}") from error
        except AzureError as error:
            raise CredentialsError(f"cannot use the container '{self._name}': {error}") from error
        except ValueError as error:
            raise UnreachableError(f"{self._at()} does not answer as Azure Blob Storage does: {error}") from error

    def _refusal(self, error: Any, key: str) -> StorageError:
        status, code = error.status_code or 0, getattr(error, "error_code", None) or error.reason or ""
        code = str(getattr(code, "value", code))
        headers = error.response.headers if error.response is not None else {}
        text = f"{code}: {_first_line(error)}".strip(": ")
        if not status:
            return CredentialsError(f"the request could not be signed: {text}")
        if code in _BUSY or status == 429 or status >= 500:
            seconds = headers.get("Retry-After", "")
            return UnreachableError(
                f"the service asks to come back later ({text})",
                retry_after_seconds=int(seconds) if seconds.isdecimal() else 0,
            )
        if key and status in {404, 412, 416}:
            return ChangedError(f"'{key}' changed or vanished while it was copied ({code})")
        if status == 404:
            return MissingError(f"there is no container '{self._name}' at {self._at()} ({text})")
        if status in {400, 401, 403, 409}:
            request = headers.get("x-ms-request-id", "")
            return DeniedError(
                f"access to the container '{self._name}' is denied ({text}; account {self._who()}; request {request})",
                expired=status == 401,
            )
        return LocationError(f"the container '{self._name}' cannot be used ({status} {text})")

    def _at(self) -> str:
        return self._url(self._opened[0]) if self._opened else "Azure Blob Storage"

    def _who(self) -> str:
        account = self._opened[0] if self._opened else _Account(self._location.account)
        signed = account.key or account.sas or account.identity
        return account.name if signed else f"{account.name}, the request was not signed"


def _of_settings(named: str, settings: Mapping[str, str]) -> _Account:
    """The account that the URI names, or that of the `settings`. Raises CredentialsError."""
    identity, key = settings["identity"], settings["key"]
    sas = settings.get("sas", "")
    if identity and identity not in _IDENTITIES:
        raise CredentialsError(f"AZURE_STORAGE_AUTH_TYPE must be {' or '.join(_IDENTITIES)}, got '{identity}'")
    if not (key or sas or identity) and os.environ.get("AZURE_FEDERATED_TOKEN_FILE"):
        identity = "default"  # a pod with a workload identity
    name = settings["name"] or named
    if identity:
        return _Account(name, identity=identity, client_id=settings["client_id"])
    return _Account(name, key, "" if key else sas)


def _credential(account: _Account) -> Any:
    """What the library signs with; None for anonymous requests."""
    if account.identity == "managed_identity":
        return ManagedIdentityCredential(client_id=account.client_id or None)
    if account.identity:
        names = ("managed_identity_client_id", "workload_identity_client_id") if account.client_id else ()
        return DefaultAzureCredential(**dict.fromkeys(names, account.client_id))
    if account.key:
        return AzureNamedKeyCredential(account.name, account.key)
    return AzureSasCredential(account.sas) if account.sas else None


def _first_line(error: Any) -> str:
    """The service's message without the request's id and time, which it puts on lines of their own."""
    return str(error.message or "").partition("\n")[0].strip()
