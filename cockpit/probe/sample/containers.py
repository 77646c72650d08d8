"""Finds the container that a process runs in, by the engine's program that watches over it, else by the name of its cgroup."""

from __future__ import annotations

import re
from typing import NamedTuple, Tuple

from .processes import ProcessTable, ScannedProcess

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
"""The names that podman and Docker allow. The name becomes part of a command that people copy, and any user may call a process conmon."""
_ENGINES = {"libpod": "podman", "docker": "docker", "crio": "crictl", "cri-containerd": "crictl"}
"""By the word in the name of a cgroup: the command that starts a program in the container."""
_NAMESPACES = {"moby": "docker", "k8s.io": "crictl"}
"""By containerd's namespace: the command that starts a program in a container of that namespace."""
SHORT_ID_CHARS = 12
"""Engines print so many characters of an id."""


class ContainerRef(NamedTuple):
    """A container that this probe is not in."""

    engine: str
    """The command that starts a program in it."""
    name: str
    """Its name; the beginning of its id if only that is known."""
    uid: int | None = None
    """The user of the engine: another user's engine does not know the container. `None`: unknown."""


def find_container(process: ScannedProcess, table: ProcessTable) -> ContainerRef | None:
    """The outermost container that the process runs in, as seen from here; `None`: none, or one of an unknown engine."""
    if len(process.details.pids) < 2:
        return None
    # The nearest ancestor outside of the container is the engine's.
    watcher, passed = table.get(process.parent), {process.pid}
    while watcher is not None and len(watcher.details.pids) > 1 and watcher.pid not in passed:
        passed.add(watcher.pid)
        watcher = table.get(watcher.parent)
    if watcher is not None:
        argv, uid = watcher.details.argv, watcher.details.uid
        engine, name = None, ""
        if watcher.name == "conmon":  # of podman, where it knows the name, or of CRI-O
            name = _flag(argv, "-n")
            engine, name = ("crictl", _flag(argv, "-c")[:SHORT_ID_CHARS]) if name.startswith("k8s_") else ("podman", name)
        elif watcher.name.startswith("containerd-shim"):  # knows the id
            engine, name = _NAMESPACES.get(_flag(argv, "-namespace")), _flag(argv, "-id")[:SHORT_ID_CHARS]
        if engine and _NAME.fullmatch(name):
            return ContainerRef(engine, name, uid)
    if process.details.cgroup is None:
        return None
    word, identity = process.details.cgroup
    return ContainerRef(_ENGINES[word], identity[:SHORT_ID_CHARS]) if word in _ENGINES else None


def _flag(argv: Tuple[str, ...], name: str) -> str:
    """The word after a flag; empty if there is none."""
    return argv[argv.index(name) + 1] if name in argv[:-1] else ""


def why_probed_inside(container: ContainerRef | None) -> str:
    """The reason why a process in that container can't be judged from here, with the command that can."""
    if container is None:
        return "it runs in another PID namespace, which has to be probed from inside: run cockpit in its container"
    whose = f" of uid {container.uid}" if container.uid else ""
    command = f"{container.engine} exec -it {container.name} cockpit"
    return f"it runs in container {container.name} of {container.engine}{whose}, which has to be probed from inside: `{command}`"
