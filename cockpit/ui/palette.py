"""What the palette offers: pages, keys and acts by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from textual.app import SystemCommand
from textual.binding import Binding, BindingType

from cockpit.actions.table import ACTS, Act
from cockpit.ui.keys import IN_PALETTE, PAGES


def page_commands(open_page: Callable[[int], object]) -> Iterator[SystemCommand]:
    """One for each page."""
    for number, page in enumerate(PAGES):
        yield SystemCommand(page.title, f"Open page {number + 1}", partial(open_page, number))


def key_commands(bindings: Iterable[BindingType], run: Callable[[str], Any]) -> Iterator[SystemCommand]:
    """One for each key that means something everywhere."""
    for binding in bindings:
        if isinstance(binding, Binding) and binding.action in IN_PALETTE:
            yield SystemCommand(binding.description, f"Key {binding.key.split(',')[0]}", partial(run, binding.action))


def act_commands(begin: Callable[[Act], object]) -> Iterator[SystemCommand]:
    """One for each act."""
    for act in ACTS:
        yield SystemCommand(act.title, f"Key {act.first_key}: {act.help}", partial(begin, act))
