"""Which Rays live on a host, by what its probe tells of sessions and processes, and where their dashboards listen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from cockpit.model import Host, OtherRay, Process

MAX_PORT = 1 << 16
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


def live_sessions(host: Host) -> set[str]:
    """By name; an empty one: a part of Ray whose session can't be told."""
    return {session.name for session in host.sessions or () if session.live} | {ray.session or "" for ray in host.rays or ()}


def dashboard_of(host: Host, name: str, processes: Iterable[Process]) -> str | None:
    """Where it listens; where the probe can't see that, as in another network namespace, what its command line asks for."""
    seen = next((session.dashboard for session in host.sessions or () if session.name == name and session.dashboard), None)
    if seen is not None:
        return seen
    commands = (each.command or "" for each in processes if name and each.session == name)
    asked = (re.search(r"/dashboard\.py .*--port=([1-9]\d{1,4})\b", command) for command in commands)
    return next((f"http://127.0.0.1:{found[1]}" for found in asked if found and int(found[1]) < MAX_PORT), None)


def head_elsewhere(host: Host, name: str) -> str | None:
    """The address of the head of a session whose raylet there is a worker's; `None`: it is the head itself, or that can't be told."""
    parts = [ray for ray in host.rays or () if ray.session == name]
    if any(ray.role == "gcs_server" for ray in parts):
        return None
    head = next((ray.gcs for ray in parts if ray.gcs), "").rpartition(":")[0].strip("[]")
    return None if not head or is_loopback(head) or _short(head) in {_short(known) for known in (host.name, *host.addresses)} else head


def is_loopback(address: str) -> bool:
    """Whether it leads to the host itself."""
    return address in LOOPBACK_NAMES or address.startswith("127.")


def _short(name: str) -> str:
    """Without the domain."""
    return name if re.fullmatch(r"[\d.]+|.*:.*", name) else name.partition(".")[0]


def other_slurm_job(ours: AbstractSet[str], host: Host, session: str) -> str | None:
    """The Slurm job in which a session runs there, where that is none of ours; `?`: it isn't known yet. `None`: ours, or it is in none."""
    parts = [ray for ray in host.rays or () if ray.session == session]
    its = next((ray.slurm for ray in parts if ray.role == "raylet" and ray.slurm), next((ray.slurm for ray in parts if ray.slurm), None))
    if not ours or its in ours:
        return None
    return its or ("?" if "rays" in host.unanswered else None)


def rays_on(host: Host) -> list[OtherRay]:
    """Each that has a dashboard, none of them asked yet."""
    places = {name: dashboard_of(host, name, host.processes or ()) for name in sorted(live_sessions(host))}
    return [OtherRay(url, name, _stranger(host, name)) for name, url in places.items() if url is not None]


def _stranger(host: Host, name: str) -> str | None:
    """Anybody can start what looks like a Ray: whose it is, unless it is root's or our own."""
    session = next((session for session in host.sessions or () if session.name == name), None)
    is_trusted = any(ray.start is not None for ray in host.rays or () if ray.session == name)  # by the uid of its process
    if is_trusted or (session is not None and session.trusted):
        return None
    user = next((each.user for each in host.processes or () if each.session == name and each.user), None)
    return (session.owner if session else user) or "an unknown user"
