"""What points at sessions or clusters in a temp dir of Ray, `session_latest` and `ray_current_cluster`, and when it points at nothing."""

from __future__ import annotations

import errno
import os
import socket
import stat
from typing import Collection, NamedTuple, Tuple

from ..host import addresses
from ..origin import flag
from ..proc import Process
from ..tree import meant, place, shown
from .cleaning import Cleaning, RefusedError, file_target, not_ours
from .life import why_alive
from .look import Look, Target
from .mounts import why_shared

LINK, FILE = "session_latest", "ray_current_cluster"
NAMES = {"link": LINK, "file": FILE}
PATIENCE = 1.0


class Pointer(NamedTuple):
    """One of them, and what it says."""

    temp: str
    name: str
    status: os.stat_result
    says: str

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{self.temp}/{self.name}"


def plan(cleaning: Cleaning, look: Look, temp: str, leaving: Collection[str]) -> None:
    """What goes of that temp dir. `leaving` are the sessions in it that this clean-up removes whole."""
    for what, name in NAMES.items():
        found = pointer(temp, name)
        if found is None or not (cleaning.everything or (what == "link" and points_at(found) in leaving)):
            continue
        why, reason = _judge(found, look, leaving)
        if why or reason:
            cleaning.agree({**file_target(what, found.path, found.status), "why": [why] if why else []}, reason)


def do(cleaning: Cleaning, target: Target) -> str:
    """What became of it. Raises `RefusedError`, `OSError`."""
    temp, name = os.path.split(meant(target["path"]))
    found = pointer(temp, name) if name == NAMES[target["what"]] else None
    if found is None or place(found.status) != (target["device"], target["inode"]):
        raise RefusedError("it is gone, or something else was put in its place")
    sessions = [meant(done["path"]) for done in cleaning.answer["done"] if done["what"] == "session"]
    gone = [os.path.basename(path) for path in sessions if os.path.dirname(path) == temp and not os.path.lexists(path)]
    why, reason = _judge(found, cleaning.watcher.look(0.0), gone)
    if why is None or reason is not None:
        raise RefusedError(reason or "what it points at is there")
    remove(found)
    return f"removed: {why}"


def _judge(found: Pointer, look: Look, leaving: Collection[str]) -> Tuple[str | None, str | None]:
    """Why it goes, and why it does not; neither when it is good."""
    if found.name == FILE:
        serves, why = _serves(found, look)
        return (
            (None, why)
            if serves is None
            else (None, None)
            if serves
            else (why, _not_here(found) or not_ours(found.status.st_uid, look.forest))
        )
    why_dangling = _dangles(found, leaving)
    if why_dangling is None:
        return None, None
    told_to = os.geteuid() == 0 and points_at(found) in leaving  # then it goes with its session, whoever owns it
    return why_dangling, _not_here(found) or why_alive(look, points_at(found)) or (
        None if told_to else not_ours(found.status.st_uid, look.forest)
    )


def _not_here(found: Pointer) -> str | None:
    """Why it may be another host's, or `None`."""
    temp = os.open(found.temp, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        shared = why_shared(temp)
    finally:
        os.close(temp)
    return shared and f"{shared}: what it points at may live on another"


def pointer(temp: str, name: str) -> Pointer | None:
    """`None`: there is none, or it is not of the kind that Ray makes."""
    path = f"{temp}/{name}"
    try:
        status = os.lstat(path)
        if name == LINK:
            return Pointer(temp, name, status, os.readlink(path)) if stat.S_ISLNK(status.st_mode) else None
        return Pointer(temp, name, status, _text(path)) if stat.S_ISREG(status.st_mode) else None
    except OSError:
        return None


def _text(path: str) -> str:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(file, 256).decode("utf-8", "replace").strip()
    finally:
        os.close(file)


def remove(found: Pointer) -> None:
    """Exactly that one: what has been put in its place since is left."""
    temp = os.open(found.temp, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if place(os.stat(found.name, dir_fd=temp, follow_symlinks=False)) != place(found.status):
            raise FileNotFoundError(errno.ENOENT, "something else was put in its place")
        os.unlink(found.name, dir_fd=temp)
    finally:
        os.close(temp)


def points_at(link: Pointer) -> str:
    """The session that the link names."""
    return os.path.basename(link.says.rstrip("/"))


def _dangles(link: Pointer, leaving: Collection[str]) -> str | None:
    """Why the link is good for nothing, or `None`. `leaving` are sessions in the same folder that are about to go."""
    name = points_at(link)
    if name in leaving:
        return f"it points at {shown(name)}, which goes too"
    if os.path.lexists(f"{link.temp}/{name}") or os.path.exists(os.path.join(link.temp, link.says)):
        return None
    return f"it points at {shown(name)}, which is gone"


def _serves(found: Pointer, look: Look) -> Tuple[bool | None, str]:
    """Whether a cluster lives at the address in that file, as far as this host can tell, and how that is known."""
    host, port = _split(found.says)
    if port is None:
        return False, "it holds no address"
    for pid, process in look.forest.items():
        if process.alive and process.origin.role in ("raylet", "gcs_server", "dashboard") and _names(process, host, port):
            return True, f"{process.origin.role} {pid} is of the cluster at {found.says}"
    hidden = _hidden(found, look)
    if hidden is not None:
        return None, hidden
    if _is_here(host):
        return _listens(host, port, found.says)
    if not host.replace(".", "").isdigit() and ":" not in host:
        return None, f"whether {found.says} is an address of this host can't be told"
    return False, f"{found.says} is another host's, and no raylet here belongs to that cluster"


def _split(address: str) -> Tuple[str, int | None]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if host and port.isascii() and port.isdigit() and 0 < int(port) < 65536 else None


def _names(process: Process, host: str, port: int) -> bool:
    """Also when its command line can't be read."""
    argv = process.details.argv
    if process.origin.role == "gcs_server":
        served = flag(argv, "--gcs_server_port", "--gcs-server-port")
        return not argv or (served == str(port) and flag(argv, "--node-ip-address", "--node_ip_address") in (None, host))
    named, at = _split(flag(argv, "--gcs-address", "--gcs_address") or "")
    return not argv or (at == port and (named == host or (_is_here(named) and _is_here(host))))


def _is_here(host: str) -> bool:
    return host.startswith("127.") or host in ("::1", "localhost") or host in addresses()


def _hidden(found: Pointer, look: Look) -> str | None:
    """Why a raylet of that cluster may run here and not be seen."""
    if 1 not in look.forest:
        return "other users' processes are hidden here"
    seen = {os.path.basename(process.origin.session or "") for process in look.forest.values() if process.origin.role == "raylet"}
    for folder in look.sessions.folders:
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
