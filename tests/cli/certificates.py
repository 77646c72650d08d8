"""Real certificates, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

KEYS = ("req", "-newkey", "rsa:2048", "-nodes")
SUBJECT = ("-subj", "/CN=cockpit-test", "-addext", "subjectAltName=IP:127.0.0.1")


def make_certificates(folder: Path) -> Path:
    """NAME.pem and NAME.key of a server, an authority `ca`, a `client` that it has signed, and a `stranger` that it has not."""
    for name in ("server", "ca", "stranger"):
        _openssl(*KEYS, "-x509", "-days", "2", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem", *SUBJECT)
    _openssl(*KEYS, "-keyout", folder / "client.key", "-out", folder / "client.csr", "-subj", "/CN=prometheus")
    signing = ("-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial", "-days", "2")
    _openssl("x509", "-req", "-in", folder / "client.csr", *signing, "-out", folder / "client.pem")
    return folder


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
