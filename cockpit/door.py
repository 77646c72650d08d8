"""The one door through which anything is changed: plan, the same world again, deed, receipt, a line in the log, refresh.

It is never built when cockpit is read-only, and neither is the way to hosts that writes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from cockpit.actions.audit import Audit
from cockpit.actions.plan import Plan, Receipt, Reply, Target, Unreached, losses_of, reply_of, sum_freed
from cockpit.actions.table import Act, Aim, find_act, request
from cockpit.actions.weigh import weigh
from cockpit.document import InputError
from cockpit.job_door import perform_job, plan_job
from cockpit.launch import Launches
from cockpit.lookout import Lookout
from cockpit.model import Job, Process, Session, Snapshot
from cockpit.reach import HostEntry, check_host
from cockpit.sources.errand import Answer, Errands, Progress
from cockpit.sources.ray_reach import Place
from cockpit.sources.source import SourceError, within

GRACES = {"kill": 10.0, "stop": 16.0}
"""Seconds between SIGTERM and SIGKILL; 16 are Ray's own (scripts.py, `ray stop --grace-period`)."""
PATIENCE = 30.0
"""Seconds of silence, beyond the grace, after which a host is given up."""
LOOKING = 12.0
"""The same while a plan is made: the hosts that have answered wait for the one that hangs."""
WORD = 3.0
"""Seconds in which Ray may say which jobs run; an operator with a frozen dashboard waits no longer."""
Hear = Callable[[str, Progress], None]


