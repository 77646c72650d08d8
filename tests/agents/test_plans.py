"""Nothing is performed for an agent but the plan that a person has seen and agreed to."""

from __future__ import annotations

import asyncio

import mcp_types as types
import pytest
from msgspec.structs import replace

from cockpit.actions.agreement import Agreement, Question
from cockpit.actions.plan import Plan
from cockpit.agents.server import ask_text
from cockpit.model import Remedy
from cockpit.sources.source import NotMeantError
from tests.agents.stage import LIVE, MODES, NO, ORPHANS, Stage, agent, call, victim, yes
from tests.world import finding, process, snapshot

both_protocols = pytest.mark.parametrize("mode", MODES)


async def planned(client, **arguments):
    return (await call(client, "plan", **(arguments or {"action": "kill-orphans"})))["plan"]


@both_protocols
async def test_an_explicit_yes_performs_exactly_the_plan_and_gives_its_receipt(mode):
    stage = Stage()
    async with agent(stage, yes(), mode) as client:
        answer = await call(client, "perform", plan=await planned(client), reason="it holds GPU 2")
    assert stage.executor.performed == [ORPHANS]
    assert [row["target"] for row in answer["done"]] == ["pid 1200"]


@both_protocols
@pytest.mark.parametrize(
    "answer",
    [
        NO,
        types.ElicitResult(action="cancel"),
        types.ElicitResult(action="accept", content={}),
        types.ElicitResult(action="accept", content={"agree": False}),
        types.ElicitResult(action="accept", content={"agree": "true"}),
        types.ElicitResult(action="accept", content={"agree": 1}),
    ],
    ids=["declined", "cancelled", "empty", "no", "a text", "a number"],
)
async def test_everything_but_an_explicit_yes_is_a_no(mode, answer):
    stage = Stage()
    async with agent(stage, answer, mode) as client:
        told = await call(client, "perform", plan=await planned(client), reason="x")
    assert "nothing was done" in told["error"]
    assert stage.executor.performed == []


@both_protocols
async def test_the_person_sees_the_targets_and_the_reason_marked_as_the_words_of_the_agent(mode):
    seen = []

    async def read(params):
        seen.append(params.message)
        return NO

    async with agent(Stage(), read, mode) as client:
        await call(client, "perform", plan=await planned(client), reason="fine\n\nKill orphans: nothing\n\x1b[8mhidden")
    (message,) = seen
    assert "pid 1200" in message
    assert "its raylet is dead" in message
    own, said = message.split("The agent's reason, in its own words:\n")
    assert said == "  “fine  Kill orphans: nothing hidden”"
    assert "fine" not in own


async def test_a_long_name_of_the_ray_does_not_hide_the_plan():
    question = Question(replace(ORPHANS, session="s" * 1_000_000, beside=("session_2",)), "x", "y")
    assert len(ask_text(question)) < 4_000


@both_protocols
@pytest.mark.parametrize(("typed", "is_done"), [("ppo-7b", True), ("ppo", False), (None, False)])
async def test_where_live_work_ends_its_word_must_be_typed(mode, typed, is_done):
    stage = Stage(LIVE)
    async with agent(stage, yes(**({"word": typed} if typed else {})), mode) as client:
        name = await planned(client, action="stop-job", id="ppo-7b")
        await call(client, "perform", plan=name, reason="x")
    assert bool(stage.executor.performed) is is_done


@both_protocols
async def test_a_plan_is_performed_once(mode):
    stage = Stage()
    async with agent(stage, yes(), mode) as client:
        name = await planned(client)
        await call(client, "perform", plan=name, reason="x")
        assert "used already" in (await call(client, "perform", plan=name, reason="x"))["error"]
    assert len(stage.executor.performed) == 1


@both_protocols
async def test_a_plan_older_than_a_minute_is_refused_unasked(mode):
    stage, asked = Stage(), []

    async def read(params):
        asked.append(params)
        return yes()

    async with agent(stage, read, mode) as client:
        name = await planned(client)
        stage.now += 61
        assert "61 s ago" in (await call(client, "perform", plan=name, reason="x"))["error"]
    assert (asked, stage.executor.performed) == ([], [])


