"""Findings as the screen tells them: which are shown, which somebody has hidden, and which rows they are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

from cockpit.model import Finding, Level, Snapshot


class Found:
    """Made once per snapshot: a row asks for its mark in every line that is drawn."""

    def __init__(self, findings: Sequence[Finding] = (), hidden: AbstractSet[str] = frozenset()) -> None:
        """`hidden` holds the keys of findings."""
        self.shown = tuple(finding for finding in findings if finding.key not in hidden) if hidden else tuple(findings)
        self.hidden = tuple(finding for finding in findings if finding.key in hidden) if hidden else ()

    @cached_property
    def counts(self) -> Mapping[Level, int]:
        """How many are shown of each level."""
        return Counter(finding.level for finding in self.shown)

    @cached_property
    def of(self) -> Mapping[str, Sequence[Finding]]:
        """By the key of a row: what is found about it, the worst first. What is found about a GPU is found about its node too."""
        found: dict[str, list[Finding]] = {}
        for finding in self.shown:
            for key in dict.fromkeys(_with_nodes(finding.about)):
                found.setdefault(key, []).append(finding)
        return found

    def level(self, row: Any) -> Level | None:
        """The worst that is found about a row, or about what it stands for."""
        if not self.shown:
            return None
        found = self.of.get(row.key) or self.of.get(getattr(getattr(row, "about", None), "key", ""))
        return found[0].level if found else None


def _with_nodes(keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        yield key
        if node := _node_of_gpu(key):
            yield node


def _node_of_gpu(key: str) -> str | None:
    """A GPU's key is that of its node and its index: `node:…:3`."""
    head, _, index = key.rpartition(":")
    return head if index.isdigit() and head.startswith("node:") else None


def things(finding: Finding, snapshot: Snapshot) -> list[Any]:
    """What it is about, as it is now: nodes, also of GPUs, then all else that still is there."""
    wanted = set(_with_nodes(finding.about))
    kinds = {key.partition(":")[0] for key in wanted}
    pools: tuple[tuple[str, Iterable[Any] | None], ...] = (
        ("node", snapshot.nodes),
        ("session", snapshot.sessions),
        ("process", snapshot.processes),
        ("job", snapshot.jobs),
        ("pg", snapshot.placement_groups),
        ("actor", snapshot.actors),
    )
    return [thing for kind, pool in pools if kind in kinds for thing in pool or () if thing.key in wanted]
