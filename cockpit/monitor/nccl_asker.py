"""Asks NCCL about a job through the probes of its hosts: when a user asks, and automatically only if the config allows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from cockpit.findings.stalls import STALL_CODES
from cockpit.model import LEFT_OVER, Communicator, Job, NcclRank, NcclReport, Process, Snapshot
from cockpit.monitor.host_selection import HostSelection
from cockpit.monitor.poller import Poller
from cockpit.monitor.reading import Reading
from cockpit.sources.probes.decode import NcclAnswer, convert_answer
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.source import SourceError
from cockpit.text import clean

if TYPE_CHECKING:
    from cockpit.sources.probes.nccl_report import Member, ParsedReport

ASK_EVERY_S: Final = 60.0
"""Seconds between two automatic requests about one job."""
MAX_ASKS: Final = 8
"""Requests for one job. One report covers all processes that share communicators, so few are needed."""
TIMEOUT_S: Final = 60.0
"""After so many seconds no further host is asked."""
RISK: Final = (
    "When a rank has died, NCCL before 2.29.2 can read wrong memory inside the training process that makes the report: "
    "that process may crash, or report nonsense."
)


class OldNcclError(SourceError):
    """NCCL was not asked, because the report can harm the process that makes it."""


class NcclAsker:
    """Asks one process of a job after the other, until the reports cover all of them. The poller gets the last report of each job."""

    def __init__(self, poller: Poller, pool: ProbePool, selection: HostSelection, *, by_itself: bool) -> None:
        """`by_itself`: also ask automatically while a job is stuck."""
        self._poller, self._pool, self._selection, self._by_itself = poller, pool, selection, by_itself
        self._reports: dict[str, NcclReport] = {}
        self._due: dict[str, float] = {}
        self._session = poller.snapshot.cluster.session
        self._asking = Reading()
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, job: Job, *, even_old: bool = False) -> NcclReport:
        """Ask NCCL about the job, and return its report. Raises `SourceError`; without `even_old` also `OldNcclError`.

        If a host does not answer, the report has a sentence about it.
        """
        async with self._one_at_a_time:
            session = self._poller.snapshot.cluster.session
            collected = await self._collect(job, even_old=even_old)
            if (self._poller.snapshot.cluster.session or session) != session:
                raise SourceError(f"another Ray answers now, so the report is not kept: it is about job {job.id} of the Ray before")
            report = self._with_ages(collected)
            self._store(report)
            return report

    async def _collect(self, job: Job, *, even_old: bool) -> NcclReport:
        snapshot = self._poller.snapshot
        # Each Ray numbers its jobs anew, and a user may confirm a request long after choosing the job.
        if not any((one.key, one.job, one.started) == (job.key, job.job, job.started) and one.running for one in snapshot.jobs or ()):
            raise SourceError(f"job {job.id} is not known to run now")
        processes = [
            process
            for process in snapshot.processes or ()
            if job.job and process.job == job.job and process.gpus and process.kind not in LEFT_OVER
        ]
        if not processes:
            raise SourceError(f"no process of job {job.id} with a GPU is known")
        members = _Members(processes, snapshot)
        titles, give_up = snapshot.index.titles, time.monotonic() + TIMEOUT_S
        found: list[ParsedReport] = []
        problems: list[str] = []
        left, asks = processes, 0
        while left and asks < MAX_ASKS and time.monotonic() < give_up:
            host, asks = left[0].host, asks + 1
            here = [process for process in left if (process.host, process.inside) == (host, left[0].inside)]
            covered = {process.key for process in here}  # no process is asked twice, even if the report shows none of them
            try:
                parsed = await self._ask_host(host, here, members, even_old=even_old)
                found.append(parsed)
                if parsed.cut:
                    problems.append(f"{titles.of_host(host)}: {parsed.cut}")
                if parsed.members is not None:
                    covered = {process.key for member in parsed.members if (process := members.find(*member)) is not None} or covered
                elif (parsed.processes or 0) >= len(processes):
                    covered = {process.key for process in processes}
            except OldNcclError:
                raise
            except SourceError as error:
                problems.append(f"{titles.of_host(host)}: {error}")
            after = [process for process in left if process.key not in covered]
            left = after if len(after) < len(left) else [process for process in left if process not in here]
        communicators = await asyncio.to_thread(lambda: tuple(members.join(one) for one in _merge(found)))
        return NcclReport(
            job=job.key,
            asked=self._poller.clock(),
            versions=tuple(dict.fromkeys(one.version for one in found)),
            communicators=communicators,
            number=max([len(communicators), *(one.number for one in found)]),
            timeouts=sum(one.timeouts for one in found),
            troubles=tuple(dict.fromkeys(text for one in found for text in one.troubles)),
            problems=tuple(problems),
            not_covered=len(left),
        )

    async def _ask_host(self, host: str, processes: Sequence[Process], members: _Members, *, even_old: bool) -> ParsedReport:
        home = self._poller.snapshot.index.nodes.get(processes[0].node or "")
        words = ["nccl", *(f"{process.pid}:{process.ticks or 0}" for process in processes), *(["--even-old"] if even_old else [])]
        answer = await self._pool.ask(host, words, self._selection.entry(home) if home is not None else None)
        read = convert_answer({"answer": answer}, "answer", NcclAnswer, host)
        if read.report is None:
            title = self._poller.snapshot.index.titles.of_host(host)
            which = f"NCCL {clean(read.version)}" if read.version else "an NCCL of unknown version"
            raise OldNcclError(f"{which} runs on {title}")
        from cockpit.sources.probes.nccl_report import parse_report  # most runs of cockpit never ask

        parsed = await asyncio.to_thread(parse_report, read.report)  # a long report takes half a second
        if parsed.members and not members.has_any(parsed.members):
            address, pid = min(parsed.members)
            raise SourceError(f"its report is refused: it is about other processes, such as pid {pid} at {address}")
        return parsed

    def _with_ages(self, report: NcclReport) -> NcclReport:
        """Add to the report since when its counts have not changed, by comparison with the report before it."""
        before = self._reports.get(report.job)
        known = {one.hash: one for one in before.communicators} if before is not None else {}

        def since(one: Communicator) -> float | None:
            old = known.get(one.hash)
            if before is None or old is None or one.counts is None or (old.counts, old.gaps) != (one.counts, one.gaps):
                return None
            return old.unchanged_since or before.asked

        return replace(report, communicators=tuple(replace(one, unchanged_since=since(one)) for one in report.communicators))

    def _store(self, report: NcclReport) -> None:
        self._reports = {**self._reports, report.job: report}
        self._poller.set_nccl(tuple(self._reports.values()))

    # Automatic requests

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Forget jobs that have ended. If the config allows it, ask about jobs that are stuck."""
        if snapshot.jobs is None:
            return
        running = {job.key: job for job in snapshot.jobs if job.running}
        session = snapshot.cluster.session or self._session
        if session != self._session:  # another Ray may have a job of the same name
            self._session, running = session, {}
        if not running.keys() >= self._reports.keys():
            self._reports = {key: report for key, report in self._reports.items() if key in running}
            self._poller.set_nccl(tuple(self._reports.values()))
        if not self._by_itself or self._asking.is_running:
            return
        now = self._poller.clock()
        stuck = (key for finding in snapshot.findings if finding.code in STALL_CODES for key in finding.about)
        due = [running[key] for key in dict.fromkeys(stuck) if key in running and self._due.get(key, 0.0) <= now]
        if due:
            self._due = {key: moment for key, moment in self._due.items() if key in running}
            self._asking.start(self._ask_by_itself(due))

    async def _ask_by_itself(self, due: Sequence[Job]) -> None:
        for job in due:
            self._due[job.key] = self._poller.clock() + ASK_EVERY_S
            try:
                await self.ask(job)
            except SourceError as error:  # the finding has it as one line, unless a user has got a report
                words = f"{error}, and is not asked automatically: press N to ask it" if isinstance(error, OldNcclError) else str(error)
                if job.key not in self._reports:
                    self._store(NcclReport(job=job.key, asked=self._poller.clock(), problems=(words,)))

    def close(self) -> None:
        """Stop asking."""
        self._asking.cancel()


