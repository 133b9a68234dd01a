"""Certificates of TLS that are read again when their files change: those who renew them need no restart."""

import asyncio
import logging
import ssl
import weakref
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 5.0


_followed: "weakref.WeakSet[FollowedCertificate]" = weakref.WeakSet()
"""Those of this process that are not stopped."""


def refresh_certificates() -> None:
    """Read every followed certificate of this process now, if its files changed: for SIGHUP. On the event loop."""
    for certificate in list(_followed):
        certificate.refresh()


class FollowedCertificate:
    """
    Keeps the chain, the key and the trusted roots of a TLS context as their files are, for new connections.

    Files that do not fit together, as while they are being replaced, leave the context as it is. Roots are only added:
    a context cannot forget one, so those that were taken out of the file are trusted until the server starts again.
    """

    def __init__(self, context: ssl.SSLContext, certificate: str, key: str, roots: str | None = None) -> None:
        """
        Follow PEM files, on a running event loop. `context` has them already.

        `roots` names the certificates that clients' ones must descend from; None where clients need none.
        """
        self._context = context
        self._certificate = certificate
        self._key = key
        self._roots = roots
        self._fault = ""
        self._mark = self._look()
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_later(_LOOK_SECONDS, self._follow)
        _followed.add(self)

    def stop(self) -> None:
        """Follow the files no more."""
        self._next.cancel()
        _followed.discard(self)

    def refresh(self) -> bool:
        """Read the files if they changed. Whether the context has others now."""
        mark = self._look()
        if mark == self._mark:
            return False
        try:
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._context):
                context.load_cert_chain(self._certificate, self._key)
                if self._roots is not None:
                    context.load_verify_locations(self._roots)
        except OSError as error:
            text = str(error)
            if text != self._fault:
                logger.error("the certificate '%s' cannot be used, the last one stays: %s", self._certificate, text)  # noqa: TRY400
            self._fault = text
            return False
        self._mark, self._fault = mark, ""
        logger.info("the certificate '%s' changed: new connections get it", self._certificate)
        return True

    def _follow(self) -> None:
        self.refresh()
        self._next = self._loop.call_later(_LOOK_SECONDS, self._follow)

    def _look(self) -> tuple[int, ...]:
        """What is different when a file is."""
        marks: list[int] = []
        for path in (self._certificate, self._key, *([self._roots] if self._roots else [])):
            try:
                found = Path(path).stat()
            except OSError:
                continue
            marks += [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
        return tuple(marks)
