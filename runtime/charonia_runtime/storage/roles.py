"""
A role of Alibaba Cloud that a pod may take by its own identity: RAM Roles for Service Accounts.

The cluster puts a token of the pod's service account into a file, and names it and the role in the environment. The
Security Token Service gives keys for it, for an hour: `AssumeRoleWithOIDC`, a request that needs no signature.
"""

import http.client
import json
import os
import secrets
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlencode

from charonia_runtime.storage.access import Credentials, as_url
from charonia_runtime.storage.failures import CredentialsError, DeniedError, UnreachableError

_SERVICE: Final = "sts.aliyuncs.com"
_TIMEOUT_SECONDS: Final = 10.0
_AHEAD: Final = timedelta(minutes=5)
"""Keys that end sooner are exchanged: what is signed with them must still arrive."""
_LONGEST_ANSWER: Final = 1 << 16


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Role:
    """Who may be taken, and by what. Safe to use from several threads."""

    role_arn: str
    provider_arn: str
    token_file: Path
    endpoint: str
    """URL of the Security Token Service."""
    now: Callable[[], datetime] = _utc_now
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: tuple[Credentials, datetime] | None = None
    """Keys, and when they end."""

    @classmethod
    def of_environment(cls, region: str, *, internal: bool) -> "Role | None":
        """
        The one that the cluster offers this pod, if it does.

        The service is asked where the bucket is: at the address of `region`, the private one for `internal` buckets.
        """
        names = ("ALIBABA_CLOUD_ROLE_ARN", "ALIBABA_CLOUD_OIDC_PROVIDER_ARN", "ALIBABA_CLOUD_OIDC_TOKEN_FILE")
        role, provider, file = (os.environ.get(name, "") for name in names)
        if not (role and provider and file):
            return None
        host = f"sts{'-vpc' if internal else ''}.{region}.aliyuncs.com" if region else _SERVICE
        return cls(role, provider, Path(file), as_url(os.environ.get("ALIBABA_CLOUD_STS_ENDPOINT", "") or host))

    def credentials(self) -> Credentials:
        """Keys that are valid for some minutes at least. Raises StorageError."""
        with self._lock:
            if self._kept is None or self.now() >= self._kept[1] - _AHEAD:
                self._kept = self._take()
            return self._kept[0]

    def _take(self) -> tuple[Credentials, datetime]:
        try:
            found = self._ask()["Credentials"]
            credentials = Credentials(found["AccessKeyId"], found["AccessKeySecret"], found["SecurityToken"])
            return credentials, datetime.fromisoformat(found["Expiration"])
        except (KeyError, TypeError, ValueError) as error:
            raise UnreachableError(f"{self.endpoint} does not answer as a security token service: {error!r}") from error

    def _ask(self) -> Mapping[str, Mapping[str, str]]:
        form = {
            "Action": "AssumeRoleWithOIDC",
            "Version": "2015-04-01",
            "Format": "JSON",
            "Timestamp": self.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "SignatureNonce": secrets.token_hex(16),
            "RoleArn": self.role_arn,
            "OIDCProviderArn": self.provider_arn,
            "OIDCToken": self._token(),
            "RoleSessionName": "charonia",
        }
        request = urllib.request.Request(self.endpoint, urlencode(form).encode())  # noqa: S310 - an URL of the operator's
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                found: Mapping[str, Mapping[str, str]] = json.loads(answer.read(_LONGEST_ANSWER))
        except urllib.error.HTTPError as error:
            self._refused(error.code, error.read(_LONGEST_ANSWER))
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"no answer from {self.endpoint}: {error}") from error
        return found

    def _refused(self, status: int, body: bytes) -> NoReturn:
        try:
            told = json.loads(body)
            text = f"{told['Code']}: {told['Message']}; request {told.get('RequestId', '')}"
        except (ValueError, KeyError, TypeError):
            text = f"status {status}"
        if status == 429 or status >= 500:
            raise UnreachableError(f"{self.endpoint} asks to come back later ({text})")
        raise DeniedError(f"the pod's service account may not take the role {self.role_arn} ({text})")

    def _token(self) -> str:
        try:
            return self.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialsError(f"cannot read the service account's token: {error}") from error
