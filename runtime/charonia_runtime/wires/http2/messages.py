"""What a request says before its body."""

from typing import Any


class RequestHead:
    """
    The validated header block of a request.

    Equal blocks of one connection give the same object as long as it is cached: treat it as frozen. `note` is the
    frontend's, for what it derives from this head once. `content_length` is -1 where the client does not say.
    """

    __slots__ = ("authority", "content_length", "fields", "method", "note", "path", "scheme")

    def __init__(  # noqa: PLR0917 - built once for each distinct header block
        self,
        method: bytes,
        path: bytes,
        authority: bytes,
        scheme: bytes,
        fields: tuple[tuple[bytes, bytes], ...],
        content_length: int = -1,
    ) -> None:
        self.method = method
        self.path = path
        self.authority = authority
        self.scheme = scheme
        self.fields = fields
        self.content_length = content_length
        self.note: Any = None
