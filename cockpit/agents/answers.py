"""Writes the answer of a tool as JSON of fewer than 8,000 bytes. Texts are cleaned, cut and without secrets; what is left out is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from cockpit.secrets import redact
from cockpit.text import clean

MAX_BYTES: Final = 8_000
"""An answer has fewer bytes: an agent reads it with a few thousand tokens, and can afford twenty of them."""
_ROOM_BYTES: Final = MAX_BYTES - 200
"""Bytes of the facts; the rest is for the line that says what was left out."""
_MAX_HEAD_BYTES: Final = 5_500
"""Bytes of the facts before the rows, so that at least one row fits."""
_MAX_ROW_BYTES: Final = _ROOM_BYTES - _MAX_HEAD_BYTES - 100
"""Bytes of one row: what is left beside the largest head."""
_MAX_READ_CHARS: Final = 6_000
"""Characters of one text that are searched for secrets: a text of megabytes would take seconds."""
_LIMITS: Final = ((1_000, 40), (400, 20), (160, 12), (60, 6), (24, 3))
"""Characters of a text and items of a list, from generous to narrow: an answer has the first that fit."""
_MAX_FIELDS: Final = 40
_ESCAPES: Final = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]"
"""Terminal sequences. They are removed before secrets are searched: the colour in front of a key would hide that it is one."""


class Page(msgspec.Struct):
    """A list that may not fit into one answer."""

    name: str
    """The field of the answer."""
    things: Sequence[Any]
    make_row: Callable[[Any], Any]
    start: int = 0
    """The index of the first thing in this answer."""
    hint: str = "call it again with start"
    """How the agent gets the next part."""


def safe_text(text: str, max_chars: int = _LIMITS[0][0]) -> str:
    """Return a foreign text as one line that can do nothing, without secrets, at most so long."""
    shown = _clean_and_redact(text[:_MAX_READ_CHARS])
    unread = max(0, len(text) - _MAX_READ_CHARS)
    if len(shown) + unread <= max_chars:
        return shown
    more = len(shown) + unread - max_chars
    return f"{shown[:max_chars]}… ({more} more characters)"


@lru_cache(512)
def _clean_and_redact(text: str) -> str:
    """Kept, as an answer that is too large is made again with narrower limits."""
    return clean(redact(without_escapes(text)))


def without_escapes(text: str) -> str:
    """Return the text without terminal sequences; single control characters stay. Two words stay two words."""
    if "\x1b" not in text and "\x9b" not in text:
        return text
    return re.sub(_ESCAPES, "", re.sub(f"(?<=[A-Za-z0-9])(?:{_ESCAPES})+(?=[A-Za-z0-9])", " ", text))


def make_safe(value: Any, max_chars: int, max_items: int) -> Any:
    """Return a value of plain Python for JSON. Its texts are safe, long lists end with the number of items that are left out."""
    if isinstance(value, str):
        return safe_text(value, max_chars)
    if isinstance(value, Mapping):
        items = [(key, item) for key, item in value.items() if item is not None][:_MAX_FIELDS]  # some keys are names in the cluster
        return {safe_text(str(key), max_chars): make_safe(item, max_chars, max_items) for key, item in items}
    if isinstance(value, (list, tuple)):
        shown = [make_safe(item, max_chars, max_items) for item in value[:max_items]]
        return shown if len(value) <= max_items else [*shown, f"… {len(value) - max_items} more"]
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 3 if abs(value) < 10 else 1)
    return value


def write_answer(head: Mapping[str, Any], page: Page | None = None) -> str:
    """Return the answer: the facts of `head`, then as many rows of the page as fit. Unknown facts (`None`) have no field."""
    most = _ROOM_BYTES if page is None else _MAX_HEAD_BYTES
    answer = _fit(partial(make_safe, dict(head)), most)
    if answer is None:
        answer = {"left_out": "everything: this answer would be larger than 8,000 bytes, ask for a part of it"}
    if page is None:
        return encode(answer)

    rows: list[Any] = []
    used = len(encode({**answer, page.name: []}).encode())
    for thing in page.things[page.start :]:
        room = _ROOM_BYTES - used - 1
        row = _fit(partial(make_safe, page.make_row(thing)), _MAX_ROW_BYTES)
        row = "… too large to be shown" if row is None else row
        if len(encode(row).encode()) > room:
            break
        rows.append(row)
        used += len(encode(row).encode()) + 1
    answer[page.name] = rows
    end = page.start + len(rows)
    if (left := len(page.things) - end) > 0:
        answer["left_out"] = f"{left} of {len(page.things)} {page.name}: {page.hint}={end}"
        answer["next"] = end
    return encode(answer)


def _fit(make: Callable[[int, int], Any], most_bytes: int) -> Any:
    """Return the value with the most generous limits that fit into so many bytes; `None`: none of them do."""
    for max_chars, max_items in _LIMITS:
        value = make(max_chars, max_items)
        if len(encode(value).encode()) <= most_bytes:
            return value
    return None


def encode(value: Any) -> str:
    """Return JSON in one line."""
    return msgspec.json.encode(value).decode()
