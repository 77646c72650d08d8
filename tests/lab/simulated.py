"""A simulated cluster that runs faster than real time, and cockpit's screen on it, which asks equally faster.

    python -m tests.lab.simulated dashboard BEGUN PACE
    python -m tests.lab.simulated screen BEGUN PACE ADDRESS

Both count simulated seconds from BEGUN on, PACE of them in a real one. A job starts every two simulated minutes, with new workers, actors
and processes; it ends 20 s later.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from aiohttp import web

from cockpit.config.settings import Config
from cockpit.model import Snapshot
from cockpit.monitor import poller
from cockpit.monitor.logs import Log
from cockpit.sources.probes.decode import Sample, make_host, read_line
from cockpit.sources.ray.client import RayClient
from cockpit.sources.source import Source, SourceError
from cockpit.ui.app import Cockpit
from tests.fakes import records
from tests.fakes.dashboard import Dashboard
from tests.fakes.shapes import GIB, JOB, Record, Shape, gpu, worker_pid

EVERY, LASTS = 120.0, 20.0
"""Seconds between the starts of two jobs; duration of a job."""
KEPT = 100
"""Jobs that Ray lists; older ones are deleted."""
LOOK = 2.0
"""Seconds between two samples of a host."""
NODES, GPUS, ACTORS, WORKERS = 2, 8, 24, 12
PAUSES = ("PUBLISH_AT_LEAST_EVERY_S", "PUBLISH_PAUSE_S", "STARTUP_PUBLISH_PAUSE_S", "LONGEST_BACKOFF_S")
"""The poller's pauses, by the names of their constants: in seconds of the simulated cluster."""


