"""What a program uses over time: memory, CPU, open files, threads; and whether any of that grows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import psutil

MIB = 1 << 20
PARTS = 3
"""A run is divided into this many parts: the last one's CPU is compared with the first one's."""


class Usage(NamedTuple):
    """Use of one program and its children at one moment."""

    at: float
    """Seconds since the run began."""
    memory: float
    """Resident MiB. Shared memory counts in full, so that other processes do not change the figure."""
    children: float
    """Resident MiB of its children."""
    cpu: float
    """Seconds of CPU so far, including children that have ended."""
    files: int
    """Open files of the program."""
    threads: int
    processes: int


class Verdict(NamedTuple):
    """The result of a run, and all that is wrong with it."""

    text: str
    wrong: tuple[str, ...]


MEMORY, CPU, FILES = 1.0, 1.5, 2.0
"""Most growth per hour: MiB of the screen or its probes; percent of a core, from the first part to the last; files."""


def usage(process: psutil.Process, at: float) -> Usage:
    """The current use."""
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
    """0 for a child that has ended."""
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
    """Slope by least squares; 0 if there are too few points."""
    known = list(points)
    if len(known) < 2:
        return 0.0
    middle_x = sum(x for x, _ in known) / len(known)
    middle_y = sum(y for _, y in known) / len(known)
    spread = sum((x - middle_x) ** 2 for x, _ in known)
    return sum((x - middle_x) * (y - middle_y) for x, y in known) / spread if spread else 0.0


def judge(seen: Sequence[Usage], warm_up: float, pace: float = 1.0) -> Verdict:
    """Judges the samples after the warm-up. All figures but CPU are per simulated second: `pace` of them in a real one."""
    known = [one for one in seen if one.at >= warm_up]
    if len(known) < 2 * PARTS:
        return Verdict(f"only {len(known)} looks after the warm-up", ("too short a run to say anything",))
    memory = slope((one.at / 3600, one.memory) for one in known)
    children = slope((one.at / 3600, one.children) for one in known)
    files = slope((one.at / 3600, float(one.files)) for one in known)
    early, late = (100 * busy for busy in _busy(known, pace))
    faults = (
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
    return Verdict(faults, tuple(what for what, is_so in wrong if is_so))


def _busy(known: Sequence[Usage], pace: float) -> tuple[float, float]:
    """CPU as a share of a core, in the first and in the last part."""
    size = len(known) // PARTS
    parts = known[: size + 1], known[-size - 1 :]
    first, last = ((part[-1].cpu - part[0].cpu) * pace / (part[-1].at - part[0].at) for part in parts)
    return first, last
