from __future__ import annotations

import json
import os
import stat
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from cockpit.cli.main import main
from tests.report.incident.recordings import anew, written
from tests.world import NOW

SESSION = "session_2026-11-21_01-17-58_164160_11638"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    return tmp_path / "state" / "cockpit" / "recordings"


@pytest.fixture
def recorded(state):
    return written(state / SESSION)


def report(*words):
    return CliRunner().invoke(main, ["report", *map(str, words)])


def test_the_latest_recording_or_a_named_one_is_printed(recorded):
    (segment,) = recorded.glob("*.cockpit")
    for result in (report(), report(segment)):
        assert result.exit_code == 0
        assert "Ray 2.60.0" in result.stdout
        assert "**CRITICAL** 4 orphans hold 200G of GPU memory on node1" in result.stdout
        assert "kill-orphans: ended 4 processes on node1 (by ann on head)" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("report", "-o", "night.pdf"), 3, "expected a name that ends in .html, .md or .json"),
        (("report", "-o", "nowhere/night.md"), 1, "no such file or directory"),
        (("--readonly", "report", "-o", "night.md"), 1, "cockpit is read-only (--readonly); without -o"),
        (("report", "--from", "2020-01-01T00:00", "--to", "2020-01-02T00:00"), 3, "nothing was recorded in that time"),
        (("report", "--from", "yesterday"), 3, "yesterday"),
        (("report", "--job", "nobody"), 3, "no job nobody was seen"),
    ],
)
def test_a_report_that_cannot_be_made_says_why_and_leaves_no_file(recorded, tmp_path, monkeypatch, words, code, said):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert not list(Path.cwd().iterdir())


def test_without_a_recording_it_says_so():
    result = report()
    assert (result.exit_code, "no recording in" in result.output, "`cockpit record`" in result.output) == (3, True, True)


NEXT = "session_2026-11-21_03-30-00_1_1"


@pytest.fixture
def restarted(recorded, state):
    """Two hours later another Ray runs at the same address."""
    os.utime(next(recorded.glob("*.cockpit")), (NOW + 3600, NOW + 3600))
    folder = written(state / NEXT, anew)
    os.utime(next(folder.glob("*.cockpit")), (NOW + 10_800, NOW + 10_800))
    return folder


def told(tmp_path, *words):
    report(*words, "-o", tmp_path / "night.json")
    return json.loads((tmp_path / "night.json").read_text())


def test_sessions_before_a_restart_of_ray_are_included(restarted, tmp_path):
    night = told(tmp_path)
    assert (night["session"], night["earlier_sessions"]) == (NEXT, [SESSION])
    assert [(row["name"], row["session"]) for row in night["usage"] if row["kind"] == "job"] == [("ppo-7b", SESSION), ("ppo-7b", NEXT)]
    assert [(job["id"], job["session"]) for job in night["jobs"]] == [("ppo-7b", SESSION), ("ppo-7b", NEXT)]
    assert [one["begin"] for one in night["findings"] if one["code"] == "job-hung"] == [NOW + 595, NOW + 595 + 7200]
    assert [row["session"] for row in told(tmp_path, "--job", "ppo-7b")["jobs"]] == [NEXT], "of a job only the last session that has it"
    assert told(tmp_path, restarted)["earlier_sessions"] == [], "a named recording is reported alone"
    text = report().stdout
    assert f"{NEXT}, before it {SESSION}" in text
    assert "ppo-7b (Ray of Nov 21 01:17)" in text


def test_gpu_hours_cover_all_sessions_and_gpus_at_the_end_only_the_last(recorded, restarted, tmp_path):
    both, one = told(tmp_path), told(tmp_path, restarted)
    assert both["fleet"]["there"] == pytest.approx(2 * one["fleet"]["there"], rel=1e-3)
    (user,) = [each for each in both["users"] if each["user"] == one["users"][0]["user"]]
    assert user["hours"]["busy"] == pytest.approx(2 * one["users"][0]["hours"]["busy"], rel=1e-3)
    assert [row["gpus_at_end"] for row in both["usage"] if row["session"] == SESSION] == [None] * len(one["usage"])
    assert both["unwatched_s"] > 2 * one["unwatched_s"]


def test_localhost_of_another_host_is_another_ray(state, tmp_path, monkeypatch):
    def at_home(snapshot, change=lambda snapshot: snapshot):
        moved = change(snapshot)
        return replace(moved, cluster=replace(moved.cluster, address="http://127.0.0.1:8265"))

    for host, session, change in (("other", SESSION, at_home), ("this", NEXT, partial(at_home, change=anew))):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        (path,) = written(state / session, change).glob("*.cockpit")
        os.utime(path, (NOW + 3600, NOW + 3600 + (host == "this")))
    assert told(tmp_path)["earlier_sessions"] == []


@pytest.mark.parametrize("name", ["night.html", "night.md", "night.json"])
def test_a_file_has_the_format_of_its_name_and_only_its_owner_may_read_it(recorded, tmp_path, name):
    path = tmp_path / name
    result = report("-o", path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    begins = {"night.html": "<!doctype html>", "night.md": "# Ray 2.60.0", "night.json": "{"}
    assert path.read_text().startswith(begins[name])


def test_only_the_time_between_from_and_to_is_reported(recorded, tmp_path):
    report(recorded, "--from", "-15m", "--to", "-10m", "-o", tmp_path / "part.json")
    part = json.loads((tmp_path / "part.json").read_text())
    assert (part["begin"], part["end"]) == (NOW + 3590 - 900, NOW + 3590 - 600)
    assert [one["code"] for one in part["findings"]] == ["gpu-memory-orphaned"]


def test_the_report_of_a_job_covers_its_running_time(recorded, tmp_path):
    report("--job", "ppo-7b", "-o", tmp_path / "job.json")
    told = json.loads((tmp_path / "job.json").read_text())
    assert (told["begin"], told["end"], told["job"]) == (NOW + 5, NOW + 2400, "ppo-7b")
    assert [job["id"] for job in told["jobs"]] == ["ppo-7b"]


def test_who_prints_only_the_usage(recorded):
    result = report("--who")
    assert result.stdout.startswith("# Who uses what")
    assert "| train |" in result.stdout
    assert "Open at the end" not in result.stdout
