"""Detects several live Ray sessions on a host, a GCS without a raylet, pointers to a dead session, and a foreign temp dir."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, Level, Pointer, Remedy, Session
from cockpit.text import plural

POINTER_NAME = "ray_current_cluster"
SKYPILOT_FOLDER = "ray_skypilot"
"""The temp dir of the Ray that SkyPilot runs on each of its hosts: it offers GPUs only to SkyPilot's own jobs."""


@rests_on("sessions", "rays")
def several_sessions(facts: Facts) -> Iterator[Finding]:
    """Hosts with several live Rays: each offers all resources of the host, and Ray's commands find only one of them."""
    for host in facts.fresh_hosts:
        if host.sessions is None or len(host.sessions) < 2:
            continue
        alone = _sessions_of_lone_gcs(host)
        live = [session for session in host.sessions if session.live and session.name not in alone]
        names = {session.name for session in live}
        if len(names) < 2 or facts.seconds_lasting("sessions-several", host.name) < facts.limits.sessions_age:
            continue

        # Slurm separates jobs that share a node: each has its own GPUs, and its owner needs its session.
        jobs = {ray.session: ray.slurm for ray in host.rays or () if ray.session in names and ray.role == "raylet"}
        if len(jobs) == len(names) == len(set(jobs.values()) - {None}):
            continue

        # SkyPilot's session takes no GPU from the others; nor does the followed one if none of its nodes here offers a GPU.
        sky = {session.name for session in live if f"/{SKYPILOT_FOLDER}/" in session.path}
        nodes = [node for node in facts.index.nodes_on(host) if node.state == "ALIVE"]
        offers_no_gpu = bool(nodes) and all(not has.total for node in nodes for name, has in node.resources.items() if name == "GPU")
        without = {facts.snapshot.cluster.session} if offers_no_gpu else set()
        shared = len(host.gpus or ()) if len(names - sky - without) > 1 else 0
        gpus = f", and each may offer the same {'GPU' if shared == 1 else plural(shared, 'GPU')}" if shared else ""
        title = facts.host_title(host)
        listed: list[str] = []
        evidence: list[str] = []
        for session in live:
            this = " (this cluster)" if session.name == facts.snapshot.cluster.session else ""
            listed.append(f"{session.name}{_owner_words(session)}{this}")
            rays = [ray for ray in host.rays or () if ray.session == session.name]
            processes = ", ".join(f"{'raylet' if ray.role == 'raylet' else 'GCS'} (pid {ray.pid})" for ray in rays)
            lives = f"{processes} (`ps -ef`)" if rays else "its raylet listens on sockets/raylet"
            evidence.append(f"{session.path}{_owner_words(session)}: {lives}")
        text = f"{len(live)} Ray sessions run on {title}{gpus}: {', '.join(listed)}"
        remedy = Remedy("stop the session that is not needed, and only that one (`ray stop` would stop all of them)", "stop")
        if sky:
            remedy = Remedy("keep SkyPilot's session; never use `ray stop`, which would stop all of them")
        level: Level = "warning" if shared else "info"
        about = tuple(session.key for session in live)
        yield Finding("sessions-several", level, title, text, tuple(evidence), remedy=remedy, about=about)


@rests_on("sessions", "rays")
def lone_gcs(facts: Facts) -> Iterator[Finding]:
    """A GCS without a raylet: a failed `ray start` may leave it behind, and then the next `ray start` fails too."""
    for host in facts.fresh_hosts:
        title = facts.host_title(host)
        for name in sorted(_sessions_of_lone_gcs(host) - {facts.snapshot.cluster.session}) if host.rays else ():
            session = next((one for one in host.sessions or () if one.name == name), None)
            started = session.started if session else None
            may_be_starting = started is None or facts.now - started < facts.limits.pointer_age
            lasted = facts.seconds_lasting("gcs-alone", f"{host.name} {name}")
            if lasted < facts.limits.pointer_age or (facts.is_single_sample and may_be_starting):
                continue
            pid = next(ray.pid for ray in host.rays or () if ray.session == name and ray.role == "gcs_server")
            text = (
                f"A GCS (pid {pid}) of {name}{_owner_words(session) if session else ''} runs on {title} without a raylet, "
                "maybe left by a failed `ray start`: the next `ray start` on its port fails too"
            )
            evidence = (f"ps on {title}: gcs_server (pid {pid}), and no raylet of that session (--gcs_server_port shows the port)",)
            remedy = Remedy("stop that session (`ray stop` would stop every Ray on the host)", "stop" if session else None)
            about = (session.key,) if session else ()
            yield Finding("gcs-alone", "warning", f"{title} {name}", text, evidence, remedy=remedy, about=about)


