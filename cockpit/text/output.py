"""Prints text for all commands, line by line, so that no text from a cluster can control a terminal."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import cache
from types import TracebackType

import click

from cockpit.secrets import LineRedactor
from cockpit.text import UNSAFE, clean, to_ascii


@cache
def _json_escapes() -> dict[int, str]:
    """Return the JSON escape of each character that JSON allows, but that could control a terminal or hide a part of a line."""
    return {code: json.dumps(chr(code))[1:-1] for code in UNSAFE if code >= 0x7F}


def is_in_browser() -> bool:
    """Return whether textual-serve shows the screen in a browser. It says so in this variable; stdin and stdout are its pipes."""
    return os.environ.get("TEXTUAL_DRIVER") == "textual.drivers.web_driver:WebDriver"


_is_ascii = False


def print_ascii(*, on: bool) -> None:
    """Print ASCII signs from now on (`--ascii`). JSON, and log lines into a pipe, stay unchanged."""
    global _is_ascii  # one process prints for one person
    _is_ascii = on


def _make_safe(text: str) -> str:
    return to_ascii(clean(text), is_drawn=False) if _is_ascii else clean(text)


def print_line(text: str = "", *, err: bool = False) -> None:
    """Print lines to stdout, or to stderr. click flushes them, so that a reader of a pipe sees them at once."""
    click.echo("\n".join(map(_make_safe, text.split("\n"))), err=err)


def print_note(text: str) -> None:
    """Print a remark of cockpit to stderr; stdout is for the answer."""
    print_line(f"cockpit: {text}", err=True)


def print_json(text: str) -> None:
    """Print JSON as `escape_json` returns it."""
    click.echo(escape_json(text))


def escape_json(text: str) -> str:
    """Return the same JSON value with every character escaped that could control a terminal."""
    return text.translate(_json_escapes())


def print_log_line(line: str, hide: Callable[[str], str]) -> None:
    """Print one line of a log: unchanged into a pipe or a file, without secrets on a terminal."""
    click.echo(
        _make_safe(hide(line)) if sys.stdout.isatty() else line, color=True
    )  # otherwise click removes colours from output that is no terminal


def print_progress(text: str) -> None:
    """Print progress, if stderr is a terminal."""
    if sys.stderr.isatty():
        print_line(text, err=True)


def is_confirmed(question: str) -> bool:
    """Ask, and return whether the answer is yes. Raises `click.Abort` at ctrl+c."""
    return click.confirm(f"\n{_make_safe(question)}", err=True)


def ask(question: str) -> str:
    """Ask, and return the typed answer without spaces around it. Raises `click.Abort` at ctrl+c."""
    return str(click.prompt(f"\n{_make_safe(question)}", default="", show_default=False, err=True)).strip()


def print_usage(error: click.UsageError) -> None:
    """Print a mistake in the arguments of a command, with the usage."""
    text = io.StringIO()
    error.show(text)
    print_line(text.getvalue().rstrip("\n"), err=True)


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback as `sys.excepthook`, without secrets: the error's message may come from a cluster."""
    lines = "".join(traceback.format_exception(kind, error, trace)).rstrip("\n").split("\n")
    print_line("\n".join(map(LineRedactor(), lines)), err=True)


def never_fail() -> None:
    """Print a question mark for characters that the terminal's encoding lacks, such as a dash in Latin-1, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
