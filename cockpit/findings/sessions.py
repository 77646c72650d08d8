"""Ray's sessions on a host: several that live, pointers to a dead one, a temp dir that belongs to another user."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, Pointer, Remedy, Session
from cockpit.text import plural

POINTER_NAME = "ray_current_cluster"
SKYPILOT_FOLDER = "ray_skypilot"
"""The temp dir of the Ray that SkyPilot keeps on each of its hosts for itself: it hands out GPUs to SkyPilot's jobs alone."""


@rests_on("sessions", "rays")
def several_sessions(facts: Facts) -> Iterator[Finding]:
    """Several Rays on a host: each hands out all that is there, and tools find one of them."""
    for host in facts.fresh_hosts:
        if host.sessions is None or len(host.sessions) < 2:
            continue
        alone = _sessions_of_lone_gcs(host)
        live = [session for session in host.sessions if session.live and session.name not in alone]
        names = {session.name for session in live}
        if len(names) < 2 or facts.seconds_lasting("sessions-several", host.name) < facts.limits.sessions_age:
            continue
        if _are_in_jobs_of_their_own(host, names):
            continue
        sky = {session.name for session in live if f"/{SKYPILOT_FOLDER}/" in session.path}
        without = {facts.snapshot.cluster.session} if _offers_no_gpu(facts, host) else set()
        shared = len(host.gpus or ()) if len(names - sky - without) > 1 else 0
        gpus = f", and each may offer the same {'GPU' if shared == 1 else plural(shared, 'GPU')}" if shared else ""
        title, sessions = facts.host_title(host), ", ".join(_session_name(facts, session) for session in live)
        yield Finding(
            code="sessions-several",
            level="warning" if shared else "info",
            subject=title,
            text=f"{len(live)} Ray sessions run on {title}{gpus}: {sessions}",
            evidence=tuple(_session_line(host, session) for session in live),
            remedy=Remedy("stop the session that is not needed, and only that one (`ray stop` would stop all of them)", "stop")
            if not sky
            else Remedy("keep SkyPilot's session; never use `ray stop`, which would stop all of them"),
            about=tuple(session.key for session in live),
        )


def _offers_no_gpu(facts: Facts, host: Host) -> bool:
    """Whether the Ray that is followed has nodes on that host, none of which offers a GPU."""
    nodes = [node for node in facts.index.nodes_on(host) if node.state == "ALIVE"]
    return bool(nodes) and all(not has.total for node in nodes for name, has in node.resources.items() if name == "GPU")


def _are_in_jobs_of_their_own(host: Host, sessions: set[str]) -> bool:
    """Whether Slurm keeps them apart, as it does jobs that share a node: each has its own GPUs, and its owner needs it."""
    jobs = {ray.session: ray.slurm for ray in host.rays or () if ray.session in sessions and ray.role == "raylet"}
    return len(jobs) == len(sessions) == len(set(jobs.values()) - {None})


@rests_on("sessions", "rays")
def lone_gcs(facts: Facts) -> Iterator[Finding]:
    """A GCS whose raylet never came, or is gone: what a `ray start` that failed may leave behind, and the next one stumbles over."""
    for host in facts.fresh_hosts:
        for name in sorted(_sessions_of_lone_gcs(host) - {facts.snapshot.cluster.session}) if host.rays else ():
            session = next((one for one in host.sessions or () if one.name == name), None)
            started = session.started if session else None
            young = started is None or facts.now - started < facts.limits.pointer_age  # of an unknown age: it may be starting now
            lasted = facts.seconds_lasting("gcs-alone", f"{host.name} {name}")
            if lasted >= facts.limits.pointer_age and not (facts.is_single_look and young):
                yield _lone_finding(facts.host_title(host), host, name, session)


def _lone_finding(title: str, host: Host, name: str, session: Session | None) -> Finding:
    pids = [ray.pid for ray in host.rays or () if ray.session == name and ray.role == "gcs_server"]
    return Finding(
        code="gcs-alone",
        level="warning",
        subject=f"{title} {name}",
        text=f"A GCS (pid {pids[0]}) of {name}{_owner_words(session) if session else ''} runs on {title} without a raylet, "
        "maybe left by a failed `ray start`: the next `ray start` on its port fails too",
        evidence=(f"ps on {title}: gcs_server (pid {pids[0]}), and no raylet of that session (--gcs_server_port shows the port)",),
        remedy=Remedy("stop that session (`ray stop` would stop every Ray on the host)", "stop" if session else None),
        about=(session.key,) if session else (),
    )


