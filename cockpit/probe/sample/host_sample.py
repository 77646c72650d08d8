"""Builds one sample of this host from the latest facts of all collectors."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from .. import trust
from . import host, infiniband
from .classify import classify
from .collector import REST_PER_CPU_S, Collector
from .containers import find_container
from .engines import EngineServers
from .fillers import Fillers, describe_disk
from .gpus import Gpu, GpuReading, Nvml
from .kernel_log import Kernel, Kill
from .kill_line import kill_line
from .known_files import SHM
from .oom_kills import KillScanner, session_of
from .origin import SOCKET_INTERFACES
from .past import ProcessHistory
from .proc import TICKS_PER_SECOND, Users, boot_time, in_first_namespace, make_legible, read_pid_range, uptime
from .process_kinds import KindVerdict, ProcessFacts, SessionFolder
from .processes import Identity, ProcessScanner, ProcessTable, ScannedProcess, shown_command
from .proxies import find_http_proxy
from .raylets import MAX_SERVICES, ROLES, ServiceReader
from .sessions import DEFAULT_TEMP, Folder, Sessions, SessionScanner, date_writes
from .sizes import Size, Sizes, read_shared_memory, shm_users
from .stuck_io import StuckProcesses
from .temp_dirs import read_temp_dirs
from .titles import EVERY_S, Title, TitleReader
from .xids import Bus, Xid

Sample = Dict[str, Any]
LogFacts = Tuple["list[Kill] | None", Dict[str, Dict[str, float]]]
"""The kills that logs report, and for each session when the log of each submitted job was last written."""
MAX_PROCESSES = 6000
"""Processes that a sample lists one by one."""
MEMORY_USERS = 12
SESSIONS_EVERY = 3.0
SLOWLY = 10.0
SLOW_PACE_S = 5.0
"""A source is slow if this many seconds or more pass between two of its answers: its facts are older than the facts of others."""
ENGINES_AFTER = 3.0
"""Seconds until engines are asked first: that must not delay the first sample."""
ENGINES_EVERY = 30.0
"""Many servers of engines write a line into their log for each request."""
ENGINES_TIMEOUT = 60.0
"""Seconds until it is a fault that the servers of engines don't answer: each of them may take `ASK_TIMEOUT_S`."""
RARELY = 60.0
CLOCK_SET = 1.5
"""Seconds. If the host's clock moved further than this, somebody has set it, and the kernel's boot time has moved with it."""
INTERFACES = 256
"""Network interfaces of a process that a sample lists, and characters that it keeps of each interface variable."""


