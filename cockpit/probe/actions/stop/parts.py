"""Finds the processes of one Ray session on this host: its parts in the order in which Ray ends them, its drivers and their children."""

from __future__ import annotations

import os
from typing import Any, Collection, Dict, List, Mapping, Tuple

from ... import trust
from ...sample.origin import SERVICES
from ...sample.process_kinds import LEFT_OVER_KINDS
from ...sample.processes import Identity, read_environ
from ...sample.raylets import gcs_address, read_slurm_job
from ...trust import own_uids
from ..host_state import HostState, Target
from ..signals import find_own_ancestry

ORDER = ("raylet", "agent", "dashboard", "autoscaler", "log_monitor", "client_server", "worker", "child", "driver", "gcs_server")
"""The order of `ray stop` (2.9 to 2.60): the raylet first, so that its agents don't complain; the GCS last, since others need it to end."""
ROOTS = ("raylet", "gcs_server")
"""These two, or the `ray start` that started them, have started all other processes of a session."""
Members = Mapping[int, str]
"""Pid → part, in ORDER."""


class SessionError(Exception):
    """The chosen session or its owner is unknown; the text is one sentence."""


def choose_session(state: HostState, name: str | None, slurm: Collection[str] = ()) -> str | None:
    """Returns the named session. Without a name, it returns the only live one, or the only one that has left processes; `None`: none.

    `slurm`: ids of a Slurm job; a live session that runs in another job is never chosen.
    """
    if name is not None:
        return name
    alive, dead = sessions(state)
    jobs = {one: _find_other_job(state, one, slurm) for one in alive}
    if alive and all(jobs.values()):
        listed = ", ".join(f"{one} (Slurm job {job})" for one, job in jobs.items())
        raise SessionError(f"what runs on this host is in another Slurm job: {listed}; name it to stop it")
    found = [one for one in alive if not jobs[one]] or dead
    if len(found) > 1:
        there = "run" if alive else "have left processes"
        raise SessionError(f"{len(found)} Ray sessions {there} on this host ({', '.join(found)}): choose one by its name")
    return found[0] if found else None


def _find_other_job(state: HostState, name: str, ours: Collection[str]) -> str | None:
    """The Slurm job of a session's raylet or GCS, if it is not one of ours. Only processes of root and of our user count."""
    for pid, verdict in state.verdicts.items() if ours else ():
        if verdict.kind == "ray" and _role(state, pid) in ROOTS and _name(verdict.session) == name:
            details = state.table[pid].details
            job = read_slurm_job(pid, {} if details.stuck else read_environ(pid) or {}) if details.uid in own_uids() else None
            if job is not None:
                return None if job in ours else job
    return None


def sessions(state: HostState) -> Tuple[List[str], List[str]]:
    """The names of the live sessions here, and of the sessions that have only stale processes left."""
    alive, stale = (
        {_name(verdict.session) for pid, verdict in state.verdicts.items() if verdict.kind == kind and _role(state, pid) in roles}
        for kind, roles in (("ray", ROOTS), ("stale", (*SERVICES, "worker", "supervisor")))
    )
    return sorted(alive - {""}), sorted(stale - alive - {""})


def members(state: HostState, name: str, known: Collection[Identity] = (), raylets: Collection[Identity] = ()) -> Dict[int, str]:
    """The processes of this session now.

    `known`: processes that belonged to it before. `raylets`: its earlier raylets; the processes that these started have their pid in the
    environment.
    """
    found = _find_claimants(state, name, known, raylets)
    others = {pid for pid, _ in impostors(state, name)}
    return {pid: part for pid, part in found.items() if pid not in others}


def impostors(state: HostState, name: str) -> List[Tuple[int, str]]:
    """Processes that look like a part of this Ray, but run as another user than its owner: any user can start such a process."""
    found = _find_claimants(state, name)
    uid = owner(state, name, found)
    users = (uid, trust.ROOT, None)
    return [
        (pid, part) for pid, part in found.items() if part in SERVICES and uid is not None and state.table[pid].details.uid not in users
    ]


def _find_claimants(state: HostState, name: str, known: Collection[Identity] = (), raylets: Collection[Identity] = ()) -> Dict[int, str]:
    """All processes that look like processes of this session, in ORDER."""
    found = {}
    for pid in state.sort_deepest_first(pid for pid in state.verdicts if pid in state.table):
        process, session = state.table[pid], _name(state.verdicts[pid].session)
        part = _part(state, pid) if process.alive else None
        is_child = not process.details.apart and any(process.origin.raylet == one and process.ticks >= ticks for one, ticks in raylets)
        if part and (session == name or (not session and (process.identity in known or is_child))):
            found[pid] = part
    return dict(sorted(found.items(), key=lambda one: ORDER.index(one[1])))


