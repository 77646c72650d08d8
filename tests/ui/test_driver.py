"""How often the program may draw, and what becomes of it when its terminal is gone."""

import asyncio
import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
from functools import partial

import pytest
from textual.events import Key

from cockpit.ui import FRAMES_A_SECOND
from cockpit.ui.driver import TerminalDriver
from tests.ui.terminal import PROGRAM


@pytest.mark.process
def test_a_screen_whose_terminal_is_gone_ends_also_where_no_hangup_is_sent():
    terminal, program = os.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(PROGRAM, stdin=program, stdout=program, stderr=program, env=env, start_new_session=True) as running:
        os.close(program)
        seen = b""
        while b"Overview" not in seen:
            seen += os.read(terminal, 65536)
        os.close(terminal)
        try:
            assert running.wait(60) == 128 + signal.SIGHUP
        finally:
            running.kill()


@pytest.mark.process
@pytest.mark.timeout(60)
def test_the_screen_is_drawn_on_the_terminal_also_where_stderr_is_a_file(tmp_path):
    terminal, program = os.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(PROGRAM, stdin=program, stdout=program, stderr=errors, env=env, start_new_session=True) as running,
    ):
        try:
            seen = b""
            while b"Overview" not in seen:
                seen += os.read(terminal, 65536)
            os.write(terminal, b"q")
            while b"\x1b[?1049l" not in seen:  # it gives the terminal back
                seen += os.read(terminal, 65536)
            assert running.wait(60) == 0
            assert (tmp_path / "errors").read_text() == ""
        finally:
            running.kill()
            os.close(terminal)
            os.close(program)


@pytest.mark.process
@pytest.mark.timeout(60)
def test_a_screen_that_was_stopped_is_drawn_whole_when_it_goes_on():
    terminal, program = os.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(PROGRAM, stdin=program, stdout=program, stderr=program, env=env, start_new_session=True) as running:

        def read_until(words):
            seen = b""
            while not re.search(words, seen):
                seen += os.read(terminal, 65536)

        try:
            read_until(b"Other cluster")  # in the last line, which stays as it is
            read_until(rb"\b[4-9]s\b")  # by the age of the fault: the start is over, and nothing draws all by itself any more
            running.send_signal(signal.SIGSTOP)
            running.send_signal(signal.SIGCONT)
            read_until(rb"\x1b\[\?1049h")  # it takes the terminal back, which is empty
            read_until(b"Other cluster")
        finally:
            running.kill()
            os.close(terminal)
            os.close(program)


@pytest.mark.process
def test_textual_draws_so_often_that_a_key_waits_for_no_beat_and_nothing_that_is_started_is_told_so():
    told = "print(1 / UPDATE_PERIOD, 'TEXTUAL_FPS' in os.environ)"
    code = f"import os, cockpit.cli.main, cockpit.ui.app; from textual.screen import UPDATE_PERIOD; {told}"
    env = {name: value for name, value in os.environ.items() if name != "TEXTUAL_FPS"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(float(FRAMES_A_SECOND)), "False"]


class Typing(TerminalDriver):
    """Reads from a pipe what is typed, for nobody."""

    def __init__(self):
        self._loop, self._debug = asyncio.get_running_loop(), False
        self.fileno, self.keyboard = os.pipe()
        self.pressed = []

    def process_message(self, message):
        if isinstance(message, Key):
            self.pressed.append(message.key)

    async def type(self, typed):
        os.write(self.keyboard, typed)
        while fcntl.ioctl(self.fileno, termios.FIONREAD, b"\0" * 4) != b"\0" * 4:
            await asyncio.sleep(0)

    async def wait_for_keys(self, number):
        while len(self.pressed) < number:
            await asyncio.sleep(0)


async def test_a_key_whose_bytes_come_in_two_pieces_is_one_and_an_escape_that_nothing_follows_is_one_too():
    driver = Typing()
    driver.run_input_thread()
    for typed in (b"a", b"\x1b[", b"A", "ö".encode()[:1], "ö".encode()[1:], b"\x1b"):
        await driver.type(typed)
    await driver.wait_for_keys(4)
    await driver.type(b"x")
    await driver.wait_for_keys(5)
    assert driver.pressed == ["a", "up", "ö", "escape", "x"]


async def test_input_that_was_stopped_before_it_began_is_not_read_and_begins_anew():
    driver = Typing()
    driver.exit_event, driver._key_thread, driver._mouse = asyncio.Event(), None, False
    driver.run_input_thread()
    driver.disable_input()
    os.write(driver.keyboard, b"a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert driver.pressed == []
    driver.run_input_thread()
    await driver.wait_for_keys(1)
    assert driver.pressed == ["a"]


async def test_a_terminal_that_is_gone_is_told_as_a_hangup():
    told = []
    before = signal.signal(signal.SIGHUP, lambda *_: told.append("hangup"))
    try:
        driver = Typing()
        driver.run_input_thread()
        os.close(driver.keyboard)
        while not told:
            await asyncio.sleep(0)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert told == ["hangup"]


ODD = [b"\x1b[97;1:3u", b"\x1b[1114112;2u", b"\x1b[48;40;120;0;0t\x1b[<35;1;1M"]
"""Sequences at which Textual 8.2's parser ends: an event type, a letter that there is none of, a move on cells without a size."""


@pytest.mark.parametrize("odd", ODD)
async def test_a_sequence_that_no_terminal_should_send_keeps_no_later_key_away(odd):
    driver = Typing()
    driver.run_input_thread()
    await driver.type(odd)
    await driver.type(b"q")
    assert driver.pressed[-1:] == ["q"]


async def test_what_somebody_else_has_read_meanwhile_holds_nobody_up():
    driver = Typing()
    driver.run_input_thread()
    await driver.type(b"a")
    driver._read_keys()
    assert driver.pressed == ["a"]


async def test_a_signal_that_comes_while_something_is_written_is_obeyed_by_the_loop():
    driver, deeds = Typing(), []
    driver._stop, driver._go_on = partial(deeds.append, "stop"), partial(deeds.append, "go on")
    driver._sigtstp_application(signal.SIGTSTP, None)
    driver._sigcont_application(signal.SIGCONT, None)
    assert deeds == []
    await asyncio.sleep(0)
    assert deeds == ["stop", "go on"]
