"""The peer of the screen: a bare Textual application with a static table, which is all that a key can cost there."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from textual.app import App, ComposeResult
from textual.widgets import DataTable

from bench import screen
from bench.terminal import Terminal

ROWS, COLUMNS = 1000, 12
NAMES = r"row-\d{4}"


@dataclass(frozen=True)
class Bare:
    """How soon it answers, in seconds."""

    keys: list[float]
    end: float
    """From `q` to its end."""


class BareApp(App[None]):
    """As many rows and about as many columns as the page of all nodes has."""

    BINDINGS = [("j", "move('down')", "Down"), ("k", "move('up')", "Up"), ("q", "quit", "Quit")]  # noqa: RUF012 as Textual has it
    ENABLE_COMMAND_PALETTE = False

    def compose(self) -> ComposeResult:
        """One table."""
        table: DataTable[str] = DataTable(cursor_type="row")
        table.add_columns("NAME", *(f"COLUMN{number}" for number in range(COLUMNS - 1)))
        table.add_rows([(f"row-{row:04}", *(f"{row * number % 1000:8}" for number in range(COLUMNS - 1))) for row in range(ROWS)])
        yield table

    def action_move(self, way: str) -> None:
        """As the arrow keys do."""
        getattr(self.query_one(DataTable), f"action_cursor_{way}")()


def measure(env: Mapping[str, str], seconds: float) -> Bare:
    """In a terminal like the screen's. Raises `NothingDrawnError`."""
    terminal = Terminal([sys.executable, "-m", "bench.bare"], env)
    try:
        terminal.wait_for(NAMES)
        terminal.press("jjj")
        terminal.quiet(0.5, 5.0)
        return Bare(screen.key_latencies(terminal, NAMES, seconds), terminal.end_by("q"))
    finally:
        terminal.close()


if __name__ == "__main__":
    BareApp().run()
