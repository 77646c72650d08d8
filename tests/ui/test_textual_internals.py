"""The screen in a real terminal: it is stopped and goes on, its terminal is gone, stderr is a file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator

import pytest
from textual.events import Key

from cockpit.ui.textual_internals import TerminalDriver
from tests.ui.terminal import PROGRAM

ENV = {**os.environ, "TERM": "xterm-256color", "PS1": "$ ", "LC_ALL": "C.UTF-8"}
LAST_LINE = rb"Other cluster"
"""In the line of keys: once it is there, the whole screen has been drawn."""
WITHOUT_TMUX = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, words: list[str], stderr: int | None = None) -> None:
        self.end, program = os.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
        session = "import os, sys, fcntl, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
        command = [PROGRAM[0], "-c", session, *words]
        self.process = subprocess.Popen(command, stdin=program, stdout=program, stderr=program if stderr is None else stderr, env=ENV)
        os.close(program)

    def read_until(self, words: bytes) -> None:
        seen = b""
        while not re.search(words, seen):
            seen += os.read(self.end, 65536)

    def type(self, keys: bytes) -> None:
        os.write(self.end, keys)


@contextlib.contextmanager
def terminal(words: list[str], stderr: int | None = None) -> Iterator[Terminal]:
    shown = Terminal(words, stderr)
    try:
        yield shown
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shown.process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.close(shown.end)  # the session's other programs get a hangup
        shown.process.wait()


@pytest.mark.process
@pytest.mark.timeout(60)
def test_a_screen_whose_terminal_is_gone_ends_also_where_no_hangup_is_sent():
    end, program = os.openpty()
    with subprocess.Popen(PROGRAM, stdin=program, stdout=program, stderr=program, env=ENV, start_new_session=True) as running:
        os.close(program)
        seen = b""
        while b"Overview" not in seen:
            seen += os.read(end, 65536)
        os.close(end)
        try:
            assert running.wait(50) == 128 + signal.SIGHUP
        finally:
            running.kill()


@pytest.mark.process
@pytest.mark.timeout(60)
def test_a_screen_whose_terminal_hangs_up_ends():
    with terminal(PROGRAM) as shown:
        shown.read_until(LAST_LINE)
        os.close(shown.end)
        assert shown.process.wait(50) == 128 + signal.SIGHUP


@pytest.mark.process
@pytest.mark.timeout(60)
def test_the_screen_is_drawn_on_the_terminal_also_where_stderr_is_a_file(tmp_path):
    with (tmp_path / "errors").open("w") as errors, terminal(PROGRAM, errors.fileno()) as shown:
        shown.read_until(b"Overview")
        shown.type(b"q")
        shown.read_until(rb"\x1b\[\?1049l")  # it gives the terminal back
        assert shown.process.wait(50) == 0
        assert (tmp_path / "errors").read_text() == ""


@pytest.mark.process
@pytest.mark.timeout(60)
def test_a_screen_that_was_stopped_is_drawn_whole_when_it_goes_on_and_hears_keys():
    with terminal(PROGRAM) as shown:
        shown.read_until(LAST_LINE)
        shown.read_until(rb"\b[4-9]s\b")  # by the age of the fault: the start is over, and nothing draws all by itself any more
        shown.process.send_signal(signal.SIGSTOP)
        shown.process.send_signal(signal.SIGCONT)
        shown.read_until(rb"\x1b\[\?1049h")  # it takes the terminal back, which is empty
        shown.read_until(LAST_LINE)
        shown.type(b"q")
        assert shown.process.wait(50) == 0


COMMAND = shlex.join(PROGRAM)


@pytest.mark.process
@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", ["alone", "make", pytest.param("tmux", marks=WITHOUT_TMUX)])
def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(way, tmp_path):
    (tmp_path / "Makefile").write_text("screen:\n\t@" + COMMAND.replace("$", "$$") + "\n")
    shell = ["bash", "--norc", "--noprofile", "-i"]
    socket = str(tmp_path / "tmux")
    words = ["tmux", "-S", socket, "-f", "/dev/null", "new-session", shlex.join(shell)] if way == "tmux" else shell
    try:
        with terminal(words) as shown:
            shown.read_until(rb"[$#] ")
            shown.type((f"make -C {tmp_path} screen" if way == "make" else COMMAND).encode() + b"\r")
            shown.read_until(LAST_LINE)
            shown.type(b"\x1a")
            shown.read_until(rb"Stopped")
            shown.type(b"stty -a\r")
            shown.read_until(rb" icanon")  # the terminal is as the shell wants it
            shown.type(b"fg\r")
            shown.read_until(LAST_LINE)
            shown.type(b"?")
            shown.read_until(rb"never +quits")
    finally:
        if way == "tmux":
            subprocess.run(["tmux", "-S", socket, "kill-server"], check=False, capture_output=True)


@pytest.mark.process
@pytest.mark.timeout(60)
def test_ctrl_z_stops_nothing_where_no_shell_could_let_it_go_on():
    with terminal(PROGRAM) as shown:  # a session's first process, as in a terminal that was opened for it
        shown.read_until(LAST_LINE)
        shown.type(b"\x1a")
        shown.read_until(rb"\x1b\[\?1049h")
        shown.read_until(LAST_LINE)
        shown.type(b"q")
        assert shown.process.wait(50) == 0


@pytest.mark.process
@pytest.mark.timeout(60)
def test_ctrl_z_in_the_editor_of_a_preset_stops_cockpit_too(tmp_path, monkeypatch):
    monkeypatch.setitem(ENV, "XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setitem(ENV, "EDITOR", "sh -c 'echo editing; read line'")
    monkeypatch.delitem(ENV, "VISUAL", raising=False)
    with terminal(["bash", "--norc", "--noprofile", "-i"]) as shown:
        shown.read_until(rb"[$#] ")
        shown.type(COMMAND.encode() + b"\r")
        shown.read_until(LAST_LINE)
        shown.type(b"7")
        shown.read_until(rb"openrlhf|verl")
        shown.type(b"e")
        shown.read_until(rb"editing")
        shown.type(b"\x1a")
        shown.read_until(rb"(?s)Stopped.*\n[^\n]*[$#] ")  # what is typed before the prompt may be lost
        shown.type(b"fg\r")
        shown.read_until(rb"import main")  # bash says what goes on
        shown.type(b"done\r")
        shown.read_until(rb"\x1b\[\?1049h")
        shown.type(b"?")
        shown.read_until(rb"never +quits")


class Typing(TerminalDriver):
    """Reads from a pipe what is typed."""

    def __init__(self):
        self._debug, self.exit_event = False, threading.Event()
        self.fileno, self.keyboard = os.pipe()
        self.pressed = queue.Queue()

    def process_message(self, message):
        if isinstance(message, Key):
            self.pressed.put(message.key)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("odd", [b"\x1b[97;1:3u", b"\x1b[1114112;2u", b"\x1b[48;40;120;0;0t\x1b[<35;1;1M"])
def test_a_sequence_that_no_terminal_should_send_keeps_no_later_key_away(odd):
    """Textual 8.2's parser fails at an event type, a letter that does not exist, and a mouse move on cells without a size."""
    driver = Typing()
    reader = threading.Thread(target=driver.run_input_thread)
    reader.start()
    os.write(driver.keyboard, odd)
    while select.select([driver.fileno], [], [], 0)[0]:  # until it has been read
        pass
    os.write(driver.keyboard, b"q")
    while driver.pressed.get(timeout=50) != "q":
        pass
    driver.exit_event.set()
    reader.join()
