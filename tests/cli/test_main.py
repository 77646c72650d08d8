from __future__ import annotations

import asyncio
import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import click
import pytest
from click.testing import CliRunner

from cockpit import __version__
from cockpit.cli.main import main
from cockpit.config.document import abbreviate_home
from cockpit.config.settings import config_path
from cockpit.monitor.monitor import Address
from cockpit.monitor.poller import Poller
from tests.cli.programs import PROGRAM
from tests.cli.programs import cockpit as program

pytestmark = pytest.mark.process

CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def config(home):
    path = home / "config/cockpit/config.yaml"
    path.parent.mkdir(parents=True)
    return path


def cockpit(*words):
    """Run cockpit in this process; exceptions are raised."""
    result = CliRunner().invoke(main, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--interval", "0"), "--interval: expected a number of seconds from 0.5 to 3600, got 0"),
        (("--interval", "soon"), "--interval: expected a number of seconds from 0.5 to 3600, got soon"),
        (("--address", "ray://head:10001"), "--address: ray://head:10001 is for Ray's client"),
        (("--address", "http://me:secret@head"), "--address: an address must not contain a user or password"),
        (("--hosts", "/nowhere/hosts"), "--hosts: /nowhere/hosts: no such file"),
        (("--hosts", "-oProxyCommand=x"), "--hosts: '-oProxyCommand=x' can't be the name of a host"),
    ],
)
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_bad_value_of_a_flag_is_one_sentence(words, said, place):
    result = cockpit(*words, "status") if place == "before" else cockpit("status", *words)
    assert result.exit_code == 3
    assert result.stderr.startswith(f"cockpit: {said}")
    assert result.stderr.count("\n") == 1
    assert "secret" not in result.output.replace("RAY_AUTH_TOKEN", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("interval: soon", ":1: interval: expected a number of seconds"),
        ("theme: midnight\nintervall: 3", ":2: intervall: no such key; perhaps interval"),
        ("hosts:\n  - {name: w1, usr: me}", ":2: hosts[0].usr: no such key; perhaps user"),
        ("a: [", ": not YAML"),
        ("[1, 2]", ":1: expected keys with values"),
        ("interval: –\n", ":1: interval: expected a number of seconds"),
    ],
)
def test_a_mistake_in_the_config_names_file_line_and_key(config, text, said):
    config.write_text(text)
    result = cockpit("--ascii", "status")
    assert result.stderr.isascii()
    assert result.exit_code == 3
    assert result.stderr.startswith("cockpit: ~/config/cockpit/config.yaml:")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


DRAWING = ("demo", "replay")


@pytest.mark.parametrize("option", [("--theme", "nord"), ("--ascii",), ("--quiet",)])
def test_only_commands_that_draw_have_the_options_of_the_screen(option):
    for command in sorted({*main.list_commands(click.Context(main))} - {"config", *DRAWING}):
        assert option[0] not in cockpit(command, "--help").stdout
        result = cockpit(command, *option)
        assert (result.exit_code, "No such option" in result.stderr) == (3, True), result.stderr
    assert all(option[0] in cockpit(command, "--help").stdout for command in DRAWING)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command_and_flag_and_cuts_no_summary(flag):
    result = CliRunner().invoke(main, [flag], terminal_width=80)
    assert result.exit_code == 0
    for word in ("status", "config", "schema", "demo", "--address", "--hosts", "--interval", "--readonly", "--theme", "--ascii"):
        assert word in result.stdout
    assert "..." not in result.stdout.partition("Commands:")[2]
    for command in main.list_commands(click.Context(main)):
        told = cockpit(command, flag)
        assert (told.exit_code, told.stdout.isascii()) == (0, True), command
    assert cockpit("--version").stdout == f"cockpit, version {__version__}\n"


ANSWERS = [
    ("status",), ("doctor",), ("report",), ("presets",), ("config", "print"), ("logs", "nobody"), ("check", "small"),
    ("stop-job", "x", "--yes"), ("kill-orphans", "--dry-run"), ("status", "--at", "03:10"), ("status", "--line"), ("replay",), ("demo",),
]  # fmt: skip


