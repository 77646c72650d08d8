"""The terminal as Textual drives it, for a program that is stopped and goes on, and whose terminal may go."""

from __future__ import annotations

import os
import signal
from typing import Any

from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """After a SIGSTOP, of which no program is told, Textual starts its threads a second time, and takes its own modes for the shell's.

    A terminal that is gone sends SIGHUP only to the program whose own it was (not below `setsid`, say): of any other, Textual's threads die
    or spin, and the program waits for ever to write.

    At ctrl+z Textual stops itself alone: a `make`, `uvx` or `sudo` around it runs on, no shell gets the terminal, and nothing can be typed.
    """

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
