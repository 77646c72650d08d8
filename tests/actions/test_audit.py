from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys

import pytest

from cockpit.actions.audit import Audit, audit_path, brief, outcome_of, user_name
from cockpit.actions.plan import Freed, Plan, Receipt, Target, Unreached

ORPHAN = Target("process", "w1", ("its raylet is dead",), pid=12, ticks=99, command="python serve.py", user="train")
PLAN = Plan("kill-orphans", "Kill orphans", targets=(ORPHAN,), hosts=("head", "w1"))
RECEIPT = Receipt("kill-orphans", "Kill orphans", done=(ORPHAN,), unreached=(Unreached("head", "head: timed out"),), freed=Freed(gpu=7))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "acts.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_action_is_logged_before_and_after_it_in_a_private_file(path):
    audit = Audit(path, lambda: 5.0)
    action = audit.begin(PLAN)
    audit.end(action, PLAN, RECEIPT)
    audit.end(audit.begin(PLAN), PLAN, None, "the terminal is gone")
    begun, ended, _, aborted = lines(path)
    assert (begun["outcome"], begun["id"], ended["id"]) == ("begun", action, action)
    assert (begun["act"], begun["target"], begun["time"]) == ("kill-orphans", ["head", "w1"], 5.0)
    assert begun["plan"][0]["pid"] == 12
    assert ended["outcome"]["done"][0]["target"] == "pid 12"
    assert ended["outcome"]["failed"] == [{"host": "head", "act": "kill-orphans", "target": "head", "why": "", "error": "head: timed out"}]
    assert aborted["outcome"] == {"broken_off": "the terminal is gone"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_link_in_the_place_of_the_log_is_not_followed(path, tmp_path):
    path.parent.mkdir()
    (tmp_path / "other").write_text("kept")
    path.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"):
        Audit(path, lambda: 0.0).begin(PLAN)
    assert (tmp_path / "other").read_text() == "kept"


def test_a_line_that_was_cut_off_does_not_spoil_the_next(path):
    path.parent.mkdir()
    path.write_text('{"time": 1, "pl')
    Audit(path, lambda: 0.0).begin(PLAN)
    assert json.loads(path.read_text().splitlines()[1])["outcome"] == "begun"


@pytest.mark.process
def test_the_log_is_complete_json_after_a_kill_during_an_action(path):
    text = (
        "import sys, time; from pathlib import Path; from cockpit.actions.audit import Audit; from cockpit.actions.plan import *\n"
        "plan = Plan('stop', 'Stop Ray', targets=(Target('process', 'h', pid=1, ticks=2),), hosts=('h',))\n"
        "audit = Audit(Path(sys.argv[1]), time.time)\n"
        "audit.end(audit.begin(plan), plan, Receipt('stop', 'Stop Ray'))\n"
        "audit.begin(plan); print('begun', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", text, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"begun\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    outcomes = [line["outcome"] for line in lines(path)]
    assert outcomes[0] == outcomes[2] == "begun"
    assert "done" in outcomes[1]


@pytest.mark.process
def test_two_cockpits_never_mix_their_lines(path):
    text = (
        "import sys; from pathlib import Path; from cockpit.actions.audit import Audit; from cockpit.actions.plan import *\n"
        "plan = Plan('stop', 'Stop Ray', targets=tuple(Target('process', 'h', pid=n, ticks=2) for n in range(2000)))\n"
        "audit = Audit(Path(sys.argv[1]), lambda: 0.0)\n"
        "[audit.begin(plan) for _ in range(20)]"
    )
    children = [subprocess.Popen([sys.executable, "-c", text, str(path)]) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert len(lines(path)) == 60


def test_its_folder_is_that_of_the_xdg_specification(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert str(audit_path()) == "/state/cockpit/acts.jsonl"


def test_a_row_has_no_unknown_fields_and_the_title_of_its_host_if_that_differs():
    row = brief(ORPHAN, "kill", {ORPHAN.host: "head"})
    assert (row["host"], row["host_title"], row["act"], row["why"]) == ("w1", "head", "kill", "its raylet is dead")
    assert "path" not in row
    assert "host_title" not in brief(ORPHAN, "kill", {ORPHAN.host: ORPHAN.host})
    assert outcome_of(RECEIPT)["freed"] == {"gpu": 7, "disk": None, "shm": None}, "memory that was not measured is null"


def test_a_user_without_a_name_is_named_by_the_uid(monkeypatch):
    """As in a container that runs as any uid."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999)
    assert user_name() == "3999999"
