"""Finds the logs of a thing: of an actor or process its own and those before a restart, of a node Ray's, of a job its driver's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from cockpit.model import SUPERVISOR, Actor, Finding, Job, Node, Process, Session, Snapshot
from cockpit.monitor.host_selection import HostSelection
from cockpit.monitor.log_folder import IsOver, LogFolder, ProbePlace, Way, always
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.ray.client import RayClient
from cockpit.sources.ray.log_files import LogFiles
from cockpit.sources.ray.log_names import (
    GCS_LINES,
    GCS_LOG,
    PART_GLOB,
    file_pattern,
    lost_workers,
    part_logs,
    part_of,
    setup_logs,
    short_name,
    without_others,
    worker_glob,
    worker_logs,
)
from cockpit.sources.source import SourceError

MAX_THINGS_ASKED: Final = 4
"""Of the things that a finding is about: one without a log may take seconds to answer so."""
MAX_PARENTS: Final = 4
BEFORE: Final = "-before"
NODE_PARTS: Final = (("raylet", "out"), ("raylet", "err"), ("dashboard_agent", "log"), ("runtime_env_agent", "log"))
HEAD_PARTS: Final = (("gcs_server", "out"), ("dashboard", "log"), ("monitor", "log"))
SUFFIXES: Final = ("log", "out", "err")
"""A part of Ray that writes a `.log` leaves its `.out` empty."""
SETUP_WORDS: Final = "runtime_env_setup"
ENDED: Final = "the process has ended"
Follow = Callable[[int, bool], AsyncIterator[Sequence[str]]]
ReadEnd = Callable[[int, int], Awaitable[list[str]]]


async def refuse_to_read_end(_lines: int, _most_bytes: int) -> list[str]:
    """Of a log that can only be followed."""
    raise SourceError("this log can only be followed")


class Log(msgspec.Struct, frozen=True):
    """One log that can be opened. `follow(lines, on)` yields its last lines in batches, and with `on` what is written from then on."""

    label: str
    """Unique among the logs of a thing: `out`, `err`, `err-before`, `raylet.out`, `job`."""
    file: str
    where: str
    """The name of its node for people."""
    follow: Follow
    ended: str = ENDED
    """Its state after it was read to its end."""
    ended_at: Callable[[], float | None] = lambda: None
    """Since when nothing writes to it; `None`: something still may, or it is unknown."""
    read_end: ReadEnd = refuse_to_read_end
    """Returns its last lines, at most so many lines and bytes."""

    @property
    def is_before(self) -> bool:
        """Whether it is of the process before a restart."""
        return self.label.endswith(BEFORE)

    @property
    def title(self) -> str:
        """Its file, short enough for one line, and its node."""
        return f"{short_name(self.file)} on {self.where}" if self.where else short_name(self.file)


class LogFinder:
    """Finds the logs of things in a snapshot. Every failure is a `SourceError`."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        ray: Callable[[], RayClient],
        pool: ProbePool,
        selection: HostSelection,
    ) -> None:
        self._snapshot, self._ray, self._pool, self._selection = snapshot, ray, pool, selection

    async def logs_of(self, thing: Any) -> tuple[Log, ...]:
        """Its logs, the most important one first; never empty."""
        match thing:
            case Actor():
                logs = await self._of_actor(thing)
            case Process():
                logs = await self._of_process(thing)
            case Node():
                logs = await self._of_node(thing)
            case Session():
                logs = await self._of_session(thing)
            case Job():
                # Without a driver its entrypoint never ran: what was written is the setup of its environment.
                setup = await self._setup_logs((thing,)) if thing.submission and thing.driver_node is None else []
                logs = [*setup, self.job_log(thing)]
            case _:
                logs = self._job_logs(thing)
        if not logs:
            raise SourceError(_why_none(thing, self._job_of(thing), self._started_by(thing)))
        return tuple(logs)

    async def logs_about(self, finding: Finding, things: Sequence[Any]) -> tuple[Log, ...]:
        """The logs of the first thing that has any: files that the finding names come first, then those before a restart.

        A finding without things may name a file of Ray; then the logs of the head.
        """
        words = "\n".join((finding.text, *finding.evidence, finding.remedy.text if finding.remedy else ""))
        head = self._head()
        things = things or ([head] if head and any(".".join(part) in words for part in (*HEAD_PARTS, *NODE_PARTS)) else [])
        logs: list[Log] = []
        why: SourceError | None = None
        for thing in things[:MAX_THINGS_ASKED]:
            try:
                logs += await self.logs_of(thing)
                break
            except SourceError as error:
                why = why or error
        if not logs and why is not None:
            raise why
        if SETUP_WORDS in words:
            logs += await self._setup_logs(things)
        if not logs:
            raise SourceError(f"no log: what this finding is about has none ({finding.subject})")
        unique = {log.file: log for log in logs}.values()
        return tuple(sorted(unique, key=lambda log: (file_pattern(log.file) not in words, BEFORE not in log.label)))

    async def logs_of_pid(self, node: Node, pid: int, job: str | None = None) -> tuple[Log, ...]:
        """The logs of a worker that had this pid on a node; it may have ended long ago.

        Pids are reused: with `job` the logs of other jobs' workers are left out.
        """
        found = await self._of_worker(self.folder(node), pid, job, always)
        if not found:
            raise SourceError(f"Ray keeps no log of a worker with pid {pid} on {node.title}")
        return tuple(found)

    def with_file(self, logs: Sequence[Log], file: str | None, node_id: str | None) -> tuple[Log, ...]:
        """These logs, with the one that has this file first; if none has it, it is that file on this node, if that is known."""
        if file is None or any(log.file == file for log in logs):
            return tuple(sorted(logs, key=lambda log: log.file != file)) if file else tuple(logs)
        node = self._node(node_id)
        return (self._file(self.folder(node), file, always, label="error"), *logs) if node else tuple(logs)

    async def setup_logs_of(self, job: Job) -> tuple[Log, ...]:
        """The logs of the setup of its runtime environment."""
        return tuple(await self._setup_logs((job,)))

    def job_log(self, job: Job) -> Log:
        """The output of its driver, until the job is over."""
        node = self._node(job.driver_node)

        async def follow(lines: int, on: bool) -> AsyncIterator[Sequence[str]]:  # noqa: ARG001 Ray always follows; the reader stops reading
            async for batch in self._ray().follow_log(job.id, lines):
                yield batch

        def ended_at() -> float | None:
            return next((known.ended for known in self._snapshot().jobs or () if known.id == job.id and not known.running), None)

        return Log("job", f"job-driver-{job.id}.log", node.title if node else "", follow, "the job has ended", ended_at)

    def log_until_now(self, job: Job) -> Log:
        """The output of its driver as it is now. Raises `SourceError` if its node is unknown."""
        folder, name = self._driver_file(job)
        return self._file(folder, name, always, label="job")

    async def read_job_end(self, job: Job, lines: int, most_bytes: int, way: Way) -> list[str]:
        """The last lines of the output of a job's driver. Raises `SourceError`."""
        folder, name = self._driver_file(job)
        return await folder.read_end(name, lines, most_bytes, way)

    def _driver_file(self, job: Job) -> tuple[LogFolder, str]:
        node = self._node(job.driver_node)
        if node is None or job.submission is None:
            raise SourceError(f"the log of {job.id} can't be found: Ray does not name the node of its driver")
        return self.folder(node), f"job-driver-{job.submission}.log"

    # Of each kind of thing

    def _job_logs(self, thing: Any) -> list[Log]:
        job = self._job_of(thing)
        return [self.job_log(job)] if job is not None and job.submission else []

    def _job_of(self, thing: Any) -> Job | None:
        """The job that it works for; of a supervisor, which works for no user's job, the job that it has started."""
        started, own = self._started_by(thing), getattr(thing, "job", None)
        jobs = self._snapshot().jobs or ()
        return next((job for job in jobs if (job.submission == started if started else own and job.job == own)), None)

    def _started_by(self, thing: Any) -> str | None:
        """The submission id of the job that a supervisor has started; `None`: it is no supervisor."""
        actors = (thing,) if isinstance(thing, Actor) else self._snapshot().actors or ()
        ids = (getattr(thing, "id", None), getattr(thing, "actor", None))
        name = next((actor.name for actor in actors if actor.internal and actor.id in ids), "")
        return name.removeprefix(SUPERVISOR) if name.startswith(SUPERVISOR) else None

    async def _of_actor(self, actor: Actor) -> list[Log]:
        async def is_gone() -> bool:
            known = self._snapshot().actors
            return known is not None and not any(one.id == actor.id and one.pid == actor.pid and one.state == "ALIVE" for one in known)

        node, own, before, setup = self._node(actor.node), [], [], []
        if actor.pid and node:
            own = await self._or_why("out", node, self._of_worker(self.folder(node), actor.pid, actor.job, is_gone))
        if actor.restarts or actor.state == "RESTARTING":
            before = await self._or_why(f"err{BEFORE}", self._head(), self._of_lost(actor, {log.file for log in own}))
        if actor.wait == "starting":
            setup = await self._setup_logs((actor,))
        if actor.state != "ALIVE":
            own, before = own[::-1], before[::-1]
        own = [*before, *own] if actor.state == "RESTARTING" else [*own, *before]
        job = self._job_logs(actor)
        return [*setup, *job, *own] if self._started_by(actor) else [*setup, *own, *job]

    async def _of_process(self, process: Process) -> list[Log]:
        snapshot = self._snapshot()

        async def is_gone() -> bool:
            known, identity = self._snapshot().processes, (process.host, process.pid, process.ticks)
            return known is not None and not any((one.host, one.pid, one.ticks) == identity for one in known)

        # The folder of its session: Ray has only its own session's logs, and only of living nodes.
        node, followed = self._node(process.node), snapshot.cluster.session
        if node is not None and process.ours is not False and process.session in (None, followed):
            folder = self.folder(node)
        else:
            session = process.session or followed
            folder = LogFolder(process.host, self._pool, ProbePlace(process.host, session) if session else None)
        part = part_of(process.command or "") if process.kind in ("ray", "stale") else None
        if part:
            names = await self._part_names(folder, process.node)
            return [self._file(folder, name, is_gone) for suffix in SUFFIXES for name in part_logs(names, part, suffix)]
        if process.kind == "driver":
            return self._job_logs(process)
        # Only a worker has a log: the process itself, one above it, or the one that has started it.
        by_pid = {(one.host, one.pid): one for one in snapshot.processes or ()}
        above: list[Process] = []
        at = process
        while (parent := by_pid.get((at.host, at.parent or 0))) is not None and parent not in above and len(above) < MAX_PARENTS:
            above.append(at := parent)
        workers = [process, *(one for one in above if one.kind in ("worker", "stale"))]
        pids = [(one.ns_pid or one.pid, one.job or one.other_job) for one in workers]
        if process.worker is not None:
            pids.append((process.worker, None))
        for pid, job in dict.fromkeys(pids):
            if found := await self._of_worker(folder, pid, job, is_gone):
                return [*found, *self._job_logs(process)]
        return self._job_logs(process)

    async def _of_node(self, node: Node) -> list[Log]:
        folder = self.folder(node)
        names = await self._part_names(folder, node.id)
        parts = [*NODE_PARTS[:1], *(HEAD_PARTS if node.head else ()), *NODE_PARTS[1:]]
        found = [name for part, suffix in parts for name in part_logs(names, part, suffix)]
        return [self._file(folder, name, partial(self._is_dead, node), "the node is dead") for name in found]

    async def _of_session(self, session: Session) -> list[Log]:
        folder = LogFolder(f"{session.host} ({session.name})", self._pool, ProbePlace(session.host, session.name))
        names = await folder.names(PART_GLOB)
        found = [name for part, suffix in (*NODE_PARTS, *HEAD_PARTS) for name in part_logs(names, part, suffix)]

        async def is_over() -> bool:
            return not session.live

        return [self._file(folder, name, is_over, "its Ray has ended") for name in found]

    # Files

    async def _of_worker(self, folder: LogFolder, pid: int, job: str | None, is_over: IsOver) -> list[Log]:
        names = await folder.names(worker_glob(pid))
        return [self._file(folder, log.name, is_over, label=log.stream) for log in worker_logs(names, pid=pid, job=job)]

    async def _of_lost(self, actor: Actor, own: set[str]) -> list[Log]:
        """The logs of the actor's process before the restart; `own`: the files of its process now."""
        head = self._head()
        if head is None:
            raise SourceError("the log before the restart can't be found: only the GCS's log names that process, and no head node is known")
        lost = lost_workers(await self.folder(head).read_end(GCS_LOG, GCS_LINES), actor.id)
        current = {log.worker for log in worker_logs(own)}
        last = next((one for one in lost if one.worker not in current), None)
        node = self._node(last.node) if last else None
        if last is None or node is None:
            return []
        folder = self.folder(node)
        found = worker_logs(await folder.names(f"worker-{last.worker}-*"), worker=last.worker)
        return [self._file(folder, log.name, always, label=f"{log.stream}{BEFORE}") for log in found]

    async def _setup_logs(self, things: Sequence[Any]) -> list[Log]:
        """The logs of the setup of runtime environments, on the node of one of these things, else on the head."""
        job = next((job for thing in things if (job := getattr(thing, "job", None))), None)
        node = next((node for thing in things if (node := self._node(getattr(thing, "node", None)))), None) or self._head()
        if node is None:
            return []
        folder = self.folder(node)
        try:
            names = setup_logs(await folder.names(f"{SETUP_WORDS}-*"), job)
        except SourceError as error:
            return [_unreadable("setup", node, error)]
        return [self._file(folder, name, partial(self._is_dead, node)) for name in names[:2]]

    async def _part_names(self, folder: LogFolder, node: str | None) -> list[str]:
        """The files of parts of Ray, without the files of other raylets on the host if the node's own are known."""
        names = await folder.names(PART_GLOB)
        own = await folder.raylet_log(names, node) if node else None
        return without_others(names, own) if own else list(names)

    def _file(self, folder: LogFolder, name: str, is_over: IsOver, ended: str = ENDED, *, label: str | None = None) -> Log:
        def follow(lines: int, on: bool) -> AsyncIterator[Sequence[str]]:
            return folder.follow(name, lines, is_over if on else always)

        return Log(label or name, name, folder.title, follow, ended, read_end=partial(folder.read_end, name))

    async def _or_why(self, label: str, node: Node | None, logs: Awaitable[list[Log]]) -> list[Log]:
        """These logs; if they can't be listed, one that raises the reason when it is opened, so that others can be read."""
        try:
            return await logs
        except SourceError as error:
            return [_unreadable(label, node, error)]

    # Nodes

    async def _is_dead(self, node: Node) -> bool:
        return any(one.key == node.key and one.state == "DEAD" for one in self._snapshot().nodes or ())

    def _node(self, node: str | None) -> Node | None:
        return next((one for one in self._snapshot().nodes or () if node and one.id == node), None)

    def _head(self) -> Node | None:
        return next((node for node in self._snapshot().nodes or () if node.head and node.id), None)

    def folder(self, node: Node) -> LogFolder:
        """The logs folder of a node: read by its agent if the node is alive, else by a probe."""
        snapshot = self._snapshot()
        host, session = snapshot.index.host_of(node), snapshot.cluster.session
        if not session or node.id is None:
            session = next((one.name for one in (host.sessions or () if host else ()) if one.live), session)
        name = self._pool.local if host and host.local else host.name if host else node.title
        place = ProbePlace(name, session, self._selection.entry(node)) if session else None

        async def files() -> LogFiles:
            return await self._ray().log_files()

        return LogFolder(node.title, self._pool, place, node.id, files if node.id and node.state != "DEAD" else None)


