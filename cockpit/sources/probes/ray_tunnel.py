"""Reaches hosts through a Ray that lives: a program runs as a task on its node, and is heard as if it were a child of ours."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Final

import msgspec

from cockpit.secrets import redact
from cockpit.sources.probes.process import Child, HearLines, parse_message, start_child
from cockpit.sources.probes.spawn import local_command
from cockpit.text import clean

IDLE_TIMEOUT_S: Final = 60.0
"""Seconds after which a tunnel without a task ends."""


class RayPlace(msgspec.Struct, frozen=True):
    """Where a host is in Ray: the session that lives there, and its node in it."""

    session: str
    node: str


class RayTask:
    """A program on a node; `hear`, `wake` and the rest are as those of a `Child`."""

    def __init__(self, hear: HearLines, wake: Callable[[], None], tunnel: RayTunnel, number: int) -> None:
        self.garbage = ""
        self.number = number
        self._hear, self._wake, self._tunnel = hear, wake, tunnel
        self._code: int | None = None
        self._errors = ""

    @property
    def last_words(self) -> str:
        """The last line of its stderr, else the last that was not meant for us."""
        return redact(clean(self._errors.strip().rpartition("\n")[2] or self.garbage))[:300]

    def poll_exit(self) -> int | None:
        """Its exit code once it is over; 255 also when Ray could not run it."""
        if self._code is None:
            self._tunnel.notice_end()
        return self._code

    def end(self) -> None:
        """End it there, if it still runs, and listen no more."""
        if self._code is None:
            self._tunnel.cancel(self.number)

    def learn(self, said: dict[str, object]) -> None:
        """Called by the tunnel."""
        if "line" in said:
            self._hear([str(said["line"]).rstrip("\n").encode()])
        elif self._code is None:
            self._errors, self._code = str(said.get("err", "")), int(str(said.get("code", 255)))
            self._wake()


class RayTunnel:
    """One process in the cluster's own Python, connected to it, for all its nodes; started on first need."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._child: Child | None = None
        self._tasks: dict[int, RayTask] = {}
        self._number = 0
        self._idle: asyncio.TimerHandle | None = None

    def run(self, node: str, text: bytes, hear: HearLines, wake: Callable[[], None]) -> RayTask:
        """Run a program there. Raises `SourceError` when this host can't even begin."""
        self.notice_end()
        self._number += 1
        task = self._tasks[self._number] = RayTask(hear, wake, self, self._number)
        program = base64.b64encode(text).decode("ascii")
        self._start_if_needed().say(_line(id=self._number, node=node, program=program))
        return task

    def cancel(self, number: int) -> None:
        """End that program; nothing more is heard of it."""
        self._tasks.pop(number, None)
        if self._child is not None and self._child.poll_exit() is None:
            self._child.say(_line(cancel=number))
        self._end_when_idle()

    def notice_end(self) -> None:
        """Notice that the tunnel's process has ended: then nothing of its tasks is known any more."""
        if self._child is None or (code := self._child.poll_exit()) is None:
            return
        said = self._child.last_words or f"the cluster's Python ended with exit code {code}"
        self.close()
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.learn({"code": 255, "err": said})

    def close(self) -> None:
        """End it at once; Ray ends what it had begun on other hosts."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def close_if_idle(self) -> None:
        """End it if no task runs in it."""
        if not self._tasks:
            self.close()

    def _start_if_needed(self) -> Child:
        if self._idle is not None:
            self._idle.cancel()
        if self._child is None or self._child.poll_exit() is not None:
            command = local_command(["--no-lifeline", "ray-tunnel", self._session])
            self._child = start_child("Ray can't be used to reach other hosts", command, self._hear, self.notice_end)
        return self._child

    def _hear(self, lines: list[bytes]) -> None:
        for said in filter(None, map(parse_message, lines)):
            number = said.get("id")
            task = self._tasks.get(number) if isinstance(number, int) else None
            if task is not None:
                task.learn(said)
            if task is not None and "code" in said:
                self._tasks.pop(task.number, None)
        self._end_when_idle()

    def _end_when_idle(self) -> None:
        if not self._tasks:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, self.close_if_idle)


def _line(**request: object) -> bytes:
    return json.dumps(request).encode() + b"\n"
