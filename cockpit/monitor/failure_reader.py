"""Reads the logs of what failed, in the background and once per failure, and finds the error that caused it."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.failures import RootError, describe, find_root_error
from cockpit.failures.describe import safe_line
from cockpit.failures.repetition import Repetition, find_repetition
from cockpit.findings.actors import RESTARTING_CODE
from cockpit.findings.failures import failure_in_message, without_ray_lines
from cockpit.findings.ports import last_failures
from cockpit.findings.stalls import STALL_CODES, jobs_with_still_gpus
from cockpit.model import Actor, Failure, Job, Node, Process, Snapshot
from cockpit.monitor.logs import Log, LogFinder
from cockpit.monitor.poller import Poller
from cockpit.monitor.reading import Reading
from cockpit.sources.ray.log_names import file_pattern
from cockpit.sources.source import SourceError, wait_within

MAX_LOG_LINES: Final = 20_000
"""Of the end of a log, in which the error of a failed job is looked for: some 2 MB."""
MAX_KEPT_BYTES: Final = 2 << 20
FEW_LINES: Final = 100
"""Read from the end of a log of which `MAX_LOG_LINES` can't be read."""
MAX_RUNNING_LINES: Final = 400
"""Of a running job, before the lines that it repeats: an error long before is not what it waits for."""
READ_TIMEOUT_S: Final = 20.0
AGAIN_AFTER_S, RETRY_AFTER_S = 60.0, 10.0
"""Seconds until a log that grows is read again, and one that could not be read."""
MAX_RESTARTING: Final = 4
"""Actors in a restart loop whose logs are read; mostly they fail for the same reason."""
STILL_FOR_S: Final = 120.0
"""Seconds without work on its GPUs after which the log of a running job is read."""
STILL_EVERY_S: Final = 30.0
"""Seconds between two searches for such jobs."""
MAX_STILL: Final = 8
MAX_REPEATED_CHARS: Final = 120
MAX_WHY_CHARS: Final = 500
"""Of the reason why a log was not read."""
PROCESSES_EVERY_S: Final = 20.0
"""Seconds between two lists of processes that are kept: a failed job's processes are gone when its failure is known."""
NEAR_S: Final = 120.0
"""Seconds around an error in which the raylet's lines may explain it."""
_DEAD_WORKER: Final = re.compile(r"\bpid: ?(\d{1,10})\b[^\0]{0,400}?\bip: ?([\d.a-f:]{2,45})\b")
"""In the message of an `ActorDiedError` (ray/exceptions.py): the process and its node."""
_NOT_REGISTERED: Final = "ray-worker-not-registered"
"""The known error after which the raylet's own log may say more."""
_RAYLET_LOGS: Final = ("raylet.err", "raylet.out", "gcs_server.out")


class Question(msgspec.Struct, frozen=True):
    """A log that is to be read."""

    thing: Job | Actor
    moment: float | None
    """When it failed; `None`: it runs, or is restarted again and again, so that its log is read again."""

    @property
    def id(self) -> tuple[str, float | None]:
        """A later failure of the same thing is another question."""
        return self.thing.key, self.moment


