"""Stops one session of Ray on this host: its raylets, its other parts, its GCS, then its left-over processes; each by its identity.

The request adds `session` (its name; `null`: the only live one here), `force` (SIGKILL at once), `grace` (seconds; the raylets get all of
it, because they end their workers, and each later step gets a third), `everything` (use Ray's own `ray stop`, see the module
`everything`), and `slurm` (ids of a Slurm job and its parts: without `session`, a session in another job is never chosen). The answer to
`plan` adds `weight`: {"jobs": ["…"], "drivers": [{"pid", "user", "command"}], "others": ["…"]}.

A target's `part` is its part in the session. Drivers and children are listed because they end with it: a driver that a person has started
never gets a signal, and a child only if it is left over after the session is dead. A raylet starts workers until it has ended, so these
can't be planned: they belong to this session if the folder of their session, or the raylet in their environment, belongs to a planned
raylet. If a raylet or GCS was started after the plan, the action stops before it has done anything.
"""

from __future__ import annotations

from ..host_state import Answer, HostScanner, OnProgress, Request
from . import everything
from .parts import SessionError, choose_session, find_affected, impostors, members, split_targets
from .steps import Stopping, add_freed, free_shared


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """The processes of the session on this host, in the order in which they will be ended."""
    if request.get("everything"):
        return everything.plan(request, scanner, on_progress)
    state = scanner.scan()
    notes = state.doubts
    try:
        name = choose_session(state, request.get("session"), request.get("slurm") or ())
        found = members(state, name) if name else {}
        targets, refused = split_targets(state, name, found) if name else ([], [])
    except SessionError as error:
        return {"error": str(error)}
    notes += [
        f"{part} {pid} claims to be part of {name}, which does not belong to its user {state.target(pid)['user']}: not touched"
        for pid, part in impostors(state, name or "")
    ]
    if not found:
        notes.append(f"nothing of {name} runs on this host" if name else "no Ray runs on this host")
    return {"targets": targets, "refused": refused, "notes": notes, "weight": find_affected(state, found)}


def do(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Ends the session of the planned processes."""
    if request.get("everything"):
        return everything.do(request, scanner, on_progress)
    names = {target.get("session") for target in request["targets"]}
    if len(names) != 1 or not all(names):
        return {"error": "These targets are not of one session."}
    state, shared = scanner.scan(), free_shared()
    stopping = Stopping(request, scanner, on_progress, names.pop())
    try:
        stopping.begin(state)
    except SessionError as error:
        return {"error": str(error)}
    stopping.run()
    return add_freed(stopping.answer(), state, scanner, shared)
