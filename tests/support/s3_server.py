"""A fake S3: checks Signature Version 4 of every request, lists in pages, knows entity tags of multipart uploads."""

import hashlib
import hmac
import re
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from tests.support.buckets import Answer, BucketServer, Bytes, Request

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})"
)


class S3Server(BucketServer):
    """Path style. `region` is what requests must be signed for."""

    region = "us-east-1"

    def __init__(self) -> None:
        super().__init__()
        self.uploaders: dict[str, dict[str, str]] = {}
        """Key → the headers of the checksum that came with the upload."""

    def refusal(self, request: Request) -> Answer | None:
        found = _AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
        if found is None:
            return self.error(403, "AccessDenied", "Access Denied.")
        key_id, day, region, signed, signature = found.groups()
        if key_id not in self.keys:
            return self.error(403, "InvalidAccessKeyId", "The Access Key Id you provided does not exist.")
        secret, token = self.keys[key_id]
        if token is None:
            return self.error(400, "ExpiredToken", "The provided token has expired.")
        if region != self.region or request.headers.get("x-amz-security-token", "") != token:
            return self.error(403, "AccessDenied", "Access Denied.")
        scope = f"{day}/{region}/s3/aws4_request"
        to_sign = "\n".join(
            ["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, _canonical_hash(request, signed.split(";"))]
        )
        key = f"AWS4{secret}".encode()
        for part in (day, region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        if not hmac.compare_digest(hmac.new(key, to_sign.encode(), "sha256").hexdigest(), signature):
            return self.error(403, "SignatureDoesNotMatch", "The request signature we calculated does not match.")
        return None

    def error(self, status: int, code: str, message: str = "") -> Answer:
        body = f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>R-1</RequestId></Error>"
        return Answer(status, body.encode(), {"Content-Type": "application/xml", "x-amz-request-id": "R-1"})

    def listing(self, request: Request, keys: list[str], next_token: str) -> Answer:
        url_encoded = request.parameter("encoding-type") == "url"
        rows = "".join(
            f"<Contents><Key>{escape(quote(key) if url_encoded else key)}</Key><Size>{len(self.objects[key].body)}</Size>"
            f"<ETag>&quot;{self.objects[key].tag}&quot;</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in keys
        )
        more = f"<NextContinuationToken>{escape(next_token)}</NextContinuationToken>" if next_token else ""
        body = (
            f"<ListBucketResult><Name>{self.bucket}</Name><IsTruncated>{str(bool(next_token)).lower()}</IsTruncated>"
            f"{'<EncodingType>url</EncodingType>' if url_encoded else ''}{more}{rows}</ListBucketResult>"
        )
        return Answer(200, body.encode(), {"Content-Type": "application/xml"})

    def object_headers(self, found: Bytes) -> dict[str, str]:
        key = next(key for key, each in self.objects.items() if each is found)
        return {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", **self.uploaders.get(key, {})}


def _canonical_hash(request: Request, signed: list[str]) -> str:
    if "host" not in signed or "x-amz-date" not in signed or "x-amz-content-sha256" not in signed:
        return "not enough is signed"
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in request.query)
    canonical = "\n".join(
        [
            request.method,
            quote(unquote(request.path), safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in pairs),
            *(f"{name}:{' '.join(request.headers[name].split())}" for name in signed),
            "",
            ";".join(signed),
            request.headers["x-amz-content-sha256"],
        ]
    )
    return hashlib.sha256(canonical.encode()).hexdigest()
