"""Puts one sample together out of what the collectors have found last."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

from .. import trust
from . import host, infiniband
from .classify import classify
from .collector import REST_PER_CPU_S, Collector
from .containers import find_container
from .fillers import Fillers, tell
from .gpus import Gpu, GpuReading, Nvml
from .kernel_log import Kernel, Kill
from .kinds import KindVerdict, ProcessFacts, SessionFolder
from .known_files import SHM
from .oom_kills import KillScanner, session_of
from .origin import SOCKET_INTERFACES
from .past import ProcessHistory
from .proc import TICKS_PER_SECOND, Users, boot_time, in_first_namespace, make_legible, read_pid_range, uptime
from .processes import Identity, ProcessScanner, ProcessTable, ScannedProcess, shown_command
from .proxies import own_proxy
from .raylets import MOST_SERVICES, ROLES, Rays, RayService
from .sessions import DEFAULT_TEMP, Folder, Sessions, SessionScanner, date_writes
from .sizes import SharedMemory, Size, Sizes, read_shared_memory, shm_users
from .stuck_io import StuckProcesses
from .temp_dirs import TempDirs, read_temp_dirs
from .xids import Bus, Xid

Sample = Dict[str, Any]
Said = Tuple["list[Kill] | None", Dict[str, Dict[str, float]]]
"""What logs tell: kills, and by session when the log of each submitted job was written to last."""
MOST_PROCESSES = 6000
"""Told of one by one."""
MEMORY_USERS = 12
SESSIONS_EVERY = 3.0
SLOWLY = 10.0
SLOW_PACE_S = 5.0
"""Seconds from one answer to the next from which on a source is said to be slow: its facts are older than others' are."""
RARELY = 60.0
CLOCK_SET = 1.5
"""Seconds by which the host's clock must differ from what it was to have been set: the kernel dates its own start anew then."""
INTERFACES = 256
"""Network interfaces of a process that are passed on, and characters of what it was told of them."""


