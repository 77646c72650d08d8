"""Builds HTML from tags; every other text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

VOID: Final = frozenset(["meta", "rect", "line", "path", "circle", "polyline"])
"""Tags without content."""


class Html(str):
    """A piece of HTML made by `tag`."""

    __slots__ = ()


def tag(name: str, /, *inside: str | None, **attributes: str | float | None) -> Html:
    """`tag("td", text, class_="number")`; attributes, and texts that are not `Html`, are escaped. An attribute `None` is left out."""
    written = ""
    for key, value in attributes.items():
        if value is not None:
            attribute = key.rstrip("_").replace("_", "-")
            written += f' {attribute}="{escape(str(value))}"'
    if name in VOID:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{join(inside)}</{name}>")


def join(pieces: Iterable[str | None]) -> Html:
    """The pieces one after the other; those that are not `Html` are escaped."""
    return Html("".join(each if isinstance(each, Html) else escape(each) for each in pieces if each))
