"""Tests that every command ends with the codes of one table."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from cockpit.actions.plan import RAY, Plan, Receipt, Target, Unreached
from cockpit.cli.actions import EndSignal
from cockpit.cli.main import main
from cockpit.cli.options import EXIT_CODES
from cockpit.cli.recover import confirm_and_run
from cockpit.config.settings import Config
from cockpit.model import Job, Snapshot
from cockpit.sources.source import SourceError

PRESET = "ray: {head: {host: 127.0.0.1, port: 6399}}\njob: {entrypoint: python train.py}\n"
ONE = Target("process", "w1", pid=7, ticks=5, kind="orphan")
REFUSED = Target("process", "w1", pid=8, ticks=5, kind="worker", reason="it is a worker")
LIVES = Target("session", "w1", path="/tmp/ray/session_1", live=True, reason="a raylet of it runs")
SILENT = Unreached("w1", "w1: timed out")
OTHER = Unreached("w2", "w2: timed out")


def planned(*targets: Target, action: str = "kill-orphans", hosts: tuple[str, ...] = ("w1",), **more: Any) -> Plan:
    return Plan(action, action, targets, hosts=hosts, **more)


DEAD = Target("actor", "w1", id="a" * 32, state="DEAD", reason="it has ended: Ray reports DEAD")
NOT_THERE = planned(action="stop", notes=("w1: nothing of nope runs on this host",))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command with a given plan and receipt; no host is asked."""
    (tmp_path / "ppo.yaml").write_text(PRESET)
    monkeypatch.chdir(tmp_path)

    def invoke(words: str, plan: Plan | Exception | None = None, **done: Any) -> int:
        class Executor:
            def __init__(self, *_: Any) -> None: ...

            async def plan(self, action: Any, chosen: Any, *_: Any) -> Plan:
                if isinstance(plan, Exception):
                    raise plan
                return plan or await action.plan(chosen, SimpleNamespace(monitor=monitor, snapshot=Snapshot()), None)

            async def perform(self, plan: Plan, *_: Any) -> Receipt:
                return Receipt(plan.action, plan.title, **{"done": plan.targets, "hosts": plan.hosts, **done})

            def close(self) -> None: ...

        async def look(*_: Any, **__: Any) -> Any:
            return monitor

        for command in ("actions", "launch", "logs", "status"):
            monkeypatch.setattr(f"cockpit.cli.{command}.sample_once", look)
        for command in ("actions", "launch"):
            monkeypatch.setattr(f"cockpit.cli.{command}.ActionExecutor", Executor)
        return CliRunner().invoke(main, words.split()).exit_code

    return invoke


async def jobs() -> tuple[Job, ...]:
    return (Job("ppo-7b", status="SUCCEEDED"), Job("live", status="RUNNING"))


async def no_actors() -> tuple[()]:
    return ()


monitor = SimpleNamespace(
    open_choices=(), clock=lambda: 0.0, jobs=jobs, dead_actors=no_actors, poller=SimpleNamespace(snapshot=Snapshot(jobs=())), logs=None,
    close=lambda: None, config=Config(),
)  # fmt: skip


