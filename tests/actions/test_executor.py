from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from cockpit.actions.audit import Audit
from cockpit.actions.executor import ActionExecutor
from cockpit.actions.plan import ActionTarget, Target
from cockpit.actions.table import find_action
from cockpit.config.address import Address
from cockpit.config.reach import HostEntry
from cockpit.config.settings import Config
from cockpit.model import Cluster, Hold, Host, Job, RayProcess, Session
from cockpit.sources.probes.requests import HostAnswer, Progress
from cockpit.sources.source import NotMeantError, SourceError
from tests.world import NOW, actor, node, process, snapshot

SESSION = "session_2026-11-21_08-02-10_714202_8139"
ROW = {"what": "process", "pid": 12, "ticks": 99, "kind": "orphan", "gpus": [{"index": 0, "memory": 5}]}


class Poller:
    def __init__(self, known):
        self.snapshot = known


class ClusterMonitor:
    """The parts of a monitor that the executor needs: facts, Ray's present answers, and how hosts are reached."""

    kubernetes = None
    config, session = Config(), SESSION

    def __init__(self, known, jobs=()):
        self.poller, self.ray_jobs, self.refreshed, self.ending = Poller(known), jobs, 0, []
        self.pool = SimpleNamespace(local="head", control_sockets=None)
        self.choice = SimpleNamespace(address=Address("http://127.0.0.1:8265", "default"), why_not_session=lambda name: None)

    def select_others(self):
        return {"w1": HostEntry("w1", address="10.0.0.2"), "w7": HostEntry("w7")}

    def places(self):
        return {}

    async def wait_until_complete(self):
        pass

    async def answering_session(self):
        return self.session

    async def jobs_by_session(self):
        if isinstance(self.ray_jobs, Exception):
            raise self.ray_jobs
        return [(self.session, self.ray_jobs)]

    def refresh(self):
        self.refreshed += 1


class ProbeRequests:
    """Records the requests to hosts and returns the given replies."""

    def __init__(self, **replies):
        self.replies, self.asked, self.hang = replies, [], False

    async def send(self, requests, on_progress, patience, **_):
        self.asked.append(requests)
        if self.hang:
            await asyncio.sleep(60)
        for host in requests:
            on_progress(host, Progress("running"))
        return {host: self._answer(host, request["stage"]) for host, request in requests.items()}

    def _answer(self, host, stage):
        reply = self.replies.get(host, {}).get(stage, {})
        return HostAnswer(host, error=reply) if isinstance(reply, str) else HostAnswer(host, reply=reply)


def known(**more):
    here = Host("head", addresses=("10.0.0.1",), local=True)
    return replace(snapshot(), cluster=Cluster(session=SESSION, reachable=True), hosts={"head": here}, nodes=(node(1), node(2)), **more)


@pytest.fixture
def executor(tmp_path):
    def make(world=None, jobs=(), **replies):
        made = ActionExecutor(ClusterMonitor(world or known(), jobs), Audit(tmp_path / "acts.jsonl", lambda: NOW))
        made._context.requests = ProbeRequests(**replies)
        return made

    return make