def _unreadable(label: str, node: Node | None, error: SourceError) -> Log:
    async def follow(lines: int, on: bool) -> AsyncIterator[Sequence[str]]:  # noqa: ARG001 there are none
        none: tuple[Sequence[str], ...] = ()
        for batch in none:
            yield batch
        raise error

    async def read_end(_lines: int, _most_bytes: int) -> list[str]:
        raise error

    return Log(label, label, node.title if node else "", follow, read_end=read_end)


def _why_none(thing: Any, job: Job | None, started: str | None) -> str:
    """Why a thing has no log. `job`: the job that it works for; `started`: the submission id of the job that it has started."""
    if isinstance(thing, Actor):
        what = f"the supervisor of job {started}" if started else f"actor {thing.name or thing.class_}"
        kept = "its node keeps no file of its process" if thing.pid and thing.node else "Ray does not report its process"
        own = "it has not had a process yet" if thing.pending else kept
        return f"no log of {what}: {own}, and {'Ray no longer lists its job' if job is None else 'its job was not submitted to Ray'}"
    if isinstance(thing, Process):
        owner = thing.other_owner
        return f"no log of process {thing.pid}: {f'it belongs to {owner}' if owner else 'Ray writes none for it'}"
    if isinstance(thing, Node):
        return f"no log of {thing.title}: Ray has written none there"
    return "no log: put the cursor on a job, an actor, a process of Ray, a node or a finding"
