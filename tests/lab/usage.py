"""What a program takes over time: memory, CPU, open files, threads; and whether any of that grows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import psutil

MIB = 1 << 20
PARTS = 3
"""Into so many parts a run is cut: the CPU of the last is compared with that of the first."""


class Usage(NamedTuple):
    """Of one program and all that it has started, at one moment."""

    at: float
    """Seconds since the run began."""
    memory: float
    """MiB that are resident: what it shares counts in full, so that it is the same whoever else comes and goes."""
    children: float
    """The same of its children."""
    cpu: float
    """Seconds of CPU so far, of all of them, those that have ended too."""
    files: int
    """Open files of the program."""
    threads: int
    processes: int


class Verdict(NamedTuple):
    """What a run has shown, and all that is wrong with it."""

    text: str
    wrong: tuple[str, ...]


MEMORY, CPU, FILES = 1.0, 1.5, 2.0
"""What may not come in an hour: MiB of the screen or of its probes; percent of a core, from the first part of a run to its last; files."""


def usage(process: psutil.Process, at: float) -> Usage:
    """What it takes now."""
    children = process.children(recursive=True)
    times = process.cpu_times()
    spent = times.user + times.system + times.children_user + times.children_system
    return Usage(
        at,
        _memory(process),
        sum(_memory(child) for child in children),
        spent + sum(_cpu(child) for child in children),
        len(os.listdir(f"/proc/{process.pid}/fd")),
        process.num_threads(),
        1 + len(children),
    )


def _memory(process: psutil.Process) -> float:
    """A child may end at any moment."""
    try:
        resident: int = process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0.0
    return resident / MIB


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system


def slope(points: Iterable[tuple[float, float]]) -> float:
    """By least squares; 0 where there are too few points to say."""
    known = list(points)
    if len(known) < 2:
        return 0.0
    middle_x = sum(x for x, _ in known) / len(known)
    middle_y = sum(y for _, y in known) / len(known)
    spread = sum((x - middle_x) ** 2 for x, _ in known)
    return sum((x - middle_x) * (y - middle_y) for x, y in known) / spread if spread else 0.0


def judge(seen: Sequence[Usage], warm_up: float, pace: float = 1.0) -> Verdict:
    """Of what was seen after the warm-up; in a real second the run has `pace` of its own, in which everything but CPU is counted."""
    known = [one for one in seen if one.at >= warm_up]
    if len(known) < 2 * PARTS:
        return Verdict(f"only {len(known)} looks after the warm-up", ("too short a run to say anything",))
    memory = slope((one.at / 3600, one.memory) for one in known)
    children = slope((one.at / 3600, one.children) for one in known)
    files = slope((one.at / 3600, float(one.files)) for one in known)
    early, late = (100 * busy for busy in _busy(known, pace))
    told = (
        f"screen {memory:+.2f} MB an hour ({known[0].memory:.1f} to {known[-1].memory:.1f} MB), its probes {children:+.2f};"
        f" CPU {early:.1f} % to {late:.1f} % of a core; open files {known[0].files} to {known[-1].files} ({files:+.2f} an hour),"
        f" threads {known[0].threads} to {known[-1].threads}, processes {known[0].processes} to {known[-1].processes}"
    )
    wrong = (
        ("memory grows", memory >= MEMORY),
        ("the memory of its probes grows", children >= MEMORY),
        ("CPU grows", late - early >= CPU and late > 1.2 * early),
        ("open files grow", files >= FILES and known[-1].files > known[0].files),
    )
    return Verdict(told, tuple(what for what, is_so in wrong if is_so))


def _busy(known: Sequence[Usage], pace: float) -> tuple[float, float]:
    """CPU as a share of a core, in the first part of what was seen and in the last."""
    size = len(known) // PARTS
    parts = known[: size + 1], known[-size - 1 :]
    first, last = ((part[-1].cpu - part[0].cpu) * pace / (part[-1].at - part[0].at) for part in parts)
    return first, last