@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_with_ascii_every_command_prints_ascii_alone(words, config):
    result = program("--ascii", "--address", CLOSED, *words, stdin=subprocess.DEVNULL)
    assert (result.stdout + result.stderr).isascii()
    assert result.stdout or result.stderr


def test_the_config_file_is_written_once(home):
    first = cockpit("config", "init")
    path = home / "config/cockpit/config.yaml"
    assert (first.exit_code, first.stdout) == (0, f"Written: {path}\n")
    path.write_text("interval: 7\n")
    second = cockpit("config", "init")
    assert second.exit_code == 1
    assert "already exists" in second.stderr
    assert path.read_text() == "interval: 7\n"


def test_print_says_where_each_value_comes_from(config, monkeypatch):
    config.write_text("# mine\ninterval: 7\n")
    monkeypatch.setenv("COCKPIT_THEME", "nord")
    result = cockpit("--ascii", "config", "print", "--hosts", "w1,w2")
    assert result.exit_code == 0
    said = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    assert said["interval"] == "7.0  # ~/config/cockpit/config.yaml:2"
    assert said["theme"] == '"nord"  # COCKPIT_THEME'
    assert said["hosts"] == '[{"name": "w1"}, {"name": "w2"}]  # --hosts'
    assert said["readonly"] == "false  # default"
    assert said["ascii"] == "true  # --ascii"
    assert cockpit("config", "path").stdout == f"{config}\n"
    monkeypatch.setenv("COCKPIT_INTERVAL", "0")
    mistaken = cockpit("status")
    assert (mistaken.exit_code, "COCKPIT_INTERVAL" in mistaken.stderr) == (3, True)


def test_a_flag_before_the_command_counts_and_one_after_it_counts_more():
    shown = cockpit("--interval", "7", "--readonly", "status", "--help")
    assert shown.exit_code == 0
    assert "interval: 3.0" in cockpit("config", "print", "--interval", "3").stdout


@pytest.mark.parametrize(
    ("what", "draft"),
    [
        *((name, "https://json-schema.org/draft/2020-12/schema") for name in ("status", "check", "report")),
        *((name, "http://json-schema.org/draft-07/schema#") for name in ("preset", "config")),
    ],
)
def test_a_schema_is_json_and_that_of_a_file_is_of_the_draft_that_editors_know(what, draft):
    result = cockpit("schema", what)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["$schema"] == draft
    assert cockpit("schema").stdout == cockpit("schema", "status").stdout


def test_schemas_of_files_are_written_for_an_editor_and_not_by_a_read_only_cockpit():
    written = cockpit("schema", "--write")
    assert written.exit_code == 0
    folder = config_path().parent / "schema"
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "preset.json"]
    assert written.stdout.splitlines() == [f"Written: {abbreviate_home(folder / name)}" for name in ("preset.json", "config.json")]
    assert cockpit("schema", "status", "--write").exit_code == 3
    assert cockpit("schema", "--write", "--readonly").exit_code == 1


# A look


def test_a_port_at_which_nothing_listens_is_unreachable():
    result = cockpit("status", "--json", "--address", CLOSED)
    status = json.loads(result.stdout)
    assert status["cluster"]["reachable"] is False
    assert "ray.identity" in {fault["source"] for fault in status["faults"]}
    assert result.exit_code in (2, 3), "3, or 2 where a Ray of somebody else lives on this host"
    text = cockpit("status", "--address", CLOSED).stdout
    assert text.startswith(f"No Ray dashboard answers at {CLOSED}")
    assert "FAILING SOURCE ray.identity" in text


