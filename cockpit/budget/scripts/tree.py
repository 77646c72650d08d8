"""What a shell script consists of, once it is parsed."""

from __future__ import annotations

from typing import Literal

import msgspec


class WordPart(msgspec.Struct, frozen=True):
    """A piece of a word. What is within `$…` is read when it is expanded."""

    kind: Literal["text", "variable", "command", "process", "sum"]
    text: str
    quoted: bool


Word = tuple[WordPart, ...]


class Assign(msgspec.Struct, frozen=True):
    """`name=value`, `name+=value`, `name[place]=value`; `items`: those of `name=(words)`, else `None`."""

    name: str
    place: str | None
    more: bool
    value: Word
    items: tuple[Word, ...] | None


class Redirect(msgspec.Struct, frozen=True):
    """`< file`, `2> file`, `>&2`, `<<EOF`; `stream`: the number before the sign, mostly none."""

    stream: str
    sign: str
    word: Word


class Simple(msgspec.Struct, frozen=True):
    """One command."""

    assigns: tuple[Assign, ...]
    words: tuple[Word, ...]


class Redirected(msgspec.Struct, frozen=True):
    """A command that reads from or writes to something else than what is around it."""

    node: Node
    redirects: tuple[Redirect, ...]


class Sequence(msgspec.Struct, frozen=True):
    """Commands, each with what stands between it and the next."""

    items: tuple[tuple[Node, str], ...]


class Pipeline(msgspec.Struct, frozen=True):
    """Commands that feed each other, or one that runs in a shell of its own."""

    parts: tuple[Node, ...]
    denied: bool = False


class If(msgspec.Struct, frozen=True):
    """Conditions with what each leads to; the last of all may have none."""

    branches: tuple[tuple[Sequence | None, Sequence], ...]


class For(msgspec.Struct, frozen=True):
    """`for name in words`; no words: the script's own arguments."""

    name: str
    words: tuple[Word, ...] | None
    body: Sequence


class While(msgspec.Struct, frozen=True):
    """`while` and `until`."""

    until: bool
    condition: Node
    body: Sequence


class Case(msgspec.Struct, frozen=True):
    """`case word in`."""

    word: Word
    branches: tuple[tuple[tuple[Word, ...], Sequence], ...]


class Function(msgspec.Struct, frozen=True):
    """A function's definition."""

    name: str
    body: Node


class Sum(msgspec.Struct, frozen=True):
    """`(( … ))` as a command."""

    text: str


Node = Simple | Redirected | Sequence | Pipeline | If | For | While | Case | Function | Sum
