from __future__ import annotations

import json
import os
import stat

import pytest
from click.testing import CliRunner

from cockpit.cli.main import main
from tests.report.incident.recordings import written
from tests.world import NOW

SESSION = "session_2026-11-21_01-17-58_164160_11638"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TZ", "UTC")
    return tmp_path / "state" / "cockpit" / "recordings"


@pytest.fixture
def recorded(state):
    return written(state / SESSION)


def report(*words):
    return CliRunner().invoke(main, ["report", *map(str, words)])


def test_without_a_recording_it_says_so():
    result = report()
    assert result.exit_code == 3
    assert "nothing is recorded in" in result.output
    assert "`cockpit record`" in result.output


def test_what_was_recorded_last_is_told_on_the_terminal(recorded):
    result = report()
    assert result.exit_code == 0
    assert "**CRITICAL** 4 orphans hold 200G of GPU memory on node1" in result.stdout
    assert "kill-orphans: ended 4 processes on node1 (by ann on head)" in result.stdout


def test_the_session_before_a_restart_of_ray_is_named(recorded, state):
    before, after = recorded, state / "session_2026-11-21_03-30-00_1_1"
    folder = written(after)
    os.utime(next(folder.glob("*.cockpit")), (NOW * 2, NOW * 2))
    assert f"not in it: {SESSION}, recorded before it at this address; `cockpit report {before}`" in report().stderr
    assert "not in it" not in report(folder).stderr


def test_without_an_earlier_session_none_is_named(recorded):
    assert "not in it" not in report().stderr


def test_a_recording_that_is_named_is_told(recorded):
    (segment,) = recorded.glob("*.cockpit")
    assert "Ray 2.60.0" in report(segment).stdout


@pytest.mark.parametrize("name", ["night.html", "night.md", "night.json"])
def test_a_file_is_what_its_name_says_and_only_its_owner_may_read_it(recorded, tmp_path, name):
    path = tmp_path / name
    result = report("-o", path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    begins = {"night.html": "<!doctype html>", "night.md": "# Ray 2.60.0", "night.json": "{"}
    assert path.read_text().startswith(begins[name])


def test_a_file_of_another_kind_is_refused(recorded, tmp_path):
    result = report("-o", tmp_path / "night.pdf")
    assert result.exit_code == 3
    assert "expected a name that ends in .html, .md or .json" in result.output
    assert not (tmp_path / "night.pdf").exists()


def test_what_can_not_be_written_is_said(recorded, tmp_path):
    result = report("-o", tmp_path / "nowhere" / "night.md")
    assert result.exit_code == 1
    assert "no such file or directory" in result.output


def test_read_only_writes_no_file(recorded, tmp_path):
    result = CliRunner().invoke(main, ["--readonly", "report", "-o", str(tmp_path / "night.md")])
    assert result.exit_code == 3
    assert not (tmp_path / "night.md").exists()


def test_only_what_lies_between_two_times_is_told(recorded, tmp_path):
    report(recorded, "--from", "-15m", "--to", "-10m", "-o", tmp_path / "part.json")
    part = json.loads((tmp_path / "part.json").read_text())
    assert (part["begin"], part["end"]) == (NOW + 3590 - 900, NOW + 3590 - 600)
    assert [one["code"] for one in part["findings"]] == ["gpu-memory-orphaned"]


def test_a_time_of_which_nothing_is_recorded_is_refused(recorded):
    result = report("--from", "2020-01-01T00:00", "--to", "2020-01-02T00:00")
    assert result.exit_code == 3
    assert "nothing is recorded then" in result.output


def test_what_is_no_time_is_refused(recorded):
    result = report("--from", "yesterday")
    assert result.exit_code == 3
    assert "yesterday" in result.output


def test_of_a_job_it_tells_the_time_in_which_it_ran(recorded, tmp_path):
    report("--job", "ppo-7b", "-o", tmp_path / "job.json")
    told = json.loads((tmp_path / "job.json").read_text())
    assert (told["begin"], told["end"], told["job"]) == (NOW + 5, NOW + 2400, "ppo-7b")
    assert [job["id"] for job in told["jobs"]] == ["ppo-7b"]


def test_a_job_that_is_not_recorded_is_refused(recorded):
    result = report("--job", "nobody")
    assert result.exit_code == 3
    assert "no job nobody was seen" in result.output


def test_who_uses_what_is_told_alone(recorded):
    result = report("--who")
    assert result.stdout.startswith("# Who uses what")
    assert "| train |" in result.stdout
    assert "Findings" not in result.stdout
