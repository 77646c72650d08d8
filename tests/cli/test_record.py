from __future__ import annotations

import json
import re
import signal
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from cockpit.cli.main import main
from cockpit.recording.recording import Recording
from cockpit.report.status import exit_code
from cockpit.times.moments import format_time
from tests.cli.programs import started
from tests.recording.recorded import snapshots, write


def run(*words):
    return CliRunner().invoke(main, words)


@pytest.fixture
def written(tmp_path):
    made = list(snapshots(100))
    write(tmp_path / "state" / "cockpit" / "recordings" / "session_a", made)
    return made


def iso(moment):
    return datetime.fromtimestamp(moment).isoformat()


def test_status_at_prints_the_recorded_state_and_names_a_gap(written, tmp_path):
    answer = run("status", "--json", "--at", iso(written[40].taken + 1))
    assert answer.exit_code == exit_code(written[40], [])
    assert json.loads(answer.stdout)["cluster"]["ray_version"] == "2.60.0"
    text = run("status", "--at", iso(written[40].taken + 1)).stdout
    assert text.startswith(f"As recorded at {format_time(written[40].taken, time.time())}:\n")
    assert "node1" in text
    later = replace(written[-1], taken=written[-1].taken + 7200)
    write(tmp_path / "state" / "cockpit" / "recordings" / "session_a", [later])
    first, last = (format_time(moment, time.time()) for moment in (written[-1].taken, later.taken))
    assert f"there is a gap from {first} to {last}" in run("status", "--at", iso(later.taken - 3600)).output


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--at", "2020-01-01T00:00"), "nothing was recorded at 2020-01-01 00:00:00; the recording reaches from "),
        (("--at", "yesterday"), "--at: expected a time such as 03:10"),
        (("--at", "-5m", "--watch"), "--at prints one moment, --watch keeps running: use one of them"),
        (("--at", "2020-01-01T00:00", "--address", "http://other:1"), "no recording of http://other:1 in "),
    ],
)
def test_a_time_that_was_not_recorded_is_no_answer(written, words, reason):
    answer = run("status", *words)
    assert answer.exit_code == 3
    assert reason in answer.output


def test_a_part_can_be_cut_out(written, tmp_path):
    path = tmp_path / "part.cockpit"
    answer = run("record", "--cut", f"{iso(written[10].taken)}..{iso(written[30].taken)}", "-o", str(path))
    assert answer.exit_code == 0, answer.output
    assert re.search(r"Written: .*part\.cockpit, 21 frames, \d+ bytes \(secrets hidden; look at it before you send it\)", answer.output)
    part = Recording.open(path)
    assert (part.begin, part.end) == (written[10].taken, written[30].taken)
    assert part.snapshot_at(part.end).nodes == written[30].nodes
    assert run("record", "--cut", f"{iso(written[10].taken)}..{iso(written[30].taken)}", "-o", str(path)).exit_code == 1
    again = run("record", str(path), "--cut", "-20s..", "-o", str(tmp_path / "smaller.cockpit"))
    assert "5 frames" in again.output, "times in a part are relative to its own end"
    nothing = run("record", "--cut", "2020-01-01T00:00..2020-01-02T00:00", "-o", str(tmp_path / "nothing.cockpit"))
    assert "nothing was recorded in that time" in nothing.output
    assert not (tmp_path / "nothing.cockpit").exists()


@pytest.mark.parametrize("words", [("--cut", "-1h.."), ("-o", "x"), ("some.cockpit",)])
def test_an_incomplete_cut_is_refused(words):
    assert run("record", *words).exit_code == 3


def test_the_unit_calls_this_cockpit_with_the_same_address_hosts_and_interval(tmp_path, monkeypatch):
    (tmp_path / "my $hosts").write_text("w1\nw2\n")
    monkeypatch.chdir(tmp_path)
    text = run("record", "--unit", "--address", "http://head:8265").stdout
    assert re.search(r"^ExecStart=/\S+ record --address http://head:8265$", text, re.MULTILINE)
    assert "systemctl --user enable --now cockpit-record" in text
    text = run("--interval", "5", "record", "--unit", "--hosts", "my $hosts").stdout
    assert re.search(rf"^ExecStart=/\S+ record --hosts '{tmp_path}/my \$\$hosts' --interval 5$", text, re.MULTILINE)
    assert " --hosts w1,w2" in run("record", "--unit", "--hosts", "w1,w2").stdout


@pytest.mark.parametrize(
    ("words", "reason"), [(("--readonly",), "cockpit is read-only (--readonly)"), ((), "recording is off (COCKPIT_RECORD)")]
)
def test_it_does_not_record_if_read_only_or_off(monkeypatch, tmp_path, words, reason):
    monkeypatch.setenv("COCKPIT_RECORD", "off")
    answer = run("record", *words)
    assert (answer.exit_code, reason in answer.output) == (1, True)
    assert not (tmp_path / "state" / "cockpit").exists()


@pytest.mark.process
def test_without_a_screen_it_records_until_it_is_ended(tmp_path):
    cockpit = str(Path(sys.executable).with_name("cockpit"))
    with started([sys.executable, "-m", "tests.fakes.dashboard", "--nodes", "2"]) as dashboard:
        address = dashboard.stdout.readline().strip().removeprefix("address=")
        with started([cockpit, "record", "--address", address]) as child:
            said = child.stderr.readline()
            child.terminate()
            assert child.wait() == 128 + signal.SIGTERM
    assert said.startswith(f"cockpit: recording to {tmp_path}/state/cockpit/recordings/session_")
    recording = Recording.open(Path(said.partition(" to ")[2].strip()))
    assert recording.cluster.address == address
    assert [event.phase for event in recording.events() if event.kind == "recording"] == ["begin", "end"]
