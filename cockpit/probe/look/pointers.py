"""What Ray's tools look at first in a temp dir, `session_latest` and `ray_current_cluster`, and whether that cluster lives."""

from __future__ import annotations

import os
import socket
import stat
from typing import Iterable, NamedTuple, Tuple

from .. import trust
from .host import addresses
from .origin import flag
from .processes import Forest, ScannedProcess
from .sessions import Folder

LINK, FILE = "session_latest", "ray_current_cluster"
PATIENCE = 1.0


class SessionPointer(NamedTuple):
    """One of them, and what it says."""

    temp: str
    name: str
    status: os.stat_result
    says: str

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{self.temp}/{self.name}"


def pointer(temp: str, name: str) -> SessionPointer | None:
    """`None`: there is none, or it is not of the kind that Ray makes."""
    path = f"{temp}/{name}"
    try:
        status = os.lstat(path)
        if name == LINK:
            return SessionPointer(temp, name, status, os.readlink(path)) if stat.S_ISLNK(status.st_mode) else None
        return SessionPointer(temp, name, status, _text(path)) if stat.S_ISREG(status.st_mode) else None
    except OSError:
        return None


def _text(path: str) -> str:
    return trust.read_begin(path, 256).decode("utf-8", "replace").strip()


def points_at(link: SessionPointer) -> str:
    """The session that the link names."""
    return os.path.basename(link.says.rstrip("/"))


def serves(found: SessionPointer, forest: Forest, folders: Iterable[Folder]) -> Tuple[bool | None, str]:
    """Whether a cluster lives at the address in that file, as far as this host can tell, and how that is known."""
    host, port = split(found.says)
    if port is None:
        return False, "it holds no address"
    for pid, process in forest.items():
        if process.alive and process.origin.role in ("raylet", "gcs_server", "dashboard") and _names(process, host, port):
            return True, f"{process.origin.role} {pid} is of the cluster at {found.says}"
    hidden = _why_hidden(found, forest, folders)
    if hidden is not None:
        return None, hidden
    if is_here(host):
        return _listens(host, port, found.says)
    if not host.replace(".", "").isdigit() and ":" not in host:
        return None, f"whether {found.says} is an address of this host can't be told"
    return False, f"{found.says} is another host's, and no raylet here belongs to that cluster"


def split(address: str) -> Tuple[str, int | None]:
    """Host and port; no port where it is no address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if host and port.isascii() and port.isdigit() and 0 < int(port) < 65536 else None


def is_here(host: str) -> bool:
    """Whether that is an address of this host."""
    return host.startswith("127.") or host in ("::1", "localhost") or host in addresses()


def _names(process: ScannedProcess, host: str, port: int) -> bool:
    """Also when its command line can't be read."""
    argv = process.details.argv
    if process.origin.role == "gcs_server":
        served = flag(argv, "--gcs_server_port", "--gcs-server-port")
        return not argv or (served == str(port) and flag(argv, "--node-ip-address", "--node_ip_address") in (None, host))
    named, at = split(flag(argv, "--gcs-address", "--gcs_address") or "")
    return not argv or (at == port and (named == host or (is_here(named) and is_here(host))))


def _why_hidden(found: SessionPointer, forest: Forest, folders: Iterable[Folder]) -> str | None:
    """Why a raylet of that cluster may run here and not be seen."""
    if 1 not in forest:
        return "other users' processes are hidden here"
    seen = {os.path.basename(process.origin.session or "") for process in forest.values() if process.origin.role == "raylet"}
    for folder in folders:
        name = os.path.basename(folder.path)
        if os.path.dirname(folder.path) == found.temp and folder.answers is not False and name not in seen:
            return f"{name} may be of that cluster, and its raylet can't be seen from here"
    return None


def _listens(host: str, port: int, address: str) -> Tuple[bool | None, str]:
    try:
        with socket.create_connection((host, port), timeout=PATIENCE):
            return True, f"something listens at {address}"
    except ConnectionRefusedError:
        return False, f"nothing listens at {address}, which is this host's, and no raylet here belongs to that cluster"
    except OSError as error:
        return None, f"whether something listens at {address} can't be told: {error}"