@both_protocols
@pytest.mark.parametrize(
    "later",
    [
        replace(ORPHANS, targets=(victim(), victim(1201))),
        replace(ORPHANS, targets=(victim(ticks=1),)),
        replace(ORPHANS, targets=()),
        replace(ORPHANS, word="ppo-7b"),
        replace(ORPHANS, session="session_2"),
    ],
    ids=["one more", "another process of that pid", "gone", "live work", "another Ray"],
)
async def test_a_plan_that_would_be_another_now_is_refused_unasked(mode, later):
    stage = Stage(ORPHANS, later)
    async with agent(stage, yes(), mode) as client:
        assert "has changed" in (await call(client, "perform", plan=await planned(client), reason="x"))["error"]
    assert stage.executor.performed == []


@both_protocols
@pytest.mark.parametrize(("seconds", "is_done"), [(5, True), (200, False)])
async def test_a_plan_that_becomes_another_while_the_person_thinks_is_not_performed(mode, seconds, is_done):
    stage = Stage(ORPHANS, ORPHANS, replace(ORPHANS, word="ppo-7b"))

    async def think(params):
        stage.now += seconds
        return yes()

    stage.server._timeout_s = 300
    async with agent(stage, think, mode) as client:
        told = await call(client, "perform", plan=await planned(client), reason="x")
    assert ("has changed" in told.get("error", "")) is not is_done
    assert bool(stage.executor.performed) is is_done


async def test_what_the_executor_refuses_is_an_error_and_not_done():
    stage = Stage(ORPHANS, NotMeantError("nothing was done: it was planned for another Ray"))
    async with agent(stage, yes()) as client:
        assert "another Ray" in (await call(client, "perform", plan=await planned(client), reason="x"))["error"]
    assert stage.executor.performed == []


async def test_a_call_that_is_cancelled_while_it_acts_lets_no_screen_wait_for_the_outcome():
    class Writer:
        is_closed = False

        def close(self):
            self.is_closed = True

    stage, begun, ended = Stage(on_screen=Agreement(agreed=True, writer=Writer())), asyncio.Event(), asyncio.Event()

    async def perform(plan):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    stage.executor.perform = perform
    async with agent(stage, mode="legacy") as client:
        calling = asyncio.ensure_future(call(client, "perform", plan=await planned(client), reason="x"))
        await begun.wait()
        calling.cancel()
        await asyncio.wait_for(ended.wait(), 5)
        await asyncio.sleep(0)
        assert stage.on_screen._writer.is_closed


async def test_nobody_answers_within_the_time():
    async def wait(params):
        await asyncio.Event().wait()

    stage = Stage(timeout_s=0.05)
    async with agent(stage, wait, "legacy") as client:
        assert "nobody has answered" in (await call(client, "perform", plan=await planned(client), reason="x"))["error"]
    assert stage.executor.performed == []


async def test_an_answer_that_comes_too_late_counts_no_more():
    stage = Stage(timeout_s=300)

    async def think(params):
        stage.now += 301
        return yes()

    async with agent(stage, think) as client:
        assert "nobody has answered" in (await call(client, "perform", plan=await planned(client), reason="x"))["error"]
    assert stage.executor.performed == []


async def test_an_answer_without_a_question_of_this_server_does_nothing():
    stage = Stage()
    async with agent(stage, yes()) as client:
        name = await planned(client)
        result = await client.session.call_tool(
            "perform", {"plan": name, "reason": "x"}, input_responses={"agree": yes()}, request_state="guessed", allow_input_required=True
        )
    assert result.is_error
    assert stage.executor.performed == []


async def test_a_client_without_forms_asks_on_a_screen():
    stage = Stage(on_screen=Agreement(agreed=True))
    async with agent(stage) as client:
        assert "done" in await call(client, "perform", plan=await planned(client), reason="it holds GPU 2")
    (question,) = stage.questions
    assert (question.plan, question.reason) == (ORPHANS, "it holds GPU 2")


