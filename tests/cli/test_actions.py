from __future__ import annotations

import json
import os
import pty
import select
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from cockpit.actions.plan import Plan, Target
from cockpit.cli.actions import EndSignal, is_confirmed
from tests.cli.programs import PROGRAM, cockpit
from tests.probe.orphans import Orphan, dead_session, ended_pid, left_variables

pytestmark = pytest.mark.process
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(300)"
SLEEPER = "import signal, time; print('up', flush=True); time.sleep(300)"


@pytest.fixture
def home(home, monkeypatch):
    """The home of the test, with a config that allows no way to any other host."""
    monkeypatch.setenv("COCKPIT_ADDRESS", "http://127.0.0.1:9")
    config = home / "config/cockpit/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("reach: 'false'\n")
    return home


@contextmanager
def started(text, environ):
    child = Orphan(sys.executable, "-c", text, environ=environ)
    assert child.stdout.readline() == b"up\n"
    yield child
    child.close()


@pytest.fixture
def left_over(tmp_path, request):
    """A process whose raylet is dead; it runs what a test gives as its parameter."""
    raylet = ended_pid()
    dead_session(tmp_path / "ray", raylet)
    with started(getattr(request, "param", SLEEPER), left_variables(tmp_path, raylet)) as child:
        yield child


@pytest.fixture
def foreign():
    with started(SLEEPER, {}) as child:
        yield child


def log_of(home):
    return [json.loads(line) for line in (home / "state/cockpit/acts.jsonl").read_text().splitlines()]


def test_a_named_orphan_is_ended_and_logged(home, left_over):
    done = cockpit("kill-orphans", "--pid", str(left_over.pid), "--yes", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert [row["pid"] for row in answer["plan"]] == [row["pid"] for row in answer["done"]] == [left_over.pid]
    assert "ended by SIGTERM" in answer["done"][0]["outcome"]
    assert left_over.wait() == 0
    assert [line["outcome"] == "begun" for line in log_of(home)] == [True, False]
    assert stat.S_IMODE((home / "state/cockpit/acts.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize("more", [(), ("--force",)])
def test_a_foreign_process_is_refused_with_any_flags(home, foreign, more):
    done = cockpit("kill-orphans", "--pid", str(foreign.pid), "--yes", "--json", *more)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert (answer["plan"], answer["done"]) == ([], [])
    assert "it is a foreign process; kill-orphans kills only orphan and stale processes" in answer["refused"][0]["reason"]
    assert foreign.poll() is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--dry-run", "--yes"), 0, "pid {pid}"),
        ((), 1, "no terminal for the confirmation"),
        (("--readonly", "--yes"), 1, "read-only"),
    ],
)
def test_a_dry_run_an_unconfirmed_and_a_read_only_action_do_nothing(home, left_over, words, code, said):
    done = cockpit("kill-orphans", "--pid", str(left_over.pid), *words)
    assert done.returncode == code
    assert said.format(pid=left_over.pid) in done.stdout + done.stderr
    assert left_over.poll() is None
    assert not (home / "state").exists()


def test_a_host_that_cannot_be_reached_or_could_be_an_option_of_ssh_ends_with_three(home):
    done = cockpit("kill-orphans", "nowhere.invalid", "--yes", "--json")
    assert done.returncode == 3
    assert "nowhere.invalid" in json.loads(done.stdout)["failed"][0]["error"]
    done = cockpit("kill-orphans", "--yes", "--", "-oProxyCommand=true")
    assert done.returncode == 3
    assert "can't be the name of a host" in done.stderr


def reads(pid):
    """Whether it waits for input: it would notice an earlier signal only after the next key."""
    states = set()
    for _ in range(4):
        states.add(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        time.sleep(0.05)
    return states == {"S"}


def asked(answer, *words):
    """The output on a terminal after this answer or signal, and the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(PROGRAM[0], [*PROGRAM, *words])
    said, deadline, answers = b"", time.monotonic() + 60, [answer]
    with suppress(OSError):  # Linux says so when the other side has hung up
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                said += os.read(terminal, 4096)
            if answers and b"Continue?" in said and reads(pid):
                given = answers.pop()
                os.write(terminal, given + b"\n") if isinstance(given, bytes) else os.kill(pid, given)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    return said.decode(), code


@pytest.mark.parametrize(
    ("typed", "said"),
    [("8139", ""), ("139", "nothing was done: 139 does not match 8139"), ("", "nothing was done")],
)
def test_only_the_right_word_confirms(monkeypatch, capsys, typed, said):
    plan = Plan("stop", "Stop Ray", (Target("process", "w1", pid=7),), word="8139")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("cockpit.text.output.ask", lambda _question: typed)
    assert is_confirmed(plan, EndSignal(), "") is (said == "")
    assert said in capsys.readouterr().err


def test_on_a_terminal_it_asks_does_nothing_on_no_and_does_it_on_yes(home, left_over):
    words = ("kill-orphans", "--pid", str(left_over.pid))
    said, code = asked(b"n", *words, "--json")
    plan, question, _ = said.partition("Continue?")
    assert (code, question) == (1, "Continue?")
    assert f"pid {left_over.pid}" in plan, "with --json too the plan is shown before the question"
    assert "{" not in plan
    assert left_over.poll() is None
    said, code = asked(b"y", *words)
    assert code == 0
    assert "ended by SIGTERM" in said
    assert left_over.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_question_means_no(home, left_over, number):
    said, code = asked(number, "kill-orphans", "--pid", str(left_over.pid))
    assert code == 128 + number
    assert "nothing was done" in said
    assert "Traceback" not in said
    assert left_over.poll() is None
    assert not (home / "state").exists()


@pytest.mark.parametrize("left_over", [STUBBORN], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_an_action_is_reported_and_logged(home, left_over, number):
    words = ["kill-orphans", "--pid", str(left_over.pid), "--yes", "--json"]
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as program:
        deadline = time.monotonic() + 60
        while not (home / "state/cockpit/acts.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        program.send_signal(number)
        said, warned = program.communicate(timeout=60)
    assert program.returncode == 128 + number
    assert b"was aborted: the state of 1 process is unknown" in warned
    assert "unknown" in json.loads(said)["failed"][0]["error"]
    assert log_of(home)[1]["outcome"] == {"broken_off": "cancelled"}


def test_the_help_lists_every_action_and_its_exit_codes(home):
    from cockpit.actions.table import ACTIONS

    listed = cockpit("--help").stdout
    for action in (action for action in ACTIONS if action.command):
        assert action.id in listed
        assert "0  done, or nothing to do" in cockpit(action.id, "--help").stdout
