"""Wraps the private names of Textual that cockpit uses; when Textual is updated, only this file must be checked."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.text import Text
from textual import work
from textual.app import App
from textual.command import CommandPalette
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

from cockpit.text import to_ascii
from cockpit.text.output import is_in_browser


class TerminalDriver(LinuxDriver):
    """Textual's driver, drawing on stdout, and robust against a terminal that is suspended, gone, or sends invalid sequences."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Textual draws on stderr, which is not the terminal in `cockpit 2>file`."""
        super().__init__(*args, **options)
        self._file = sys.__stdout__

    def run_input_thread(self) -> None:
        """Read keys. Textual's parser raises errors at some invalid sequences, and the keys after them must still work."""
        while not self.exit_event.is_set():
            with suppress(Exception):  # an OSError too: the terminal is gone, and `cockpit.cli.screen` ends the program
                super().run_input_thread()

    def write(self, data: str) -> None:
        """Write only while a thread reads the queue of `_writer_thread`: it holds 30 texts, and the next write would block for ever.

        There is no such thread while an editor uses the terminal, in the background of a shell, and after the terminal is gone.
        """
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)


class AsciiDriver(TerminalDriver):
    """For `--ascii`: writes an ASCII character for any other character that a widget draws."""

    def write(self, data: str) -> None:
        super().write(to_ascii(data))


class PatchedApp(App[None]):
    """An App that can be stopped and continued, and that prints no values of variables when it fails."""

    def get_driver_class(self) -> type[Driver]:
        """Textual's own driver of a browser if textual-serve shows the screen, else ours."""
        return super().get_driver_class() if is_in_browser() else TerminalDriver

    def handle_stop_signals(self) -> None:
        """Have the event loop handle SIGTSTP and SIGCONT, which Textual handles inside the signal handler.

        A signal handler may run while the main thread holds the lock of the writer's queue, and would then wait for that lock for ever.
        And after a SIGSTOP, which a program can't handle, Textual would start its threads a second time.
        """
        if self._driver is not None and self._driver.can_suspend:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTSTP, self.action_suspend_process)
            loop.add_signal_handler(signal.SIGCONT, self._retake_terminal)

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Suspend as Textual does. Meanwhile both signals have their default effect, so that ctrl+z in an editor stops cockpit too."""
        with super().suspend():
            handlers = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTSTP, signal.SIGCONT)}
            try:
                yield
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)

    def action_suspend_process(self) -> None:
        """Stop cockpit; `fg` brings it back.

        The whole process group stops, as at ctrl+z in a terminal: Textual would stop only itself, and a `make` that started it would run
        on. The kernel ignores SIGTSTP if no shell could continue the group.
        """
        if self._driver is not None and self._driver.can_suspend:
            with self.suspend():
                os.killpg(0, signal.SIGTSTP)

    def _retake_terminal(self) -> None:
        """Set up the terminal after a SIGSTOP: the shell has changed its modes and drawn over the screen."""
        with self.suspend():
            pass

    def write_to_terminal(self, data: str) -> None:
        """Write escape sequences that draw nothing, such as a bell. Textual has no public call for it."""
        if self._driver is not None:
            self._driver.write(data)

    def end_with_message(self, text: str) -> None:
        """End now, and print the text once the terminal is restored."""
        self._exit_renderables.append(Text(text))
        self._close_messages_no_wait()

    def _fatal_error(self) -> None:
        """Replaces Textual's traceback, which has the values of all variables, tokens too."""
        if error := sys.exc_info()[1]:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End because of an uncaught exception."""
        self.end_with_message(type(error).__name__)


def take_back_notifications(app: App[Any], severity: str) -> None:
    """Remove the notifications of one severity. Textual's `clear_notifications` removes all."""
    for notification in list(app._notifications):
        if notification.severity == severity:
            app._unnotify(notification)


class Palette(CommandPalette):
    """Textual's palette (8.2.8). If it is closed while its search begins, Textual ends the program with an error."""

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP, exit_on_error=False)
    async def _gather_commands(self, search_value: str) -> None:
        await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]  # `work` wraps it
