"""Hides secrets in lines that arrive one by one, such as the lines of a log."""

from __future__ import annotations

import re
from typing import Final

from cockpit.secrets.redaction import HIDDEN, find_secrets, hide, redact

_BEGIN: Final = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BODY: Final = r"\s*([A-Za-z0-9+/]+={0,2}|=[A-Za-z0-9+/]{4})\s*"
_HEADER: Final = r"\s*(?:[A-Za-z-]+: .*)?"
_CONTINUES: Final = (":", "|", ">", "|-", ">-", "|+", ">+")
"""Endings of a line whose value is on the next line."""


class LineRedactor:
    """Redacts lines in their order, each without its line end. A secret whose name is on the line before is hidden too.

    A secret whose name is on the line after it can't be recognized in time.
    """

    def __init__(self) -> None:
        self._before = ""
        self._prefix: str | None = None
        """Within a private key: the text in front of each of its lines."""

    def __call__(self, line: str) -> str:
        """Return the line without secrets."""
        if self._prefix is not None and (body := re.compile(_BODY).fullmatch(line.removeprefix(self._prefix))):
            # A line of a private key.
            shown = f"{line[: len(line) - len(body[0]) + body.start(1)]}{HIDDEN}"
        elif self._prefix is None and ("value" in line or self._before.rstrip().endswith(_CONTINUES)):
            # The name of a secret may be on the line before.
            begin = len(self._before) + 1
            spans = find_secrets(f"{self._before}\n{line}")
            shown = hide(line, [(max(0, start - begin), end - begin) for start, end in spans if end > begin])
        else:
            shown = redact(line)
        self.skip(line)
        return shown

    def skip(self, line: str) -> None:
        """Pass over a line that is not shown."""
        if "-----BEGIN" in line and (begin := re.compile(_BEGIN).search(line)):
            self._prefix = line[: begin.start()]
        elif self._prefix is not None:
            rest = line.removeprefix(self._prefix)
            if not (re.compile(_BODY).fullmatch(rest) or re.compile(_HEADER).fullmatch(rest)):
                self._prefix = None
        self._before = line
