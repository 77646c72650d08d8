"""The one table of acts: from it come keys, footer, palette, help and commands, and what each asks of a host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cockpit.model import Actor, Job, PlacementGroup, Process, Session
from cockpit.presets import Preset

Via = Literal["hosts", "ray", "jobs", "runbook"]
"""Who carries it out: the probes of hosts, the cluster's own Ray on one of them, the dashboard's job API; or all of them, step by step."""
Flag = Literal["pid", "force", "grace", "session", "sessions", "everything", "older_than", "dear"]


@dataclass(frozen=True)
class Aim:
    """What somebody has pointed at, and how they want it. Nothing named: everything that the act is for."""

    rows: tuple[Any, ...] = ()
    """On the screen: what is tagged, or under the cursor."""
    hosts: tuple[str, ...] = ()
    """Names of hosts; empty for all."""
    id: str | None = None
    """Of a job, an actor, a placement group."""
    pids: tuple[int, ...] = ()
    session: str | None = None
    sessions: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    """Sessions that we have ended ourselves: none of them is about to come alive."""
    everything: bool = False
    force: bool = False
    only: str | None = None
    """`TERM`: no SIGKILL follows."""
    grace: float | None = None
    older_than: float | None = None
    dear: tuple[str, ...] = ()
    requests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each host is asked, where they are not all asked the same."""


@dataclass(frozen=True)
class Act:
    """Something that an operator can do. It is done by `cockpit.door` alone."""

    id: str
    """Also the name of its command."""
    keys: str
    title: str
    help: str
    via: Via
    verb: str
    """What a host, Ray or the job API calls it."""
    takes: type[Any] | None = None
    """What must be under the cursor; `None`: it needs nothing there."""
    command: bool = True
    flags: tuple[Flag, ...] = ()
    preset: Mapping[str, Any] = field(default_factory=dict)
    """What its key says of the aim."""
    why_not: Callable[[Any], str | None] = lambda _: None
    """Why it can't be done to this thing, in a sentence."""

    @property
    def first_key(self) -> str:
        """For the footer."""
        return self.keys.split(",")[0]


def request(act: Act, aim: Aim, host: str) -> dict[str, Any]:
    """What this host is asked, besides what every request holds."""
    return {name: value for name, value in _REQUESTS[act.verb](replace(aim, **act.preset), host).items() if value is not None}


def _kill(aim: Aim, host: str) -> dict[str, Any]:
    rows = [[row.pid, row.ticks] for row in aim.rows if isinstance(row, Process) and row.host == host]
    chosen = any(isinstance(row, Process) for row in aim.rows)
    named = rows if chosen else [[pid, None] for pid in aim.pids] if aim.pids else None
    how = {"force": aim.force or None, "only": aim.only, "grace": aim.grace}
    return {"act": "kill", "named": named, "any": chosen or None, "pids": bool(aim.pids) or None, **how}


def _stop(aim: Aim, host: str) -> dict[str, Any]:  # noqa: ARG001 all hosts are asked the same
    return {"act": "stop", "session": aim.session, "everything": aim.everything, "force": aim.force, "grace": aim.grace}


def _clean(aim: Aim, host: str) -> dict[str, Any]:
    rows = [row for row in aim.rows if isinstance(row, Session)]
    sessions = [row.path for row in rows if row.host == host] if rows else list(aim.sessions) if aim.sessions else None
    return {"act": "clean", "sessions": sessions, "older_than": aim.older_than, "dear": list(aim.dear), "ended": list(aim.ended)}


def _start(aim: Aim, host: str) -> dict[str, Any]:
    return {"act": "start", **aim.requests[host]}


def _ray(verb: str) -> Callable[[Aim, str], dict[str, Any]]:
    return lambda aim, _: {"act": "ray", "verb": verb, "ids": [row.id for row in aim.rows] or [aim.id], "session": aim.session}


_REQUESTS: Mapping[str, Callable[[Aim, str], dict[str, Any]]] = {
    "kill": _kill,
    "stop": _stop,
    "clean": _clean,
    "start": _start,
    "kill_actor": _ray("kill_actor"),
    "remove_placement_group": _ray("remove_placement_group"),
}


