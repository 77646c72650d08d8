from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cockpit.cli.main import main

KEY = "c0ffee4dead9beef"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "config" / "cockpit" / "presets"
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text("job: {}\n")
    job = f"job: {{entrypoint: x, env: {{HF_TOKEN: {KEY}}}}}"
    about, ray, needs = r'about: "\x1b[31mred"', "ray: {head: a, workers: [b, c, d]}", "needs: {bundles: [{GPU: 1, count: 8}]}"
    (folder / "mine.yaml").write_text("\n".join((about, ray, job, needs)))
    (folder / "slurm.yaml").write_text("ray: {head: {num_gpus: 8}, workers: {num_gpus: 8}}\n")
    return folder


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["presets", *words])


def test_presets_are_a_table_with_their_mistakes_and_doubts():
    result = run()
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "~/config/cockpit/presets"
    assert "bad – – ~/config/cockpit/presets/bad.yaml:1: job: entrypoint is missing" in lines
    assert "mine 8 a,b,c,… (4) \N{REPLACEMENT CHARACTER}[31mred" in lines
    assert "slurm – Slurm job" in lines
    assert "ready-made (copy one: cockpit presets --copy NAME)" in lines
    assert any(line.startswith("verl-ppo 16 head,w1 veRL PPO") for line in lines)
    assert "mine: job.env.HF_TOKEN: contains a secret in plain text; write ${NAME} to take it from your environment" in lines
    assert KEY not in result.stdout


def test_presets_as_json(folder):
    result = run("--json")
    found = {one["name"]: one for one in json.loads(result.stdout)["presets"]}
    assert found["bad"] == {
        "name": "bad",
        "path": str(folder / "bad.yaml"),
        "yours": True,
        "error": "~/config/cockpit/presets/bad.yaml:1: job: entrypoint is missing",
    }
    assert (found["mine"]["gpus"], found["mine"]["hosts"], len(found["mine"]["doubts"])) == (8.0, ["a", "b", "c", "d"], 1)
    assert found["slurm"]["hosts"] is None
    assert (found["verl-grpo"]["yours"], found["verl-grpo"]["gpus"], found["verl-grpo"]["doubts"]) == (False, 8.0, [])
    assert KEY not in result.stdout


@pytest.mark.parametrize("words", [["--readonly", "presets", "--copy", "verl-ppo"], ["presets", "--copy", "verl-ppo", "--readonly"]])
def test_read_only_nothing_is_copied(folder, words):
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stderr) == (1, "cockpit: presets --copy: cockpit is read-only (--readonly)\n")
    assert not (folder / "verl-ppo.yaml").exists()


def test_a_ready_made_preset_becomes_yours(folder):
    assert run("--copy", "verl-ppo").stdout == "Written: ~/config/cockpit/presets/verl-ppo.yaml\n"
    again = run("--copy", "verl-ppo")
    assert (again.exit_code, again.stderr) == (
        1,
        "cockpit: ~/config/cockpit/presets/verl-ppo.yaml: already exists; not overwritten\n",
    )
    (folder / "bad.yaml").unlink()
    assert run().exit_code == 0


def test_without_presets_of_yours_the_table_says_so(folder):
    for path in folder.iterdir():
        path.unlink()
    result = run()
    assert result.exit_code == 0
    assert result.stdout.startswith("~/config/cockpit/presets\n  none\n\nready-made")


def test_the_schema_of_a_preset_is_printed():
    result = CliRunner().invoke(main, ["schema", "preset"])
    assert json.loads(result.stdout)["title"] == "cockpit preset"
