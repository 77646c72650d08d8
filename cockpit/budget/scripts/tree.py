"""Holds the parts of a parsed shell script."""

from __future__ import annotations

from typing import Literal

import msgspec


class WordPart(msgspec.Struct, frozen=True):
    """A part of a word. The text within `$…` is parsed when it is expanded."""

    kind: Literal["text", "variable", "command", "process", "sum"]
    text: str
    quoted: bool


Word = tuple[WordPart, ...]


class Assign(msgspec.Struct, frozen=True):
    """`name=value`, `name+=value` or `name[place]=value`. `items`: the words of `name=(words)`; `None`: it is no array."""

    name: str
    place: str | None
    more: bool
    value: Word
    items: tuple[Word, ...] | None


class Redirect(msgspec.Struct, frozen=True):
    """A redirection: `< file`, `2> file`, `>&2`, `<<EOF`. `stream`: the number before the operator, often empty."""

    stream: str
    sign: str
    word: Word


class Simple(msgspec.Struct, frozen=True):
    """One command."""

    assigns: tuple[Assign, ...]
    words: tuple[Word, ...]


class Redirected(msgspec.Struct, frozen=True):
    """A command with redirections."""

    node: Node
    redirects: tuple[Redirect, ...]


class Sequence(msgspec.Struct, frozen=True):
    """Commands, each with the operator after it."""

    items: tuple[tuple[Node, str], ...]


class Pipeline(msgspec.Struct, frozen=True):
    """Commands joined by `|`, or one command that runs in a subshell or after `!`."""

    parts: tuple[Node, ...]
    denied: bool = False


class If(msgspec.Struct, frozen=True):
    """`if`: the conditions with their branches. The last branch may have no condition."""

    branches: tuple[tuple[Sequence | None, Sequence], ...]


class For(msgspec.Struct, frozen=True):
    """`for name in words`; `None` as words: the script's own arguments."""

    name: str
    words: tuple[Word, ...] | None
    body: Sequence


class While(msgspec.Struct, frozen=True):
    """`while` or `until`."""

    until: bool
    condition: Node
    body: Sequence


class Case(msgspec.Struct, frozen=True):
    """`case word in`."""

    word: Word
    branches: tuple[tuple[tuple[Word, ...], Sequence], ...]


class Function(msgspec.Struct, frozen=True):
    """The definition of a function."""

    name: str
    body: Node


class Sum(msgspec.Struct, frozen=True):
    """`(( … ))` as a command."""

    text: str


Node = Simple | Redirected | Sequence | Pipeline | If | For | While | Case | Function | Sum