class Door:
    """Makes plans of acts, and carries out plans. One act at a time."""

    def __init__(self, lookout: Lookout, audit: Audit) -> None:
        self._lookout, self._audit = lookout, audit
        self._entries: dict[str, HostEntry] = {}
        self._places: dict[str, Place] = {}
        self._errands = Errands(lookout.config, lookout.local, self._entries, self._places, lookout.masters)
        self._launches = Launches(lookout)
        self._busy = asyncio.Lock()
        self._under_way: tuple[str, Plan] | None = None
        """The act that the log has no outcome of yet."""
        lookout.ending.append(self.close)

    def close(self) -> None:
        """End what is under way at once; an act on a host ends with whoever listens to it, and the log says that it was broken off."""
        self._errands.close()
        self._end(None)

    async def plan(self, act: Act, aim: Aim, hear: Hear = lambda *_: None) -> Plan:
        """What would be hit, as of now; nothing is changed. Raises `SourceError`."""
        await self._lookout.known()  # a key may be pressed before the first answers are in
        if act.verb == "launch":
            return await self._launches.plan(act, aim, hear)
        if act.via == "jobs":
            return self._judged(await plan_job(self._lookout, act, aim))
        aim = aim if act.verb in ("kill", "clean", "start") else replace(aim, session=self._session(aim))
        hosts = self._hosts(act, aim)
        jobs, silent = await self._words() if act.verb != "start" else ([], ())
        asked = {host: {**request(act, aim, host), "stage": "plan", "jobs": jobs, "past": _past(self._snapshot, host)} for host in hosts}
        answers = await self._errands.send(asked, hear, LOOKING)
        plan = merged(act, answers, asked, followed=aim.session in (None, self._snapshot.cluster.session))
        sessions = {target.session for target in plan.targets if target.session} if act.verb == "stop" and not aim.everything else set()
        if len(sessions) > 1:
            raise _several(sessions)
        return self._judged(self._doubted(plan, act, aim, silent))

    def _doubted(self, plan: Plan, act: Act, aim: Aim, silent: tuple[str, ...]) -> Plan:
        """With what nobody could know: what only Ray can say, and hosts that only a Ray knows which isn't followed."""
        followed = aim.session in (None, self._snapshot.cluster.session)
        if aim.hosts or act.via == "ray" or (self._snapshot.nodes is not None and followed and self._snapshot.cluster.reachable):
            hosts: tuple[str, ...] = ()
        else:
            hosts = ("the Ray that is meant has not answered: if it has other hosts than these, name them",)
        missed = (Unreached("other hosts", hosts[0]),) if hosts and act.verb == "stop" and plan.targets else ()
        losses = (
            ("whatever else it has at work, which could not be asked of it",)
            if missed and any(one.kind == "ray" for one in plan.targets)
            else ()
        )
        met = plan.targets or plan.refused or any(one.live for one in self._snapshot.sessions or ())
        notes = (*plan.notes, *(silent if plan.refused else ()), *(hosts if met and not missed else ()))
        return msgspec.structs.replace(
            plan, losses=(*plan.losses, *losses), notes=(*_how(plan), *notes), unreached=(*plan.unreached, *missed)
        )

    async def perform(self, plan: Plan, hear: Hear = lambda *_: None) -> Receipt:
        """Exactly what was planned, where it is still so. Raises `SourceError` when nothing was begun."""
        if self._busy.locked():
            raise SourceError("another act is under way")
        async with self._busy:
            return await self._logged(plan, hear)

    async def _logged(self, plan: Plan, hear: Hear) -> Receipt:
        began, receipt = time.monotonic(), None
        unlogged = self._begin(plan)
        try:
            receipt = await self._done(plan, hear)
        finally:
            unlogged = self._end(receipt) or unlogged
            self._lookout.refresh()
        notes = (*receipt.notes, *([f"the log of acts could not be written: {unlogged}"] if unlogged else []))
        return msgspec.structs.replace(receipt, took=time.monotonic() - began, notes=notes)

    def _begin(self, plan: Plan) -> str | None:
        """Why it is not in the log, if it isn't: a full disk must not hinder the act that mends it."""
        act, unlogged = "", None
        try:
            act = self._audit.begin(plan)
        except OSError as error:
            unlogged = error.strerror or str(error)
        self._under_way = act, plan
        return unlogged

    def _end(self, receipt: Receipt | None) -> str | None:
        """Once: whoever closes the door in the middle of an act may not come back to its end."""
        if self._under_way is None:
            return None
        (act, plan), self._under_way = self._under_way, None
        try:
            self._audit.end(act, plan, receipt)
        except OSError as error:
            return error.strerror or str(error)
        return None

    async def _done(self, plan: Plan, hear: Hear) -> Receipt:
        if find_act(plan.act).verb == "launch":
            return await self._launches.perform(plan, hear)
        if find_act(plan.act).via == "jobs":
            return await perform_job(self._lookout, plan, hear)
        jobs, _ = await self._words()
        asked = {host: self._deed(plan, host, jobs) for host in {target.host: None for target in plan.targets}}
        patience = PATIENCE + max(
            (float(GRACES.get(str(one["act"]), 0.0) if one.get("grace") is None else one["grace"]) for one in asked.values()), default=0.0
        )
        return carried_out(plan, await self._errands.send(asked, hear, patience))

    def _deed(self, plan: Plan, host: str, jobs: list[dict[str, Any]]) -> dict[str, Any]:
        mine = [msgspec.to_builtins(target) for target in plan.targets if target.host == host]
        return {**plan.requests[host], "jobs": jobs, "stage": "do", "targets": mine, "past": _past(self._snapshot, host)}

    @property
    def _snapshot(self) -> Snapshot:
        return self._lookout.poller.snapshot

    async def _words(self) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """What only Ray can say, asked now: which jobs run. A sentence when it doesn't answer; then nobody guesses."""
        try:
            told = await within(WORD, self._lookout.words())
        except (SourceError, asyncio.TimeoutError) as error:
            why = str(error) or f"it has not answered within {WORD:g} s"
            return [], (f"which jobs run could not be asked of Ray: {why}",)
        return [{"session": session, **_by_state(jobs)} for session, jobs in told], ()

    def _session(self, aim: Aim) -> str | None:
        """The one that is meant: never one that merely is the only one on some host."""
        if aim.session or self._snapshot.cluster.session or aim.everything:
            return aim.session or self._snapshot.cluster.session
        found = [one for one in self._snapshot.sessions or () if one.live]
        live = {one.name for one in found if self._serves(one)}
        if found and not live:
            others = ", ".join(sorted({one.name for one in found}))
            raise SourceError(
                f"the dashboard that is meant has not answered, and {others} lives behind another one: name it with --session"
            )
        if len(live) > 1:
            raise _several(live)
        return live.pop() if live else None

    def _serves(self, session: Session) -> bool:
        """False: somebody has said which dashboard is meant, which does not answer, and it is not this session's."""
        address = self._lookout.address
        if address is None or address.origin == "default" or address.origin.startswith("session"):
            return True
        meant, host = urlsplit(address.url), self._snapshot.hosts.get(session.host)
        here = ("localhost", "127.0.0.1", "::1") if session.host == self._lookout.local else ()
        near = meant.hostname in (session.host, *here, *(host.addresses if host else ()))
        return near and (session.dashboard is None or urlsplit(session.dashboard).port == meant.port)

    # Which hosts

    def _hosts(self, act: Act, aim: Aim) -> tuple[str, ...]:
        """Those that were named, those of the rows, or all; an act of Ray's own is carried out on one."""
        self._entries.update(self._lookout.others())
        self._places.clear()
        self._places.update(self._lookout.places())
        rows = {row.host for row in aim.rows if isinstance(row, Process)} if act.takes is Process else set()
        if aim.hosts:
            return tuple(dict.fromkeys(self._named(name) for name in aim.hosts))
        if act.via == "ray":
            return (self._ray_host(),)
        if aim.pids or aim.dear:  # a number or a path means one thing, on one host
            return (self._lookout.local,)
        return tuple(sorted(rows)) or (self._lookout.local, *sorted(self._entries))

    def meet(self, entry: HostEntry) -> str:
        """What a host is called here; one that nobody knows is reached as the entry says from now on. Raises `SourceError`."""
        self._entries.update(self._lookout.others())
        for name in (entry.name, entry.target):
            if (known := self._known(name)) is not None:
                return known
        self._entries[entry.name] = entry
        return entry.name

    def _named(self, name: str) -> str:
        """What a person calls a host, as the name it has here; one that nobody knows is reached by the name itself."""
        if (known := self._known(name)) is not None:
            return known
        try:
            self._entries[name] = check_host(HostEntry(name))
        except InputError as error:
            raise SourceError(str(error)) from error
        return name

    def _known(self, name: str) -> str | None:
        snapshot = self._snapshot
        here = {alias for host in snapshot.hosts.values() if host.local for alias in (host.name, *host.addresses)}
        if name in {self._lookout.local, "localhost", *here}:
            return self._lookout.local
        nodes = {alias: node.ip for node in snapshot.nodes or () for alias in (node.title, node.host, node.ip, node.id)}
        for entry in self._entries.values():
            if name in (entry.name, entry.target) or nodes.get(name) == entry.target:
                return entry.name
        return self._lookout.local if nodes.get(name) in here else None

    def _ray_host(self) -> str:
        """One with a live raylet of this cluster: this host, else the head, else any."""
        snapshot = self._snapshot
        session = snapshot.cluster.session
        lives = {one.host for one in snapshot.sessions or () if one.live and session in (None, one.name)}
        if self._lookout.local in lives:
            return self._lookout.local
        nodes = sorted((node for node in snapshot.nodes or () if node.state == "ALIVE"), key=lambda node: not node.head)
        for node in nodes:
            return self._named(node.ip)
        raise SourceError("no live Ray is known here that could do it")

    def _judged(self, plan: Plan) -> Plan:
        """With what ends with it, and the word to be typed when live work does."""
        ends, word = weigh(self._snapshot, plan, {name: entry.target for name, entry in self._entries.items()})
        return msgspec.structs.replace(plan, losses=(*plan.losses, *ends), word=plan.word or word)


