"""`cockpit mcp` as a client starts it: a process that speaks on stdin and stdout and watches a Ray."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest
from click.testing import CliRunner

from cockpit.agents.answers import MAX_BYTES
from cockpit.agents.tools import TOOLS
from cockpit.cli.main import main
from tests.agents.programs import client_of, dashboard
from tests.agents.stage import call, text_of, yes
from tests.cli.programs import PROGRAM

pytestmark = pytest.mark.process


@pytest.mark.parametrize("more", [(), ("--hostile",)], ids=["a cluster", "a cluster whose every name means harm"])
async def test_each_tool_answers_over_stdio_and_stays_small(tmp_path, more):
    with dashboard("--nodes", "4", "--actors", "200", "--pending", "30", *more) as address:
        async with client_of(tmp_path, "--address", address) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [tool.name for tool in TOOLS]
            status = await call(client, "status")
            assert status["cluster"]["reachable"] is True
            assert sum(status["nodes"].values()) >= 4
            waiting = await call(client, "why_waiting")
            assert waiting["count"] >= 1
            findings = (await call(client, "findings"))["findings"]
            asked = {
                "status": {}, "findings": {},
                "explain": {"finding": findings[0]["id"]}, "job": {"job": "01000000"},
                "why_waiting": {}, "processes": {}, "node": {"node": "nobody"}, "logs": {"target": "nobody"},
                "stacks": {"target": "nobody"},
                "history": {}, "check": {"command": "python train.py"}, "plan": {"action": "kill-orphans"},
            }  # fmt: skip
            assert set(asked) == {tool.name for tool in TOOLS}
            for name, arguments in asked.items():
                written = text_of(await client.call_tool(name, arguments))
                assert len(written.encode()) < MAX_BYTES
                assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e\u2066]", "".join(map(str, json.loads(written).values())))


async def test_what_is_recorded_while_it_runs_is_its_history(tmp_path):
    with dashboard("--nodes", "2") as address:
        async with client_of(tmp_path, "--address", address) as client:
            await call(client, "status")
            answer = await call(client, "history")
            while "error" in answer:  # the first frame is written a moment after the first snapshot
                answer = await call(client, "history")
            assert answer["changes"][0]["what"] == "recording"
            assert (await call(client, "history", at=answer["recorded_to"]))["cluster"]["address"] == address


async def test_read_only_is_the_default_and_readonly_plans_nothing(tmp_path):
    with dashboard("--nodes", "2") as address:
        async with client_of(tmp_path, "--address", address, answer=yes()) as client:
            plan = await call(client, "plan", action="kill-orphans")
            assert "--allow-actions" in (await call(client, "perform", plan=plan["plan"], reason="x"))["error"]
        async with client_of(tmp_path, "--address", address, "--readonly") as client:
            assert "no plans here" in (await call(client, "plan", action="kill-orphans"))["error"]


async def test_perform_is_offered_with_allow_actions_and_refuses_what_was_not_planned(tmp_path):
    with dashboard("--nodes", "2") as address:
        async with client_of(tmp_path, "--address", address, "--allow-actions", answer=yes()) as client:
            assert "perform" in [tool.name for tool in (await client.list_tools()).tools]
            assert "no such plan" in (await call(client, "perform", plan="0badcafe", reason="x"))["error"]
    assert not (tmp_path / "state/cockpit/acts.jsonl").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(tmp_path, number):
    with dashboard("--nodes", "2") as address, subprocess.Popen(
        [*PROGRAM, "mcp", "--address", address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "HOME": str(tmp_path)}
    ) as child:  # fmt: skip
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}  # fmt: skip
        child.stdin.write(json.dumps(hello).encode() + b"\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline())["result"]["serverInfo"]["name"] == "cockpit"
        child.send_signal(number)
        assert child.wait(20) == 128 + number
        child.stdin.close()


def test_without_the_extra_it_says_which_command_installs_it(monkeypatch):
    monkeypatch.setattr("cockpit.cli.mcp.find_spec", lambda name: None)
    told = CliRunner().invoke(main, ["mcp"])
    assert (told.exit_code, told.stdout) == (3, "")
    assert "pip install 'ray-cockpit[mcp]'" in told.stderr


def test_actions_and_readonly_exclude_each_other():
    told = CliRunner().invoke(main, ["mcp", "--allow-actions", "--readonly"])
    assert told.exit_code == 1
    assert "--allow-actions asks for the contrary" in told.stderr


def test_the_skill_is_printed_and_names_tools_that_there_are():
    told = CliRunner().invoke(main, ["skill"])
    assert told.exit_code == 0
    named = set(re.findall(r"`([a-z_]+)`", told.stdout))
    assert {tool.name for tool in TOOLS} | {"perform"} <= named
    assert told.stdout.startswith("---\nname: ")