def _part(state: HostState, pid: int) -> str | None:
    """Its part in its session; `None` if it does not end with a session, or if that is unknown."""
    verdict, role = state.verdicts[pid], _role(state, pid)
    if role in SERVICES and verdict.kind in ("ray", "stale"):
        return role
    if verdict.kind in ("worker", "stale"):
        return "worker"
    if verdict.kind in ("child", "orphan") or verdict.undecided == "job":
        return "child"
    return "driver" if verdict.kind == "driver" else None


def hangs_from_service(state: HostState, pid: int) -> bool:
    """Whether it is a descendant of a part of Ray itself, with no worker and no driver in between."""
    passed = {pid}
    while True:
        pid = state.table[pid].parent
        if pid in passed or pid not in state.table or pid not in state.verdicts:
            return False
        if state.verdicts[pid].kind != "child":
            return _role(state, pid) in SERVICES and state.verdicts[pid].kind in ("ray", "stale")
        passed.add(pid)


def _role(state: HostState, pid: int) -> str | None:
    return state.table[pid].origin.role if pid in state.table else None


def _name(session: str | None) -> str:
    return os.path.basename(session or "")


def owner(state: HostState, name: str, found: Members) -> int | None:
    """The owner of the session: the owner of its folder, because any user can fake its processes; else the only user of its processes."""
    folders = {one.uid for one in state.sessions.all if one.name == name} - {None}
    owners = folders.intersection(own_uids()) or folders
    if len(owners) == 1:
        return owners.pop()
    for roots in (ROOTS, SERVICES, ("worker",)):
        uids = {state.table[pid].details.uid for pid, part in found.items() if part in roots} - {None}
        if len(uids) > 1:
            raise SessionError(f"processes of several users claim to be {' or '.join(roots)} of {name}: its owner is unknown")
        if uids:
            return uids.pop()
    return None


def split_targets(state: HostState, name: str, found: Members) -> Tuple[List[Target], List[Target]]:
    """The processes of the session as targets, in ORDER, and those that may not be ended from here."""
    uid = owner(state, name, found)
    why_none = _why_not_stopped(state, name, found, uid)
    targets: List[Target] = []
    refused: List[Target] = []
    for pid, part in found.items():
        why_not = why_none
        process_uid = state.table[pid].details.uid
        if why_not is None and os.geteuid() not in (0, process_uid) and part != "driver":
            why_not = "it belongs to another user: only root may stop it"
        elif why_not is None and part in SERVICES and process_uid != uid:
            why_not = f"it looks like {part} of this session, but was started by another user"
        gcs = {"facts": {"gcs": gcs_address(state.table[pid])}} if part in ROOTS else {}
        (refused if why_not else targets).append(state.target(pid, part=part, **gcs, **({"reason": why_not} if why_not else {})))
    return targets, refused


def _why_not_stopped(state: HostState, name: str, found: Members, uid: int | None) -> str | None:
    """The reason why nothing of this session is ended, or `None`."""
    if uid is not None and os.geteuid() not in (0, uid):
        user = next(state.target(pid)["user"] for pid in found if state.table[pid].details.uid == uid)
        return f"{name} belongs to {user}: only {user if user == 'root' else user + ' and root'} may stop it"
    line = find_own_ancestry()
    for pid in found:
        if pid in line:
            return f"cockpit itself runs in {name}, below process {pid}: to stop it, run cockpit outside of Ray"
    return None


def find_affected(state: HostState, found: Members) -> Dict[str, Any]:
    """The work that a stop would end: jobs, drivers, and users other than the owner who work in the session."""
    drivers = [state.target(pid) for pid, part in found.items() if part == "driver"]
    at_work = [
        pid for pid, part in found.items() if part in ("driver", "worker", "child") and state.verdicts[pid].kind not in LEFT_OVER_KINDS
    ]
    owners = {state.target(pid)["user"] for pid, part in found.items() if part in SERVICES}
    return {
        "jobs": sorted({job for job in (state.verdicts[pid].job for pid in at_work) if job}),
        "drivers": [{key: driver[key] for key in ("pid", "user", "command")} for driver in drivers],
        "others": sorted({state.target(pid)["user"] or "?" for pid in at_work} - owners),
    }