def _by_state(jobs: Iterable[Job]) -> dict[str, list[str]]:
    """By either id; one that has been given to two jobs counts as running."""
    jobs = tuple(jobs)
    running = {name for job in jobs if job.running for name in (job.job, job.submission) if name}
    ended = {name for job in jobs for name in (job.job, job.submission) if name} - running
    return {"running": sorted(running), "ended": sorted(ended)}


def _how(plan: Plan) -> tuple[str, ...]:
    """Which signals, and how long between them."""
    first: Mapping[str, Any] = next(iter(plan.requests.values()), {})
    act = str(first.get("act"))
    if act not in GRACES or not plan.targets or first.get("everything"):
        return ()
    grace = GRACES[act] if first.get("grace") is None else float(first["grace"])
    if first.get("force"):
        return ("SIGKILL at once",)
    if first.get("only"):
        return (f"SIGTERM alone; what has not ended after {grace:g} s is told",)
    return (f"SIGTERM first; what has not ended after {grace:g} s gets SIGKILL",)


def _several(sessions: Iterable[str]) -> SourceError:
    return SourceError(f"which session? Choose one of {', '.join(sorted(sessions))} (--session)")


def _past(snapshot: Snapshot, host: str) -> list[Any]:
    """What the probe of that host has seen before, as it has said it."""
    return [[process.pid, process.ticks, *process.past] for process in snapshot.processes or () if process.host == host and process.past]


