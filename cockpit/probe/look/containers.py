"""Which container a process runs in: by the program that watches over it for its engine, else by the name of its cgroup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Tuple

if TYPE_CHECKING:
    from .processes import ProcessTable, ScannedProcess  # which reads the cgroups of processes here

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
"""As podman and Docker allow it. It ends in a command that people copy, and anybody may call a process conmon."""
_CGROUP = re.compile(rb"[/:](libpod|docker|crio|cri-containerd)[-/]([0-9a-f]{64})(?![0-9a-f])")
"""podman's `…/libpod-ID`, `docker-ID.scope` or `/docker/ID`, `crio-ID.scope`, `cri-containerd-ID.scope`."""
_ENGINES = {"libpod": "podman", "docker": "docker", "crio": "crictl", "cri-containerd": "crictl"}
"""By the name of its cgroup: the command that starts a program in the container."""
_NAMESPACES = {"moby": "docker", "k8s.io": "crictl"}
"""By containerd's namespace: the command that starts a program in a container of that namespace."""
SHORT = 12
"""Characters of an id that engines print themselves."""


class ContainerRef(NamedTuple):
    """One whose processes are seen from outside of it."""

    engine: str
    """The command that starts a program in it."""
    name: str
    """Its name; where only its id is known, the beginning of that."""
    uid: int | None = None
    """Whose engine it is: another user's doesn't know it. `None`: that can't be told."""


def read_cgroup(pid: int) -> Tuple[str, str] | None:
    """An engine's word for containers, and the id of one, as a process's cgroup is called."""
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            found = _CGROUP.search(file.read(1 << 16))
    except OSError:
        return None
    return (found[1].decode(), found[2].decode()) if found else None


def find_container(process: ScannedProcess, table: ProcessTable) -> ContainerRef | None:
    """The outermost that it runs in, as seen from here; `None`: none, or of no engine that is known."""
    if len(process.details.pids) < 2:
        return None
    watcher, passed = table.get(process.parent), {process.pid}
    while watcher is not None and len(watcher.details.pids) > 1 and watcher.pid not in passed:
        passed.add(watcher.pid)
        watcher = table.get(watcher.parent)
    named, cgroup = _by_watcher(watcher) if watcher else None, process.details.cgroup
    return named or (_name_container(_ENGINES.get(cgroup[0]), cgroup[1][:SHORT], None) if cgroup else None)


def _by_watcher(watcher: ScannedProcess) -> ContainerRef | None:
    """Conmon is podman's and CRI-O's, and knows the name; a shim is containerd's, and knows the id."""
    argv, uid = watcher.details.argv, watcher.details.uid
    if watcher.name == "conmon":
        name, identity = _flag(argv, "-n") or "", _flag(argv, "-c") or ""
        return _name_container("crictl", identity[:SHORT], uid) if name.startswith("k8s_") else _name_container("podman", name, uid)
    if watcher.name.startswith("containerd-shim"):
        return _name_container(_NAMESPACES.get(_flag(argv, "-namespace") or ""), (_flag(argv, "-id") or "")[:SHORT], uid)
    return None


def _flag(argv: Tuple[str, ...], name: str) -> str | None:
    """Its value is the next word."""
    return argv[argv.index(name) + 1] if name in argv[:-1] else None


def _name_container(engine: str | None, name: str, uid: int | None) -> ContainerRef | None:
    return ContainerRef(engine, name, uid) if engine and _NAME.fullmatch(name) else None


def judged_inside(container: ContainerRef | None) -> str:
    """Why a process in it is not judged from here, and who can."""
    if container is None:
        return "it runs in another PID namespace, which has to be probed from inside: run cockpit in its container"
    whose = f" of uid {container.uid}" if container.uid else ""
    command = f"{container.engine} exec -it {container.name} cockpit"
    return f"it runs in container {container.name} of {container.engine}{whose}, which has to be probed from inside: `{command}`"
