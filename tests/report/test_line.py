from __future__ import annotations

import json
import os
import stat
import time

import pytest

from cockpit.files.status_line import line_path, lines_path
from cockpit.model import Cluster, Fault, Job, Quantity
from cockpit.report.line import FORGET_S, LINE_EVERY_S, LineWriter, line_text
from cockpit.report.status import exit_code
from tests.world import NOW, finding, node, snapshot

ADDRESS = "http://10.0.0.1:8265"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def text(**more):
    shot = snapshot(**{"faults": (), **more})
    return line_text(shot, exit_code(shot))


FOUND = (finding(), *(finding(level="warning", subject=str(number)) for number in range(2)), finding(level="info"))
SILENT = Cluster(ADDRESS, reachable=False)
CALM = {"findings": (), "jobs": ()}


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"findings": FOUND}, "ray 2 nodes · GPUs 12/16 · 1 critical, 2 warnings · ppo-7b running"),
        ({"findings": FOUND[1:2], "jobs": ()}, "ray 2 nodes · GPUs 12/16 · 1 warning"),
        (
            {"findings": (), "nodes": (node(1),), "jobs": tuple(Job(f"job-{number}", status="RUNNING") for number in range(3))},
            "ray 1 node · GPUs 6/8 · OK · 3 jobs running",
        ),
        ({"findings": (), "nodes": None, "jobs": None}, "ray nodes – · GPUs –/– · some data is missing"),
        ({**CALM, "nodes": (node(1, id=None),)}, "ray nodes – · GPUs –/– · OK"),
        ({**CALM, "nodes": (node(1), node(2, resources={}))}, "ray 2 nodes · GPUs –/– · OK"),
        ({**CALM, "nodes": (node(1), node(2, resources={"CPU": Quantity(1, 2)}))}, "ray 2 nodes · GPUs 6/8 · OK"),
        ({**CALM, "faults": (Fault("ray.actors", "late", NOW),)}, "ray 2 nodes · GPUs 12/16 · some data is missing"),
        ({**CALM, "cluster": SILENT}, "ray does not answer · some data is missing"),
    ],
)
def test_the_line_has_nodes_gpus_findings_and_jobs_and_a_dash_for_what_is_unknown(facts, line):
    assert text(**facts) == line


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Writing:
    """A writer whose thread always ends at once."""

    def __init__(self):
        self.clock = Clock()
        self.writer = LineWriter([], self.clock)

    def on_snapshot(self, after, shot):
        self.clock.now += after
        self.writer.on_snapshot(shot)
        if self.writer._thread is not None:
            self.writer._thread.join()


def written():
    return json.loads(line_path(ADDRESS).read_text())


def test_only_the_owner_may_read_the_line_and_it_is_not_written_more_often_than_every_few_seconds():
    writing = Writing()
    writing.on_snapshot(0, shot := snapshot(findings=(finding(),)))
    assert (written()["text"], written()["code"]) == (line_text(shot, 2), 2)
    assert written()["written"] == pytest.approx(time.time(), abs=60)
    assert stat.S_IMODE(line_path(ADDRESS).stat().st_mode) == 0o600
    assert stat.S_IMODE(lines_path().stat().st_mode) == 0o700
    writing.on_snapshot(LINE_EVERY_S - 1, snapshot(jobs=()))
    assert "ppo-7b" in written()["text"]
    writing.on_snapshot(1, snapshot(jobs=()))
    assert "ppo-7b" not in written()["text"]


def test_the_first_snapshots_of_a_screen_write_nothing():
    writing = Writing()
    writing.on_snapshot(0, snapshot(cluster=Cluster(ADDRESS)))
    writing.on_snapshot(0, snapshot(nodes=None))
    writing.on_snapshot(0, snapshot(findings=(), findings_as_of=None))
    assert not lines_path().exists()
    writing.on_snapshot(0, snapshot())
    assert line_path(ADDRESS).exists()


def test_a_silent_address_gets_a_line_only_if_a_ray_has_answered_there_before():
    silent = snapshot(cluster=Cluster(ADDRESS, reachable=False))
    Writing().on_snapshot(0, silent)
    assert not line_path(ADDRESS).exists()
    Writing().on_snapshot(0, snapshot())
    Writing().on_snapshot(0, silent)
    assert written()["text"].startswith("ray does not answer")


def test_lines_of_clusters_that_are_gone_are_removed():
    lines_path().mkdir(parents=True)
    old, young = line_path("http://old:1"), line_path("http://young:1")
    for path, seconds in ((old, FORGET_S + 60), (young, FORGET_S - 60)):
        path.write_text("{}")
        os.utime(path, (time.time() - seconds,) * 2)
    Writing().on_snapshot(0, snapshot())
    assert sorted(lines_path().iterdir()) == sorted([young, line_path(ADDRESS)])


def test_a_folder_that_is_a_link_is_not_written_to(state, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cockpit").mkdir()
    lines_path().symlink_to(tmp_path / "elsewhere")
    Writing().on_snapshot(0, snapshot())
    assert list((tmp_path / "elsewhere").iterdir()) == []
