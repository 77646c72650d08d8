"""Tests `cockpit recover`: mistakes are reported before any host is asked; the plan, the JSON and the end of a run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from cockpit.actions.plan import Plan, Receipt, Target
from cockpit.actions.recover.step_state import NAMES, steps_of
from cockpit.cli.actions import EndSignal
from cockpit.cli.main import main
from cockpit.cli.recover import StepPrinter, confirm_and_run
from cockpit.presets import Preset

PRESET = """
ray: {head: {host: 127.0.0.1, port: 6399}, env: {HF_TOKEN: "${HF_TOKEN}"}}
job: {entrypoint: python train.py}
"""


@pytest.fixture
def preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "ppo.yaml").write_text(PRESET)
    return str(tmp_path / "ppo.yaml")


def recover(*words: str) -> Result:
    return CliRunner().invoke(main, ["recover", *words])


def test_a_variable_that_is_not_set_is_named_with_its_place(preset: str):
    result = recover(preset, "--yes")
    assert result.exit_code == 3
    assert "ppo.yaml:2: ray.env.HF_TOKEN: ${HF_TOKEN} is not set in your environment" in result.stderr


def test_a_preset_without_a_cluster_is_bad_usage_also_for_a_script(preset: str):
    Path(preset).write_text("job: {entrypoint: python train.py}")
    result = recover(preset, "--json")
    assert result.exit_code == 3
    assert "has no `ray` section" in json.loads(result.stdout)["failed"][0]["error"]
    assert "has no `ray` section, so cockpit can't start its cluster" in result.stderr


def test_a_preset_without_hosts_is_bad_usage_outside_of_slurm(preset: str):
    Path(preset).write_text("job: {entrypoint: python train.py}\nray:\n  head: {num_gpus: 8}\n  workers: {num_gpus: 8}\n")
    for words in ([], ["--hosts", "w1,w2"]):
        result = recover(preset, "--yes", *words)
        assert result.exit_code == 3
        assert "ppo.yaml:3: ray.head: the preset names no hosts, and cockpit knows no Slurm job whose nodes could be used" in result.stderr
        assert "run cockpit within the job, give --slurm JOBID, or name the hosts in the preset" in result.stderr


@pytest.mark.parametrize("flag", ["--from", "--skip"])
def test_an_unknown_step_is_bad_usage_and_all_steps_are_listed(preset: str, flag: str):
    result = recover(preset, flag, "reboot")
    assert result.exit_code == 3
    assert all(f"'{name}'" in result.stderr for name in NAMES)


class Runbook:
    """Takes the place of a runbook; by default it is in the step clean."""

    preset, state_now, named_job, failed = Preset("ppo", Path("ppo.yaml")), ("stopped: session_1",), None, None

    def __init__(self, **states: dict[str, object]) -> None:
        self.states = states or {"clean": {"state": "running"}}

    async def plan(self):
        return Plan("stop", "Recover ppo", hosts=("head",))

    async def run(self):
        self.steps = tuple(replace(step, **self.states.get(step.name, {"state": "done"})) for step in self.steps)
        yield self.steps[2]

    steps = steps_of(job=False, follow=False)


async def test_with_json_the_plan_is_shown_before_the_question(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("cockpit.text.output.is_confirmed", lambda _: seen.append(capsys.readouterr()))
    assert await confirm_and_run(Runbook(), EndSignal(), as_json=True, dry_run=False, yes=False) == 1
    assert "Recover ppo on head: no Ray to stop" in seen[0].err
    assert seen[0].out == ""


async def test_when_its_pipe_is_closed_it_says_what_is_left_and_how_to_continue(monkeypatch, capsys):
    def closed(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(StepPrinter, "__call__", closed)
    assert await confirm_and_run(Runbook(), EndSignal(), as_json=False, dry_run=False, yes=True) == 1
    told = capsys.readouterr().err
    assert "aborted in step clean\n  stopped: session_1\n" in told
    assert "cockpit recover ppo.yaml --from clean" in told


@pytest.mark.parametrize(
    ("fails", "failed"),
    [
        ({"error": "it can never fit"}, [("", "start", "it can never fit")]),
        (
            {"error": "w1: no", "receipts": (Receipt("start", "Start Ray", failed=(Target("host", "w1", error="no"),)),)},
            [("w1", "start", "no")],
        ),
    ],
)
async def test_json_has_done_and_failed_targets_and_no_secret(fails, failed, capsys):
    done = Receipt("stop", "Stop Ray", done=(Target("process", "head", pid=7, outcome="it had hf_secret"),))
    runbook = Runbook(stop={"state": "done", "receipts": (done,)}, start={"state": "failed", **fails})
    runbook.state_now, runbook.hide = ("Ray runs on head",), lambda text: text.replace("hf_secret", "…")
    await confirm_and_run(runbook, EndSignal(), as_json=True, dry_run=False, yes=True)
    told = json.loads(capsys.readouterr().out)
    assert [(one["host"], one["target"], one["outcome"]) for one in told["done"]] == [("head", "pid 7", "it had …")]
    assert [(one["host"], one["act"], one["error"]) for one in told["failed"]] == failed
    assert told["refused"] == []


@pytest.mark.parametrize(
    ("begin", "job", "told"),
    [(None, None, "--from start"), ("stop", None, "--from stop"), (None, "42", "--from start --slurm 42")],
)
async def test_after_a_failure_it_prints_the_command_that_continues(begin, job, told, capsys):
    runbook = Runbook()
    runbook.named_job = job
    runbook.failed = replace(runbook.steps[4], state="failed", error="half of it runs", begin=begin)
    assert await confirm_and_run(runbook, EndSignal(), as_json=False, dry_run=False, yes=True) == 1
    told_at_the_end = capsys.readouterr().err
    assert "step start failed: half of it runs\n" in told_at_the_end
    assert f"  continue with: cockpit recover ppo.yaml {told}\n" in told_at_the_end


def test_the_help_names_every_step():
    assert f"Steps: {', '.join(NAMES)}." in " ".join(recover("--help").output.split())
