"""Certificates of a test's own authority, made with openssl."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority in a folder."""

    folder: Path

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    def issue(self, name: str) -> tuple[str, str]:
        """A certificate for this machine and its key, as paths; a second one replaces the first."""
        key, request, cert = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        extensions = self.folder / "extensions"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
        fresh = self.folder / f"{name}.fresh"
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key"),
            *("-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", fresh),
        )
        fresh.rename(cert)
        return str(cert), str(key)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make_authority(folder: Path) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder.mkdir(exist_ok=True)
    _openssl(
        *("req", "-x509", *_NEW_KEY, "-days", "2", "-subj", "/CN=authority"),
        *("-keyout", folder / "ca.key", "-out", folder / "ca.pem"),
    )
    return Authority(folder)


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
