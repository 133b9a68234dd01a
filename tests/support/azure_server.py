"""A fake of Azure Blob Storage: checks shared keys and SAS tokens of every request, lists in pages, tells MD5s."""

import base64
import hashlib
import hmac
from typing import Any
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from tests.support.buckets import Answer, BucketServer, Bytes, Request

_SIGNED_HEADERS = (
    "Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date",
    "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Not-Signed-Range",
)  # fmt: skip


class AzureServer(BucketServer):
    """
    One account whose container is the bucket. `keys` maps the account's name to its key, in base64.

    An account without a hierarchical namespace, but for `folders`: names that it marks as directories.
    """

    def __init__(self) -> None:
        super().__init__()
        self.keys = {"akidreader": (base64.b64encode(b"the-secret").decode(), "")}
        self.sas = ""
        """A SAS token that opens the account as well, as it stands in a query."""
        self.folders: set[str] = set()

    def refusal(self, request: Request) -> Answer | None:
        if self.sas and set(parse_qsl(self.sas)) <= set(request.query):
            return None
        authorization = request.headers.get("Authorization", "")
        if not authorization:
            return self.error(409, "PublicAccessNotPermitted", "Public access is not permitted on this account.")
        account, _, given = authorization.removeprefix("SharedKey ").partition(":")
        if account in self.keys and hmac.compare_digest(self._signature(request, account), given):
            return None
        return self.error(403, "AuthenticationFailed", "Server failed to authenticate the request.")

    def error(self, status: int, code: str, message: str = "") -> Answer:
        code = {"NoSuchBucket": "ContainerNotFound", "NoSuchKey": "BlobNotFound"}.get(code, code)
        code = {"PreconditionFailed": "ConditionNotMet"}.get(code, code)
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}\nRequestId:R-1</Message></Error>"
        return Answer(
            status,
            body.encode(),
            {"Content-Type": "application/xml", "x-ms-request-id": "R-1", "x-ms-error-code": code},
        )

    def listing(self, request: Request, keys: list[str], next_token: str) -> Answer:
        assert request.parameter("comp") == "list", request.raw_query
        body = (
            f"<?xml version='1.0' encoding='utf-8'?><EnumerationResults ContainerName='{self.bucket}'>"
            f"<Prefix>{escape(request.parameter('prefix'))}</Prefix><Blobs>{''.join(self._row(key) for key in keys)}</Blobs><NextMarker>{escape(next_token)}</NextMarker>"
            "</EnumerationResults>"
        )
        return Answer(200, body.encode(), {"Content-Type": "application/xml", "x-ms-request-id": "R-1"})

    def object_headers(self, found: Bytes) -> dict[str, str]:
        md5 = base64.b64encode(bytes.fromhex(found.tag)).decode()
        return {
            "x-ms-blob-type": "BlockBlob",
            "x-ms-request-id": "R-1",
            "x-ms-blob-content-md5": md5,
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
        }

    def _list(self, request: Request) -> Answer:
        marker, most = request.parameter("marker"), request.parameter("maxresults", "5000")
        request.query += [("continuation-token", marker), ("max-keys", most)]
        return super()._list(request)

    def answer(self, request: Request) -> Answer:
        if "x-ms-range" in request.headers:
            request.headers["Range"] = request.headers["x-ms-range"]
        return super().answer(request)

    def _row(self, key: str) -> str:
        folder = "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>" if key in self.folders else "<Metadata/>"
        return (
            f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>"
            f"<Etag>{self.objects[key].tag}</Etag><Content-Length>{len(self.objects[key].body)}</Content-Length>"
            f"<BlobType>BlockBlob</BlobType></Properties>{folder}</Blob>"
        )

    def _signature(self, request: Request, account: str) -> str:
        headers: dict[str, Any] = {name.lower(): value for name, value in request.headers.items()}
        signed = [headers.get(name.lower(), "") for name in _SIGNED_HEADERS]
        own = sorted((name, value) for name, value in headers.items() if name.startswith("x-ms-"))
        query = sorted((name.lower(), unquote(value)) for name, value in request.query)
        to_sign = "\n".join([
            request.method,
            *("" if value == "0" else value for value in signed),
            *(f"{name}:{value}" for name, value in own),
            f"/{account}{request.path}",
            *(f"{name}:{value}" for name, value in query),
        ])  # fmt: skip
        key = base64.b64decode(self.keys[account][0])
        return base64.b64encode(hmac.digest(key, to_sign.encode(), hashlib.sha256)).decode()
