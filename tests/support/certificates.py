"""Certificates for tests of TLS, made by the `openssl` command."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Certificate:
    """Two PEM files."""

    certificate: Path
    key: Path


def make_certificate(directory: Path, name: str) -> Certificate:
    """A self-signed certificate for `localhost` and 127.0.0.1; skips the test where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not installed")
    made = Certificate(directory / f"{name}.pem", directory / f"{name}.key")
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout", made.key, "-out", made.certificate,
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return made