def act_for(key: str, rows: Sequence[Any]) -> tuple[Act, tuple[Any, ...]] | str:
    """The act that this key means on these rows, with those rows that it takes; or why it means nothing here."""
    meant = [act for act in ACTS if key in act.keys.split(",")]
    for act in meant:
        if act.takes is None or any(isinstance(row, act.takes) for row in rows):
            mine = taken(act, rows)
            return mine if isinstance(mine, str) else (act, mine)
    return f"{meant[0].title}: put the cursor on {_choices(meant)}" if meant else "This key does nothing here"


def taken(act: Act, rows: Sequence[Any]) -> tuple[Any, ...] | str:
    """Those of the rows that this act takes; or why it can't be done to them."""
    if act.takes is None:
        return tuple(rows)
    mine = tuple(row for row in rows if isinstance(row, act.takes))
    reasons = [reason for row in mine for reason in [act.why_not(row)] if reason]
    return reasons[0] if reasons else mine or f"{act.title}: put the cursor on {_choices([act])}"


def _choices(acts: Iterable[Act]) -> str:
    groups = {PlacementGroup: "a placement group"}
    names: Mapping[Any, str] = {Process: "a process", Actor: "an actor", **groups, Job: "a job", Preset: "a preset"}
    return " or ".join(names[act.takes] for act in acts if act.takes)


def _unknown_start(process: Process) -> str | None:
    return (
        None
        if process.ticks is not None
        else f"No probe has looked at process {process.pid}, so it can't be told from one that took its pid"
    )


def _over(job: Job) -> str | None:
    return None if job.running else f"Job {job.id} is over ({job.status})"


def _driver(job: Job) -> str | None:
    """It runs on whatever host it was started on, by whoever did: Ray knows no more of it."""
    return None if job.submission else f"Job {job.id} was never submitted to Ray: its driver was started by hand, and must be again"


def _running(job: Job) -> str | None:
    return f"Job {job.id} still runs; J stops it" if job.running else None


def _dead(actor: Actor) -> str | None:
    return "That actor is dead" if actor.state == "DEAD" else None


def find_act(name: str) -> Act:
    """By its id."""
    return next(act for act in (*ACTS, *STEPS) if act.id == name)


# In the order of footer and help. Where a key has several, the first whose thing lies under the cursor is meant.
ACTS: tuple[Act, ...] = (
    Act("kill", "K,f9", "Kill", "End the processes under the cursor or tagged: SIGTERM, then SIGKILL", "hosts", "kill",
        Process, command=False, why_not=_unknown_start),
    Act("terminate", "T", "Terminate", "End the processes under the cursor or tagged with SIGTERM alone", "hosts", "kill",
        Process, command=False, preset={"only": "TERM"}, why_not=_unknown_start),
    Act("kill-actor", "K,f9", "Kill actor", "End an actor through Ray; it is not restarted", "ray", "kill_actor", Actor, why_not=_dead),
    Act("kill-orphans", "K", "Kill orphans", "End the processes that a dead Ray has left over, and free the GPU memory they hold",
        "hosts", "kill", flags=("pid", "force", "grace")),
    Act("stop", "S", "Stop Ray", "End one Ray session on all its hosts, or on some", "hosts", "stop",
        flags=("session", "everything", "force", "grace")),
    Act("clean", "C", "Clean", "Remove what dead sessions have left in Ray's temp dirs and in /dev/shm", "hosts", "clean",
        flags=("sessions", "older_than", "dear")),
    Act("stop-job", "J", "Stop job", "Stop a job, and wait until it is over", "jobs", "stop_job", Job, why_not=_over),
    Act("launch", "L", "Launch", "Submit a preset's job to Ray, with its working_dir, and once", "jobs", "launch", Preset, command=False),
    Act("launch-again", "L", "Launch again", "Submit a job once more: its preset as it is now, else what Ray knows of it", "jobs",
        "launch", Job, command=False, why_not=_driver),
    Act("recover", "R", "Recover", "Stop Ray, clean up, start a preset's cluster anew and launch its job, step by step", "runbook",
        "recover", Preset, command=False),
    Act("delete-job", "X", "Delete job", "Delete a finished job from Ray's list", "jobs", "delete_job", Job, why_not=_running),
    Act("remove-placement-group", "X", "Remove group", "Remove a placement group; what runs in it ends with it", "ray",
        "remove_placement_group", PlacementGroup),
)  # fmt: skip

# What is only done as a step of a runbook: no key and no command is made of it.
STEPS: tuple[Act, ...] = (
    Act("start", "", "Start Ray", "Start Ray on a cluster's hosts, each with its own flags", "hosts", "start", command=False),
)  # fmt: skip
