"""Secrets taken out of lines that come one by one, as logs do."""

from __future__ import annotations

from typing import Final

from cockpit.secrets.redaction import HIDDEN, compile_once, find_secrets, hide, redact

_BEGIN: Final = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BODY: Final = r"\s*([A-Za-z0-9+/]+={0,2}|=[A-Za-z0-9+/]{4})\s*"
_HEADER: Final = r"\s*(?:[A-Za-z-]+: .*)?"
_LEADING_ON: Final = (":", "|", ">", "|-", ">-", "|+", ">+")
"""How a line ends whose value stands on the next one."""


class LineRedactor:
    """`redact` for lines in their order, each without its end: what one line leads up to is hidden in the next.

    A value that stands a line above its name can't be known in time.
    """

    def __init__(self) -> None:
        self._before = ""
        self._prefix: str | None = None
        """Of a private key that has begun: what stands in front of each of its lines."""

    def __call__(self, line: str) -> str:
        """The line without secrets."""
        shown = self._redact(line)
        self.skip(line)
        return shown

    def skip(self, line: str) -> None:
        """Go on behind a line that need not be shown."""
        if "-----BEGIN" in line and (begun := compile_once(_BEGIN).search(line)):
            self._prefix = line[: begun.start()]
        elif self._prefix is not None:
            rest = line.removeprefix(self._prefix)
            if not (compile_once(_BODY).fullmatch(rest) or compile_once(_HEADER).fullmatch(rest)):
                self._prefix = None
        self._before = line

    def _redact(self, line: str) -> str:
        if self._prefix is not None and (body := compile_once(_BODY).fullmatch(line.removeprefix(self._prefix))):
            return f"{line[: len(line) - len(body[0]) + body.start(1)]}{HIDDEN}"
        if self._prefix is not None or not ("value" in line or self._before.rstrip().endswith(_LEADING_ON)):
            return redact(line)
        begin = len(self._before) + 1
        spans = find_secrets(f"{self._before}\n{line}")
        return hide(line, [(max(0, start - begin), end - begin) for start, end in spans if end > begin])