class Sampler:
    """Reads this host. Each collector has its own thread; `sample` never waits for any of them."""

    def __init__(self, users: Users) -> None:
        self.boot = boot_time()
        self.first = threading.Event()
        """Set whenever a collector has its first answer."""
        self._machine = host.machine()
        self._proxy = find_http_proxy(os.environ)
        self._cpu = host.Cpu()
        self._past = ProcessHistory()
        self._unlisted_since: float | None = None
        """Since when there are too many processes to list all of them."""
        self._judged: Tuple[ProcessTable, bool, Dict[int, KindVerdict], float] = ({}, False, {}, 0.0)
        """The table that was classified last, whether its sessions were known, the verdicts, and until when they hold (monotonic clock)."""
        self._users = users
        self._sizes = Sizes()
        self._fillers = Fillers(lambda: self._processes.facts or {})
        self._kernel = Kernel()
        self._kills = KillScanner(self._kernel)
        self._service_reader = ServiceReader()
        self._stuck_reader = StuckProcesses()
        self._title_reader = TitleReader()
        self._engine_servers = EngineServers()
        self._scanner = SessionScanner(usual_temps())
        self._processes: Collector[ProcessTable] = Collector("processes", "/proc", ProcessScanner().scan, None)
        self._titles = Collector("titles", "The titles of Ray's workers", self._title_reader.read, EVERY_S, after=self._processes)
        self._nvml = Collector("nvml", "NVML", Nvml(events=not self._kernel.is_readable).read, None)
        self._memory = Collector("memory", "The host's memory", host.memory, None)
        self._shm = Collector("shm", "/dev/shm", read_shared_memory, SLOWLY)  # noqa: S108 where plasma lies
        self._disks = Collector("disks", "A disk", self._read_disks, SLOWLY)
        self._sessions: Collector[Sessions] = Collector(
            "sessions",
            lambda: f"Ray's temp dir {make_legible(self._scanner.at)}",
            lambda: self._scanner.read(self._processes.facts or {}),  # processes name the temp dirs and the dashboards
            SESSIONS_EVERY,
            after=self._processes,
        )
        self._rays: Collector[Dict[Identity, Sample]] = Collector(
            "rays", "A Ray process", lambda: self._service_reader.read(self._processes.facts or {}), SLOWLY, after=self._processes
        )
        self._temps = Collector("temps", "A Ray temp dir", self._read_temp_dirs, SLOWLY, after=self._sessions)
        self._stuck: Collector[List[Sample]] = Collector(
            "stuck", "What processes in D state wait for", lambda: self._stuck_reader.read(self._processes.facts or {}), SLOWLY,
            after=self._processes,
        )  # fmt: skip
        self._rdma = Collector("rdma", "An InfiniBand or RoCE port", infiniband.read_ports, RARELY)
        self._engines: Collector[List[Sample]] = Collector(
            "engines", "An inference engine", lambda: self._engine_servers.read(self._processes.facts or {}), ENGINES_EVERY,
            ENGINES_TIMEOUT, after=self._processes, delay=ENGINES_AFTER,
        )  # fmt: skip
        self._logs = Collector("logs", "A Ray log", self._read_logs, SLOWLY)
        self.collectors: Tuple[Collector[Any], ...] = (
            self._processes, self._nvml, self._memory, self._shm, self._sessions, self._disks, self._rays, self._temps, self._logs,
            self._stuck, self._rdma, self._titles, self._engines,
        )  # fmt: skip

    def start(self, patience: float) -> None:
        """Starts the collectors, and waits at most `patience` seconds for all first answers but those of engines, which may be slow."""
        until = time.monotonic() + patience
        for collector in self.collectors:
            collector.start(self.first)
        self._sizes.start()
        self._fillers.start()
        for collector in self.collectors:
            if collector is not self._engines:
                collector.wait(until - time.monotonic())
        self.first.clear()

    def refresh(self, patience: float) -> None:
        """Asks the collectors whose facts change with each sample, and waits at most `patience` seconds for their answers."""
        until = time.monotonic() + patience
        asked = (self._processes, self._titles, self._nvml, self._memory)
        for collector in asked:
            collector.ask()
        for collector in asked:
            collector.wait(until - time.monotonic())

    def sample(self) -> Sample:
        """The facts that are known now. A fact is `None` while its collector has not answered; a fault then says so."""
        waited = [collector for collector in self.collectors if collector is not self._engines]
        unanswered = [collector.source for collector in waited if not collector.answered.is_set()]  # before their facts are taken
        observed = {collector.source: collector.observed for collector in self.collectors if collector.observed is not None}
        if abs(time.time() - uptime() - self.boot) > CLOCK_SET:
            self.boot = boot_time()
        table = self._processes.facts or {}
        reading = self._nvml.facts or GpuReading()
        sessions = self._sessions.facts or Sessions()
        verdicts = self._judge(table, reading, sessions)
        titles, alive = self._title_reader.take(_workers(table, reading)), {one.identity for one in table.values()}
        memory = self._memory.facts or host.MemoryUse(None, None)
        pids = read_pid_range()
        live = [sessions.of[pid] for pid, verdict in verdicts.items() if verdict.kind == "ray" and pid in sessions.of]
        shm, (temps, pointers), (kills, written_to) = self._shm.facts, self._temps.facts or (None, None), self._logs.facts or (None, {})
        if kills is not None:
            # Whether a process that the kernel killed belonged to Ray: only processes that were seen before are known.
            kills = [
                {**kill, "rays": self._past.was_rays(kill["pid"], (kill["moment"] - self.boot) * TICKS_PER_SECOND)}
                if kill["by"] == "kernel" and kill.get("pid")
                else kill
                for kill in kills
            ]

        # Raylets and GCSs as they are now. The facts of one that has just started are empty until its files have been read.
        parts = [pid for pid, verdict in verdicts.items() if verdict.kind == "ray" and pid in table and table[pid].origin.role in ROLES]
        parts.sort(key=lambda pid: table[pid].details.uid not in trust.own_uids())
        known = self._rays.facts or {}
        services = [ray_fact(table[pid], verdicts[pid], known.get(table[pid].identity, {}), memory) for pid in parts[:MAX_SERVICES]]

        memory_users = [
            {
                "pid": one.pid,
                "rss": one.rss,
                "shared": host.shared_memory(one),
                "user": self._users.name(one.details.uid),
                "command": titles[one.identity].text if one.identity in titles else shown_command(one, MEMORY_USERS) or one.name,
            }
            for one in sorted(table.values(), key=lambda process: process.rss, reverse=True)[:MEMORY_USERS]
        ]

        faults: List[Sample] = [fault for one in self.collectors for fault in [one.fault()] if fault]
        more = len(verdicts) - MAX_PROCESSES
        self._unlisted_since = None if more <= 0 else self._unlisted_since or time.time()
        if more > 0:
            text = f"{more:,} processes are not listed (too many): GPU holders and those of root and of your user are listed first"
            faults.insert(0, {"source": "processes", "text": text, "since": self._unlisted_since})

        # Measured in threads of their own, for a later sample.
        self._sizes.want(folder.path for folder in sessions.folders)
        disks = [*(self._disks.facts or ()), *([{"path": SHM, **shm.amount}] if shm else ())]
        self._fillers.want(disks, sessions.temps, (folder.facts for folder in sessions.folders))

        return {
            "taken": round(time.time(), 3),
            "up": round(uptime(), 3),
            "machine": self._machine,
            "observed": observed,
            "paces": {collector.source: collector.pace for collector in self.collectors if collector.pace >= SLOW_PACE_S},
            "cpu": self._cpu.read(),
            "cpus": os.cpu_count(),
            "memory": memory._asdict(),
            "shm": shm and shm.amount,
            "shm_users": shm and shm_users(shm.owners, self._users.name),
            "disks": self._disks.facts,
            "filled": [describe_disk(path, found, table, self._users.name) for path, found in self._fillers.known().items()],
            "gpus": with_xids(reading, self._kernel.xids),
            "processes": self._process_facts(table, verdicts, reading, titles) if table else None,
            "ended": [
                {"pid": pid, "ticks": ticks, "titles": _ages(title)} for (pid, ticks), title in titles.items() if (pid, ticks) not in alive
            ],
            "memory_users": memory_users if table else None,
            "sessions": [self._session_fact(folder, sessions, live) for folder in sessions.folders] if self._sessions.facts else None,
            "nodes": sorted({verdict.node for verdict in verdicts.values() if verdict.kind == "ray" and verdict.node}),
            "rays": services if table else None,
            "temps": temps,
            "pointers": pointers,
            "driver": reading.driver,
            "proxy": self._proxy and self._proxy._asdict(),
            "oom_kills": kills,
            "written": written_to,
            "stuck": self._stuck.facts,
            "rdma_ports": self._rdma.facts,
            "engines": self._engines.facts,
            "pid_digits": pids.digits,
            "pid_max": pids.most,
            "unanswered": unanswered,
            "faults": faults,
        }

    def _judge(self, table: ProcessTable, reading: GpuReading, sessions: Sessions) -> Dict[int, KindVerdict]:
        """Classifies all processes. Keeps the last verdicts for a while if that took much CPU, as it does with very many processes.

        Classifies again as soon as the sessions are known, because they prove which processes are left over.
        """
        known, by_sessions, verdicts, until = self._judged
        have_sessions = self._sessions.facts is not None
        if known is not table or by_sessions is not have_sessions or time.monotonic() >= until:
            before = time.thread_time()
            verdicts = classify(table, facts_of(sessions, reading, self._past))
            self._past.learn(table, verdicts, int(uptime() * TICKS_PER_SECOND))
            self._judged = table, have_sessions, verdicts, time.monotonic() + REST_PER_CPU_S * (time.thread_time() - before)
        return verdicts

    def _process_facts(
        self, table: ProcessTable, verdicts: Mapping[int, KindVerdict], reading: GpuReading, titles: Mapping[Identity, Title]
    ) -> list[Sample]:
        """If there are too many, GPU holders come first, then processes of root and of our user: any user can fake Ray processes."""
        listed, own = list(verdicts), trust.own_uids()
        if len(listed) > MAX_PROCESSES:
            listed.sort(key=lambda pid: (pid not in reading.holders, pid in table and table[pid].details.uid not in own))
        listed = listed[:MAX_PROCESSES]
        facts = [self._process_fact(pid, table, verdicts[pid], reading, len(listed)) for pid in listed]
        for fact in facts:
            title = titles.get((fact["pid"], fact.get("ticks", 0)))
            if title is not None:
                # The command is read again only when the kernel's name changes, which has only 15 bytes of the title.
                fact["command"] = title.text
                if title.changes:
                    fact["titles"] = _ages(title)
        return facts

    def _process_fact(self, pid: int, table: ProcessTable, verdict: KindVerdict, reading: GpuReading, number: int) -> Sample:
        """`number`: how many processes the sample lists."""
        process = table.get(pid)
        about = {
            "gpus": [{"index": index, "memory": memory} for index, memory in sorted(reading.holders.get(pid, {}).items())],
            "kind": verdict.kind,
            "why": list(verdict.why),
            "job": verdict.job,
            "session": os.path.basename(verdict.session) if verdict.session else None,
            "node": verdict.node,
            "undecided": verdict.undecided,
            "asks": [os.path.basename(session) for session in verdict.asks],
            "past": self._past.evidence(process, verdict) if process else None,
        }
        if process is None:
            return {"pid": pid, **about}
        container = find_container(process, table)

        # The network interfaces that its environment names, and those that exist in its network namespace.
        there, environ = process.details.interfaces, process.details.environ or {}
        nccl, gloo = (environ.get(name, "")[:INTERFACES] or None for name in SOCKET_INTERFACES)
        sockets = there and {"nccl": nccl, "gloo": gloo, "there": list(there.names[:INTERFACES]), "default": there.default}
        return {
            "pid": pid,
            "ns_pid": process.ns_pid,
            "inside": process.details.inside,
            "container": container and {"engine": container.engine, "name": container.name, "user": self._users.name(container.uid)},
            "worker": process.origin.worker,
            "ticks": process.ticks,
            "started": round(self.boot + process.ticks / TICKS_PER_SECOND, 2),
            "parent": process.parent,
            "user": self._users.name(process.details.uid),
            "command": shown_command(process, number),
            "name": process.name,
            "state": process.state,
            "rss": process.rss,
            "shared": host.shared_memory(process),
            "sockets": sockets,
            **about,
        }

    def _session_fact(self, folder: Folder, sessions: Sessions, live: Iterable[SessionFolder]) -> Sample:
        counted = self._sizes.known.get(folder.path, Size(None, ()))
        lives = True if any(folder.facts.is_same(other) for other in live) else folder.answers
        return {
            "name": os.path.basename(folder.path),
            "path": folder.path,
            "live": lives,
            "owner": self._users.name(folder.facts.uid),
            "trusted": folder.facts.uid in trust.own_uids(),
            "size": counted.size,
            "keeps": list(counted.keeps),
            "dashboard": sessions.dashboards.get(folder.path) if lives else None,
            "latest": folder.latest,
            "started": folder.started,
            "stopped": folder.stopped,
            "nodes": list(folder.nodes),
            "log_files": folder.log_files - folder.log_files % 1000,  # it grows all the time
        }

    def _read_disks(self) -> list[host.Amount]:
        self._sessions.answered.wait(1.0)
        known = self._sessions.facts
        return host.disks([*(known.temps if known else ()), "/"])

    def _read_temp_dirs(self) -> Tuple[List[Sample], List[Sample]]:
        known = self._sessions.facts or Sessions()
        return read_temp_dirs(known.temps, self._processes.facts or {}, known, self._users.name)

    def _read_logs(self) -> LogFacts:
        self._sessions.answered.wait(2.0)
        logs = (self._sessions.facts or Sessions()).logs
        written_to = {session_of(f"{one.path}/"): date_writes([one]) for one in logs if one.jobs}
        return self._kills.read(f"{one.path}/{name}" for one in logs for name in one.raylets), written_to