async def test_without_forms_and_without_a_screen_the_reason_is_given():
    stage = Stage()
    async with agent(stage) as client:
        told = await call(client, "perform", plan=await planned(client), reason="x")
    assert told["error"] == "nothing was done: no cockpit screen of this user that may act is open"
    assert stage.executor.performed == []


async def test_a_plan_too_long_for_a_form_is_shown_on_a_screen():
    stage = Stage(replace(ORPHANS, targets=tuple(victim(2000 + number) for number in range(200))))
    async with agent(stage, yes()) as client:
        await call(client, "perform", plan=await planned(client), reason="x")
    assert len(stage.questions) == 1
    assert stage.executor.performed == []


async def test_a_server_that_only_reads_has_no_perform_and_says_what_it_lacks():
    stage = Stage(can_perform=False)
    async with agent(stage, yes()) as client:
        assert "perform" not in [tool.name for tool in (await client.list_tools()).tools]
        plan = await call(client, "plan", action="kill-orphans")
        assert "only shows plans" in plan["then"]
        assert "--allow-actions" in (await call(client, "perform", plan=plan["plan"], reason="x"))["error"]
    assert stage.executor.performed == []


async def test_hosts_that_only_a_text_names_are_not_contacted():
    stage = Stage()
    async with agent(stage) as client:
        for host in ("evil.example", "-oProxyCommand=id", "10.9.9.9"):
            assert "unknown host" in (await call(client, "plan", action="kill-orphans", hosts=[host]))["error"]
        await call(client, "plan", action="kill-orphans", hosts=["node2"])
    assert [requested.hosts for _, requested in stage.executor.asked] == [("node2",)]


async def test_the_remedy_of_a_finding_is_planned_for_what_it_is_about():
    orphan = process(1200, kind="orphan")
    mended = finding(code="gpu-memory-orphaned", about=(orphan.key,), remedy=Remedy("kill them", "kill-orphans"))
    stage = Stage(world=snapshot(processes=(orphan, process(1300, kind="orphan")), findings=(mended,)))
    async with agent(stage) as client:
        await call(client, "plan", finding="gpu-memory-orphaned")
    ((action, requested),) = stage.executor.asked
    assert (action, [row.pid for row in requested.rows]) == ("kill-orphans", [1200])


async def test_a_live_process_is_planned_by_host_and_pid_with_its_start_time():
    stage = Stage()
    async with agent(stage) as client:
        await call(client, "plan", action="kill", hosts=["node1"], pids=[1400])
        assert "not known" in (await call(client, "plan", action="kill", hosts=["node2"], pids=[1400]))["error"]
    ((action, requested),) = stage.executor.asked
    assert (action, [(row.pid, row.ticks) for row in requested.rows]) == ("kill", [(1400, 14000)])


async def test_nothing_to_do_is_not_asked():
    stage = Stage(Plan("kill-orphans", "Kill orphans", hosts=("node1",)))
    async with agent(stage, yes()) as client:
        assert "nothing to do" in (await call(client, "perform", plan=await planned(client), reason="x"))["error"]
    assert stage.executor.performed == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"action": "stop", "everything": True, "session": "session_1"}, "exclude each other"),
        ({"action": "kill-orphans", "pids": [1200]}, "give `hosts`"),
        ({"action": "kill", "pids": [1200]}, "expected one host"),
        ({"action": "stop-job"}, "expected `id`"),
        ({"action": "launch", "preset": "/tmp/evil.yaml"}, "expected `preset`"),
        ({"action": "kill-actor", "id": "nobody"}, "no actor"),
    ],
)
async def test_an_unclear_request_is_refused_before_any_host_is_asked(arguments, why):
    stage = Stage()
    async with agent(stage) as client:
        assert why in (await call(client, "plan", **arguments))["error"]
    assert stage.executor.asked == []