def log(tmp_path):
    return [json.loads(line) for line in (tmp_path / "acts.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("action", ["stop", "start"])
async def test_an_action_that_kuberay_would_undo_is_refused_before_any_host_is_asked(executor, action):
    made = executor(head={"plan": {"targets": [ROW]}})
    made._monitor.kubernetes = object()
    with pytest.raises(NotMeantError, match=r"^KubeRay .*: "):
        await made.plan(find_action(action), ActionTarget())
    assert made._context.requests.asked == []


async def test_a_plan_merges_the_answers_of_all_hosts(executor):
    made = executor(
        head={"plan": {"targets": [ROW]}}, w1={"plan": {"refused": [{**ROW, "reason": "another user's"}]}}, w7={"plan": "w7: timed out"}
    )
    plan = await made.plan(find_action("kill-orphans"), ActionTarget())
    assert [(target.host, target.pid) for target in plan.targets] == [("head", 12)]
    assert [(target.host, target.reason) for target in plan.refused] == [("w1", "another user's")]
    assert [(one.host, one.error) for one in plan.unreached] == [("w7", "w7: timed out")]
    assert plan.hosts == ("head", "w1", "w7")
    assert plan.word is None


@pytest.mark.parametrize(
    ("action", "target", "hosts"),
    [
        ("kill-orphans", {"hosts": ("w1", "10.0.0.1", "elsewhere")}, ["w1", "head", "elsewhere"]),
        ("clean", {"hosts": ("node2",)}, ["w1"]),
        ("kill-orphans", {"pids": (12,)}, ["head"]),
        ("kill-orphans", {"pids": (12,), "hosts": ("w1",)}, ["w1"]),
        ("kill-actor", {"id": "ab"}, ["head"]),
    ],
    ids=["named hosts", "a node's name in Ray", "a pid means this host", "a pid of a named host", "one host with a live Ray"],
)
async def test_only_the_targeted_hosts_are_asked(executor, action, target, hosts):
    made = executor()
    await made.plan(find_action(action), ActionTarget(**target))
    assert list(made._context.requests.asked[0]) == hosts


async def test_a_host_that_has_two_names_is_one_host(executor):
    reply = {"plan": {"targets": [ROW], "machine": "boot pid:1"}}
    plan = await executor(w1=reply, w7=reply).plan(find_action("kill-orphans"), ActionTarget())
    assert [target.host for target in plan.targets] == ["w1"]
    assert "w7 and w1 are the same host" in plan.notes


async def test_a_container_with_its_own_probe_reports_its_own_processes(executor):
    outer = {**ROW, "pid": 9012, "inside": "pid:[2]"}
    asked = {
        "head": {
            "plan": {
                "targets": [outer, {**ROW, "pid": 5}],
                "refused": [{**outer, "reason": "seen from outside"}],
                "machine": "boot pid:[1]",
            }
        },
        "w1": {"plan": {"targets": [ROW], "machine": "boot pid:[2]"}},
    }
    plan = await executor(**asked).plan(find_action("kill-orphans"), ActionTarget())
    assert ([(target.host, target.pid) for target in plan.targets], plan.refused) == ([("head", 5), ("w1", 12)], ())
    asked["w1"]["plan"]["machine"] = "other pid:[2]"
    plan = await executor(**asked).plan(find_action("kill-orphans"), ActionTarget())
    assert [target.pid for target in plan.targets] == [9012, 5, 12]


async def test_a_target_without_a_reported_outcome_has_failed(executor):
    made = executor(w1={"plan": {"targets": [ROW, {**ROW, "pid": 13}]}, "do": {"done": [ROW]}})
    receipt = await made.perform(await made.plan(find_action("kill-orphans"), ActionTarget()))
    assert [(target.pid, target.error) for target in receipt.failed] == [(13, "its host did not report the outcome")]


async def test_stopping_another_session_reports_no_losses_of_the_followed_one(executor):
    other = "session_2026-11-20_10-00-00_000001_77"
    world = known(jobs=(Job("train1", job="02000000", status="RUNNING", driver_node=f"{2:056x}"),))
    weight = {"jobs": ["01000000"], "drivers": [], "others": ["eve"]}
    made = executor(world, w1={"plan": {"targets": [{**ROW, "part": "worker", "session": other, "kind": "worker"}], "weight": weight}})
    plan = await made.plan(find_action("stop"), ActionTarget(session=other))
    assert not [loss for loss in plan.losses if "train1" in loss]
    assert [loss for loss in plan.losses if "eve" in loss]
    assert [loss for loss in plan.losses if "01000000" in loss]
    assert plan.word == "000001_77"


async def test_a_probe_that_does_nothing_is_reported_as_a_refusal(executor):
    made = executor()
    made._context.requests._answer = lambda host, stage: HostAnswer(host, error=f"{host}: started anew", refused=True)
    plan = await made.plan(find_action("stop"), ActionTarget())
    assert not plan.unreached
    assert [target.reason for target in plan.refused] == ["head: started anew", "w1: started anew", "w7: started anew"]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (
            (Job("ppo", job="02000000", submission="ppo", status="RUNNING"), Job("old", job="01000000", status="FAILED")),
            [{"session": SESSION, "running": ["02000000", "ppo"], "ended": ["01000000"]}],
        ),
        (SourceError("no answer"), []),
    ],
)
async def test_hosts_get_the_jobs_that_ray_reports_and_none_if_it_is_silent(executor, jobs, expected):
    made = executor(jobs=jobs)
    await made.plan(find_action("kill-orphans"), ActionTarget())
    assert made._context.requests.asked[0]["w1"]["jobs"] == expected