class Sampler:
    """Everything that looks at this host. Each collector has its own thread; `sample` never waits for any of them."""

    def __init__(self, users: Users) -> None:
        self.boot = boot_time()
        self.first = threading.Event()
        """Set whenever a collector has answered for the first time."""
        self._machine = host.machine()
        self._proxy = own_proxy()
        self._cpu = host.Cpu()
        self._past = ProcessHistory()
        self._unlisted_since: float | None = None
        """Since when there are too many processes to tell of each."""
        self._judged: Tuple[ProcessTable, bool, Dict[int, KindVerdict], float] = ({}, False, {}, 0.0)
        """Of which processes, whether by their sessions, as what, and until when that is believed, by the monotonic clock."""
        self._users = users
        self._sizes = Sizes()
        self._fillers = Fillers(lambda: self._processes.facts or {})
        self._kernel = Kernel()
        self._kills = KillScanner(self._kernel)
        self._known_rays = Rays()
        self._stuck_reader = StuckProcesses()
        self._scanner = SessionScanner(usual_temps(), users.name)
        self._processes: Collector[ProcessTable] = Collector("processes", "/proc", ProcessScanner().scan, None)
        self._nvml: Collector[GpuReading] = Collector("nvml", "NVML", Nvml(events=not self._kernel.is_readable).read, None)
        self._memory = Collector("memory", "The host's memory", host.memory, None)
        self._shm: Collector[SharedMemory] = Collector("shm", "/dev/shm", read_shared_memory, SLOWLY)  # noqa: S108 where plasma lies
        self._disks = Collector("disks", "A disk", self._read_disks, SLOWLY)
        self._sessions: Collector[Sessions] = Collector(
            "sessions",
            lambda: f"Ray's temp dir {make_legible(self._scanner.at)}",
            lambda: self._scanner.read(self._processes.facts or {}),  # these say which temp dirs there are, and where dashboards are
            SESSIONS_EVERY,
            after=self._processes,
        )
        self._rays: Collector[Dict[Identity, RayService]] = Collector(
            "rays", "A Ray process", lambda: self._known_rays.read(self._processes.facts or {}), SLOWLY, after=self._processes
        )
        self._places: Collector[TempDirs] = Collector("temps", "A Ray temp dir", self._read_places, SLOWLY, after=self._sessions)
        self._stuck: Collector[List[Sample]] = Collector(
            "stuck", "What processes in D state wait for", lambda: self._stuck_reader.read(self._processes.facts or {}), SLOWLY,
            after=self._processes,
        )  # fmt: skip
        self._rdma: Collector[List[Sample]] = Collector("rdma", "An InfiniBand or RoCE port", infiniband.read_ports, RARELY)
        self._logs: Collector[Said] = Collector("logs", "A Ray log", self._read_logs, SLOWLY)
        self.collectors: Tuple[Collector[Any], ...] = (
            self._processes, self._nvml, self._memory, self._shm, self._sessions, self._disks, self._rays, self._places, self._logs,
            self._stuck, self._rdma,
        )  # fmt: skip

    def start(self, patience: float) -> None:
        """Waits at most that many seconds for everybody's first answer."""
        until = time.monotonic() + patience
        for collector in self.collectors:
            collector.start(self.first)
        self._sizes.start()
        self._fillers.start()
        for collector in self.collectors:
            collector.wait(until - time.monotonic())
        self.first.clear()

    def refresh(self, patience: float) -> None:
        """Asks those whose facts change from sample to sample, and waits at most that many seconds for them."""
        until = time.monotonic() + patience
        asked = (self._processes, self._nvml, self._memory)
        for collector in asked:
            collector.ask()
        for collector in asked:
            collector.wait(until - time.monotonic())

    def sample(self) -> Sample:
        """What is known now. What has not been answered yet is `None`, with a fault that says so."""
        unanswered = [collector.source for collector in self.collectors if not collector.answered.is_set()]  # before their facts are taken
        observed = {collector.source: collector.observed for collector in self.collectors if collector.observed is not None}
        if abs(time.time() - uptime() - self.boot) > CLOCK_SET:
            self.boot = boot_time()
        table = self._processes.facts or {}
        reading = self._nvml.facts or GpuReading()
        sessions = self._sessions.facts or Sessions()
        verdicts = self._judge(table, reading, sessions)
        memory = self._memory.facts or host.MemoryUse(None, None)
        pids = read_pid_range()
        live = [sessions.of[pid] for pid, verdict in verdicts.items() if verdict.kind == "ray" and pid in sessions.of]
        shm, places, (kills, written_to) = self._shm.facts, self._places.facts, self._logs.facts or (None, {})
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
            "filled": [tell(path, found, table, self._users.name) for path, found in self._fillers.known().items()],
            "gpus": with_xids(reading, self._kernel.xids),
            "processes": self._tell_processes(table, verdicts, reading) if table else None,
            "memory_users": self._memory_users(table) if table else None,
            "sessions": [self._session(folder, sessions, live) for folder in sessions.folders] if self._sessions.facts else None,
            "nodes": sorted({verdict.node for verdict in verdicts.values() if verdict.kind == "ray" and verdict.node}),
            "rays": self._ray_facts(table, verdicts, memory.total) if table else None,
            "temps": places and places.temps,
            "pointers": places and places.pointers,
            "driver": reading.driver,
            "proxy": self._proxy and self._proxy._asdict(),
            "oom_kills": None if kills is None else [self._kill(kill) for kill in kills],
            "written": written_to,
            "stuck": self._stuck.facts,
            "rdma_ports": self._rdma.facts,
            "pid_digits": pids.digits,
            "pid_max": pids.most,
            "unanswered": unanswered,
            "faults": [*self._too_many(verdicts), *(fault for collector in self.collectors for fault in [collector.fault()] if fault)],
        }

    def _judge(self, table: ProcessTable, reading: GpuReading, sessions: Sessions) -> Dict[int, KindVerdict]:
        """Of very many processes as seldom as they are looked at; of few each time, for what holds a GPU may have changed.

        Again as soon as sessions are known: they prove what is left over.
        """
        known, by_sessions, verdicts, until = self._judged
        have_sessions = self._sessions.facts is not None
        if known is not table or by_sessions is not have_sessions or time.monotonic() >= until:
            before = time.thread_time()
            verdicts = classify(table, facts_of(sessions, reading, self._past))
            self._past.learn(table, verdicts, int(uptime() * TICKS_PER_SECOND))
            self._judged = table, have_sessions, verdicts, time.monotonic() + REST_PER_CPU_S * (time.thread_time() - before)
        return verdicts

    def _tell_processes(self, table: ProcessTable, verdicts: Mapping[int, KindVerdict], reading: GpuReading) -> list[Sample]:
        """Of very many those that hold a GPU, then root's and ours: every user can start what looks like Ray's."""
        told, own = list(verdicts), trust.own_uids()
        if len(told) > MOST_PROCESSES:
            told.sort(key=lambda pid: (pid not in reading.holders, pid in table and table[pid].details.uid not in own))
        told, number = told[:MOST_PROCESSES], min(len(told), MOST_PROCESSES)
        return [self._process(pid, table.get(pid), verdicts[pid], reading, number) for pid in told]

    def _too_many(self, verdicts: Mapping[int, KindVerdict]) -> Iterator[Sample]:
        if len(verdicts) > MOST_PROCESSES:
            self._unlisted_since = self._unlisted_since or time.time()
            more = len(verdicts) - MOST_PROCESSES
            text = f"{more:,} processes are not listed (too many): GPU holders and those of root and of your user are listed first"
            yield {"source": "processes", "text": text, "since": self._unlisted_since}
        else:
            self._unlisted_since = None

    def _process(self, pid: int, process: ScannedProcess | None, verdict: KindVerdict, reading: GpuReading, number: int) -> Sample:
        """`number`: of all that are told of."""
        held = [{"index": index, "memory": memory} for index, memory in sorted(reading.holders.get(pid, {}).items())]
        about = {
            "gpus": held,
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
        return {
            "pid": pid,
            "ns_pid": process.ns_pid,
            "inside": process.details.inside,
            "container": self._container(process),
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
            "sockets": _sockets(process),
            **about,
        }

    def _container(self, process: ScannedProcess) -> Sample | None:
        found = find_container(process, self._processes.facts or {})
        return found and {"engine": found.engine, "name": found.name, "user": self._users.name(found.uid)}

    def _kill(self, kill: Kill) -> Kill:
        """Whether the kernel has killed one of Ray's is known of those that were seen before."""
        known = kill["by"] == "kernel" and kill.get("pid")
        return {**kill, "rays": self._past.was_rays(known, (kill["moment"] - self.boot) * TICKS_PER_SECOND)} if known else kill

    def _session(self, folder: Folder, sessions: Sessions, live: Iterable[SessionFolder]) -> Sample:
        counted = self._sizes.known.get(folder.path, Size(None, ()))
        lives = True if any(folder.facts.is_same(other) for other in live) else folder.answers
        return {
            "name": os.path.basename(folder.path),
            "path": folder.path,
            "live": lives,
            "owner": folder.owner,
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

    def _ray_facts(self, table: ProcessTable, verdicts: Mapping[int, KindVerdict], memory: int | None) -> list[Sample]:
        """What changes is as of now; one that has just been started is told of before its files were looked at."""
        parts = ((table[pid], verdict) for pid, verdict in verdicts.items() if verdict.kind == "ray" and pid in table)
        own, known = trust.own_uids(), self._rays.facts or {}
        services = [(process, verdict) for process, verdict in parts if process.origin.role in ROLES]
        services.sort(key=lambda service: service[0].details.uid not in own)
        return [
            ray_fact(process, verdict, known.get(process.identity, RayService()), memory) for process, verdict in services[:MOST_SERVICES]
        ]

    def _memory_users(self, table: ProcessTable) -> list[Sample]:
        most = sorted(table.values(), key=lambda process: process.rss, reverse=True)[:MEMORY_USERS]
        return [
            {
                "pid": one.pid,
                "rss": one.rss,
                "shared": host.shared_memory(one),
                "user": self._users.name(one.details.uid),
                "command": shown_command(one, MEMORY_USERS) or one.name,
            }
            for one in most
        ]

    def _read_disks(self) -> list[host.Amount]:
        self._sessions.answered.wait(1.0)
        known = self._sessions.facts
        return host.disks([*(known.temps if known else ()), "/"])

    def _read_places(self) -> TempDirs:
        known = self._sessions.facts or Sessions()
        return read_temp_dirs(known.temps, self._processes.facts or {}, known, self._users.name)

    def _read_logs(self) -> Said:
        self._sessions.answered.wait(2.0)
        logs = (self._sessions.facts or Sessions()).logs
        written_to = {session_of(f"{one.path}/"): date_writes([one]) for one in logs if one.jobs}
        return self._kills.read(f"{one.path}/{name}" for one in logs for name in one.raylets), written_to


def facts_of(sessions: Sessions, reading: GpuReading, past: ProcessHistory) -> ProcessFacts:
    """All that a process table doesn't show."""
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
    """The GPUs, with what the kernel's log or NVML's events tell of each; `None` of what neither tells."""

    def xids(whole: int) -> Sequence[Xid] | None:
        bus = reading.buses.get(whole)
        if logged is not None and bus is not None:
            return logged.get(bus, ())
        return None if reading.xids is None else reading.xids.get(whole, ())

    return reading.gpus and [{**gpu, "xids": xids(gpu["index"] // 1000 if gpu["index"] >= 1000 else gpu["index"])} for gpu in reading.gpus]


def _sockets(process: ScannedProcess) -> Sample | None:
    """Which network interfaces it was told to use, beside those there are."""
    told, there = process.details.environ or {}, process.details.interfaces
    if there is None:
        return None
    nccl, gloo = (told.get(name, "")[:INTERFACES] or None for name in SOCKET_INTERFACES)
    return {"nccl": nccl, "gloo": gloo, "there": list(there.names[:INTERFACES]), "default": there.default}


def ray_fact(process: ScannedProcess, verdict: KindVerdict, ray: RayService, memory: int | None) -> Sample:
    """A raylet or GCS; `memory` of the host, in bytes."""
    role, started, around = process.origin.role, ray.started, ray.surroundings
    return {
        "role": role,
        "pid": process.pid,
        "session": os.path.basename(verdict.session) if verdict.session else None,
        "node": verdict.node if role == "raylet" else None,
        "state": process.state,
        "apart": process.details.apart,
        **started._replace(proxy=None)._asdict(),
        **around._replace(cpu_limit=None)._asdict(),
        "proxy": started.proxy and started.proxy._asdict(),
        "cpu_limit": around.cpu_limit and around.cpu_limit._asdict(),
        "files": ray.files,
        "files_limit": ray.files_limit,
        "frameworks": ray.frameworks,
        "start": ray.start,
        "tasks": None if ray.tasks is None else [limit._asdict() for limit in ray.tasks],
        "kill_at": host.kill_at(memory, process) if role == "raylet" else None,
        "ports": ray.ports and {**ray.ports._asdict(), "fixed": dict(ray.ports.fixed)},
        "slurm_memory": ray.slurm_memory and {"used": ray.slurm_memory.used, "total": ray.slurm_memory.total},
    }


def usual_temps() -> Iterable[str]:
    """Where `ray start` would put a session (ray/_common/utils.py): RAY_TMPDIR, TMPDIR, /tmp."""
    named = [os.environ[name] for name in ("RAY_TMPDIR", "TMPDIR") if os.environ.get(name)]
    return [*(os.path.join(folder, "ray") for folder in named), DEFAULT_TEMP]