@pytest.mark.parametrize("answer", ["--yes", "--dry-run", "--yes --json", "--dry-run --json"])
@pytest.mark.parametrize(
    ("words", "plan", "code"),
    [
        ("kill-orphans", planned(ONE), 0),
        ("kill-orphans", planned(), 0),
        ("kill-orphans", planned(ONE, refused=(REFUSED,)), 1),
        ("kill-orphans", planned(refused=(REFUSED,)), 1),
        ("kill-orphans", planned(unknown=("w1: 2 processes hold GPU memory and can't be classified",)), 1),
        ("kill-orphans", planned(ONE, unknown=("w1: NVML failed",)), 1),
        ("kill-orphans", planned(ONE, hosts=("w1", "w2"), unreached=(OTHER,)), 1),
        ("kill-orphans", planned(unreached=(SILENT,)), 3),
        ("kill-orphans", SourceError("no answer"), 3),
        ("clean", planned(action="clean", refused=(LIVES,)), 0),
        ("clean --session session_1", planned(action="clean", refused=(LIVES,), requests={"w1": {"sessions": ["session_1"]}}), 1),
        ("clean --session nope", planned(action="clean"), 3),
        ("stop", planned(action="stop"), 0),
        ("stop --session nope", NOT_THERE, 3),
        ("stop --session mine", planned(action="stop", refused=(REFUSED,)), 1),
        (f"kill-actor {DEAD.id}", planned(action="kill-actor", refused=(DEAD,)), 0),
        ("stop-job ppo-7b", None, 0),
        ("stop-job nope", None, 3),
        ("delete-job ppo-7b", None, 0),
        ("delete-job live", None, 1),
        ("delete-job nope", None, 3),
        ("launch ./ppo.yaml --no-follow", planned(action="launch", hosts=(RAY,), refused=(REFUSED,)), 1),
        ("launch ./ppo.yaml --no-follow", SourceError("no answer"), 3),
    ],
)
def test_an_action_and_its_dry_run_end_with_the_same_code(run: Any, words: str, plan: Any, code: int, answer: str):
    assert run(f"{words} {answer}", plan) == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("config init", 0),
        ("presets --copy verl-ppo", 0),
        ("--readonly kill-orphans", 1),
        ("--readonly launch ./ppo.yaml", 1),
        ("--readonly recover ./ppo.yaml", 1),
        ("--readonly presets --copy verl-ppo", 1),
        ("kill-orphans --nope", 3),
        ("kill-orphans --interval 0", 3),
        ("kill-orphans --pid 1", 3),
        ("kill-orphans --grace -1", 3),
        ("clean --older-than soon", 3),
        ("stop --session a --everything", 3),
        ("stop-job", 3),
        ("kill-actor nope", 3),
        ("logs nope -n -2", 3),
        ("logs nope", 3),
        ("check nope", 3),
        ("launch nope", 3),
        ("recover nope", 3),
        ("recover ./ppo.yaml --from nope", 3),
        ("presets --copy nope", 3),
        ("schema nope", 3),
        ("nope", 3),
        ("--nope", 3),
        ("status surplus", 3),
        ("status --interval", 3),
        ("config nope", 3),
        ("--theme nope", 3),
        ("--theme nope status", 3),
        ("demo --theme nope", 3),
    ],
)
def test_missing_names_are_bad_usage_and_read_only_is_a_refusal(run: Any, words: str, code: int):
    assert run(words) == code


@pytest.mark.parametrize("words", ["config init", "presets --copy verl-ppo"])
def test_an_existing_file_is_not_overwritten(run: Any, words: str):
    assert [run(words), run(words)] == [0, 1]


def test_a_failure_a_refusal_or_no_confirmation_ends_with_one(run: Any):
    failed = Target("process", "w1", pid=7, error="it hangs in the kernel")
    assert run("kill-orphans --yes", planned(ONE), done=(), failed=(failed,)) == 1
    assert run("kill-orphans --yes", planned(ONE), done=(), refused=(REFUSED,)) == 1
    assert run("kill-orphans", planned(ONE)) == 1, "nobody has said yes"


@pytest.mark.parametrize(("obstacles", "code"), [((), 0), (("w1: raylet belongs to bob",), 1)])
def test_a_dry_run_of_a_runbook_ends_with_one_if_something_is_in_its_way(obstacles: tuple[str, ...], code: int):
    async def plan() -> Plan:
        return planned(action="stop")

    recovery: Any = SimpleNamespace(plan=plan, obstacles=lambda _: obstacles, preset=SimpleNamespace(name="ppo"), steps=())
    assert asyncio.run(confirm_and_run(recovery, EndSignal(), as_json=False, dry_run=True, yes=False)) == code


def test_every_help_lists_only_codes_of_the_table():
    known = {code for code in EXIT_CODES if code.isdigit()}
    context = click.Context(main)
    for name in main.list_commands(context):
        told = CliRunner().invoke(main, [name, "--help"]).output.partition("Exit codes:")[2]
        assert {*re.findall(r"^ +(\d+) ", told, re.MULTILINE)} <= known
    whole = CliRunner().invoke(main, ["--help"]).output
    assert all(f"{code} " in whole for code in EXIT_CODES)


def test_the_documentation_has_the_same_table_of_exit_codes():
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    assert all(f"| {code} | {meaning} |" in page for code, meaning in EXIT_CODES.items())
