from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace

import pytest
from textual import _time, _wait
from textual.css.stylesheet import Stylesheet

from cockpit.actions.plan import Plan, Receipt, Target
from cockpit.config.settings import Config
from cockpit.findings.memory_trend import MemoryHistory
from cockpit.model import Hold
from cockpit.monitor.logs import Log
from cockpit.monitor.nccl_asker import OldNcclError
from cockpit.sources.probes.decode import StackFrame, StackThread
from cockpit.sources.probes.requests import Progress
from cockpit.sources.source import SourceError
from cockpit.ui import theme
from cockpit.ui.app import Cockpit
from cockpit.usage import Usage
from tests.loop import Loop, loop_time
from tests.world import GIB, NOW, snapshot


class FakeMonitor:
    """Stands where the monitor does, and shows a cluster that a test makes up."""

    def __init__(self, publish, first):
        self.publish, self.first = publish, first
        self.choice, self.choose = self, None
        self.poller = SimpleNamespace(
            tracker=SimpleNamespace(memory=MemoryHistory()),
            usage=Usage(),
            join_early=lambda: self.first,
            rejoin=lambda: None,
            snapshot=first,
            parts=SimpleNamespace(hosts={}),
        )
        self.selection = SimpleNamespace(everywhere=False)
        self.coverage = self
        self.ending = []
        self.closed = self.refreshed = False
        self.followed = []
        self.rays = ()
        """Other Rays on this host."""
        self.dead = ()
        self.is_started = False
        self.open_choices = ()
        """Sessions among which somebody must choose, as found before the screen was there."""
        self.kubernetes = None
        self.nccl = Nccl()
        self.logs = Logs()
        self.of_node = ()

    async def run(self):
        self.publish(self.first)
        await asyncio.Event().wait()

    def close(self):
        self.closed = True

    def refresh(self, *, is_awaited=False):
        self.refreshed = True

    def change_interval(self, step):
        return 2.0 + step

    async def find_others(self):
        return self.rays

    async def find_answering(self, addresses):
        answering = {ray.url for ray in self.rays if ray.answers}
        return tuple(address for address in addresses if address.url in answering)

    def follow(self, address):
        self.followed.append(address)

    async def dead_actors(self):
        if isinstance(self.dead, SourceError):
            raise self.dead
        return self.dead

    async def wait_for_hosts(self, timeout):
        self.waited_everywhere = self.selection.everywhere

    async def node_processes(self, node):
        return self.of_node

    async def environment(self, process):
        return [f"PID={process.pid}", "WANDB_API_KEY=•••"]

    async def stack(self, process):
        if process.kind == "stale":
            raise SourceError(f"py-spy is not allowed to read process {process.pid}")
        return (StackThread((StackFrame("all_reduce" if process.kind == "worker" else "load", "ppo.py", 7),)),)


class Nccl:
    """Stands where NCCL is asked: it remembers about which jobs, and reports what a test makes up."""

    def __init__(self):
        self.asked = []
        """Each job's id, and whether an old NCCL may be asked."""
        self.old = False
        self.report = None

    async def ask(self, job, *, even_old=False):
        self.asked.append((job.id, even_old))
        if self.old and not even_old:
            raise OldNcclError("NCCL 2.27.5 runs on node1")
        if self.report is None:
            raise SourceError(f"no process of job {job.id} with a GPU is known")
        return self.report


class Logs:
    """Stands where the finder of logs does: it remembers what it was asked for, and finds the logs of a test."""

    def __init__(self):
        self.batches = []
        self.found = None
        self.asked = []
        self.read = []
        """Labels of the logs of which only the last lines were wanted, each as often as they were."""

    def log(self, label, *batches, file=None, where="node1", ended="the process has ended", waits=False):
        """`waits`: nothing says that no more lines come."""

        async def follow(lines, on):
            if not on:
                self.read.append(label)
            for batch in batches:
                if isinstance(batch, SourceError):
                    raise batch
                yield batch
            if waits:
                await asyncio.Event().wait()

        return Log(label, file or f"{label}.log", where, follow, ended)

    def job_log(self, job):
        return self.log("job", *self.batches, file=f"job-driver-{getattr(job, 'id', '')}.log", ended="the job has ended")

    async def logs_of(self, thing):
        self.asked.append(thing)
        if isinstance(self.found, SourceError):
            raise self.found
        return self.found or (self.job_log(thing),)

    def with_file(self, logs, file, node):
        return tuple(sorted(logs, key=lambda log: log.file != file))

    async def logs_about(self, finding, things):
        self.asked.append((finding, things))
        return self.found or (self.log("err"),)


