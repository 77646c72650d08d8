"""Reads the logs of what failed, in the background and once per failure, and finds the error that caused it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.failures import RootError, describe, find_root_error
from cockpit.findings.actors import RESTARTING_CODE
from cockpit.findings.ports import last_failures
from cockpit.findings.stalls import STALL_CODES
from cockpit.model import Actor, Failure, Job, Snapshot
from cockpit.monitor.logs import Log, LogFinder
from cockpit.monitor.poller import Poller
from cockpit.sources.source import SourceError, wait_within

MAX_LOG_LINES: Final = 20_000
"""Read from the end of a log: some 2 MB."""
MAX_KEPT_BYTES: Final = 2 << 20
MAX_READ_BYTES: Final = 16 << 20
"""A log with longer lines is read again with `FEW_LINES` only."""
FEW_LINES: Final = 100
MAX_WORKER_LINES: Final = 4_000
READ_TIMEOUT_S: Final = 20.0
AGAIN_AFTER_S: Final = 60.0
"""Seconds until a log that could not be read, or that grows, is read again."""
MAX_RESTARTING: Final = 4
"""Actors in a restart loop whose logs are read; mostly they fail for the same reason."""
_DEAD_WORKER: Final = re.compile(r"\bpid: ?(\d{1,10})\b[^\0]{0,400}?\bip: ?([\d.a-f:]{2,45})\b")
"""In the message of an `ActorDiedError` (ray/exceptions.py): the process and its node."""


class Question(msgspec.Struct, frozen=True):
    """A log that is to be read."""

    thing: Job | Actor
    moment: float | None
    """When it failed; `None`: it runs."""

    @property
    def id(self) -> tuple[str, float | None]:
        """A later failure of the same thing is another question."""
        return self.thing.key, self.moment


class FailureReader:
    """Reads one log at a time, that of the newest failure first. Every failure to read is an answer too."""

    def __init__(self, poller: Poller, logs: LogFinder, failed_s: float) -> None:
        """`failed_s`: for how many seconds there is a finding about a failed job."""
        self._poller, self._logs, self._failed_s = poller, logs, failed_s
        self._answers: dict[tuple[str, float | None], Failure] = {}
        self._due: dict[tuple[str, float | None], float] = {}
        """When a question may be asked again; without an entry it was never asked."""
        self._reading: asyncio.Task[None] | None = None

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Forget failures that are over, and read a log that is due."""
        if snapshot.jobs is None:
            return
        questions = {question.id: question for question in self._questions(snapshot)}
        self._answers = {key: answer for key, answer in self._answers.items() if key in questions}
        self._due = {key: due for key, due in self._due.items() if key in questions}
        self._poller.set_failures(tuple(self._answers.values()))
        now = self._poller.clock()
        due = [question for key, question in questions.items() if self._due.get(key, 0.0) <= now]
        if due and (self._reading is None or self._reading.done()):
            self._reading = asyncio.ensure_future(self._read_all(due))

    async def read_once(self, patience: float) -> None:
        """Read the logs of the newest snapshot, but at most `patience` seconds."""
        self.on_snapshot(self._poller.snapshot)
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=patience)
            self._reading.cancel()

    def _questions(self, snapshot: Snapshot) -> Iterator[Question]:
        """The newest failed job first, then restarting actors and jobs that do nothing."""
        failed = sorted(last_failures(snapshot.jobs or (), snapshot.taken, self._failed_s), key=lambda job: -(job.ended or 0.0))
        yield from (Question(job, job.ended) for job in failed if job.submission)
        about = {key for finding in snapshot.findings if finding.code == RESTARTING_CODE for key in finding.about[:MAX_RESTARTING]}
        actors = (actor for actor in snapshot.actors or () if actor.key in about) if about else ()
        yield from (Question(actor, float(actor.restarts or 0)) for actor in actors)
        still = {key for finding in snapshot.findings if finding.code in STALL_CODES for key in finding.about}
        yield from (Question(job, None) for job in snapshot.jobs or () if job.key in still and job.running and job.submission)

    async def _read_all(self, questions: Sequence[Question]) -> None:
        for question in questions:
            try:
                failure = await wait_within(READ_TIMEOUT_S, self._read(question))
            except (SourceError, asyncio.TimeoutError) as error:
                failure = Failure(question.thing.key, question.moment, unread=str(error) or f"not read within {READ_TIMEOUT_S:.0f} s")
            is_final = failure.unread is None and question.moment is not None
            self._due[question.id] = float("inf") if is_final else self._poller.clock() + AGAIN_AFTER_S
            self._answers[question.id] = failure
            self._poller.set_failures(tuple(self._answers.values()))

    async def _read(self, question: Question) -> Failure:
        thing = question.thing
        nodes = {node.ip: node for node in self._poller.snapshot.nodes or () if node.ip}
        if isinstance(thing, Actor):
            error, file = await _first_error([log for log in await self._logs.logs_of(thing) if log.is_before])
        else:
            error, file = await _first_error([self._logs.log_until_now(thing)])
            # The log names a worker that died: what that worker wrote is nearer to the cause.
            dead = _DEAD_WORKER.search(error.text) if error is not None and error.is_consequence else None
            if dead is not None and (home := nodes.get(dead[2])) is not None:
                nearer, its_file = await _first_error(await self._logs.logs_of_pid(home, int(dead[1])))
                if nearer is not None:
                    error, file = replace(nearer, line=replace(nearer.line, ip=home.ip, pid=int(dead[1]))), its_file
        if error is None:
            return Failure(thing.key, question.moment, file=file)
        return replace(describe(error), about=thing.key, moment=question.moment, file=file)


async def _first_error(logs: Iterable[Log]) -> tuple[RootError | None, str | None]:
    """The root error of the first log that shows one, and the file. Raises `SourceError` if none of them can be read."""
    file, why = None, None
    for log in logs:
        try:
            lines = await read_end(log)
        except SourceError as refused:
            why = why or refused
            continue
        file = file or log.file
        if (error := await asyncio.to_thread(find_root_error, lines)) is not None:
            return error, log.file
    if file is None and why is not None:
        raise why
    return None, file


async def read_end(log: Log) -> list[str]:
    """The last lines of a log, at most `MAX_KEPT_BYTES` of them."""
    for most in (MAX_LOG_LINES, FEW_LINES):
        kept: list[str] = []
        size = 0
        batches = log.follow(most, False)
        try:
            async for batch in batches:
                kept += batch
                size += sum(map(len, batch))
                if size > MAX_READ_BYTES:
                    break
        finally:
            await _close(batches)
        if size <= MAX_READ_BYTES:
            break
    left = MAX_KEPT_BYTES
    for number in range(len(kept) - 1, -1, -1):
        left -= len(kept[number]) + 1
        if left < 0:
            return kept[number + 1 :]
    return kept


async def _close(batches: AsyncIterator[Sequence[str]]) -> None:
    if hasattr(batches, "aclose"):
        await batches.aclose()
