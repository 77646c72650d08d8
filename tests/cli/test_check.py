"""Tests `cockpit check` with a preset, a file and a command."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from click.testing import CliRunner

from cockpit.check import preset
from cockpit.check.preset import sample_and_check
from cockpit.cli import status as status_command
from cockpit.cli.check import preset_of
from cockpit.cli.main import main
from cockpit.config.address import Address
from cockpit.config.settings import Config
from cockpit.presets import read_preset
from cockpit.sources import source
from tests.check.worlds import asked, cluster, group, machine

PRESET = """
ray:
  head: {host: w7, address: 10.7.7.7, num_gpus: 8}
job: {entrypoint: "python train.py --token ${SECRET_TOKEN}"}
needs: {gpus: %d}
"""


class FakeMonitor:
    """A monitor with this snapshot."""

    open_choices = ()

    def __init__(self, config, snapshot):
        self.config, self.poller = config, self
        self.snapshot = snapshot
        self.waited = []

    async def wait_until_complete(self, patience):
        self.waited.append(patience)


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """A cluster of one node with 8 GPUs. Returns the list of configs with which it was sampled."""
    monkeypatch.chdir(tmp_path)
    configs = []

    async def sample_once(config, **how):
        assert how["everywhere"]
        configs.append(config)
        return FakeMonitor(config, cluster(machine(1)))

    monkeypatch.setattr(status_command, "sample_once", sample_once)
    return configs


def run(*words):
    return CliRunner().invoke(main, ["check", *words])


@pytest.mark.parametrize(("gpus", "code", "verdict"), [(8, 0, "ppo fits now"), (9, 2, "ppo can never fit here: job: needs 9 x 1 GPU")])
def test_a_presets_file_is_checked_and_its_hosts_are_probed(seen, tmp_path, gpus, code, verdict):
    (tmp_path / "ppo.yaml").write_text(PRESET % gpus)
    result = run("./ppo.yaml")
    first, second = result.stdout.splitlines()[:2]
    assert (result.exit_code, first, second[2 : len(verdict) + 2]) == (code, f"● needs {gpus} GPUs (job)", verdict)
    assert [(entry.name, entry.target) for entry in seen[0].hosts] == [("w7", "10.7.7.7")]


def test_a_command_takes_its_needs_variables_in_front_and_what_the_shell_exports(seen, monkeypatch):
    assert run("--needs", "4", "--", "python", "nobody.py").stdout.splitlines()[0] == "● needs 4 GPUs (job)"
    train = "python -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=$N"
    assert run("--", train).stdout.startswith("? unknown: trainer.n_gpus_per_node is $N, which nothing sets: N=8 cockpit check …")
    assert run("--", f"N=2; {train}").stdout.startswith("● needs 2 GPUs (veRL)")
    monkeypatch.setenv("N", "4")
    said = run("--", train).stdout
    assert said.startswith("◐ needs 4 GPUs (veRL, likely)")
    assert "N=4 of this shell is used" in said


def test_json_has_verdict_and_budget(seen, tmp_path):
    (tmp_path / "ppo.yaml").write_text(PRESET % 8)
    told = json.loads(run("./ppo.yaml", "--json").stdout)
    assert (told["verdict"], told["budget"]["gpus"]) == ("now", 8)


def test_after_two_dashes_comes_a_command_with_its_own_flags(seen, tmp_path, monkeypatch):
    monkeypatch.setenv("COCKPIT_ASCII", "1")
    (tmp_path / "train.sh").write_text("python -m openrlhf.cli.train_ppo_ray --actor.num_gpus_per_node 8 --json\n")
    result = run("--", "bash", "train.sh", "--json")
    assert "ok files read on this host: train.sh (1 line)" in result.stdout
    assert preset_of(("a b && c",)).job.entrypoint == "a b && c"
    assert preset_of(("a", "b c")).job.entrypoint == "a 'b c'"


@pytest.mark.parametrize("words", [(), ("--",), ("ppo", "--", "python"), ("nothing-of-that-name",), ("./nothing.yaml",), ("a", "b")])
def test_bad_usage_ends_with_3(seen, words):
    result = run(*words)
    assert (result.exit_code, seen) == (3, [])
    assert result.stderr


def test_of_several_sessions_one_must_be_chosen(seen, monkeypatch, tmp_path):
    (tmp_path / "ppo.yaml").write_text(PRESET % 8)
    address = Address("http://h:8265", "session_1")
    monkeypatch.setattr(FakeMonitor, "open_choices", (address,))
    result = run("./ppo.yaml")
    assert result.exit_code == 3
    assert "name one with --address:\n  http://h:8265  session_1" in result.stderr


def test_a_file_that_cannot_be_read_in_time_is_reported(seen, monkeypatch, tmp_path):
    (tmp_path / "ppo.yaml").write_text(PRESET % 8)
    released = threading.Event()
    monkeypatch.setattr(source, "READ_TIMEOUT_S", 0.01)
    monkeypatch.setattr(preset, "budget_of", lambda *_, **__: released.wait(10))
    result = run("./ppo.yaml")
    released.set()
    assert (result.exit_code, result.stdout) == (3, "")
    assert "ppo.yaml could not be read within 0.01 s" in result.stderr


def test_a_running_monitor_is_checked_with_its_present_facts(tmp_path, monkeypatch):
    (tmp_path / "ppo.yaml").write_text(PRESET % 8)
    watching = FakeMonitor(Config(), cluster(machine(1)))
    result = asyncio.run(sample_and_check(watching, read_preset(tmp_path / "ppo.yaml"), {}))
    assert (result.verdict, watching.waited) == ("now", [preset.HOSTS_PATIENCE_S])
    monkeypatch.setattr(preset, "budget_of", lambda *_, **__: asked(group("actor", 9)))
    assert asyncio.run(sample_and_check(watching, read_preset(tmp_path / "ppo.yaml"), {})).verdict == "never"
