"""`s3://`: Amazon S3 and whatever speaks its protocol, through boto3."""

import base64
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import botocore.credentials
import botocore.exceptions
import botocore.session
import urllib3.exceptions
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import CredentialProvider, ReadOnlyCredentials
from typing_extensions import override

from charonia_runtime.storage.access import Access, CredentialsFolder, as_url
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
from charonia_runtime.storage.location import Location
from charonia_runtime.storage.objects import Body, Checksum, StoredObject

logger = logging.getLogger(__name__)

_CHUNK = 1 << 19
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_BUSY = {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Throttling", "ThrottlingException"}
_REGION = "us-east-1"
"""Signed for where nobody names a region; what services other than Amazon's expect."""
_NO_ANSWER = (
    botocore.exceptions.HTTPClientError,
    botocore.exceptions.ConnectionError,
    urllib3.exceptions.HTTPError,
    OSError,
)
_NO_MD5 = ("aws:kms", "aws:kms:dsse")
"""Kinds of encryption with which an entity tag says nothing of the bytes."""


class Store:
    """A prefix of a bucket. Each request is signed with the credentials of its moment."""

    def __init__(self, location: Location, access: Access) -> None:
        self._bucket = location.bucket
        self._prefix = location.prefix
        self._access = access
        self._named: Mapping[str, str] = credentials_file_entry(location) or {}
        self._client = self._connect(as_url(access.endpoint) or location.endpoint or as_url(access.setting("endpoint")))
        self._part_sizes: dict[str, int] = {}

    def list_objects(self) -> Iterator[StoredObject]:
        token: dict[str, str] = {}
        found = False
        while True:
            page = self._call("list_objects_v2", Prefix=self._prefix, **token)
            for entry in page.get("Contents", ()):
                found = True
                key = entry["Key"][len(self._prefix) :]
                yield StoredObject(key, entry["Size"], entry["ETag"].strip('"'))
            if not page.get("IsTruncated"):
                break
            token = {"ContinuationToken": page["NextContinuationToken"]}
        if not found:
            raise nothing_at(self._bucket, self._prefix, self._has)

    def open_object(self, item: StoredObject, start: int, stop: int) -> Body:
        key = self._prefix + item.key
        wanted: dict[str, str] = {} if (start, stop) == (0, item.size) else {"Range": f"bytes={start}-{stop - 1}"}
        answer = self._call("get_object", key=item.key, Key=key, IfMatch=f'"{item.tag}"', **wanted)
        body = answer["Body"]
        checksum = None if wanted else _uploaders_checksum(answer)
        checksum = checksum or self._checksum(item, answer, first=start == 0)
        return Body(self._read(body, item.key), body.close, checksum)

    def close(self) -> None:
        self._client.close()

    def _has(self, prefix: str) -> bool:
        return bool(self._call("list_objects_v2", Prefix=prefix, MaxKeys=1).get("Contents"))

    def _connect(self, endpoint: str) -> Any:
        access, named = self._access, self._named
        session = botocore.session.Session(profile=named.get("profile") or None)
        if access.folder is not None:
            session.get_component("credential_provider").insert_before("env", _FolderProvider(access.folder))
        elif named.get("key_id"):
            session.set_credentials(named["key_id"], named.get("secret_key", ""), named.get("session_token") or None)
        try:
            anonymous = access.anonymous or session.get_credentials() is None
            client = boto3.Session(botocore_session=session).client(
                "s3",
                endpoint_url=endpoint or None,
                region_name=access.setting("region")
                or named.get("region")
                or session.get_config_variable("region")
                or _REGION,
                verify=access.ca_bundle or None,
                config=Config(
                    signature_version=UNSIGNED if anonymous else "s3v4",
                    connect_timeout=min(10.0, access.timeout_seconds),
                    read_timeout=access.timeout_seconds,
                    max_pool_connections=access.connections,
                    retries={"total_max_attempts": 1},
                    response_checksum_validation="when_required",
                    s3={"addressing_style": self._style(endpoint)},
                ),
            )
            client.meta.events.register("before-call.s3.GetObject", _ask_for_checksums)
        except (botocore.exceptions.BotoCoreError, ValueError) as error:
            raise LocationError(f"cannot reach the bucket '{self._bucket}': {error}") from error
        return client

    def _style(self, endpoint: str) -> str:
        if self._access.addressing_style == "auto":
            return "path" if endpoint and ".amazonaws.com" not in endpoint else "auto"
        return self._access.addressing_style

    def _read(self, body: Any, key: str) -> Iterator[bytes]:
        try:
            while chunk := body.read(_CHUNK):
                yield chunk
        except (botocore.exceptions.BotoCoreError, urllib3.exceptions.HTTPError, OSError) as error:
            raise UnreachableError(f"the connection broke while '{key}' was read: {error}") from error

    def _checksum(self, item: StoredObject, answer: Mapping[str, Any], *, first: bool) -> Checksum | None:
        if answer.get("ServerSideEncryption") in _NO_MD5 or answer.get("SSECustomerAlgorithm"):
            return None
        digest, dash, parts = item.tag.partition("-")
        if len(digest) != 32 or not set(digest) <= set("0123456789abcdef"):
            return None
        if not dash:
            return Checksum("md5", item.tag)
        if not first or not parts.isdecimal():
            return None
        size = self._part_size(item)
        fits = size > 0 and -(-item.size // size) == int(parts)
        return Checksum("md5-parts", item.tag, size) if fits else None

    def _part_size(self, item: StoredObject) -> int:
        """How large the parts were that an object was uploaded in; 0 where the service does not tell."""
        try:
            head = self._call("head_object", key=item.key, Key=self._prefix + item.key, PartNumber=1)
        except (DeniedError, LocationError, MissingError):
            return 0
        return int(head["ContentLength"]) if head.get("PartsCount") else 0

    # --- failures ---

    def _call(self, operation: str, key: str = "", **arguments: Any) -> Any:
        try:
            return getattr(self._client, operation)(Bucket=self._bucket, **arguments)
        except botocore.exceptions.ClientError as error:
            raise self._refusal(error, key) from error
        except botocore.exceptions.SSLError as error:
            raise DeniedError(f"the service's certificate is not trusted: {error}") from error
        except _NO_ANSWER as error:
            why = getattr(error, "kwargs", {}).get("error", error)  # botocore's own words leave the cause out
            raise UnreachableError(f"no answer from {self._client.meta.endpoint_url}: {why}") from error
        except (botocore.exceptions.NoCredentialsError, botocore.exceptions.CredentialRetrievalError) as error:
            raise CredentialsError(str(error)) from error
        except botocore.exceptions.BotoCoreError as error:
            raise LocationError(f"cannot use the bucket '{self._bucket}': {error}") from error

    def _refusal(self, error: Any, key: str) -> StorageError:
        metadata, details = error.response.get("ResponseMetadata", {}), error.response.get("Error", {})
        status, code = metadata.get("HTTPStatusCode", 0), str(details.get("Code", ""))
        text = f"{code}: {details.get('Message', '')}".rstrip(": ")
        if code in _BUSY or status == 429 or status >= 500:
            seconds = str(metadata.get("HTTPHeaders", {}).get("retry-after", ""))
            return UnreachableError(
                f"the service asks to come back later ({text})",
                retry_after_seconds=int(seconds) if seconds.isdecimal() else 0,
            )
        if key and status in {404, 412, 416}:
            return ChangedError(f"'{key}' changed or vanished while it was copied ({code})")
        if status == 404:
            return MissingError(f"there is no bucket '{self._bucket}' ({text})")
        if status in {400, 401, 403}:
            request = metadata.get("RequestId", "")
            return DeniedError(
                f"access to the bucket '{self._bucket}' is denied ({text}; key {self._masked()}; request {request})",
                expired=code in _EXPIRED,
            )
        return LocationError(f"the bucket '{self._bucket}' cannot be used ({status} {text})")

    def _masked(self) -> str:
        if self._access.folder is not None:
            return self._access.folder.credentials().masked
        credentials = self._client._request_signer._credentials  # noqa: SLF001 - the only way to what was signed with
        return f"{credentials.access_key[:4]}****" if credentials else "none, the request was not signed"


def _ask_for_checksums(params: Any, **_: Any) -> None:
    """By the header alone: botocore would compute them as well where it is told by a parameter."""
    params["headers"]["x-amz-checksum-mode"] = "ENABLED"


def _uploaders_checksum(answer: Mapping[str, Any]) -> Checksum | None:
    """
    Of the whole object, computed where it was uploaded, as SDKs do since 2025.

    It covers the way to the store, too, which an entity tag does not, and costs less.
    """
    if answer.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT":
        return None
    for field, algorithm in (("ChecksumSHA256", "sha256"), ("ChecksumCRC32", "crc32")):
        try:
            value = base64.b64decode(answer.get(field, ""), validate=True)
        except ValueError:
            continue  # of the parts of an upload
        if value:
            return Checksum(algorithm, value.hex())
    return None


class _FolderCredentials(botocore.credentials.Credentials):  # type: ignore[misc]
    """What botocore's signers ask for credentials; answers with those of the folder as they are now."""

    def __init__(self, folder: CredentialsFolder) -> None:
        found = folder.credentials()
        super().__init__(found.key_id, found.secret, found.token or None, method=_FolderProvider.METHOD)
        self._folder = folder

    @override
    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        found = self._folder.credentials()
        return ReadOnlyCredentials(found.key_id, found.secret, found.token or None, None)


class _FolderProvider(CredentialProvider):  # type: ignore[misc]
    """Puts the folder first in botocore's chain."""

    METHOD = "charonia-folder"
    CANONICAL_NAME = "charonia-folder"

    def __init__(self, folder: CredentialsFolder) -> None:
        super().__init__()
        self._folder = folder

    @override
    def load(self) -> _FolderCredentials:
        return _FolderCredentials(self._folder)
