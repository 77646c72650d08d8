"""Python stacks of several processes beside each other: equal ones folded, the odd one out first. That is how a hang is found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size

from cockpit.text import plural

LEAST = 46
"""Columns that a stack beside others needs; where there is less room they lie below each other."""
BESIDE = 4
NAMED = 6
"""Processes of a group that are named; the rest is counted."""
PLUMBING = (
    "threading.py", "queue.py", "selectors.py", "socket.py", "asyncio/", "concurrent/futures/", "multiprocessing/", "ray/_private/",
    "ray/_raylet", "ray/util/", "runpy.py", "default_worker.py", "uvloop/", "tqdm/_monitor.py",
)  # fmt: skip
"""Files in which a thread only waits for work, or was begun; one that is nowhere else has nothing to do."""


class Frame(NamedTuple):
    """One call."""

    name: str
    file: str
    line: int

    @property
    def plumbing(self) -> bool:
        """Whether it says nothing of what a program does."""
        return self.file.startswith(PLUMBING) or any(f"/{part}" in self.file for part in PLUMBING)


Thread = tuple[Frame, ...]
"""The innermost call first."""


@dataclass(frozen=True)
class Stack:
    """What one process does, or why nobody could look."""

    title: str
    threads: tuple[Thread, ...] = ()
    error: str | None = None

    @property
    def telling(self) -> frozenset[Thread]:
        """The threads that do something."""
        return frozenset(thread for thread in self.threads if any(not frame.plumbing for frame in thread))


def stack(title: str, answer: Mapping[str, Any]) -> Stack:
    """Of what a probe has answered."""
    threads = (tuple(Frame(frame["name"], frame["file"], frame["line"]) for frame in thread["frames"]) for thread in answer["threads"])
    return Stack(title, tuple(threads))


def told(stacks: Sequence[Stack], width: int) -> str:
    """The text of a page that is so many columns wide."""
    seen = [each for each in stacks if each.error is None]
    groups = _groups(seen)
    columns = [list(_lines(group, len(seen), _others(group, groups))) for group in groups]
    room = width // max(1, len(columns)) - 2
    beside = 1 < len(columns) <= BESIDE and room >= LEAST
    lines = _beside(columns, room) if beside else [line for column in columns for line in (*column, "")]
    return "\n".join([*lines, *_failed(stacks)])


def _groups(stacks: Iterable[Stack]) -> list[list[Stack]]:
    """Those that do the same, the fewest first."""
    found: dict[frozenset[Thread], list[Stack]] = {}
    for each in stacks:
        found.setdefault(each.telling, []).append(each)
    return sorted(found.values(), key=len)


def _others(group: Sequence[Stack], groups: Iterable[Sequence[Stack]]) -> frozenset[Frame]:
    """The calls in which any other group is."""
    return frozenset(frame for other in groups if other is not group for thread in other[0].telling for frame in thread)


def _lines(group: Sequence[Stack], total: int, others: frozenset[Frame]) -> Iterator[str]:
    titles = [each.title for each in group[:NAMED]]
    more = f", and {len(group) - NAMED} more" if len(group) > NAMED else ""
    yield f"{len(group)} of {total}: {', '.join(titles)}{more}" if total > 1 else titles[0]
    threads = sorted(group[0].telling, key=len, reverse=True)
    for thread in threads:
        yield ""
        yield from (f"  {'>' if others and frame not in others else ' '} {frame.name} ({frame.file}:{frame.line})" for frame in thread)
    idle = len(group[0].threads) - len(threads)
    if idle:
        yield ""
        yield f"    {plural(idle, 'thread')} with nothing to do" if threads else f"    waits for work ({plural(idle, 'thread')})"


def _beside(columns: Sequence[Sequence[str]], room: int) -> list[str]:
    wrapped = [[part for line in column for part in _wrapped(line, room)] for column in columns]
    return [" │ ".join(set_cell_size(part, room) for part in row).rstrip() for row in zip_longest(*wrapped, fillvalue="")]


def _wrapped(line: str, room: int) -> Iterator[str]:
    """Pieces that fit; nothing of a file's name may be lost."""
    while cell_len(line) > room:
        cut = room
        while cell_len(line[:cut]) > room:
            cut -= 1
        yield line[:cut]
        line = f"      {line[cut:]}"
    yield line


def _failed(stacks: Iterable[Stack]) -> Iterator[str]:
    for each in stacks:
        if each.error is not None:
            yield f"{each.title}: {each.error}"
