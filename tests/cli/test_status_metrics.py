from __future__ import annotations

import stat

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from cockpit.cli.main import main
from cockpit.config.address import Address
from cockpit.files.status_line import lines_path
from cockpit.model import Snapshot
from tests.world import snapshot


class Poller:
    def __init__(self, shot):
        self.snapshot = shot


class Monitor:
    def __init__(self, shot, choices=()):
        self.poller, self.open_choices = Poller(shot), choices


@pytest.fixture
def run(monkeypatch):
    def invoke(*words, shot=None, choices=()):
        async def look(*_, **__):
            return Monitor(snapshot() if shot is None else shot, choices)

        monkeypatch.setattr("cockpit.cli.status.sample_once", look)
        return CliRunner().invoke(main, ["metrics", *words])

    return invoke


def names(text):
    return {family.name for family in text_string_to_metric_families(text)}


def test_one_sample_is_printed(run):
    told = run()
    assert told.exit_code == 0
    assert {"cockpit_status", "cockpit_node_memory_kill_bytes", "cockpit_gpu_power_watts"} <= names(told.stdout)


def test_a_textfile_is_complete_and_node_exporter_may_read_it(run, tmp_path):
    path = tmp_path / "cockpit.prom"
    printed, written = run(), run("--textfile", str(path))
    assert (written.exit_code, written.output) == (0, "")
    assert path.read_text() == printed.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_silent_ray_is_a_metric_and_no_failure(run, tmp_path):
    path = tmp_path / "cockpit.prom"
    assert run("--textfile", str(path), shot=Snapshot(taken=1.0)).exit_code == 0
    assert "cockpit_status 3.0" in path.read_text()


def test_a_textfile_that_cannot_be_written_is_reported(run, tmp_path):
    told = run("--textfile", str(tmp_path))
    assert (told.exit_code, told.stdout) == (1, "")
    assert "it is not a regular file" in told.stderr
    assert run("--textfile", str(tmp_path / "nowhere" / "a.prom")).exit_code == 1


def test_of_several_rays_none_is_chosen(run, tmp_path):
    path = tmp_path / "cockpit.prom"
    choices = (Address("http://a:1", "a"), Address("http://b:1", "b"))
    told = run("--textfile", str(path), choices=choices)
    assert told.exit_code == 3
    assert "several Ray sessions" in told.stderr
    assert not path.exists()


def test_it_writes_a_line_unless_it_is_read_only(run):
    assert run("--readonly").exit_code == 0
    assert not lines_path().exists()
    assert run().exit_code == 0
    assert len(list(lines_path().iterdir())) == 1