def _workers(table: ProcessTable, reading: GpuReading) -> List[Identity]:
    """Ray's workers with titles: those of root and of our user first, since any user can fake one, and first those that hold GPUs."""
    workers = [
        process
        for process in table.values()
        if process.origin.role == "worker" and process.alive and not process.details.stuck and process.command.startswith("ray::")
    ]
    workers.sort(key=lambda one: (one.details.uid not in trust.own_uids(), one.pid not in reading.holders))
    return [one.identity for one in workers]


def _ages(title: Title) -> List[Tuple[float, str]]:
    """The changes of a title, each with the seconds since then."""
    now = uptime()
    return [(round(now - moment, 2), text) for moment, text in title.changes]


def facts_of(sessions: Sessions, reading: GpuReading, past: ProcessHistory) -> ProcessFacts:
    """The facts for `classify` that a process table does not contain."""
    return ProcessFacts(
        folders=sessions.all,
        folder_of=sessions.of,
        drivers=sessions.drivers,
        holders=frozenset(reading.holders),
        seen=past.seen,
        workers=past.workers,
        sees_all=in_first_namespace(),
    )


def with_xids(reading: GpuReading, logged: Mapping[Bus, Sequence[Xid]] | None) -> list[Gpu] | None:
    """The GPUs with their Xids, from the kernel's log or from NVML's events; `None` if neither reports Xids."""

    def xids(whole: int) -> Sequence[Xid] | None:
        bus = reading.buses.get(whole)
        if logged is not None and bus is not None:
            return logged.get(bus, ())
        return None if reading.xids is None else reading.xids.get(whole, ())

    return reading.gpus and [{**gpu, "xids": xids(gpu["index"] // 1000 if gpu["index"] >= 1000 else gpu["index"])} for gpu in reading.gpus]


def ray_fact(process: ScannedProcess, verdict: KindVerdict, known: Sample, memory: host.MemoryUse) -> Sample:
    """One raylet or GCS. `known`: what was read of it; `memory`: the memory of the host."""
    role = process.origin.role
    line = kill_line(memory, process, known.get("isolation")) if role == "raylet" else None
    return {
        "role": role,
        "pid": process.pid,
        "session": os.path.basename(verdict.session) if verdict.session else None,
        "node": verdict.node if role == "raylet" else None,
        "state": process.state,
        "apart": process.details.apart,
        **known,
        "kill_at": line and line.at,
        "kill_used": line and line.used,
        "kill_total": line and line.total,
        "charged": line and line.charged,
    }


def usual_temps() -> Iterable[str]:
    """The temp dirs that `ray start` uses by default (ray/_common/utils.py): in RAY_TMPDIR, TMPDIR, /tmp."""
    named = [os.environ[name] for name in ("RAY_TMPDIR", "TMPDIR") if os.environ.get(name)]
    return [*(os.path.join(folder, "ray") for folder in named), DEFAULT_TEMP]