async def test_a_host_is_sent_only_its_own_planned_targets(executor, tmp_path):
    made = executor(head={"plan": {}}, w1={"plan": {"targets": [ROW]}, "do": {"done": [{**ROW, "outcome": "ended"}], "freed": {"gpu": 5}}})
    receipt = await made.perform(await made.plan(find_action("kill-orphans"), ActionTarget()))
    asked = made._context.requests.asked[1]
    assert list(asked) == ["w1"]
    assert (asked["w1"]["stage"], [(row["pid"], row["ticks"]) for row in asked["w1"]["targets"]]) == ("do", [(12, 99)])
    assert (receipt.well, receipt.freed.gpu, [target.outcome for target in receipt.done]) == (True, 5, ["ended"])
    assert [line["outcome"] == "begun" for line in log(tmp_path)] == [True, False]
    assert made._monitor.refreshed == 1


async def test_the_plan_says_that_hosts_and_work_of_a_silent_ray_are_unknown(executor):
    silent = replace(
        known(),
        cluster=Cluster(session=SESSION, reachable=False),
        sessions=(Session(host="head", name=SESSION, path=f"/tmp/ray/{SESSION}", live=True),),
    )
    plan = await executor(silent, head={"plan": {"targets": [{**ROW, "kind": "ray", "session": SESSION}]}}).plan(
        find_action("stop"), ActionTarget()
    )
    assert [one.host for one in plan.unreached] == ["other hosts"]
    assert plan.losses[-1] == "there may be more work in this Ray session: its dashboard has not answered"
    assert plan.word == "8139"
    nothing = await executor(silent).plan(find_action("kill-orphans"), ActionTarget())
    assert nothing.notes == ("Ray has not answered: if it has more hosts than these, name them",)


async def test_a_host_that_falls_silent_is_in_the_receipt_and_delays_no_other(executor):
    made = executor(head={"plan": {"targets": [ROW]}, "do": {"done": [ROW]}}, w1={"plan": {"targets": [ROW]}, "do": "w1: timed out"})
    receipt = await made.perform(await made.plan(find_action("kill-orphans"), ActionTarget()))
    assert [one.host for one in receipt.unreached] == ["w1"]
    assert [target.host for target in receipt.done] == ["head"]
    assert not receipt.well


async def test_ending_live_work_needs_the_name_of_its_job(executor):
    row = process(1001, host="w1", ticks=5, kind="worker", job="02000000")
    world = known(processes=(row,), jobs=(Job("train1", job="02000000", status="RUNNING"),))
    reply = {"targets": [{"what": "process", "pid": 1001, "ticks": 5, "kind": "worker", "job": "02000000"}]}
    made = executor(world, w1={"plan": reply})
    plan = await made.plan(find_action("kill"), ActionTarget(rows=(row,)))
    assert plan.word == "train1"
    assert list(made._context.requests.asked[0]) == ["w1"]


@pytest.mark.parametrize("name", [" ", "\u00a0", "\u200b", "a\u202eb", "\ud800", "x" * 101], ids=ascii)
async def test_a_name_that_nobody_can_type_is_no_word(executor, name):
    """A blank word would be typed already, and an unseen one could never be."""
    job = Job(name, job="02000000", status="RUNNING", submission=name)
    row = process(1001, host="w1", ticks=5, kind="worker", job="02000000")
    reply = {"targets": [{"what": "process", "pid": 1001, "ticks": 5, "kind": "worker", "job": "02000000"}]}
    plan = await executor(known(processes=(row,), jobs=(job,)), w1={"plan": reply}).plan(find_action("kill"), ActionTarget(rows=(row,)))
    assert plan.word == "kill"


OF_SESSION = {"plan": {"targets": [{**ROW, "part": "raylet", "session": SESSION, "kind": "ray"}]}}


async def test_no_plan_is_made_if_the_followed_ray_is_not_the_one_on_the_screen(executor):
    made = executor(w1=OF_SESSION)
    with pytest.raises(NotMeantError, match=f"the screen showed session_a, and cockpit follows {SESSION} now"):
        await made.plan(find_action("stop"), ActionTarget(shown="session_a"))
    assert made._context.requests.asked == []
    plan = await made.plan(find_action("stop"), ActionTarget(shown=SESSION))
    assert (plan.session, plan.word, made._context.requests.asked[0]["w1"]["session"]) == (SESSION, "8139", SESSION)


