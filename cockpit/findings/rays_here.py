"""Finds the Rays that run on a host, from its sessions and processes, and the addresses of their dashboards."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from cockpit.model import Host, OtherRay, Process

MAX_PORT = 1 << 16
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


def live_sessions(host: Host) -> set[str]:
    """Names of the live sessions; an empty name stands for Ray processes of an unknown session."""
    return {session.name for session in host.sessions or () if session.live} | {ray.session or "" for ray in host.rays or ()}


def dashboard_of(host: Host, name: str, processes: Iterable[Process]) -> str | None:
    """The URL of a session's dashboard; if the probe can't see where it listens, as in another network namespace, from its command line."""
    seen = next((session.dashboard for session in host.sessions or () if session.name == name and session.dashboard), None)
    if seen is not None:
        return seen
    commands = (each.command or "" for each in processes if name and each.session == name)
    asked = (re.search(r"/dashboard\.py .*--port=([1-9]\d{1,4})\b", command) for command in commands)
    return next((f"http://127.0.0.1:{found[1]}" for found in asked if found and int(found[1]) < MAX_PORT), None)


def head_elsewhere(host: Host, name: str) -> str | None:
    """The address of a session's head, if the host is only a worker of it; `None`: the host is the head, or this is unknown."""
    parts = [ray for ray in host.rays or () if ray.session == name]
    if any(ray.role == "gcs_server" for ray in parts):
        return None
    head = next((ray.gcs for ray in parts if ray.gcs), "").rpartition(":")[0].strip("[]")
    return None if not head or is_loopback(head) or _short(head) in {_short(known) for known in (host.name, *host.addresses)} else head


def is_loopback(address: str) -> bool:
    """Whether the address leads to the host itself."""
    return address in LOOPBACK_NAMES or address.startswith("127.")


def _short(name: str) -> str:
    """A host name without its domain; an address as it is."""
    return name if re.fullmatch(r"[\d.]+|.*:.*", name) else name.partition(".")[0]


def other_slurm_job(ours: AbstractSet[str], host: Host, session: str) -> str | None:
    """The foreign Slurm job in which a session runs on the host; `?`: not known yet; `None`: it runs in ours, or in none."""
    parts = [ray for ray in host.rays or () if ray.session == session]
    its = next((ray.slurm for ray in parts if ray.role == "raylet" and ray.slurm), next((ray.slurm for ray in parts if ray.slurm), None))
    if not ours or its in ours:
        return None
    return its or ("?" if "rays" in host.unanswered else None)


def rays_on(host: Host) -> list[OtherRay]:
    """The Rays with a dashboard on this host; their dashboards were not asked yet.

    A Ray has an owner only if that is neither root nor ourselves: anybody can start a process that looks like Ray.
    """
    found: list[OtherRay] = []
    processes = host.processes or ()
    for name in sorted(live_sessions(host)):
        url = dashboard_of(host, name, processes)
        session = next((session for session in host.sessions or () if session.name == name), None)
        is_trusted = any(ray.start is not None for ray in host.rays or () if ray.session == name)  # by the uid of its process
        owner: str | None = None
        if not is_trusted and not (session is not None and session.trusted):
            user = next((each.user for each in processes if each.session == name and each.user), None)
            owner = (session.owner if session else user) or "an unknown user"
        if url is not None:
            found.append(OtherRay(url, name, owner))
    return found