class FakeExecutor:
    """Stands where the executor does: it answers with the plan and the receipt of a test, and remembers what it was asked."""

    def __init__(self, plan=None, receipt=None, *, waits=False, endless=False):
        self.plans = plan
        self.receipt = receipt
        self.waits, self.endless = waits, endless
        self.planned, self.performed, self.broken_off = [], [], []

    async def plan(self, action, chosen, on_progress):
        self.planned.append((action, chosen))
        await self._wait("plan", on_progress, self.waits)
        if isinstance(self.plans, SourceError):
            raise self.plans
        return self.plans or Plan(action.id, action.title, (victim(1300),), hosts=("node1",))

    async def perform(self, plan, on_progress):
        self.performed.append(plan)
        await self._wait("deed", on_progress, self.endless)
        if isinstance(self.receipt, SourceError):
            raise self.receipt
        return self.receipt or Receipt(plan.action, plan.title, done=plan.targets, hosts=plan.hosts, took=1.5)

    async def _wait(self, what, on_progress, forever):
        on_progress("node1", Progress("connecting"))
        on_progress("node2", Progress("2 of 5 processes have ended", 2, 5))
        try:
            await (asyncio.Event().wait() if forever else asyncio.sleep(0))
        except asyncio.CancelledError:
            self.broken_off.append(what)
            raise


def victim(pid, text="", **more):
    """A process that is to be ended."""
    facts = {
        "host": "node1",
        "ticks": pid * 10,
        "started": NOW - 60,
        "user": "train",
        "kind": "orphan",
        "why": (f"its raylet is dead{text}",),
    }
    return Target("process", pid=pid, command=f"VLLM::Worker {text}", gpus=(Hold(0, 40 * GIB),), **{**facts, **more})


class Clock:
    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture(scope="session", autouse=True)
def themes_are_parsed_once():
    """Each app reads all of them: with the parsing of YAML that was a tenth of these tests' time."""
    load, parsed = theme.load_theme, {}

    def load_theme(path):
        content = path.read_bytes() if path.is_file() else None
        if (path, content) not in parsed:
            parsed[path, content] = load(path)
        return parsed[path, content]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theme, "load_theme", load_theme)
        yield


@pytest.fixture(scope="session", autouse=True)
def styles_are_parsed_once():
    """Each app parses the same style sheets twice: without a theme and with it."""
    parse, parsed = Stylesheet._parse_rules, {}

    def parse_once(sheet, css, read_from, **more):
        key = (css, read_from, *more.items(), frozenset(sheet._variables.items()))
        if key not in parsed:
            parsed[key] = parse(sheet, css, read_from, **more)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def textual_counts_seconds_as_its_loop():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_time, "get_time", loop_time)
        patch.setattr(_wait, "monotonic", loop_time)
        yield


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where presets of one's own lie."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "cockpit" / "presets"


@pytest.fixture
def make(clock):
    def app(first=None, *, executor=None, runbook=None, replayed=None, begins_at=None, **config):
        make_executor = None if executor is None else lambda _: executor
        monitor = partial(FakeMonitor, first=first or snapshot())
        past = {"replayed": replayed, "begins_at": begins_at}
        made = Cockpit(Config(**config), monitor, make_executor=make_executor, runbook=runbook, clock=clock, **past)
        made.executor = executor
        return made

    return app


def pytest_asyncio_loop_factories() -> dict[str, type[Loop]]:
    """All that these tests wait for is in this process: no time passes unused in their loop."""
    return {"skips": Loop}