@pytest.mark.parametrize("is_followed_still", [True, False])
async def test_nothing_is_done_if_another_ray_answers_than_the_planned_one(executor, is_followed_still):
    made = executor(w1=OF_SESSION)
    plan = await made.plan(find_action("stop"), ActionTarget())
    made._monitor.session = "session_b"
    if not is_followed_still:
        made._monitor.poller.snapshot = replace(known(), cluster=Cluster("http://a", session="session_b", reachable=True))
    asked = len(made._context.requests.asked)
    with pytest.raises(NotMeantError, match=f"nothing was done: it was planned for {SESSION}, and session_b answers at .* now"):
        await made.perform(plan)
    assert len(made._context.requests.asked) == asked


async def test_a_plan_names_its_ray_if_others_live_on_the_hosts(executor):
    sessions = tuple(
        Session(host="head", name=name, path=f"/tmp/ray/{name}", live=True, dashboard="http://b") for name in (SESSION, "session_b")
    )
    world = replace(known(sessions=sessions), cluster=Cluster("http://a", session=SESSION, reachable=True))
    for action in ("stop", "kill-orphans"):
        plan = await executor(world, w1=OF_SESSION).plan(find_action(action), ActionTarget())
        assert (plan.session, plan.address, plan.beside) == (SESSION, "http://a", ("session_b",))
    of_other = {"plan": {"targets": [{**ROW, "part": "raylet", "session": "session_b", "kind": "ray"}]}}
    plan = await executor(world, w1=of_other).plan(find_action("stop"), ActionTarget(session="session_b"))
    assert (plan.session, plan.address, plan.beside) == ("session_b", "http://b", (SESSION,))


async def test_with_two_live_sessions_and_no_dashboard_the_user_must_choose(executor):
    sessions = tuple(Session(host="head", name=name, path=f"/tmp/ray/{name}", live=True) for name in ("session_a", "session_b"))
    with pytest.raises(SourceError, match="several Ray sessions run: session_a, session_b"):
        await executor(replace(known(sessions=sessions), cluster=Cluster())).plan(find_action("stop"), ActionTarget())


@pytest.mark.parametrize("followed", [True, False])
async def test_a_ray_in_another_slurm_job_of_ours_is_stopped_only_by_its_name(executor, followed):
    lives = Session(host="head", name=SESSION, path=f"/tmp/ray/{SESSION}", live=True, dashboard="http://10.0.0.1:8265")
    world = known(sessions=(lives, replace(lives, host="w1", live=False)))
    rays = (RayProcess("raylet", 20, SESSION, slurm="41"),)
    world = replace(world, hosts={**world.hosts, "head": replace(world.hosts["head"], rays=rays)}, slurm_ids=frozenset(["42"]))
    made = executor(world if followed else replace(world, cluster=Cluster()))
    with pytest.raises(SourceError, match="in Slurm job 41"):
        await made.plan(find_action("stop"), ActionTarget())
    await made.plan(find_action("stop"), ActionTarget(session=SESSION))
    assert made._context.requests.asked[0]["head"]["session"] == SESSION
    here = executor(replace(world, slurm_ids=frozenset(["41"])))
    await here.plan(find_action("stop"), ActionTarget())
    assert here._context.requests.asked[0]["head"]["session"] == SESSION


@pytest.mark.parametrize(
    ("url", "meant"),
    [("http://10.0.0.1:8265", True), ("http://localhost:8265", True), ("http://10.0.0.1:8266", False), ("http://elsewhere:8265", False)],
)
async def test_a_live_session_here_is_not_stopped_in_place_of_one_with_a_silent_dashboard(executor, url, meant):
    lives = Session(host="head", name=SESSION, path=f"/tmp/ray/{SESSION}", live=True, dashboard="http://10.0.0.1:8265")
    made = executor(replace(known(sessions=(lives,)), cluster=Cluster()))
    made._monitor.choice.address = Address(url, "--address")
    if meant:
        await made.plan(find_action("stop"), ActionTarget())
        assert made._context.requests.asked[0]["head"]["session"] == SESSION
    else:
        with pytest.raises(SourceError, match=f"{SESSION} runs here with another dashboard"):
            await made.plan(find_action("stop"), ActionTarget())