class FailureReader:
    """Reads one log at a time, that of the newest failure first. If a log can't be read, the answer is why.

    A job's user writes its log, and any user may write a file into Ray's logs folder. So `LogFolder` reads logs only there: Ray reads those
    of its own session, and a probe opens only files of the session's owner, no links, and no other folder.
    The lines of a log become text for people. The action that is offered depends on the cluster alone (`cockpit.findings.added_facts`).
    """

    def __init__(self, poller: Poller, logs: LogFinder, failed_s: float) -> None:
        """`failed_s`: for how many seconds there is a finding about a failed job."""
        self._poller, self._logs, self._failed_s = poller, logs, failed_s
        self._session: str | None = None
        self._questions: dict[tuple[str, float | None], Question] = {}
        """What is asked now, the most urgent first."""
        self._answers: dict[tuple[str, float | None], Failure] = {}
        self._due: dict[tuple[str, float | None], float] = {}
        """When a question may be asked again; without an entry it was never asked."""
        self._reading = Reading()
        self._repeating: dict[str, tuple[frozenset[str], float]] = {}
        """By job: what its log repeats, and since when it was seen to repeat it."""
        self._still: dict[str, float] = {}
        """By job: since when its GPUs have been seen without work."""
        self._still_due = 0.0
        self._processes: deque[Sequence[Process]] = deque(maxlen=3)
        self._processes_due = 0.0

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Forget failures that are over, and read a log that is due."""
        session = snapshot.cluster.session
        if snapshot.jobs is None or (session is not None and self._session is not None and session != self._session):
            self._forget()
        self._session = session or self._session
        if snapshot.jobs is None:
            return
        now = self._poller.clock()
        if snapshot.processes is not None and now >= self._processes_due:
            self._processes.append(snapshot.processes)
            self._processes_due = now + PROCESSES_EVERY_S
        self._find_still(snapshot, now)
        questions = {question.id: question for question in self._find_questions(snapshot, now)}
        self._questions = questions
        self._answers = {key: answer for key, answer in self._answers.items() if key in questions}
        self._due = {key: due for key, due in self._due.items() if key in questions}
        self._repeating = {key: seen for key, seen in self._repeating.items() if (key, None) in questions}
        self._publish()
        if self._next() is not None and not self._reading.is_running:
            self._reading.start(self._read_due())

    async def read_once(self, patience: float) -> None:
        """Read the logs of the newest snapshot, but at most `patience` seconds."""
        self.on_snapshot(self._poller.snapshot)
        await self._reading.finish(patience)

    def close(self) -> None:
        """Stop reading."""
        self._reading.cancel()

    def _forget(self) -> None:
        """Another cluster is watched: what is being read is not true of it."""
        self.close()
        self._session = None
        for kept in (self._questions, self._answers, self._due, self._repeating, self._still):
            kept.clear()
        self._processes.clear()
        self._processes_due = self._still_due = 0.0
        self._publish()

    def _publish(self) -> None:
        self._poller.set_failures(tuple(self._answers.values()))

    def _find_still(self, snapshot: Snapshot, now: float) -> None:
        if now < self._still_due:
            return
        self._still_due = now + STILL_EVERY_S
        self._still = {key: self._still.get(key, now) for key in jobs_with_still_gpus(snapshot)}

    def _find_questions(self, snapshot: Snapshot, now: float) -> Iterator[Question]:
        """The newest failed job first, then restarting actors and jobs that do nothing."""
        failed = sorted(last_failures(snapshot.jobs or (), snapshot.taken, self._failed_s), key=lambda job: -(job.ended or 0.0))
        yield from (Question(job, job.ended) for job in failed if job.submission)
        about = {key for finding in snapshot.findings if finding.code == RESTARTING_CODE for key in finding.about[:MAX_RESTARTING]}
        actors = (actor for actor in snapshot.actors or () if actor.key in about) if about else ()
        yield from (Question(actor, None) for actor in actors)
        still = {key for finding in snapshot.findings if finding.code in STALL_CODES for key in finding.about}
        still |= {key for key, since in list(self._still.items())[:MAX_STILL] if now - since >= STILL_FOR_S}
        yield from (Question(job, None) for job in snapshot.jobs or () if job.key in still and job.running and job.submission)

    def _next(self) -> Question | None:
        """What was never asked, the most urgent first; then what has been due the longest: a log that can't be read blocks no other."""
        now = self._poller.clock()
        due = [question for key, question in self._questions.items() if self._due.get(key, 0.0) <= now]
        return min(due, key=lambda question: self._due.get(question.id, 0.0), default=None)

    async def _read_due(self) -> None:
        """Read until nothing is due. After each log the newest failure is next, also one that came meanwhile."""
        while (question := self._next()) is not None:
            session = self._session
            self._due[question.id] = self._poller.clock() + RETRY_AFTER_S  # also after an unexpected error
            try:
                failure = await wait_within(READ_TIMEOUT_S, self._read(question))
            except (SourceError, asyncio.TimeoutError) as error:
                # A host may answer anything.
                why = safe_line(f"{error}", MAX_WHY_CHARS) or f"not read within {READ_TIMEOUT_S:.0f} s"
                failure = Failure(question.thing.key, question.moment, unread=why)
            if session != self._session or session != (self._poller.snapshot.cluster.session or session):
                self._due.pop(question.id, None)
                return  # the answer is of a cluster that is no longer watched
            is_final = failure.unread is None and question.moment is not None
            pause = AGAIN_AFTER_S if failure.unread is None else RETRY_AFTER_S
            self._due[question.id] = float("inf") if is_final else self._poller.clock() + pause
            self._answers[question.id] = failure
            self._publish()

    async def _read(self, question: Question) -> Failure:
        thing = question.thing
        if isinstance(thing, Actor):
            error, file = await _first_error([log for log in await self._logs.logs_of(thing) if log.is_before])
        elif question.moment is None:
            return await self._read_running(thing)
        else:
            error, file = await self._error_of_job(thing)
        if error is None:
            return Failure(thing.key, question.moment, file=file)
        found = replace(describe(error), about=thing.key, moment=question.moment, file=file)
        return replace(found, gpus=self._gpus_of(found, thing))

    async def _error_of_job(self, job: Job) -> tuple[RootError | None, str | None]:
        if job.driver_node is None:
            # Its entrypoint never ran. Ray's message has the reason, except where a runtime environment failed without words.
            if failure_in_message((job.message or "", job.entrypoint or "")).known is None and "runtime_env" in (job.message or ""):
                return await _first_error(await self._logs.setup_logs_of(job))
            return None, None
        error, file = await _first_error([self._logs.log_until_now(job)], entrypoint=job.entrypoint or "")
        is_unregistered = error is not None and error.known is not None and error.known.error.name == _NOT_REGISTERED
        if error is None or not (error.is_consequence or is_unregistered):
            return error, file
        # The log only says that something else has failed. What a dead worker wrote itself is nearer to the cause.
        nearer: RootError | None = None
        its_file: str | None = None
        dead = _dead_worker(error)
        home = self._node_of(dead[1] if dead else error.line.ip, job)
        try:
            if dead is not None and home is not None and not is_unregistered:
                nearer, its_file = await _first_error(await self._logs.logs_of_pid(home, dead[0], job.job))
            elif home is not None and error.line.clock is not None and is_unregistered:
                logs = [log for log in await self._logs.logs_of(home) if file_pattern(log.file) in _RAYLET_LOGS]
                nearer, its_file = await _first_error(logs, error.line.clock)
                # The raylet serves other jobs too: only an error that is known may be the cause.
                nearer = nearer if nearer is not None and nearer.known is not None and not nearer.is_consequence else None
        except SourceError:
            pass  # the driver's own log was read
        if nearer is None:
            return error, file
        # Its own file does not name the process and its node.
        line = replace(nearer.line, ip=home.ip if home is not None else None, pid=dead[0] if dead is not None else None)
        return replace(nearer, line=line), its_file

    async def _read_running(self, job: Job) -> Failure:
        """What the log of a running job last reported, and whether it only repeats a line."""
        log = self._logs.log_until_now(job)
        lines = without_ray_lines(await read_end(log), job.entrypoint or "")
        repeated = await asyncio.to_thread(find_repetition, lines)
        before = lines[: repeated.begin] if repeated is not None else lines
        error = await asyncio.to_thread(find_root_error, before[-MAX_RUNNING_LINES:])
        found = replace(describe(error), about=job.key, file=log.file) if error is not None else Failure(job.key, file=log.file)
        return replace(
            found,
            repeats=safe_line(repeated.line, MAX_REPEATED_CHARS) if repeated else None,
            repeats_since=self._repeats_since(job, repeated),
        )

    def _repeats_since(self, job: Job, repeated: Repetition | None) -> float | None:
        """Since when it has written nothing else: by the times of its lines, else since it was first seen here."""
        if repeated is None:
            self._repeating.pop(job.key, None)
            return None
        now = self._poller.clock()
        kinds, since = self._repeating.get(job.key, (repeated.kinds, now))
        since = since if kinds & repeated.kinds else now
        self._repeating[job.key] = (repeated.kinds, since)
        return min(since, now - repeated.seconds) if repeated.seconds is not None else since

    def _node_of(self, ip: str | None, job: Job) -> Node | None:
        """The node with this address, else the driver's. A dead node may have had the address of a living one."""
        found = [node for node in self._poller.snapshot.nodes or () if (node.ip == ip if ip else node.id == job.driver_node)]
        return min(found, key=lambda node: node.state == "DEAD", default=None)

    def _gpus_of(self, failure: Failure, thing: Job | Actor) -> tuple[int, ...]:
        """The GPUs that its process held before it died, if a list of processes still has it."""
        home = self._node_of(failure.ip, thing) if isinstance(thing, Job) else None
        if failure.pid is None or home is None:
            return ()
        for processes in reversed(self._processes):
            for each in processes:
                if each.node == home.id and (each.ns_pid or each.pid) == failure.pid and each.gpus:
                    return tuple(sorted(hold.index for hold in each.gpus))
        return ()


