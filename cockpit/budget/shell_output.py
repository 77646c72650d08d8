"""What command substitutions print, where that follows from their words alone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from cockpit.budget.shell_sums import UNKNOWN, reckon


def printed(argv: list[str], given: str | None) -> str:
    """The output of a program that only works on its words and on what it is given; of any other it can't be known."""
    if not argv or any(UNKNOWN in word for word in argv[1:]) or argv[0] not in PRINTERS:
        return UNKNOWN
    return PRINTERS[argv[0]](argv[1:], given)


def _echo(words: list[str], _: str | None) -> str:
    words = words[1:] if words[:1] == ["-n"] else words
    return UNKNOWN if words[:1] and words[0] in {"-e", "-ne", "-en"} else " ".join(words) + "\n"


def _seq(words: list[str], _: str | None) -> str:
    if not words or len(words) > 2 or not all(re.fullmatch(r"-?\d{1,4}", word) for word in words):
        return UNKNOWN
    first, last = (1, int(words[0])) if len(words) == 1 else (int(words[0]), int(words[1]))
    return "".join(f"{number}\n" for number in range(first, last + 1))


def _tr(words: list[str], given: str | None) -> str:
    plain = [word.replace("\\n", "\n") for word in words]
    if given is None or UNKNOWN in given or len(plain) != 2 or any(len(word) != 1 for word in plain):
        return UNKNOWN
    return given.replace(plain[0], plain[1])


def _wc(words: list[str], given: str | None) -> str:
    if given is None or UNKNOWN in given or words not in (["-l"], ["-w"]):
        return UNKNOWN
    return str(len(given.split()) if words == ["-w"] else given.count("\n"))


def _awk(words: list[str], given: str | None) -> str:
    """How many fields each line has: that is how devices are counted."""
    found = re.fullmatch(r"-F ?([,;:])\{ ?print NF;? ?\}", "".join(words))
    if given is None or UNKNOWN in given or not found:
        return UNKNOWN
    return "".join(f"{len(line.split(found[1])) if line else 0}\n" for line in given.splitlines())


PRINTERS: dict[str, Callable[[list[str], str | None], str]] = {
    "echo": _echo,
    "seq": _seq,
    "tr": _tr,
    "wc": _wc,
    "awk": _awk,
    "cat": lambda words, given: UNKNOWN if words or given is None else given,
    "dirname": lambda words, _: (posixpath.dirname(words[0]) or ".") if len(words) == 1 else UNKNOWN,
    "basename": lambda words, _: posixpath.basename(words[0]) if len(words) == 1 else UNKNOWN,
    "expr": lambda words, _: reckon(" ".join(words), lambda _: UNKNOWN),
}
