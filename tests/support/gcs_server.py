"""A fake of Google Cloud Storage and of the token service beside it: a token for each signed assertion, for reading."""

import base64
import json
import secrets
from functools import cache
from urllib.parse import parse_qs, unquote

import google_crc32c
import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.buckets import Answer, BucketServer, Bytes, Request

ACCOUNT = "reader@project.iam.gserviceaccount.com"
_AUDIENCE = "https://oauth2.googleapis.com/token"


class GcsServer(BucketServer):
    """`keys` maps a service account to its private key, as PEM. Tokens are those that were given and not revoked."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = {ACCOUNT: (_private_key(), "")}
        self.tokens: set[str] = set()
        self.composed: set[str] = set()
        """Keys of objects that were composed of others: they have no MD5."""
        self._checksums: dict[str, str] = {}

    def document(self, key: str = "", account: str = ACCOUNT) -> str:
        """The JSON key of a service account, as users download it; `key` in the place of the one that it has now."""
        return json.dumps({
            "type": "service_account", "project_id": "project", "private_key_id": "1", "client_email": account,
            "private_key": key or self.keys[account][0], "client_id": "1", "token_uri": f"{self.url}/token",
        })  # fmt: skip

    def put(self, key: str, body: bytes = b"", part_size: int = 0) -> None:
        super().put(key, body, part_size)
        self._checksums[key] = base64.b64encode(google_crc32c.Checksum(body).digest()).decode()

    def place(self, path: str) -> tuple[str, str]:
        _, found, rest = path.partition("/storage/v1/b/")
        bucket, _, key = rest.partition("/o")
        return (unquote(bucket), unquote(key.removeprefix("/"))) if found else ("", "")

    def posted(self, path: str, body: bytes) -> Answer:
        assert path == "/token", path
        assertion = parse_qs(body.decode())["assertion"][0]
        account = jwt.decode(assertion, options={"verify_signature": False})["iss"]
        try:
            key = serialization.load_pem_private_key(self.keys[account][0].encode(), None).public_key()
            jwt.decode(assertion, key, algorithms=["RS256"], audience=_AUDIENCE)
        except (jwt.InvalidTokenError, KeyError):
            return _json(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
        token = secrets.token_hex(8)
        self.tokens.add(token)
        return _json(200, {"access_token": token, "expires_in": 3600, "token_type": "Bearer"})

    def refusal(self, request: Request) -> Answer | None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            return self.error(401, "required", "Anonymous caller does not have storage.objects.list access.")
        if token not in self.tokens or not self.keys:
            return self.error(401, "authError", "Invalid Credentials")
        return None

    def error(self, status: int, code: str, message: str = "") -> Answer:
        code = {"NoSuchBucket": "notFound", "NoSuchKey": "notFound", "PreconditionFailed": "conditionNotMet"}.get(
            code, code
        )
        return _json(status, {
            "error": {"code": status, "message": message, "errors": [{"message": message, "reason": code}]},
        })  # fmt: skip

    def listing(self, request: Request, keys: list[str], next_token: str) -> Answer:
        items = [
            {"name": key, "size": str(len(self.objects[key].body)), "generation": str(self._generation(key))}
            for key in keys
        ]
        return _json(200, {"items": items, **({"nextPageToken": next_token} if next_token else {})})

    def object_headers(self, found: Bytes) -> dict[str, str]:
        key = next(key for key, each in self.objects.items() if each is found)
        crc = self._checksums[key]
        md5 = "" if key in self.composed else f",md5={base64.b64encode(bytes.fromhex(found.tag)).decode()}"
        return {"X-Goog-Hash": f"crc32c={crc}{md5}", "X-Goog-Generation": str(self._generation(key))}

    def _list(self, request: Request) -> Answer:
        most = request.parameter("maxResults", "1000")
        request.query += [("continuation-token", request.parameter("pageToken")), ("max-keys", most)]
        return super()._list(request)

    def _object(self, request: Request) -> Answer:
        wanted = request.parameter("ifGenerationMatch")
        if wanted and request.key in self.objects and wanted != str(self._generation(request.key)):
            return self.error(412, "conditionNotMet", "At least one of the pre-conditions did not hold.")
        return super()._object(request)

    def _generation(self, key: str) -> int:
        """A number that differs for each content."""
        return int(self.objects[key].tag[:12], 16) + 1


def _json(status: int, document: object) -> Answer:
    return Answer(status, json.dumps(document).encode(), {"Content-Type": "application/json"})


@cache
def _private_key() -> str:
    return new_private_key()


def new_private_key() -> str:
    """A key of a service account, as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