def _sessions_of_lone_gcs(host: Host) -> set[str]:
    """Sessions of which the GCS alone lives: a `ray start` that fails leaves it behind, and it hands out nothing."""
    raylets = {ray.session for ray in host.rays or () if ray.role == "raylet"}
    return {ray.session for ray in host.rays or () if ray.session and ray.role == "gcs_server"} - raylets


def _session_line(host: Host, session: Session) -> str:
    here = [f"{'raylet' if ray.role == 'raylet' else 'GCS'} (pid {ray.pid})" for ray in host.rays or () if ray.session == session.name]
    lives = f"{', '.join(here)} (`ps -ef`)" if here else "its raylet listens on sockets/raylet"
    return f"{session.path}{_owner_words(session)}: {lives}"


def _session_name(facts: Facts, session: Session) -> str:
    this = " (this cluster)" if session.name == facts.snapshot.cluster.session else ""
    return f"{session.name}{_owner_words(session)}{this}"


def _owner_words(session: Session) -> str:
    return f" of {session.owner}" if session.owner else ""


@rests_on("temps", "sessions")
def dead_pointers(facts: Facts) -> Iterator[Finding]:
    """Where Ray's tools look first leads to a Ray that is dead."""
    for host in facts.fresh_hosts:
        folders: dict[str, list[Pointer]] = {}
        for pointer in host.pointers or ():
            if pointer.alive is False and not (_is_address(pointer) and facts.was_found("gcs-silent", "GCS")):
                folders.setdefault(os.path.dirname(pointer.path), []).append(pointer)
        for folder, dead in folders.items():
            if facts.seconds_lasting("pointer-dead", f"{host.name} {folder}") >= facts.limits.pointer_age:
                yield _pointer_finding(facts, host, folder, dead)


def _pointer_finding(facts: Facts, host: Host, folder: str, dead: list[Pointer]) -> Finding:
    """After a `ray stop` `session_latest` alone is left behind, and does no harm until another Ray lives there."""
    title = facts.host_title(host)
    lives = next((session for session in host.sessions or () if session.live and os.path.dirname(session.path) == folder), None)
    harm = lives is not None or any(map(_is_address, dead))
    while_lives = f", while {lives.name} runs there" if lives else ""
    them = "it" if len(dead) == 1 else "them"
    return Finding(
        code="pointer-dead",
        level="warning" if harm else "info",
        subject=f"{title} {folder}",
        text=f"On {title} {' and '.join(map(_pointer_words, dead))}{while_lives}",
        evidence=tuple(f"{'cat' if _is_address(pointer) else 'readlink'} {pointer.path}: {pointer.target}" for pointer in dead),
        remedy=Remedy(
            f"remove {them} (`ray stop` would too, and would stop every Ray there)" if harm else "remove the files of that session", "clean"
        ),
        about=tuple(session.key for session in host.sessions or () if any(session.name in pointer.target for pointer in dead))
        or facts.index.node_keys_on(host),
    )


def _is_address(pointer: Pointer) -> bool:
    """Whether it is the file that says to Ray's tools which Ray is meant; else it is a link."""
    return os.path.basename(pointer.path) == POINTER_NAME


def _pointer_words(pointer: Pointer) -> str:
    if _is_address(pointer):
        return f"{pointer.path} names {pointer.target or 'nothing'}, where no Ray runs: `ray.init()` and `ray status` fail"
    return f"{pointer.path} points at the dead {os.path.basename(pointer.target) or 'nothing'}"


@rests_on("temps")
def foreign_temps(facts: Facts) -> Iterator[Finding]:
    """A temp dir where Ray would start by itself, and this user can't."""
    for host in facts.fresh_hosts:
        for temp in host.temps or ():
            if temp.writable is not False or os.path.basename(temp.path) != "ray":
                continue
            lives = any(session.live for session in host.sessions or ())  # who began it there or elsewhere could
            title = facts.host_title(host)
            owner = f"belongs to {temp.owner}" if temp.owner else "does not belong to this user"
            yield Finding(
                code="temp-dir-foreign",
                level="info" if lives else "warning",
                subject=f"{title} {temp.path}",
                text=f"{temp.path} on {title} {owner}, and this user can't write to it: `ray start` by this user fails there",
                evidence=(f"ls -ld {temp.path} on {title}: owner {temp.owner or 'unknown'}",),
                remedy=Remedy(
                    "start a Ray of your own with `ray start --head --temp-dir=/tmp/ray-$USER` (or set RAY_TMPDIR); keep it short: "
                    "a socket's path may have at most 107 bytes"
                ),
            )
