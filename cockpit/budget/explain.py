"""Finds where a script sets a missing count, and which variable the count comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cockpit.budget.command import Gap
from cockpit.budget.config_files import Read

_MAX_STEPS = 7


class Texts:
    """The texts that were read for a command."""

    def __init__(self, entrypoint: str, read: Read) -> None:
        self._read = read
        self.texts = {"": entrypoint}

    def read(self, path: str) -> str | None:
        """Return the text of a file, and keep it."""
        text = self._read(path)
        if text is not None:
            self.texts[path] = text
        return text

    def search(self, pattern: str) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield each match of a pattern outside of comments, with its place."""
        for path, text in self.texts.items():
            for number, line in enumerate(text.splitlines(), 1):
                if not line.lstrip().startswith("#") and (match := re.search(pattern, line)):
                    yield f"{path}, line {number}" if path and "\n" in text else path, match


def explain(sentence: str, texts: Texts) -> str:
    """Add the place and the variable to a sentence on a count that is known only at run time. Other sentences stay as they are."""
    key, _, rest = sentence.partition(" ")
    if not rest.startswith(Gap.UNKNOWN.value):
        return sentence
    place, match = next(texts.search(rf"(?<![\w.-]){re.escape(key)}(?:=|[ \t]+)(\S+)"), ("", None))
    if match is None:
        return sentence
    value, at, name = match[1].strip("\"'"), place, ""
    said = f"{key} is {value}{f' ({place})' if place else ''}"
    for _ in range(_MAX_STEPS):
        names = [other for other in re.findall(r"\$\{?(\w+)", value) if other != name]
        if len(names) != 1 or "$(" in value:
            if not name:
                return f"{said}, which is known only at run time"
            if f"{{{name}:-" in value:
                break
            return f"{said}, which {at or 'the command'} sets in a way that cockpit does not follow"
        name = names[0]
        at, assigned = next(texts.search(rf"(?:^|[\s;]){name}=(\S*)"), ("", None))
        if assigned is None:
            break
        value = assigned[1]
    if name.isdigit():
        return f"{said}, from argument {name} of the script, which is not given"
    return f"{said}, which nothing sets: {name}=8 cockpit check …"
