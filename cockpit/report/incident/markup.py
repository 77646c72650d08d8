"""HTML by construction: what is not made by a tag is text, and is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

VOID: Final = frozenset(["meta", "rect", "line", "path", "circle", "polyline"])
"""Tags that hold nothing."""


class Html(str):
    """A piece of HTML that was made by `tag`."""

    __slots__ = ()


def tag(name: str, /, *inside: str | None, **attributes: str | float | None) -> Html:
    """`tag("td", text, class_="number")`; text that is not `Html` is escaped, as attributes are. An attribute `None` is left out."""
    told = "".join(f' {_attribute(key)}="{escape(str(value))}"' for key, value in attributes.items() if value is not None)
    if name in VOID:
        return Html(f"<{name}{told}/>")
    return Html(f"<{name}{told}>{join(inside)}</{name}>")


def join(pieces: Iterable[str | None]) -> Html:
    """One after the other."""
    return Html("".join(each if isinstance(each, Html) else escape(each) for each in pieces if each))


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key != "viewBox" else key
