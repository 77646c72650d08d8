"""A server for agents in this process, with a cluster and an executor that a test makes up, and the SDK's own client on it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import mcp_types as types
from mcp import Client
from msgspec.structs import replace

from cockpit.actions.agreement import Agreement
from cockpit.actions.plan import Plan, Target
from cockpit.agents.past import Past
from cockpit.agents.plans import Plans
from cockpit.agents.server import AgentServer
from cockpit.agents.tools import Toolbox
from cockpit.config.address import Address
from cockpit.config.settings import Config
from cockpit.model import Job
from cockpit.monitor.logs import Log
from cockpit.sources.probes.decode import StackFrame, StackThread
from cockpit.usage import Usage
from tests.world import NOW, snapshot

MODES = ("legacy", "auto")
"""The protocols before 2026-07-28, which ask within a call, and those since, which answer in the next call."""


class Monitor:
    """The parts of a monitor that tools need."""

    config, kubernetes, open_choices, ending = Config(), None, (), []

    def __init__(self, world, lines=()):
        self.poller = SimpleNamespace(snapshot=world, usage=Usage(), rejoin=lambda: None)
        self.pool = SimpleNamespace(local="node1")
        self.choice = SimpleNamespace(address=Address("http://10.0.0.1:8265", "flag"))
        self.lines = list(lines)
        self.logs = self

    def clock(self):
        return NOW + 1

    async def wait_until_complete(self, timeout=8.0):
        pass

    def select_others(self):
        return {}

    async def dead_actors(self):
        return ()

    async def stack(self, process):
        return (StackThread((StackFrame("all_reduce", "ppo.py", process.pid % 2), StackFrame("run", "threading.py", 9))),)

    # As a finder of logs

    def job_log(self, job):
        return Log("job", f"job-driver-{job.id}.log", "node1", self._follow, read_end=self._read_end)

    def log_until_now(self, job):
        return self.job_log(job)

    async def logs_of(self, thing):
        return (self.job_log(Job("of-a-thing")),)

    async def _follow(self, lines, on):
        yield self.lines

    async def _read_end(self, lines, most_bytes):
        return self.lines[-lines:]


class Executor:
    """Plans what a test gives it, and notes what is performed."""

    def __init__(self, *plans):
        self.plans, self.asked, self.performed = list(plans), [], []

    async def plan(self, action, requested, on_progress=None):
        self.asked.append((action.id, requested))
        plan = self.plans[0] if len(self.plans) == 1 else self.plans.pop(0)
        if isinstance(plan, Exception):
            raise plan
        return plan

    async def perform(self, plan, on_progress=None):
        self.performed.append(plan)
        return plan.receipt(done=tuple(replace(target, outcome="ended") for target in plan.targets))


def victim(pid=1200, **more):
    facts = {"ticks": pid * 10, "kind": "orphan", "user": "train", "command": "python left.py", **more}
    return Target("process", "node1", ("its raylet is dead",), pid, **facts)


ORPHANS = Plan("kill-orphans", "Kill orphans", (victim(),), hosts=("node1",), session="session_1", address="http://10.0.0.1:8265")
LIVE = Plan("stop-job", "Stop job", (Target("job", "ray", id="ppo-7b"),), losses=("3 actors end with it",), hosts=("ray",), word="ppo-7b")


class Stage:
    """The server of a test, and the clock of its plans."""

    def __init__(self, *plans, world=None, lines=(), can_perform=True, on_screen=None, timeout_s=5.0):
        self.now = 0.0
        self.executor = Executor(*(plans or (ORPHANS,)))
        self.monitor = Monitor(world or snapshot(), lines)
        self.questions = []
        self.on_screen = on_screen or Agreement(agreed=False, why="no cockpit screen of this user that may act is open")
        made = Plans(self.monitor, self.executor, lambda: self.now)
        self.toolbox = Toolbox(self.monitor, Past(self.monitor, None), made, can_perform=can_perform)
        self.server = AgentServer(self.toolbox, self._ask_screen, timeout_s, lambda: self.now)

    async def _ask_screen(self, question, timeout_s):
        self.questions.append(question)
        return self.on_screen


@asynccontextmanager
async def agent(stage, answer=None, mode="auto"):
    """A client on the server. `answer`: what its person says to a form; `None`: it can't show forms."""

    async def elicit(context, params):
        return await answer(params) if callable(answer) else answer

    async with Client(stage.server.server, mode=mode, elicitation_callback=elicit if answer is not None else None) as client:
        yield client


async def call(client, name, **arguments):
    """The answer of a tool, as a value; an error is one too."""
    result = await client.call_tool(name, arguments)
    return json.loads(text_of(result))


def text_of(result):
    (content,) = result.content
    return content.text


def yes(**more):
    return types.ElicitResult(action="accept", content={"agree": True, **more})


NO = types.ElicitResult(action="decline")


def texts_in(value):
    """All texts of an answer, with its keys."""
    if isinstance(value, dict):
        return [each for pair in value.items() for one in pair for each in texts_in(one)]
    if isinstance(value, list):
        return [each for one in value for each in texts_in(one)]
    return [value] if isinstance(value, str) else []
