"""Fills the command palette, which finds pages, actions and keys by name, description or synonym."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from textual.app import SystemCommand
from textual.command import Hit, Hits
from textual.system_commands import SystemCommandsProvider

from cockpit.actions.table import ACTIONS
from cockpit.ui.pages import PAGES
from cockpit.ui.screens.help import binding_help, key_name, own_bindings
from cockpit.ui.screens.live import LiveScreen
from cockpit.ui.screens.replay import ReplayScreen

OTHER_WORDS: Final[Mapping[str, str]] = {
    "Overview": "home dashboard summary",
    "Nodes": "hosts machines gpus",
    "Processes": "pids orphans top",
    "Findings": "errors warnings problems alerts",
    "Kill": "end process sigterm sigkill",
    "Terminate": "end process kill sigterm",
    "Kill orphans": "zombies leftovers vram",
    "Kill actor": "end",
    "Stop Ray": "shut down cluster kill end",
    "Clean": "delete disk space tmp sessions cleanup",
    "Stop job": "cancel kill end",
    "Delete job": "remove",
    "Remove group": "delete placement group kill",
    "Drain node": "cordon",
    "Launch": "run start job submit",
    "Launch again": "rerun restart job resubmit",
    "Recover": "restart start cluster",
    "Filter": "find search grep",
    "Log": "stdout stderr output tail",
    "Stack": "py-spy traceback hang stuck",
    "NCCL": "ras ncclras hang stuck rank collective allreduce",
    "Env": "environment variables",
    "Memory": "ram host oom",
    "GPU memory": "vram cuda",
    "Other cluster": "switch address session",
    "Go to time": "past history replay",
    "Step": "past history replay",
    "Event": "past history replay",
    "Pause": "freeze",
    "Refresh": "reload update",
    "Poll faster": "interval rate",
    "Poll slower": "interval rate",
    "Sources": "faults errors failing",
    "JSON": "raw details",
    "Copy": "clipboard yank",
    "Export": "save dump file",
    "Save preset": "yaml",
    "Theme": "colours colors dark light",
    "Screenshot": "svg picture image save",
    "Quit": "exit leave",
}
"""Synonyms, by the name of a command."""
NOT_IN_PALETTE: Final = frozenset(["page", "quit", "command_palette", "keep_filter", "back", "leave", "move", "suspend_process"])
"""Actions of keys that the palette offers in another way, or that do nothing when called from there."""
SYNONYM_SCORE: Final = 0.1
"""Score of a command that only its description or synonyms match: below all matches by name."""


class Commands(SystemCommandsProvider):
    """Finds a command by its name, else by its description and synonyms."""

    async def search(self, query: str) -> Hits:
        matcher, words = self.matcher(query), query.casefold().split()
        for name, about, run, _ in self.app.get_system_commands(self.screen):
            text = f"{name} {about} {OTHER_WORDS.get(name, '')}".casefold()
            if (score := matcher.match(name)) > 0:
                yield Hit(score, matcher.highlight(name), run, help=about)
            elif all(word in text for word in words):
                yield Hit(SYNONYM_SCORE, name, run, help=about)


def all_commands(screen: LiveScreen | ReplayScreen, theirs: Iterable[SystemCommand]) -> Iterator[SystemCommand]:
    """Pages, possible actions, keys, and some of Textual's commands, `theirs`."""
    pages = screen.page_view
    for number, page in enumerate(PAGES):
        yield SystemCommand(page.title, f"Open page {number + 1}", partial(pages.action_page, number))
    if isinstance(screen, LiveScreen) and screen.fitting_actions is not None:
        for action in ACTIONS:
            yield SystemCommand(action.title, f"Key {action.first_key}: {action.help}", partial(screen.begin, (action,)))
    for node in pages.key_nodes:
        for binding in own_bindings(node):
            if binding.action.partition("(")[0] not in NOT_IN_PALETTE and pages.is_offered(node, binding):
                key = key_name(binding.key.split(",")[0])
                run = partial(screen.app.run_action, binding.action, node)
                yield SystemCommand(binding.description, f"Key {key}: {binding_help(node, binding)}".removesuffix(": "), run)
    yield from (command for command in theirs if command.title in ("Theme", "Quit"))
    yield SystemCommand("Screenshot", "Write the screen as an SVG picture to a file in the current directory", pages.take_screenshot)
