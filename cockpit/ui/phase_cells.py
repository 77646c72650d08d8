"""Draws each phase as a letter in its colour, so that phases can also be read without colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cockpit.model import Phase, PhaseSpan
from cockpit.phases import Rank
from cockpit.report.phases import band
from cockpit.text import UNKNOWN
from cockpit.ui.marks import Piece, Tone, merge
from cockpit.ui.section import Cell

_MARKS: Final[Mapping[Phase, Piece]] = {
    "loading": ("L", "loading"),
    "rollout": ("R", "rollout"),
    "scoring": ("S", "scoring"),
    "training": ("T", "training"),
    "weight sync": ("W", "sync"),
    "checkpoint": ("C", "checkpoint"),
    "evaluation": ("E", "evaluation"),
}
BEHIND: Final[Piece] = ("!", "behind")
"""The mark of a worker that is still in a method which the others of its class have ended."""


def phase_mark(phase: Phase | None, *, ascii: bool) -> Piece:
    """One cell: the letter of the phase; a dot means waiting, a blank means unknown."""
    idle: Piece = ("." if ascii else "·", "faint")
    return idle if phase == "waiting" else (" ", "") if phase is None else _MARKS[phase]


def phase_name(phase: Phase | None, *, ascii: bool) -> Cell:
    """The letter of the phase, and its name."""
    unknown: Piece = ("-" if ascii else "–", "dim")
    return (phase_mark(phase, ascii=ascii) if phase else unknown, (f" {phase or 'unknown'}", ""))


def phase_band(spans: Sequence[PhaseSpan], begin: float, end: float, width: int, *, ascii: bool) -> tuple[Piece, ...]:
    """One cell for each part of a time, with the phase that took the most of it."""
    return merge(phase_mark(phase, ascii=ascii) for phase in band(spans, begin, end, width))


def rank_marks(ranks: Iterable[Rank], behind: frozenset[str], *, ascii: bool) -> tuple[Piece, ...]:
    """One cell for each worker: the letter of its phase, a dot for an idle title, `m` for a method without a phase, `!` if it is behind.

    `–`: its host is silent. `behind`: the keys of the processes that are behind.
    """
    return merge(_rank_mark(rank, behind, ascii=ascii) for rank in ranks)


def _rank_mark(rank: Rank, behind: frozenset[str], *, ascii: bool) -> Piece:
    tone: Tone = "dim"
    if rank.is_old:
        return ("-" if ascii else UNKNOWN, tone)
    if rank.process.key in behind:
        return BEHIND
    if rank.phase is not None:
        return phase_mark(rank.phase, ascii=ascii)
    return ("m", tone) if rank.title.method else phase_mark("waiting", ascii=ascii)