@contextmanager
def served(answer):
    """A web server that is not Ray."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("answer", [b"<html>Welcome to nginx!</html>", b"", b"[1, 2]", b"\xff\xfe\x00", b'{"ray_version": 7}'])
def test_another_web_server_is_a_fault(answer):
    with served(answer) as address:
        result = cockpit("status", "--json", "--address", address)
    status = json.loads(result.stdout)
    (fault,) = [fault for fault in status["faults"] if fault["source"] == "ray.identity"]
    assert address in fault["text"]
    assert status["nodes"] is None or not [node for node in status["nodes"] if node["id"]]
    assert result.exit_code in (2, 3)


def test_a_port_that_speaks_no_http_is_a_fault():
    def greet(server):
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            client.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
            client.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=greet, args=(server,), daemon=True).start()
        result = cockpit("status", "--address", f"http://127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
    assert "FAILING SOURCE ray.identity" in result.stdout
    assert result.exit_code in (2, 3)


class TwoSessions:
    """A monitor on a host where two clusters run."""

    open_choices = (Address("http://10.0.0.1:9265", "session_1"), Address("http://10.0.0.1:9266", "session_2"))

    def __init__(self, *_):
        self.poller = Poller(lambda _: None)

    async def run(self):
        await asyncio.Event().wait()

    async def wait_until_complete(self, _): ...

    def close(self): ...


@pytest.mark.parametrize("words", [("status",), ("status", "--watch", "--readonly")])
def test_two_live_sessions_are_listed_and_none_is_chosen(monkeypatch, words):
    async def sample_once(_, **patience):
        return TwoSessions()

    monkeypatch.setattr("cockpit.cli.status.sample_once", sample_once)
    monkeypatch.setattr("cockpit.cli.service.ClusterMonitor", TwoSessions)
    result = cockpit(*words)
    assert result.exit_code == 3
    assert "name one with --address" in result.stderr
    assert "http://10.0.0.1:9266  session_2" in result.stderr
    assert not result.stdout


# As a program


def test_without_a_terminal_the_status_is_printed():
    result = program("--address", CLOSED, stdin=subprocess.DEVNULL)
    assert result.stderr == "cockpit: no screen here, because stdin is not a terminal: this is the output of `cockpit status`\n\n"
    assert result.stdout.startswith(f"No Ray dashboard answers at {CLOSED}")
    assert result.returncode in (2, 3)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk here that is always full")
@pytest.mark.parametrize("words", [("status", "--address", CLOSED), ("kill-orphans", "--dry-run", "--address", CLOSED), ("schema",)])
def test_a_full_disk_is_reported_in_one_sentence(words):
    with open("/dev/full", "w") as full:
        result = subprocess.run([*PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert result.stderr == "cockpit: output: no space left on device\n"
    assert result.returncode == 3


@pytest.mark.parametrize("words", [("status", "--address", CLOSED), ("presets",), ("config", "print"), ("kill-orphans", "--dry-run")])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user whom nobody knows")
def test_it_works_for_an_unknown_user_without_a_home(words, monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("COCKPIT_ADDRESS", CLOSED)
    reads_all = [f"--{kind}-caps=+dac_read_search" for kind in ("inh", "ambient")]  # this Python may lie where only root may look
    become = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", *reads_all]
    done = subprocess.run([*become, *PROGRAM, *words], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout


@pytest.mark.parametrize("words", [("status",), ("status", "--json"), ("doctor",)])
def test_without_a_stdout_it_ends_as_it_would_with_one(words):
    without = ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, *words, "--address", CLOSED]
    closed = subprocess.run(without, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (closed.returncode, closed.stderr) == (3, "")


def test_a_closed_pipe_is_no_error():
    command = f"{shlex.join(PROGRAM)} status --json --address {CLOSED} | head -c 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (result.stdout, result.stderr) == ("{", "")
    assert result.returncode in (0, 2, 3)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing):
        unread = subprocess.run([*PROGRAM, "status", "--address", CLOSED], stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (unread.stderr, unread.returncode) == (b"", 0)


def test_status_watch_ends_when_its_pipe_is_closed():
    command = [*PROGRAM, "status", "--watch", "--json", "--interval", "0.5", "--address", CLOSED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
        watching.stdout.close()
        assert watching.wait(60) == 0
        assert not watching.stderr.read()
    assert second["taken"] >= first["taken"]


@contextmanager
def heard(*words):
    """The program on a terminal, and the terminal, whose lines can be read one by one."""
    ours, theirs = pty.openpty()
    with (
        os.fdopen(ours, "r+b", buffering=0) as terminal,
        os.fdopen(theirs, "r+b", buffering=0) as end,
        subprocess.Popen([*PROGRAM, *words], stdin=end, stdout=end, stderr=subprocess.STDOUT) as running,
    ):
        try:
            yield running, terminal
        finally:
            running.kill()


def read_until(terminal, word):
    lines = []
    while not lines or word not in lines[-1]:
        lines.append(terminal.readline().decode().rstrip())
    return lines


def test_the_plain_screen_prints_again_on_enter_and_ends_on_q():
    with heard("--plain", "--address", CLOSED) as (running, terminal):
        first = read_until(terminal, "q and Enter quits")
        assert any(line.startswith("No Ray dashboard answers at http://127.0.0.1:9") for line in first)
        assert any(line.startswith("Node ") and ", host memory " in line for line in first)
        assert not any("\x1b" in line or "  " in line.strip() for line in first), first
        terminal.write(b"\n")
        assert any(line.startswith("Node ") for line in read_until(terminal, "q and Enter quits"))
        terminal.write(b"q\n")
        assert running.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_status_watch_silently(number):
    command = [*PROGRAM, "status", "--watch", "--interval", "0.5", "--address", CLOSED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        watching.stdout.readline()
        watching.send_signal(number)
        assert watching.wait(60) == 128 + number
        assert not watching.stderr.read()


@pytest.mark.parametrize(
    ("words", "instead"), [(("demo",), "cockpit demo --plain"), (("replay",), "cockpit status --at TIME")], ids=["demo", "replay"]
)
def test_commands_that_draw_refuse_a_pipe_and_say_why(words, instead):
    result = program(*words)
    assert (result.returncode, result.stdout) == (3, "")
    assert "is not a terminal" in result.stderr
    assert instead in result.stderr


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_the_reason_for_no_screen_names_the_stream_that_is_no_terminal(name):
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": subprocess.PIPE} | {name: subprocess.DEVNULL}
    with os.fdopen(ours), os.fdopen(theirs):
        done = subprocess.run([*PROGRAM, "demo"], **streams, text=True, timeout=60, check=False)
    assert done.stderr.startswith(f"cockpit: the demo draws a screen, and {name} is not a terminal")


def test_a_demo_that_ends_by_itself_needs_no_terminal_and_fails_if_ray_does_not_answer(monkeypatch):
    monkeypatch.setattr("cockpit.cli.demo.run_demo", lambda screen: screen(CLOSED))
    result = cockpit("demo", "--seconds", "1")
    assert result.exit_code == 3
    assert "q and Enter quits." in result.stdout


def test_the_demo_gets_the_flags_it_was_given(monkeypatch):
    shown = []

    def run_demo(screen):
        return screen("http://127.0.0.1:8299")

    monkeypatch.setattr("cockpit.cli.demo.run_demo", run_demo)
    monkeypatch.setattr("cockpit.cli.demo.why_no_screen", lambda: None)
    monkeypatch.setattr("cockpit.cli.demo.show", lambda config, **more: shown.append((config.address, config.theme, more)) or 0)
    assert cockpit("--theme", "nord", "demo", "--seconds", "20").exit_code == 0
    greeting = "Demo cluster at http://127.0.0.1:8299; q stops it and its jobs. To try recover: 7, then R on the preset demo"
    assert shown == [("http://127.0.0.1:8299", "nord", {"greeting": greeting, "seconds": 20.0})]


@pytest.mark.parametrize(("typed", "meant"), [("statusx", "status"), ("launchit", "launch"), ("kill-orphan", "kill-orphans")])
def test_an_unknown_command_gets_a_suggestion(typed: str, meant: str):
    assert f"'{meant}'" in program(typed).stderr
