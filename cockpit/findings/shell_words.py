"""Foreign names and paths as words of commands that a person pastes into a shell."""

from __future__ import annotations

import shlex

from cockpit.secrets import HIDDEN
from cockpit.text import clean

MAX_WORD_CHARS = 1000


def quote_word(text: str) -> str | None:
    """The whole text as one word of a shell.

    `None`: a command with it would name something else. It is too long, a secret in it is hidden, it was cut, or it is no plain text.
    """
    is_plain = clean(text) == text and HIDDEN not in text and "\\" not in text and "…" not in text and "`" not in text
    return shlex.quote(text) if is_plain and len(text) <= MAX_WORD_CHARS else None


def shell_word(foreign: str) -> str:
    """A foreign name, whole and quoted for a shell: it may be `x; reboot`. For paths, and what is acted on, there is `quote_word`."""
    return shlex.quote(clean(foreign))