class Clock(NamedTuple):
    """Simulated time, as seconds since 1970."""

    begun: float
    pace: float

    def __call__(self) -> float:
        return self.begun + (time.time() - self.begun) * self.pace

    @property
    def run(self) -> int:
        """The number of the newest job."""
        return int((self() - self.begun) // EVERY)

    @property
    def busy(self) -> bool:
        """Whether that job still runs."""
        return (self() - self.begun) % EVERY < LASTS


def job_id(run: int) -> str:
    """A job id as Ray counts them: four bytes, the lowest first."""
    return (run + 2).to_bytes(4, "little").hex()


def renamed(body: bytes, run: int) -> bytes:
    """The same record with this job's number in every id."""
    return body.replace(JOB.encode(), job_id(run).encode()).replace(b"rank_", b"rank_%d_" % run)


class Life:
    """The synthetic dashboard; each answer is as of now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        started = clock.begun - 3600
        shape = {"nodes": NODES, "gpus": GPUS, "pending": 0, "started": started}
        self.busy = Dashboard(Shape(actors=ACTORS, workers=WORKERS, jobs=0, **shape), clock=clock)  # type: ignore[arg-type]
        self.idle = Dashboard(Shape(actors=0, workers=0, jobs=0, **shape), clock=clock)  # type: ignore[arg-type]
        self._applications = {dashboard: dashboard.application() for dashboard in (self.busy, self.idle)}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answers every request."""
        if request.path == "/api/jobs/":
            return web.json_response(self._jobs())
        application = self._applications[self.busy if self._clock.busy else self.idle]
        match = await application.router.resolve(request)
        found = await match.handler(request)
        body = found.body if isinstance(found, web.Response) and isinstance(found.body, bytes) else b""
        return web.Response(status=found.status, body=renamed(body, self._clock.run), content_type="application/json")

    def _jobs(self) -> list[Record]:
        run = self._clock.run
        return [self._job(number, runs=number == run and self._clock.busy) for number in range(max(0, run - KEPT + 1), run + 1)]

    def _job(self, number: int, *, runs: bool) -> Record:
        started = int(1000 * (self._clock.begun + number * EVERY))
        return records.job(self.busy.shape, 0 if runs else 1) | {
            "job_id": job_id(number),
            "submission_id": f"ppo-7b-{number}",
            "entrypoint": f"python train.py --run {number} --out /data/runs/{number}",
            "start_time": started,
            "end_time": None if runs else started + int(1000 * LASTS),
            "driver_info": {"id": job_id(number), "node_ip_address": self.busy.shape.ip(0), "pid": str(19000 + number)},
        }


def sample(clock: Clock, node: int, shape: Shape) -> bytes:
    """The sample that a probe of this host would send now."""
    now, run = clock(), clock.run
    slots = range(WORKERS) if clock.busy else ()
    workers = [process(clock, worker_pid(slot) + 100 * run, run, slot) for slot in slots]
    record: dict[str, Any] = {
        "taken": now,
        "cpu": 20.0 + run % 50,
        "cpus": 192,
        "memory": {"used": (300 + run % 100) * GIB, "total": 2000 * GIB},
        "shm": {"used": 20 * GIB, "total": 1000 * GIB},
        "disks": [{"path": "/", "used": 400 * GIB, "total": 7000 * GIB}],
        "gpus": [reading(shape, node, index, used=70 if clock.busy else 0) for index in range(GPUS)],
        "processes": workers,
        "memory_users": [{"pid": 5, "rss": GIB, "user": "train", "command": "sshd"}],
        "sessions": [{"name": shape.session, "path": f"/tmp/ray/{shape.session}", "live": True, "latest": True, "trusted": True}],
        "nodes": [shape.node_id(node)],
        "rays": [{"role": "raylet", "pid": 11, "session": shape.session, "node": shape.node_id(node), "kill_at": 1900 * GIB}],
    }
    return json.dumps(record).encode()


def process(clock: Clock, pid: int, run: int, slot: int) -> Record:
    """A worker of the running job."""
    began = clock.begun + run * EVERY
    return {
        "pid": pid,
        "ticks": int(100 * began),
        "started": began,
        "parent": 11,
        "user": "train",
        "command": f"ray::RolloutWorker.step run={run} slot={slot} " + "--option=value " * 40,
        "name": f"rank_{run}_{slot}",
        "state": "R",
        "rss": 3 * GIB + slot,
        "kind": "worker",
        "why": [f"its raylet is above it, worker {pid}"],
        "job": job_id(run),
        "gpus": [{"index": slot, "memory": 69 * GIB}] if slot < GPUS else [],
    }


def reading(shape: Shape, node: int, index: int, used: int) -> Record:
    """A GPU as NVML reports it."""
    uuid = str(gpu(shape, node, index)["uuid"])
    return {"index": index, "uuid": uuid, "name": "H100", "utilization": float(used), "memory_used": used * GIB, "memory_total": 80 * GIB}


class NoLogs:
    """The synthetic cluster has no logs."""

    async def logs_of(self, thing: object) -> tuple[Log, ...]:
        """Always empty."""
        raise SourceError(f"no log of {thing!r:.40}")


class ClusterMonitor:
    """A stand-in for cockpit's monitor: asks Ray faster and makes the samples of hosts itself."""

    def __init__(self, publish: Callable[[Snapshot], None], clock: Clock, address: str) -> None:
        self.choice, self.choose, self.open_choices, self.is_started = self, None, (), False
        self.logs = NoLogs()
        self.ending: list[Callable[[], None]] = []
        self._clock = clock
        self.poller = poller.Poller(publish, clock=clock)
        self._ray = RayClient(address, clock=clock)
        self._ray.sources = tuple(map(self._hurried, self._ray.sources))

    def _hurried(self, source: Source[object]) -> Source[object]:
        return Source(source.name, source.read, lambda: source.pause() / self._clock.pace, source.timeout)

    async def run(self) -> None:
        """Runs until cancelled."""
        self.poller.watch(self._ray.sources)
        try:
            await asyncio.gather(self.poller.run(), *map(self._read_samples, range(NODES)))
        finally:
            self.poller.leave()
            await self._ray.close()

    async def _read_samples(self, node: int) -> None:
        shape = Shape(nodes=NODES, gpus=GPUS, started=self._clock.begun - 3600)
        while True:
            taken = self._clock()
            probed = read_line(sample(self._clock, node, shape), Sample)
            self.poller.update_host(make_host(probed, shape.host(node), (shape.ip(node),), taken, 0.0, local=node == 0))
            await asyncio.sleep(LOOK / self._clock.pace)

    def close(self) -> None:
        """Does nothing: no process was started."""

    def refresh(self) -> None:
        """Asks everything again now."""
        self.poller.refresh()


def screen(clock: Clock, address: str) -> None:
    """Runs the screen until it is quit."""
    for name in PAUSES:
        setattr(poller, name, getattr(poller, name) / clock.pace)
    app = Cockpit(Config(quiet=True, readonly=True), lambda publish: ClusterMonitor(publish, clock, address), clock=clock)  # type: ignore[arg-type,return-value]
    app.run()


async def serve(clock: Clock) -> None:
    """Runs the dashboard until it is killed."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", Life(clock).answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"address=http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Runs the dashboard or the screen."""
    which, clock = sys.argv[1], Clock(*map(float, sys.argv[2:4]))
    if which == "dashboard":
        asyncio.run(serve(clock))
    else:
        screen(clock, sys.argv[4])


if __name__ == "__main__":
    main()
