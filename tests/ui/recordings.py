"""A recording that lies in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from msgspec.structs import replace

from cockpit.model import HostMemory
from cockpit.ui.recorded import RecordedPast
from tests.world import GIB, NOW, finding, node, snapshot

BEGIN = NOW - 7200


@dataclass(frozen=True)
class Happened:
    at: float
    kind: str
    text: str
    level: str | None = None
    phase: str = "begin"


@cache
def state_at(taken):
    memory = HostMemory(int((taken - BEGIN) / 7200 * 1000 * GIB), 1000 * GIB, 950 * GIB)
    past = finding(f"found at {taken - BEGIN:.0f}")
    return snapshot(taken=taken, nodes=(node(1, seen=taken, memory=memory),), findings=(replace(past, since=taken - 60),))


class Memory:
    """Two hours that ended just now, a state every 5 s; host memory grows by a byte a second, so that a state tells its moment."""

    damage = ()

    def __init__(self, events=(), gaps=(), begin=BEGIN, end=NOW):
        self.begin, self.end, self.gaps, self.happened = begin, end, gaps, tuple(events)
        self.walked = []

    def refresh(self):
        pass

    def snapshot_at(self, moment):
        if not self.begin <= moment <= self.end or any(begin <= moment < end for begin, end in self.gaps):
            return None
        return state_at(moment // 5 * 5)

    def walk(self, begin=None, end=None, step_s=0):
        self.walked.append((begin, end))
        at = self.begin if begin is None else begin
        while at <= (self.end if end is None else end):
            if (known := self.snapshot_at(at)) is not None:
                yield known
            at += step_s or 5

    def events(self, begin=None, end=None):
        return [one for one in self.happened if (begin is None or one.at >= begin) and (end is None or one.at <= end)]


class AtOnce(RecordedPast):
    """Without a thread: on a loop on which no time passes unused, nobody waits for one."""

    async def _ask(self, work):
        return work()


def recorded(*events, **more):
    """As the screen reads it; what was opened is in `opened`."""
    opened = []

    def open_recording():
        opened.append(Memory(events, **more))
        return opened[-1]

    past = AtOnce(open_recording, "recording")
    past.opened = opened
    return past
