"""Each tool answers what its command shows, below 8,000 bytes, worst things first, and says what it leaves out."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from cockpit.agents import logs
from cockpit.agents.answers import MAX_BYTES
from cockpit.agents.tools import TOOLS
from cockpit.cli.record import recordings_path
from cockpit.config.settings import Config
from cockpit.model import Finding, Job, Remedy
from tests.agents.stage import Stage, agent, call, text_of
from tests.world import NOW, actor, finding, node, process, snapshot


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


async def ask(name, stage=None, **arguments):
    async with agent(stage or Stage()) as client:
        return await call(client, name, **arguments)


async def pages(client, name, rows, **arguments):
    """All rows, by following `next`."""
    found, start = [], 0
    while True:
        answer = await call(client, name, **arguments, start=start)
        found += answer[rows]
        if "next" not in answer:
            return found
        assert str(answer["next"]) in answer["left_out"]
        start = answer["next"]


async def test_the_tools_are_few_short_and_marked_as_read_only():
    async with agent(Stage()) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [*(tool.name for tool in TOOLS), "perform"]
    assert [tool.name for tool in tools if not tool.annotations.read_only_hint] == ["perform"]
    assert len(json.dumps([tool.model_dump(exclude_none=True) for tool in tools])) < 10_000


async def test_status_begins_with_findings_and_counts_the_rest():
    answer = await ask("status")
    assert [one["code"] for one in answer["findings"]] == [one.code for one in snapshot().findings]
    assert answer["nodes"] == {"ALIVE": 2, "DEAD": 1}
    assert answer["waiting"] == {"actors": 4, "placement_groups": 1}
    assert (answer["left_over"]["processes"], answer["left_over"]["dead_sessions"]) == (2, 1)


async def test_unknown_facts_have_no_field():
    silent = snapshot(nodes=None, jobs=None, processes=None, sessions=None, actors=None, placement_groups=None, actor_counts=None)
    answer = await ask("status", Stage(world=silent))
    assert not {"nodes", "jobs", "jobs_running", "gpus", "actors"} & set(answer)
    assert (answer["left_over"], answer["waiting"]) == ({"looked_at": "0 of 0 hosts probed"}, {})
    assert (await ask("why_waiting", Stage(world=silent)))["unknown"] == [
        "actors: Ray has not listed them",
        "placement groups: Ray has not listed them",
        "jobs: Ray has not listed them",
    ]


async def test_a_finding_is_explained_with_its_evidence_and_the_calls_to_make_next():
    mended = Finding(
        "placement-group-pending", "critical", "job ppo-7b", "it waits", ("ray list placement-groups",), NOW - 50,
        remedy=Remedy("stop it", "stop-job"), about=("job:ppo-7b",),
    )  # fmt: skip
    async with agent(Stage(world=snapshot(findings=(mended,)))) as client:
        (listed,) = (await call(client, "findings"))["findings"]
        answer = await call(client, "explain", finding=listed["id"])
        assert answer["evidence"] == ["ray list placement-groups"]
        assert [(step["tool"], step["arguments"]) for step in answer["look_next"]] == [
            ("why_waiting", {}),
            ("job", {"job": "ppo-7b"}),
            ("plan", {"finding": listed["id"]}),
            ("history", {"begin": "-30m"}),
        ]
        for step in answer["look_next"][:3]:
            assert "error" not in await call(client, step["tool"], **step["arguments"])
        assert "no finding" in (await call(client, "explain", finding="gone"))["error"]


async def test_a_job_has_its_status_groups_and_findings():
    answer = await ask("job", job="ppo-7b")
    assert (answer["job"], answer["status"]) == ("ppo-7b", "RUNNING")
    assert {group["group"] for group in answer["groups"]} == {"vllm", "actors"}
    assert "ppo-7b" in (await ask("job", job="nobody"))["error"]


async def test_equal_things_that_wait_share_a_row_with_their_reason():
    answer = await ask("why_waiting")
    assert [(row["what"], row.get("count"), row["state"]) for row in answer["waiting"]] == [
        ("placement group", None, "PENDING"),
        ("actor", 1, "RESTARTING"),
        ("actor", 4, "PENDING_CREATION"),
    ]
    assert answer["waiting"][0]["why"] == "no node has the resources now"


async def test_processes_are_sorted_by_gpu_memory_and_filtered():
    answer = await ask("processes")
    assert [row["pid"] for row in answer["processes"]][:2] == [1200, 1001]
    assert [row["pid"] for row in (await ask("processes", kind="left_over"))["processes"]] == [1200, 1300]
    assert [row["pid"] for row in (await ask("processes", pid=1400))["processes"]] == [1400]
    assert (await ask("processes", host="node2"))["count"] == 0


async def test_a_node_has_its_gpus_with_their_holders():
    answer = await ask("node", node="node1")
    assert [row["gpu"] for row in answer["gpus"]] == [str(index) for index in range(8)]
    assert answer["gpus"][2]["holders"][0] == {"pid": 1200, "memory": 40 << 30, "kind": "orphan"}


LINES = [f"step {number}" for number in range(5_000)] + ["Traceback:", "RuntimeError: NCCL timeout", "bye"]


async def test_the_end_of_a_log_counts_similar_lines_and_says_what_is_earlier():
    answer = await ask("logs", Stage(lines=LINES), target="ppo-7b")
    assert answer["lines"][-2:] == ["5002: RuntimeError: NCCL timeout", "5003: bye"]
    assert "similar lines" in answer["lines"][0]
    assert "earlier lines" in answer["left_out"]


async def test_a_search_shows_the_surroundings_of_a_rare_line_and_pages_through_frequent_ones():
    async with agent(Stage(lines=LINES)) as client:
        rare = await call(client, "logs", target="ppo-7b", search="runtimeerror|nothing")
        assert rare["lines"][-3:] == ["5001: Traceback:", "> 5002: RuntimeError: NCCL timeout", "5003: bye"]
        found = await pages(client, "logs", "matches", target="ppo-7b", search="step 1")
        assert len(found) == sum("step 1" in line for line in LINES)
        around = await call(client, "logs", target="ppo-7b", line=100)
        assert (around["lines"][0], around["lines"][-1]) == ("88: step 87", "112: step 111")


async def test_a_search_can_not_spell_out_a_secret():
    stage = Stage(lines=["export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz123456"])
    assert (await ask("logs", stage, target="ppo-7b", search="hf_abc"))["found"] == 0
    assert (await ask("logs", stage, target="ppo-7b", search="HF_TOKEN"))["found"] == 1


async def test_a_secret_on_very_many_lines_does_not_change_what_a_search_finds(monkeypatch):
    monkeypatch.setattr(logs, "MAX_MATCHES", 10)
    stage = Stage(lines=[*["HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz123456"] * 50, "bye"])
    async with agent(stage) as client:
        right, wrong = [await call(client, "logs", target="ppo-7b", search=f"hf_{letter}|bye") for letter in "ax"]
    assert right == wrong
    assert right["found"] == 1


async def test_a_hostile_log_that_takes_long_to_search_for_secrets_delays_no_other_call(monkeypatch):
    may_end = threading.Event()

    def show(lines, numbers):
        assert may_end.wait(5), "the other call was not answered"
        return iter(())

    monkeypatch.setattr(logs, "_show", show)
    async with agent(Stage(lines=["one line"])) as client:
        searching = asyncio.ensure_future(call(client, "logs", target="ppo-7b", search="line"))
        await asyncio.sleep(0.1)
        assert "findings" in await call(client, "status")
        may_end.set()
        assert (await searching)["found"] == 0


async def test_equal_stacks_are_folded_and_the_rarest_comes_first():
    processes = tuple(process(pid, actor=f"{1:032x}") for pid in (1002, 1004, 1005))
    answer = await ask("stacks", Stage(world=snapshot(processes=processes)), target="actor1")
    assert [(row["count"], row["threads"]) for row in answer["stacks"]] == [(1, ["all_reduce (ppo.py:1)"]), (2, ["all_reduce (ppo.py:0)"])]


async def test_without_a_recording_history_says_why():
    assert not recordings_path().exists()
    assert "no recording of this cluster yet" in (await ask("history"))["error"]
    assert "expected a time" in (await ask("history", at="yesterday"))["error"]


async def test_a_command_is_checked_without_the_variables_of_this_server(monkeypatch):
    monkeypatch.setenv("MY_COUNT", "424242")
    answer = await ask("check", command="python -m openrlhf.cli.train_ppo_ray --actor_num_gpus_per_node $MY_COUNT --actor_num_nodes 1")
    assert answer["verdict"] in ("unknown", "never")
    assert "424242" not in json.dumps(answer)
    assert "expected `command` or `preset`" in (await ask("check"))["error"]


@pytest.mark.parametrize(
    "command",
    [
        ". ./.env; python -m verl.trainer.main_ppo trainer.n_gpus_per_node=$DB_PASSWORD",
        ". ./.env; python $DB_PASSWORD.py",
        "python examples/run_grpo.py --config db.yaml cluster.num_nodes='${db.password}'",
    ],
)
async def test_a_checked_command_can_not_take_a_secret_out_of_a_file(tmp_path, command):
    (tmp_path / ".env").write_text("export DB_PASSWORD=correct-horse\n")
    (tmp_path / "db.yaml").write_text("db:\n  password: correct-horse\n")
    assert "correct-horse" not in json.dumps(await ask("check", command=command))


async def test_plan_shows_targets_refusals_and_what_ends():
    answer = await ask("plan", action="kill-orphans")
    assert (answer["headline"], answer["targets"][0]["target"]) == ("Kill orphans: 1 process on 1 host", "pid 1200")
    assert "expected `finding`, or `action`" in (await ask("plan"))["error"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("status", {"verbose": True}), ("job", {}), ("plan", {"action": "rm"}), ("plan", {"action": "recover"}),
     ("logs", {"target": "x" * 301}),
     ("processes", {"start": -1}), ("plan", {"action": "kill", "pids": [1]}), ("shell", {})],
)  # fmt: skip
async def test_wrong_arguments_are_refused_with_a_sentence(name, arguments):
    assert "error" in await ask(name, **arguments)


async def test_a_large_cluster_is_read_page_by_page_and_each_page_is_small():
    processes = tuple(process(10_000 + number, why=("a worker " * 20,)) for number in range(1_000))
    findings = tuple(finding(f" {number} " + "long " * 50, subject=f"node{number}") for number in range(300))
    actors = tuple(actor(number, state="PENDING_CREATION", class_=f"Class{number}", why="w" * 300, wait="held") for number in range(300))
    async with agent(Stage(world=snapshot(processes=processes, findings=findings, actors=actors, placement_groups=()))) as client:
        for name, rows, number in (("processes", "processes", 1_000), ("findings", "findings", 300), ("why_waiting", "waiting", 300)):
            assert len(await pages(client, name, rows)) == number
        for name, arguments in (("status", {}), ("processes", {}), ("findings", {"start": 100}), ("job", {"job": "ppo-7b"})):
            assert len(text_of(await client.call_tool(name, arguments)).encode()) < MAX_BYTES


async def test_with_readonly_nothing_is_even_planned():
    stage = Stage()
    stage.toolbox.plans, stage.toolbox._why_no_plans = None, f"no plans here: {Config(readonly=True).readonly_reason}"
    assert "no plans here" in (await ask("plan", stage, action="kill-orphans"))["error"]


async def test_what_no_probe_sees_is_said_and_is_not_nothing():
    job = Job("train1", "02000000", "train1", "RUNNING")
    driver = process(500, kind="driver", job="02000000", host="node1")
    actors = (actor(1, class_="WorkerDict", job="02000000", node=node(2).id),)
    world = snapshot(nodes=(node(1), node(2, host="w2")), jobs=(job,), processes=(driver,), actors=actors, hosts={}, sessions=())
    async with agent(Stage(world=world)) as client:
        unseen = "1 WorkerDict on w2 is not seen: no probe reports it"
        assert (await call(client, "job", job="train1"))["not_seen"] == unseen
        assert (await call(client, "stacks", target="train1"))["not_seen"] == unseen
        assert "no probe runs there" in (await call(client, "node", node="w2"))["not_seen"]
        assert "others can't be seen" in (await call(client, "stacks", target="117"))["error"]
