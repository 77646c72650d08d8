"""Defines columns that several pages share, and the text of processes and actors that the filter searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cockpit.model import Actor, Process
from cockpit.text import UNKNOWN, size
from cockpit.ui import cells
from cockpit.ui.section import MAX_TEXT_LINES, Cell, Column, Row
from cockpit.ui.view import View


def text_column(title: str, width: int, text: Callable[[Row, View], str | None], **more: Any) -> Column[Row]:
    """A text, by which rows can be sorted; `None` is unknown."""
    return Column(title, width, lambda row, view: UNKNOWN if (known := text(row, view)) is None else known, sort=text, **more)


def number_column(
    title: str, width: int, value: Callable[[Row, View], Any], write: Callable[[Any], str] = size, rank: int = 0
) -> Column[Row]:
    """A number, by which rows can be sorted; `write` makes its text, as bytes by default."""
    return Column(title, width, lambda row, view: write(value(row, view)), sort=value, right=True, rank=rank)


def age_column(title: str, width: int, moment: Callable[[Row, View], float | None], rank: int = 0) -> Column[Row]:
    """The time since a moment."""
    return Column(title, width, lambda row, view: cells.time_since(moment(row, view), view), sort=moment, right=True, rank=rank)


def reason_column(width: int, text: Callable[[Row, View], str | None], rank: int = 0) -> Column[Row]:
    """The reason for a state."""
    return Column("WHY", width, lambda row, view: ((text(row, view) or "", "dim"),), rank=rank, grow=True, fold=MAX_TEXT_LINES)


def leaf(text: str, view: View) -> Cell:
    """A name, indented below the name of its parent."""
    return (("  - " if view.ascii else "  └ ", "faint"), (text, ""))


def gpu_memory(process: Process) -> str:
    """GPU memory that the process holds; empty if it holds no GPU."""
    return size(process.gpu_memory) if process.gpus else ""


PID_COLUMN: Column[Process] = number_column("PID", 8, lambda process, _: process.pid, str)
GPU_MEMORY_COLUMN: Column[Process] = Column(
    "GPU MEM", 7, lambda process, _: gpu_memory(process), sort=lambda process, _: process.gpu_memory, right=True
)


def process_search(process: Process) -> str:
    """The text that the filter searches."""
    words = (process.kind, process.host, process.pid, process.user, process.command, process.name, process.job, process.session)
    return " ".join(map(str, (*words, *([cells.OTHER_RAY] if process.ours is False else []), *process.why)))


def actor_search(actor: Actor) -> str:
    """The text that the filter searches."""
    return f"{actor.class_} {actor.name} {actor.state} {actor.job} {actor.node} {actor.pid} {actor.id} {actor.why}"