async def test_two_sessions_on_two_hosts_are_never_stopped_as_one(executor):
    made = executor(
        replace(known(sessions=()), cluster=Cluster()),
        head={"plan": {"targets": [{**ROW, "session": "session_a"}]}},
        w1={"plan": {"targets": [{**ROW, "session": "session_b"}]}},
    )
    with pytest.raises(SourceError, match="session_a, session_b"):
        await made.plan(find_action("stop"), ActionTarget())


async def test_names_that_only_ray_knows_are_in_plan_and_receipt(executor):
    """The memory of a second Ray node on that host, whose GPUs its probe cannot see, and its job's name."""
    world = known(
        processes=(process(12, host="w1", ticks=99, gpus=(Hold(0, 7),)),), jobs=(Job("train1", job="02000000", status="RUNNING"),)
    )
    row = {**ROW, "gpus": [], "session": SESSION, "kind": "worker", "part": "worker", "why": ["of job 02000000"]}
    refused = {**row, "pid": 13, "reason": "it works for job 02000000"}
    made = executor(
        world, w1={"plan": {"targets": [row], "refused": [refused]}, "do": {"failed": [{**row, "error": "job 02000000 lives"}]}}
    )
    plan = await made.plan(find_action("stop"), ActionTarget())
    assert (plan.targets[0].gpu_memory, plan.targets[0].why, plan.refused[0].reason) == (7, ("of job train1",), "it works for job train1")
    assert (await made.perform(plan)).failed[0].error == "job train1 lives"


async def test_an_unknown_id_is_an_error_if_it_was_typed_and_a_refusal_if_its_row_is_gone(executor):
    gone = {"what": "actor", "id": f"{1:032x}", "reason": "this Ray has no actor with that id"}
    made = executor(head={"plan": {"refused": [gone]}})
    with pytest.raises(SourceError, match="this Ray has no actor with that id"):
        await made.plan(find_action("kill-actor"), ActionTarget(id=gone["id"]))
    assert (await made.plan(find_action("kill-actor"), ActionTarget(rows=(actor(1),)))).refused[0].reason == gone["reason"]


async def test_only_one_action_runs_at_a_time(executor):
    made = executor(head={"plan": {"targets": [ROW]}})
    plan = await made.plan(find_action("kill-orphans"), ActionTarget())
    made._context.requests.hang = True
    first = asyncio.ensure_future(made.perform(plan))
    await asyncio.sleep(0)
    with pytest.raises(SourceError, match="another action is running"):
        await made.perform(plan)
    first.cancel()
    await asyncio.wait([first])


@pytest.mark.parametrize("ends_with_cockpit", [False, True])
async def test_a_cancelled_action_is_logged_once(executor, tmp_path, ends_with_cockpit):
    made = executor(head={"plan": {"targets": [ROW]}})
    plan = await made.plan(find_action("kill-orphans"), ActionTarget())
    made._context.requests.hang, made._context.requests.close = True, lambda: None
    task = asyncio.ensure_future(made.perform(plan))
    while len(made._context.requests.asked) < 2:
        await asyncio.sleep(0.001)
    if ends_with_cockpit:
        made.close()
        assert log(tmp_path)[1]["outcome"] == {"broken_off": "cancelled"}
    task.cancel()
    await asyncio.wait([task])
    assert [line["outcome"] for line in log(tmp_path)] == ["begun", {"broken_off": "cancelled"}]


async def test_an_unwritable_log_is_reported_and_blocks_no_action(executor, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Audit, "_write", full)
    made = executor(head={"plan": {"targets": [ROW]}, "do": {"done": [ROW]}})
    receipt = await made.perform(await made.plan(find_action("kill-orphans"), ActionTarget()))
    assert receipt.done
    assert receipt.notes == ("the action log could not be written: No space left on device",)


async def test_an_invalid_answer_makes_only_its_own_host_unreached(executor):
    made = executor(head={"plan": {"targets": [{"what": "planet"}]}}, w1={"plan": {"targets": [ROW]}})
    plan = await made.plan(find_action("kill-orphans"), ActionTarget())
    assert [one.host for one in plan.unreached] == ["head"]
    assert plan.targets == (Target("process", "w1", pid=12, ticks=99, kind="orphan", gpus=plan.targets[0].gpus),)
