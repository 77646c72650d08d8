"""The terminal as Textual drives it, for a program that is stopped and goes on, and whose terminal may go."""

from __future__ import annotations

import os
import signal
from codecs import getincrementaldecoder
from typing import Any, Final

from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver

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
    """

    _is_reading = False

    def run_input_thread(self) -> None:
        """The loop reads; the thread that Textual has started for it ends here."""
        self._is_reading = True
        self._loop.call_soon_threadsafe(self._begin_reading)

    def disable_input(self) -> None:
        """Read no more keys."""
        self._is_reading = False
        self._loop.remove_reader(self.fileno)
        super().disable_input()

    def _begin_reading(self) -> None:
        if self._is_reading:  # it may have been stopped meanwhile
            self._parser, self._decode = XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode
            self._loop.add_reader(self.fileno, self._read_keys)

    def _read_keys(self) -> None:
        try:
            typed = os.read(self.fileno, READ_BYTES)
        except BlockingIOError:  # somebody else who has this terminal was quicker
            return
        except OSError:
            typed = b""
        if not typed:
            self._loop.remove_reader(self.fileno)
            signal.raise_signal(signal.SIGHUP)
            return
        if text := self._decode(typed):  # half a letter is none yet, and to the parser nothing is the end
            for event in self._parser.feed(text):
                self.process_message(event)
        self._loop.call_later(ESCAPE_DELAY + ESCAPE_SLACK_S, self._end_escape, self._parser)

    def _end_escape(self, parser: XTermParser) -> None:
        for event in parser.tick():
            self.process_message(event)

    def write(self, data: str) -> None:
        """To the thread that writes; where that has died of an error, the terminal is gone."""
        if self._writer_thread is not None and not self._writer_thread.is_alive():
            signal.raise_signal(signal.SIGHUP)
        super().write(data)

    def _sigtstp_application(self, *_: Any) -> None:
        """As the terminal itself does it: the whole process group, without the probes, and not where no shell could let it go on."""
        if not self._auto_restart:
            return
        self.suspend_application_mode()
        self._must_signal_resume = True
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)
        if self._must_signal_resume:  # nobody has stopped it, so nobody continues it
            self._sigcont_application()

    def _sigcont_application(self, *_: Any) -> None:
        if self._auto_restart and not self._must_signal_resume:  # it was not left in order, as by ctrl+z
            self.suspend_application_mode()
        super()._sigcont_application()
