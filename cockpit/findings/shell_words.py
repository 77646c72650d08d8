"""Quotes foreign names and paths as words of commands that a person pastes into a shell."""

from __future__ import annotations

import shlex

from cockpit.secrets import HIDDEN
from cockpit.text import clean

MAX_WORD_CHARS = 1000


def quote_word(text: str) -> str | None:
    """The whole text as one word of a shell.

    `None` if a command with it would name something else: it is too long, was cut, has a hidden secret in it, or is no plain text.
    """
    is_plain = clean(text) == text and HIDDEN not in text and "\\" not in text and "…" not in text and "`" not in text
    return shlex.quote(text) if is_plain and len(text) <= MAX_WORD_CHARS else None


def shell_word(foreign: str) -> str:
    """A foreign name, quoted for a shell: it may be `x; reboot`. For paths, and for targets of actions, use `quote_word`."""
    return shlex.quote(clean(foreign))
