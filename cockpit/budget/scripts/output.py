"""What `echo`, `cat`, `basename` and `dirname` print; what any other program prints isn't known."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from cockpit.budget.scripts.sums import UNKNOWN

Read = Callable[[str], "str | None"]


def _echo(words: list[str], _: str | None, _read: Read) -> str | None:
    end = "" if words[:1] == ["-n"] else "\n"
    words = words[1:] if words[:1] == ["-n"] else words
    return None if words[:1] and re.fullmatch(r"-[neE]+", words[0]) else " ".join(words) + end


def _cat(words: list[str], given: str | None, read: Read) -> str | None:
    texts = [None if word.startswith("-") else read(word) for word in words] or [given]
    return None if None in texts else "".join(each or "" for each in texts)


def _part(cut: Callable[[str], str]) -> Callable[[list[str], str | None, Read], str | None]:
    return lambda words, *_: None if len(words) != 1 or UNKNOWN in words[0] else cut(words[0]) + "\n"


PRINTERS: dict[str, Callable[[list[str], str | None, Read], str | None]] = {
    "echo": _echo,
    "cat": _cat,
    "dirname": _part(lambda path: posixpath.dirname(path) or "."),
    "basename": _part(posixpath.basename),
}
"""What a program prints for its words, its standard input and a reader of files; `None`: that can't be known."""
