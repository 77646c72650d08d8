"""An agent on a real Ray in trouble: it finds the causes in few calls, and ends what was left over once a person has agreed."""

from __future__ import annotations

import importlib.util
import json
import time

import psutil
import pytest

from bench.settled import settle
from cockpit.agents.answers import MAX_BYTES
from cockpit.demo import demo_cluster
from tests.agents.programs import client_of
from tests.agents.stage import NO, text_of, yes

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the demo needs Ray: pip install 'ray[default]'"),
    pytest.mark.process,
    pytest.mark.xdist_group("places"),
]


class Calls:
    """Calls tools, and counts them and their bytes."""

    def __init__(self, client):
        self.client, self.number, self.bytes = client, 0, 0

    async def __call__(self, name, **arguments):
        written = text_of(await self.client.call_tool(name, arguments))
        self.number += 1
        self.bytes += len(written.encode())
        assert len(written.encode()) < MAX_BYTES
        return json.loads(written)


def has_ended(pid):
    """Also if its parent has not read its exit code yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def demo():
    with demo_cluster() as running:
        assert settle(running, 150), "the demo did not settle"
        yield running


async def test_an_incident_from_the_first_call_to_the_receipt(demo, tmp_path):
    async with client_of(tmp_path, "--address", demo.address, "--allow-actions", answer=yes(), more=demo.env) as client:
        call = Calls(client)

        # What is wrong, and why the job failed: three calls.
        status = await call("status")
        failed = next(one for one in status["findings"] if one["code"] == "job-failed")
        explained = await call("explain", finding=failed["id"])
        step = next(step for step in explained["look_next"] if step["tool"] == "logs")
        log = await call("logs", **step["arguments"])
        assert any(line.startswith("> ") and "ActorDiedError" in line for line in log["lines"])
        assert (call.number, call.bytes < 8_000) == (3, True)

        # What waits: one more.
        waiting = await call("why_waiting")
        assert {row.get("group") for row in waiting["waiting"]} >= {"reward-model", "tp16-engine"}
        assert "never fits" in next(row["why"] for row in waiting["waiting"] if row.get("group") == "tp16-engine")

        # What the failed job has left behind, until a person has agreed to its end.
        deadline = time.monotonic() + 120
        while not (left := (await call("processes", kind="left_over", job="eval-gsm8k"))["processes"]):
            assert time.monotonic() < deadline
        (orphan,) = left
        assert not has_ended(orphan["pid"])
        plan = await call(
            "plan", action="kill-orphans", hosts=["head"], pids=[orphan["pid"]]
        )  # other Rays of this machine may have orphans too
        assert [target["target"] for target in plan["targets"]] == [f"pid {orphan['pid']}"]
        receipt = await call("perform", plan=plan["plan"], reason="it holds GPU memory of a job that has ended")
        assert [done["target"] for done in receipt["done"]] == [f"pid {orphan['pid']}"]
        assert has_ended(orphan["pid"])

        # The action log is that of the command line.
        lines = [json.loads(line) for line in (tmp_path / "state/cockpit/acts.jsonl").read_text().splitlines()]
        assert [(line["act"], line["outcome"] == "begun") for line in lines] == [("kill-orphans", True), ("kill-orphans", False)]

        # The rest of the tools, each once.
        assert (await call("job", job="ppo-7b"))["status"] == "RUNNING"
        assert len((await call("node", node="head"))["gpus"]) == 8
        assert "stacks" in await call("stacks", target="ppo-7b")
        assert (await call("history"))["count"] > 0
        assert (await call("check", command="python -m openrlhf.cli.train_ppo_ray --actor_num_nodes 9"))["verdict"] in ("never", "unknown")

    async with client_of(tmp_path, "--address", demo.address, "--allow-actions", answer=NO, more=demo.env) as client:
        call = Calls(client)
        plan = await call("plan", action="stop-job", id="ppo-7b")
        assert "nothing was done" in (await call("perform", plan=plan["plan"], reason="x"))["error"]
        assert (await call("job", job="ppo-7b"))["status"] == "RUNNING"