def _dead_worker(error: RootError) -> tuple[int, str] | None:
    """The pid and the address of the worker whose death the error reports."""
    parts = error.known.parts if error.known else {}
    pid, ip = parts.get("pid", ""), parts.get("ip", "")
    if pid.isdecimal() and ip:
        return int(pid), ip
    found = _DEAD_WORKER.search(error.text)
    return (int(found[1]), found[2]) if found else None


async def _first_error(
    logs: Iterable[Log], near: float | None = None, entrypoint: str | None = None
) -> tuple[RootError | None, str | None]:
    """The root error of the first log that shows one, and the file. Raises `SourceError` if none of them can be read.

    `near`: only an error at about this time of day counts, in seconds; a log of Ray has those of other jobs too.
    `entrypoint`: of the job whose log it is.
    """
    file, why = None, None
    for log in logs:
        try:
            lines = await read_end(log)
        except SourceError as refused:
            why = why or refused
            continue
        file = file or log.file
        if entrypoint is not None:
            lines = without_ray_lines(lines, entrypoint)
        error = await asyncio.to_thread(find_root_error, lines)
        is_near = near is None or (error is not None and error.line.clock is not None and abs(error.line.clock - near) <= NEAR_S)
        if error is not None and is_near:
            return error, log.file
    if file is None and why is not None:
        raise why
    return None, file


async def read_end(log: Log) -> list[str]:
    """The last lines of a log, at most `MAX_KEPT_BYTES` of them. Raises `SourceError`."""
    try:
        return await log.read_end(MAX_LOG_LINES, MAX_KEPT_BYTES)
    except SourceError:
        return await log.read_end(FEW_LINES, MAX_KEPT_BYTES)  # so many long lines may be more than Ray can send
