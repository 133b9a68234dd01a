"""A fake OSS: checks V1 and V4 signatures of every request, lists in pages, tells the CRC-64 of each object."""

import base64
import hashlib
import hmac
import re
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

import crcmod

from tests.support.buckets import Answer, BucketServer, Bytes, Request

_V1 = re.compile(r"OSS ([^:]+):(.+)")
_V4 = re.compile(
    r"OSS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/oss/aliyun_v4_request,\s*Signature=([0-9a-f]{64})"
)
_SUBRESOURCES = {"continuation-token", "security-token", "x-oss-process"}
crc64 = crcmod.mkCrcFun(0x142F0E1EBA9EA3693, initCrc=0, rev=True, xorOut=0xFFFFFFFFFFFFFFFF)


class OssServer(BucketServer):
    """At an address instead of a name, so that the bucket is part of the path."""

    region = "cn-test"

    def __init__(self) -> None:
        super().__init__()
        self.wrong_crcs: dict[str, str] = {}
        """Key → what is said of it, for objects that were damaged in the store."""

    def refusal(self, request: Request) -> Answer | None:
        authorization = request.headers.get("Authorization", "")
        v1, v4 = _V1.fullmatch(authorization), _V4.fullmatch(authorization)
        if v1 is None and v4 is None:
            return self.error(403, "AccessDenied", "Anonymous access is forbidden for this operation.")
        key_id = (v1 or v4)[1]
        if key_id not in self.keys:
            return self.error(403, "InvalidAccessKeyId", "The OSS Access Key Id you provided does not exist.")
        secret, token = self.keys[key_id]
        if token is None:
            return self.error(403, "SecurityTokenExpired", "The security token you provided has expired.")
        if request.headers.get("x-oss-security-token", "") != token:
            return self.error(403, "InvalidSecurityToken" if token else "AccessDenied")
        expected = _v1(request, secret) if v1 else _v4(request, secret, v4[2], self.region)
        given = v1[2] if v1 else v4[4]
        if not hmac.compare_digest(expected, given):
            return self.error(403, "SignatureDoesNotMatch", "The request signature we calculated does not match.")
        return None

    def error(self, status: int, code: str, message: str = "") -> Answer:
        body = f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>R-1</RequestId></Error>"
        return Answer(status, body.encode(), {"Content-Type": "application/xml", "x-oss-request-id": "R-1"})

    def listing(self, request: Request, keys: list[str], next_token: str) -> Answer:
        rows = "".join(
            f"<Contents><Key>{escape(quote(key))}</Key><Size>{len(self.objects[key].body)}</Size><Type>Normal</Type>"
            f"<ETag>&quot;{self.objects[key].tag.upper()}&quot;</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            "<StorageClass>Standard</StorageClass></Contents>"
            for key in keys
        )
        more = f"<NextContinuationToken>{quote(next_token)}</NextContinuationToken>" if next_token else ""
        body = (
            f"<ListBucketResult><Name>{self.bucket}</Name><Prefix></Prefix><MaxKeys>1000</MaxKeys><Delimiter></Delimiter>"
            f"<IsTruncated>{str(bool(next_token)).lower()}</IsTruncated><EncodingType>url</EncodingType>"
            f"<KeyCount>{len(keys)}</KeyCount>{more}{rows}</ListBucketResult>"
        )
        return Answer(200, body.encode(), {"Content-Type": "application/xml", "x-oss-request-id": "R-1"})

    def object_headers(self, found: Bytes) -> dict[str, str]:
        key = next(key for key, each in self.objects.items() if each is found)
        return {
            "x-oss-hash-crc64ecma": self.wrong_crcs.get(key) or str(crc64(found.body)),
            "x-oss-request-id": "R-1",
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
        }

    def put(self, key: str, body: bytes = b"", part_size: int = 0) -> None:
        super().put(key, body, part_size)
        self.objects[key].tag = self.objects[key].tag.upper()


def _v1(request: Request, secret: str) -> str:
    headers = sorted(
        (name.lower(), value) for name, value in request.headers.items() if name.lower().startswith("x-oss-")
    )
    subresources = sorted((name, value) for name, value in request.query if name in _SUBRESOURCES)
    resource = f"/{request.bucket}/{request.key}"
    if subresources:
        resource += "?" + "&".join(f"{name}={value}" if value else name for name, value in subresources)
    to_sign = "\n".join(
        [
            request.method,
            request.headers.get("Content-MD5", ""),
            request.headers.get("Content-Type", ""),
            request.headers.get("Date", ""),
            *(f"{name}:{value}" for name, value in headers),
            resource,
        ]
    )
    return base64.b64encode(hmac.digest(secret.encode(), to_sign.encode(), "sha1")).decode()


def _v4(request: Request, secret: str, day: str, region: str) -> str:
    headers = sorted(
        (name.lower(), value.strip())
        for name, value in request.headers.items()
        if name.lower().startswith("x-oss-") or name.lower() in {"content-type", "content-md5"}
    )
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in request.query)
    canonical = "\n".join(
        [
            request.method,
            quote(f"/{request.bucket}/{unquote(request.key)}", safe="/-_.~"),
            "&".join(f"{name}={value}" if value else name for name, value in pairs),
            *(f"{name}:{value}" for name, value in headers),
            "",
            "",
            request.headers.get("x-oss-content-sha256", "UNSIGNED-PAYLOAD"),
        ]
    )
    date = request.headers["x-oss-date"]
    scope = f"{day}/{region}/oss/aliyun_v4_request"
    to_sign = "\n".join(["OSS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"aliyun_v4{secret}".encode()
    for part in (day, region, "oss", "aliyun_v4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, to_sign.encode(), "sha256").hexdigest()