def _sessions_of_lone_gcs(host: Host) -> set[str]:
    """Sessions with a GCS and no raylet: they offer no resources."""
    raylets = {ray.session for ray in host.rays or () if ray.role == "raylet"}
    return {ray.session for ray in host.rays or () if ray.session and ray.role == "gcs_server"} - raylets


def _owner_words(session: Session) -> str:
    return f" of {session.owner}" if session.owner else ""


@rests_on("temps", "sessions")
def dead_pointers(facts: Facts) -> Iterator[Finding]:
    """Files and links that lead Ray's commands to a dead Ray.

    After a `ray stop` only `session_latest` is left, which is harmless until another Ray runs there.
    """
    for host in facts.fresh_hosts:
        title = facts.host_title(host)
        folders: dict[str, list[Pointer]] = {}
        for pointer in host.pointers or ():
            if pointer.alive is False and not (_is_address(pointer) and facts.was_found("gcs-silent", "GCS")):
                folders.setdefault(os.path.dirname(pointer.path), []).append(pointer)
        for folder, dead in folders.items():
            if facts.seconds_lasting("pointer-dead", f"{host.name} {folder}") < facts.limits.pointer_age:
                continue
            live = next((session for session in host.sessions or () if session.live and os.path.dirname(session.path) == folder), None)
            is_harmful = live is not None or any(map(_is_address, dead))
            while_live = f", while {live.name} runs there" if live else ""
            them = "it" if len(dead) == 1 else "them"
            parts: list[str] = []
            evidence: list[str] = []
            for pointer in dead:
                if _is_address(pointer):
                    fails = "where no Ray runs: `ray.init()` and `ray status` fail"
                    parts.append(f"{pointer.path} names {pointer.target or 'nothing'}, {fails}")
                    evidence.append(f"cat {pointer.path}: {pointer.target}")
                else:
                    parts.append(f"{pointer.path} points at the dead {os.path.basename(pointer.target) or 'nothing'}")
                    evidence.append(f"readlink {pointer.path}: {pointer.target}")
            text = f"On {title} {' and '.join(parts)}{while_live}"
            level: Level = "warning" if is_harmful else "info"
            clean_up = f"remove {them} (`ray stop` would too, and would stop every Ray there)"
            remedy = Remedy(clean_up if is_harmful else "remove the files of that session", "clean")
            about = tuple(session.key for session in host.sessions or () if any(session.name in pointer.target for pointer in dead))
            about = about or facts.index.node_keys_on(host)
            yield Finding("pointer-dead", level, f"{title} {folder}", text, tuple(evidence), remedy=remedy, about=about)


def _is_address(pointer: Pointer) -> bool:
    """Whether it is the file with the address of the Ray to use; else it is a link to a session."""
    return os.path.basename(pointer.path) == POINTER_NAME


@rests_on("temps")
def foreign_temps(facts: Facts) -> Iterator[Finding]:
    """A default temp dir of Ray that this user can't write to."""
    for host in facts.fresh_hosts:
        for temp in host.temps or ():
            if temp.writable is not False or os.path.basename(temp.path) != "ray":
                continue
            lives = any(session.live for session in host.sessions or ())  # then somebody could start a Ray on this host
            title = facts.host_title(host)
            owner = f"belongs to {temp.owner}" if temp.owner else "does not belong to this user"
            text = f"{temp.path} on {title} {owner}, and this user can't write to it: `ray start` by this user fails there"
            evidence = (f"ls -ld {temp.path} on {title}: owner {temp.owner or 'unknown'}",)
            remedy = Remedy(
                "start a Ray of your own with `ray start --head --temp-dir=/tmp/ray-$USER` (or set RAY_TMPDIR); keep it short: "
                "a socket's path may have at most 107 bytes"
            )
            yield Finding("temp-dir-foreign", "info" if lives else "warning", f"{title} {temp.path}", text, evidence, remedy=remedy)
