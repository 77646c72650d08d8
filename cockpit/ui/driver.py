"""The terminal as Textual drives it, for a program that is stopped and goes on, and whose terminal may go."""

from __future__ import annotations

import os
import select
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from cockpit.text import to_ascii

READ_BYTES: Final = 4096
ESCAPE_SLACK_S: Final = 0.01
"""Seconds after the delay when an escape that nothing followed is taken for the key, so that the delay is over by any clock."""


class TerminalDriver(LinuxDriver):
    """After a SIGSTOP, of which no program is told, Textual starts its threads a second time, and takes its own modes for the shell's.

    A terminal that is gone sends SIGHUP only to the program whose own it was (not below `setsid`, say): of any other, Textual's threads die
    or spin, and the program waits for ever to write.

    At ctrl+z Textual stops itself alone: a `make`, `uvx` or `sudo` around it runs on, no shell gets the terminal, and nothing can be typed.

    Keys are read by the loop. Textual's thread for them wakes ten times a second to see whether it should end, a tenth of all that the
    screen takes of a core, and a key waits for the interpreter twice.

    The loop stops it and goes on, too. A signal comes at any moment: while something is handed to the thread that writes, say, whose lock
    the handler would then wait for, for ever.
    """

    _is_reading = False

    def __init__(self, *args: Any, **options: Any) -> None:
        """Draw on stdout, which is the terminal: Textual draws on stderr, which may be a file or closed."""
        super().__init__(*args, **options)
        self._file = sys.__stdout__

    def run_input_thread(self) -> None:
        """The loop reads; the thread that Textual has started for it ends here."""
        self._is_reading = True
        self._loop.call_soon_threadsafe(self._begin_reading)

    def disable_input(self) -> None:
        self._is_reading = False
        self._loop.remove_reader(self.fileno)
        super().disable_input()

    def _begin_reading(self) -> None:
        if self._is_reading:  # it may have been stopped meanwhile
            self._parser, self._decode = XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode
            self._loop.add_reader(self.fileno, self._read_keys)

    def _read_keys(self) -> None:
        if not select.select([self.fileno], [], [], 0)[0]:  # a shell that has this terminal too was quicker: to read would wait for a key
            return
        try:
            typed = os.read(self.fileno, READ_BYTES)
        except OSError:
            typed = b""
        if not typed:
            self._loop.remove_reader(self.fileno)
            signal.raise_signal(signal.SIGHUP)
            return
        if text := self._decode(typed):  # half a letter is none yet, and to the parser nothing is the end
            for event in self._parse(self._parser.feed(text)):
                self.process_message(event)
        self._loop.call_later(ESCAPE_DELAY + ESCAPE_SLACK_S, self._end_escape, self._parser)

    def _end_escape(self, parser: XTermParser) -> None:
        for event in self._parse(parser.tick()):
            self.process_message(event)

    def _parse(self, events: Iterable[Message]) -> Iterator[Message]:
        """Textual's parser ends at some sequences that no terminal should send: they are passed over, and keys go on."""
        try:
            yield from events
        except Exception:  # noqa: BLE001 whatever was sent: without keys nobody could end the program
            self._parser = XTermParser(self._debug)

    def write(self, data: str) -> None:
        """To the thread that writes; where that has died of an error, the terminal is gone.

        While the screen has left the terminal nothing is written: all is drawn anew when it is back.
        """
        if self._writer_thread is None:
            return
        if not self._writer_thread.is_alive():
            signal.raise_signal(signal.SIGHUP)
        super().write(data)

    def close(self) -> None:
        """The thread that writes has ended."""
        super().close()
        self._writer_thread = None

    def _sigtstp_application(self, *_: Any) -> None:
        self._do_soon(self._stop)

    def _sigcont_application(self, *_: Any) -> None:
        self._do_soon(self._go_on)

    def _do_soon(self, deed: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(deed)

    def _stop(self) -> None:
        """As the terminal itself does it: the whole process group, without the probes, and not where no shell could let it go on."""
        if not self._auto_restart:
            return
        self.suspend_application_mode()
        self._must_signal_resume = True
        ours = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTSTP, signal.SIGCONT)}
        os.killpg(0, signal.SIGTSTP)
        for number, handler in ours.items():
            signal.signal(number, handler)
        self._go_on()

    def _go_on(self) -> None:
        if not self._auto_restart:
            return
        if self._writer_thread is not None:  # it was not left in order, as by ctrl+z
            self.suspend_application_mode()
        self.resume_application_mode()
        self._app.call_later(self._app.refresh)  # Textual draws only what has changed since; the shell has wiped all of it


class AsciiDriver(TerminalDriver):
    """Of `--ascii`: whatever widget draws a sign, an ASCII one is written."""

    def write(self, data: str) -> None:
        super().write(to_ascii(data))
