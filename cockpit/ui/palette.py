"""What the palette offers: pages, keys and acts by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from textual import work
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette

from cockpit.acts.act import Act, Runbook
from cockpit.acts.table import ACTS
from cockpit.ui.help import key_name
from cockpit.ui.keys import PAGES, PALETTE_ACTIONS


class Palette(CommandPalette):
    """Textual's own (8.2.8); but one that is closed at once, while its search begins, doesn't end the program."""

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP, exit_on_error=False)
    async def _gather_commands(self, search_value: str) -> None:
        await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]  # `work` wraps it


def page_commands(open_page: Callable[[int], object]) -> Iterator[SystemCommand]:
    """One for each page."""
    for number, page in enumerate(PAGES):
        yield SystemCommand(page.title, f"Open page {number + 1}", partial(open_page, number))


def key_commands(bindings: Iterable[BindingType], run: Callable[[str], Any]) -> Iterator[SystemCommand]:
    """One for each key that means something everywhere."""
    for binding in bindings:
        if isinstance(binding, Binding) and binding.action in PALETTE_ACTIONS:
            yield SystemCommand(binding.description, f"Key {key_name(binding.key.split(',')[0])}", partial(run, binding.action))


def act_commands(begin: Callable[[Act | Runbook], object]) -> Iterator[SystemCommand]:
    """One for each act."""
    for act in ACTS:
        yield SystemCommand(act.title, f"Key {act.first_key}: {act.help}", partial(begin, act))
