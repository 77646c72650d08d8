"""What Hydra makes of the text after an override's `=`: numbers, words, lists, dicts, sweeps. Pure."""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeAlias, Union

__all__ = ["Gap", "Value", "parse"]

MAX_DEPTH = 40
_WHOLE = r"(?:0|[1-9](?:_?\d)*)"
_FLOAT = re.compile(
    rf"[+-]?(?:{_WHOLE}\.(?:\d(?:_?\d)*)?|\.\d(?:_?\d)*)(?:e[+-]?\d+)?|[+-]?{_WHOLE}e[+-]?\d+|[+-]?(?:inf|nan)", re.IGNORECASE
)
_INT = re.compile(rf"[+-]?{_WHOLE}")
_CALL = re.compile(r"[A-Za-z_]\w*\s*\(")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


class Gap(Enum):
    """Why there is no value."""

    ABSENT = "not set"
    DELETED = "deleted"
    UNKNOWN = "is unknown"
    SWEPT = "different in each run of a sweep"


Value: TypeAlias = Union[bool, int, float, str, "list[Value | Gap]", "dict[str, Value | Gap]", None]


def parse(text: str) -> Value | Gap:
    """A value as Hydra's grammar has it; `Gap.UNKNOWN` where a part can't be known, or is not read here."""
    if "\0" in text:
        return Gap.UNKNOWN
    reader = _Reader(text)
    try:
        value = reader.element(",", 0)
        if reader.peek() == ",":
            return Gap.SWEPT
    except (ValueError, IndexError):
        return Gap.UNKNOWN
    return value if reader.at == len(text) else Gap.UNKNOWN


class _Reader:
    """Reads a value from its left to its right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def element(self, stops: str, depth: int) -> Value | Gap:
        if depth > MAX_DEPTH:
            raise ValueError("too deep")
        opening = self.peek()
        if opening in {"'", '"'}:
            return self._read_quoted(opening)
        if opening == "[":
            return self._list(depth)
        if opening == "{":
            return self._dict(depth)
        word = self._bare(stops)
        if not word and depth:
            raise ValueError("empty item in a list or dict")
        return _scalar(word)

    def _expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise ValueError(f"no {sign}")
        self.at += 1

    def _read_quoted(self, quote: str) -> str:
        self.at += 1
        letters = []
        while self.text[self.at] != quote:
            escaped = self.text[self.at] == "\\" and self.text[self.at + 1] == quote
            self.at += escaped
            letters.append(self.text[self.at])
            self.at += 1
        self.at += 1
        self.peek()
        return "".join(letters)

    def _list(self, depth: int) -> list[Value | Gap]:
        self._expect("[")
        items = [] if self.peek() == "]" else [self.element(",]", depth + 1)]
        while self.peek() != "]":
            self._expect(",")
            items.append(self.element(",]", depth + 1))
        self._close("]")
        return items

    def _dict(self, depth: int) -> dict[str, Value | Gap]:
        self._expect("{")
        items = dict([] if self.peek() == "}" else [self._pair(depth)])
        while self.peek() != "}":
            self._expect(",")
            items.update([self._pair(depth)])
        self._close("}")
        return items

    def _pair(self, depth: int) -> tuple[str, Value | Gap]:
        key = self._bare(":")
        self._expect(":")
        return key, self.element(",}", depth + 1)

    def _close(self, sign: str) -> None:
        self._expect(sign)
        self.peek()

    def _bare(self, stops: str) -> str:
        """A word without quotes, with the `${…}` in it whole."""
        start, braces = self.at, 0
        while self.at < len(self.text):
            letter = self.text[self.at]
            if not braces and (letter in stops or (letter in "[]{}" and self.text[self.at - 1] != "$")):
                break
            braces += (letter == "{") - (letter == "}" and braces > 0)
            self.at += 1 + (letter == "\\")
        return self.text[start : self.at].strip()


def _scalar(word: str) -> Value | Gap:
    """A word's value: Hydra's functions, `int(8)` and `range(1,4)`, are not called here."""
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _INT.fullmatch(word):
        return int(word)
    if _FLOAT.fullmatch(word):
        return float(word)
    return Gap.UNKNOWN if _CALL.match(word) else word
