"""Fakes of the services that exchange a pod's identity for keys: Alibaba Cloud's and Amazon's STS."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

TOKEN = "token-of-the-service-account"
KEYS = ("STS.ROLE", "secret-of-the-role", "session-of-the-role")


class TokenService:
    """A context manager. Knows the token `TOKEN` and gives out `keys`, for `expiration`."""

    def __init__(self) -> None:
        self.keys = KEYS
        self.expiration = "2999-01-01T00:00:00Z"
        self.refusals: list[tuple[int, str]] = []
        """Status and body of the next answers."""
        self.asked: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, form: dict[str, str]) -> tuple[int, str]:
        self.asked.append(form)
        if self.refusals:
            return self.refusals.pop(0)
        if form["Action"] == "AssumeRoleWithOIDC":
            if form["OIDCToken"] != TOKEN:
                told = {"Code": "AuthenticationFail.OIDCToken.Invalid", "Message": "This token is no good."}
                return 400, json.dumps({**told, "RequestId": "R-1"})
            names = ("AccessKeyId", "AccessKeySecret", "SecurityToken")
            found = {**dict(zip(names, self.keys, strict=True)), "Expiration": self.expiration}
            return 200, json.dumps({"RequestId": "R-1", "Credentials": found})
        assert form["Action"] == "AssumeRoleWithWebIdentity"
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        found = "".join(
            f"<{name}>{value}</{name}>" for name, value in zip(names, (*self.keys, self.expiration), strict=True)
        )
        return 200, (
            '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
            f"<AssumeRoleWithWebIdentityResult><Credentials>{found}</Credentials><AssumedRoleUser><Arn>arn:a</Arn>"
            "<AssumedRoleId>a</AssumedRoleId></AssumedRoleUser></AssumeRoleWithWebIdentityResult>"
            "</AssumeRoleWithWebIdentityResponse>"
        )


def _handler(service: TokenService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, text = service.answer(dict(parse_qsl(body)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
