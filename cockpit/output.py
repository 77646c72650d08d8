"""The one way out for text: what is printed passes here line by line, so that nothing of a cluster's can do anything to a terminal."""

from __future__ import annotations

import io
import json
import sys
import traceback
from collections.abc import Callable
from functools import cache
from types import TracebackType

import click

from cockpit.secrets import LineRedactor
from cockpit.text import UNSAFE, clean, to_ascii


@cache
def _numbers() -> dict[int, str]:
    """What may stand raw in JSON, and would act on a terminal or hide a part of a line: as JSON writes it by its number."""
    return {code: json.dumps(chr(code))[1:-1] for code in UNSAFE if code >= 0x7F}


_is_ascii = False


def print_ascii(*, on: bool) -> None:
    """Print ASCII signs from now on, as `--ascii` asks for; JSON and lines of logs in pipes stay as they are."""
    global _is_ascii  # one process prints for one person
    _is_ascii = on


def _make_safe(text: str) -> str:
    return to_ascii(clean(text), is_drawn=False) if _is_ascii else clean(text)


def say(text: str = "", *, err: bool = False) -> None:
    """Some lines to stdout, or to stderr. Whoever reads a pipe sees them at once: click flushes what it prints."""
    click.echo("\n".join(map(_make_safe, text.split("\n"))), err=err)


def note(text: str) -> None:
    """What cockpit itself has to say, to stderr: stdout is for whoever reads the answer."""
    say(f"cockpit: {text}", err=True)


def say_json(text: str) -> None:
    """JSON that stays the same value, with every character that could act on a terminal as its number."""
    click.echo(escape_json(text))


def escape_json(text: str) -> str:
    """The same JSON, with every character that could act on a terminal as its number."""
    return text.translate(_numbers())


def say_log(line: str, hide: Callable[[str], str]) -> None:
    """One line of a log: exactly as it is into a pipe or a file, without its secrets on a terminal."""
    click.echo(_make_safe(hide(line)) if sys.stdout.isatty() else line, color=True)  # click would take colours out of what goes elsewhere


def say_progress(text: str) -> None:
    """How far something is, for whoever sits there."""
    if sys.stderr.isatty():
        say(text, err=True)


def is_confirmed(question: str) -> bool:
    """Whether somebody who sits there says yes. Raises `click.Abort` when he breaks it off."""
    return click.confirm(f"\n{_make_safe(question)}", err=True)


def ask(question: str) -> str:
    """What somebody types in answer, without blanks around it. Raises `click.Abort` when he breaks it off."""
    return str(click.prompt(f"\n{_make_safe(question)}", default="", show_default=False, err=True)).strip()


def say_usage(error: click.UsageError) -> None:
    """What was wrong with the words of a command, and how they are to be."""
    told = io.StringIO()
    error.show(told)
    say(told.getvalue().rstrip("\n"), err=True)


def say_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """As `sys.excepthook`: its message may be a cluster's, and hold a secret."""
    lines = "".join(traceback.format_exception(kind, error, trace)).rstrip("\n").split("\n")
    say("\n".join(map(LineRedactor(), lines)), err=True)


def never_fail() -> None:
    """What a terminal's encoding can't write becomes a question mark: a Latin-1 knows no dash, and must not cost the whole answer."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
