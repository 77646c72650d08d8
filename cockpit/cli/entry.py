"""Where the program begins: ctrl+c while Python still imports ends it without a word, as it ends any program."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """The imports are most of the start. Who had ctrl+c ignored, as `nohup` does, still has."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _answer_line()
    from cockpit.cli.main import main as command
    from cockpit.output import never_fail, say_traceback

    sys.excepthook = say_traceback
    never_fail()
    signal.signal(signal.SIGINT, before)
    command()


def _answer_line() -> None:
    """`status --line` is asked for at every prompt: it ends here, before a third of a second of imports."""
    if "--line" in sys.argv:
        from cockpit.cli.line import answer_line

        if (code := answer_line(sys.argv[1:])) is not None:
            sys.exit(code)
