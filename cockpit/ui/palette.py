"""What the palette offers: pages, keys and acts by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from textual import work
from textual.app import SystemCommand
from textual.binding import Binding
from textual.command import CommandPalette
from textual.dom import DOMNode

from cockpit.acts.act import Act, Runbook
from cockpit.acts.table import ACTS
from cockpit.ui.help import binding_help, key_name
from cockpit.ui.keys import NOT_IN_PALETTE, PAGES


class Palette(CommandPalette):
    """Textual's own (8.2.8); but one that is closed at once, while its search begins, doesn't end the program."""

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP, exit_on_error=False)
    async def _gather_commands(self, search_value: str) -> None:
        await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]  # `work` wraps it


def page_commands(open_page: Callable[[int], object]) -> Iterator[SystemCommand]:
    """One for each page."""
    for number, page in enumerate(PAGES):
        yield SystemCommand(page.title, f"Open page {number + 1}", partial(open_page, number))


def key_commands(nodes: Iterable[DOMNode], applies: Callable[[str], bool]) -> Iterator[SystemCommand]:
    """One for each key of these that means something now."""
    for node in nodes:
        for binding in type(node).BINDINGS:
            if isinstance(binding, Binding) and binding.action.partition("(")[0] not in NOT_IN_PALETTE and applies(binding.action):
                key = key_name(binding.key.split(",")[0])
                run = partial(node.app.run_action, binding.action, node)
                yield SystemCommand(binding.description, f"Key {key}: {binding_help(node, binding)}".removesuffix(": "), run)


def act_commands(begin: Callable[[Act | Runbook], object]) -> Iterator[SystemCommand]:
    """One for each act."""
    for act in ACTS:
        yield SystemCommand(act.title, f"Key {act.first_key}: {act.help}", partial(begin, act))