def merged(act: Act, answers: Mapping[str, Answer], asked: Mapping[str, Mapping[str, Any]], *, followed: bool) -> Plan:
    """One plan out of what the hosts have answered. A host that has two names is one host."""
    replies, refused, silent = _replies(answers)
    machines: dict[str, str] = {}
    for host, reply in replies.items():
        machines.setdefault(reply.machine or host, host)
    twice = tuple(
        f"{host} is {machines[reply.machine or host]}" for host, reply in replies.items() if machines[reply.machine or host] != host
    )
    replies = {host: replies[host] for host in machines.values()}
    kept = {host: {name: value for name, value in asked[host].items() if name not in ("jobs", "past", "stage")} for host in asked}
    return Plan(
        act=act.id,
        title=act.title,
        targets=_all(replies, "targets"),
        refused=(*_all(replies, "refused"), *refused),
        notes=(*_all(replies, "notes"), *twice),
        losses=tuple(loss for host, reply in replies.items() for loss in losses_of(reply, host, followed=followed)),
        unreached=silent,
        hosts=tuple(answers),
        requests=kept,
    )


def carried_out(plan: Plan, answers: Mapping[str, Answer]) -> Receipt:
    """One receipt out of what the hosts have answered; what none of them speaks of has not been done."""
    replies, refused, silent = _replies(answers)
    said = (*_all(replies, "done"), *_all(replies, "refused"), *_all(replies, "failed"))
    known = {_identity(target) for target in said}
    lost = [target for target in plan.targets if target.host in replies and _identity(target) not in known]
    return Receipt(
        act=plan.act,
        title=plan.title,
        done=_all(replies, "done"),
        refused=(*_all(replies, "refused"), *refused),
        failed=(
            *_all(replies, "failed"),
            *(msgspec.structs.replace(target, error="its host has not said what became of it") for target in lost),
        ),
        notes=_all(replies, "notes"),
        unreached=(*plan.unreached, *silent),
        hosts=plan.hosts,
        freed=sum_freed(reply.freed for reply in replies.values()),
    )


def _identity(target: Target) -> tuple[object, ...]:
    return target.host, target.what, target.pid, target.ticks, target.path, target.id


def _all(replies: Mapping[str, Reply], name: str) -> tuple[Any, ...]:
    return tuple(one for reply in replies.values() for one in getattr(reply, name))


def _replies(answers: Mapping[str, Answer]) -> tuple[dict[str, Reply], tuple[Target, ...], tuple[Unreached, ...]]:
    """What hosts have answered, which of them refused altogether, and which could not be asked."""
    read = {host: _reply(answer) for host, answer in answers.items()}
    replies = {host: reply for host, reply in read.items() if isinstance(reply, Reply)}
    errors = {host: error for host, error in read.items() if isinstance(error, str)}
    refused = tuple(Target("host", host, name=host, reason=error) for host, error in errors.items() if answers[host].refused)
    return replies, refused, tuple(Unreached(host, error) for host, error in errors.items() if not answers[host].refused)


def _reply(answer: Answer) -> Reply | str:
    if answer.reply is None:
        return answer.error or f"{answer.host} gave no answer"
    try:
        return reply_of(answer.host, answer.reply)
    except msgspec.ValidationError as error:
        return f"{answer.host}: what its probe says can't be read: {error}"
