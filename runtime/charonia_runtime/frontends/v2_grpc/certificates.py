"""The files that TLS needs, read and looked at, for every transport."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.frontends.v2_grpc.options import Options


@dataclass(frozen=True, slots=True)
class Certificates:
    """The contents of PEM files. `roots` is None where clients need no certificate."""

    chain: bytes
    key: bytes
    roots: bytes | None

    @classmethod
    def read(cls, options: Options) -> Self:
        """Raises InvalidArgumentError, naming flag and file, when one cannot be read or holds no PEM block."""
        key = _read(options.grpc_server_key, "grpc-server-key")
        chain = _read(options.grpc_server_cert, "grpc-server-cert")
        roots = _read(options.grpc_root_cert, "grpc-root-cert") if options.grpc_use_ssl_mutual else None
        return cls(chain, key, roots)


def unusable(address: str) -> InvalidArgumentError:
    """Why TLS cannot be served with files that could be read."""
    return InvalidArgumentError(
        f"cannot serve TLS on '{address}' with the files of --grpc-server-cert, --grpc-server-key and --grpc-root-cert"
    )


def _read(path: str, flag: str) -> bytes:
    if not path:
        raise InvalidArgumentError(f"--{flag} must name a PEM file when gRPC is served over TLS")
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(f"cannot read --{flag} '{path}': {error.strerror}") from error
    if b"-----BEGIN " not in content:
        raise InvalidArgumentError(f"--{flag} '{path}' holds no PEM block")
    return content