class _Members:
    """Finds the processes of a job by the address and the pid in NCCL's report."""

    def __init__(self, processes: Sequence[Process], snapshot: Snapshot) -> None:
        self._by_pid: dict[int, list[Process]] = {}
        for process in processes:
            self._by_pid.setdefault(process.ns_pid or process.pid, []).append(process)
        addresses: dict[str, set[str]] = {name: set(host.addresses) for name, host in snapshot.hosts.items()}
        for process in processes:
            node = snapshot.index.nodes.get(process.node or "")
            if node is not None:
                addresses.setdefault(process.host, set()).add(node.ip)
        self._all = set().union(*addresses.values())
        # Containers of many hosts have the same pids, so a search among all processes with a pid takes too long.
        self._by_member: dict[Member, list[Process]] = {}
        for process in processes:
            for address in addresses.get(process.host, ()):
                self._by_member.setdefault((address, process.ns_pid or process.pid), []).append(process)

    def has_any(self, members: frozenset[Member]) -> bool:
        """Whether one of these members may be a process of the job."""
        return any(pid in self._by_pid for _, pid in members)

    def find(self, address: str, pid: int) -> Process | None:
        """The process at an address with a pid. Only the pid counts if the address is unknown, as in a container or a network for NCCL."""
        near, same = self._by_member.get((address, pid), []), self._by_pid.get(pid, [])
        if near:
            return near[0] if len(near) == 1 else None
        return same[0] if len(same) == 1 and address not in self._all else None

    def join(self, one: Communicator) -> Communicator:
        """Add to the communicator the processes of the ranks that it names."""

        def joined(rank: NcclRank) -> NcclRank:
            process = self.find(rank.address, rank.pid) if rank.pid is not None else None
            return rank if process is None else replace(rank, process=process.key)

        gaps = (
            replace(gap, groups=tuple(replace(group, ranks=tuple(map(joined, group.ranks))) for group in gap.groups)) for gap in one.gaps
        )
        troubles = (replace(trouble, ranks=tuple(map(joined, trouble.ranks))) for trouble in one.troubles)
        return replace(one, gaps=tuple(gaps), troubles=tuple(troubles))


def _merge(found: Sequence[ParsedReport]) -> list[Communicator]:
    """Each communicator once. If several reports have it, the one with the most answers counts."""
    by_hash: dict[str, Communicator] = {}
    for one in (one for report in found for one in report.communicators):
        known = by_hash.get(one.hash)
        if known is None or (one.answered or 0) > (known.answered or 0):
            by_hash[one.hash] = one
    return sorted(by_hash.values(), key=lambda one: not (one.gaps or one.troubles))
