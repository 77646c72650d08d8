"""Starts the program; ctrl+c during the imports ends it silently, as it ends other programs."""

from __future__ import annotations

import gc
import signal
import sys


def main() -> None:
    """Run the command. If SIGINT was ignored before, as `nohup` does, it stays ignored."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    gc.disable()  # imports free nothing; enabled again before a command or the screen runs: docs/decisions/0005-start-of-the-screen.md

    # A prompt runs `status --line` each time it is drawn, so that command must not wait for a third of a second of imports.
    if "--line" in sys.argv:
        from cockpit.cli.line import answer_line

        if (code := answer_line(sys.argv[1:])) is not None:
            sys.exit(code)

    from cockpit.cli.main import main as command
    from cockpit.text.output import never_fail, print_traceback

    sys.excepthook = print_traceback
    never_fail()
    signal.signal(signal.SIGINT, before)
    command()
