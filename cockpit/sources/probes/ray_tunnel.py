"""Runs programs as tasks on nodes of a live Ray cluster, for hosts that ssh can't reach."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Final

import msgspec

from cockpit.secrets import redact
from cockpit.sources.probes.process import Child, OnLines, parse_message, start_child
from cockpit.sources.probes.spawn import local_command
from cockpit.text import clean

IDLE_TIMEOUT_S: Final = 60.0
"""The seconds after which a tunnel without tasks ends."""


class RayPlace(msgspec.Struct, frozen=True):
    """The place of a host in Ray: the live session on it, and the id of its node."""

    session: str
    node: str


class RayTask:
    """A program that runs on a node. It has the same interface as `Child`, which runs a program of this host."""

    def __init__(self, on_lines: OnLines, on_end: Callable[[], None], tunnel: RayTunnel, number: int) -> None:
        self.garbage = ""
        self.number = number
        self._on_lines, self._on_end, self._tunnel = on_lines, on_end, tunnel
        self._code: int | None = None
        self._errors = ""

    @property
    def last_words(self) -> str:
        """The last line of its stderr, else the last line that was not meant for cockpit. Without secrets."""
        return redact(clean(self._errors.strip().rpartition("\n")[2] or self.garbage))[:300]

    def poll_exit(self) -> int | None:
        """The exit code once the program has ended, 255 if Ray could not run it; else `None`."""
        if self._code is None:
            self._tunnel.check_exit()
        return self._code

    def end(self) -> None:
        """End the program, if it still runs, and ignore its output from now on."""
        if self._code is None:
            self._tunnel.cancel(self.number)

    def receive(self, message: dict[str, object]) -> None:
        """Process a message of the tunnel about this task."""
        if "line" in message:
            self._on_lines([str(message["line"]).rstrip("\n").encode()])
        elif self._code is None:
            self._errors, self._code = str(message.get("err", "")), int(str(message.get("code", 255)))
            self._on_end()


class RayTunnel:
    """One process in the cluster's own Python, connected to the cluster, that runs the tasks of all nodes; started on first use."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._child: Child | None = None
        self._tasks: dict[int, RayTask] = {}
        self._number = 0
        self._idle: asyncio.TimerHandle | None = None

    def run(self, node: str, text: bytes, on_lines: OnLines, on_end: Callable[[], None]) -> RayTask:
        """Run a Python program on a node. Raises `SourceError` if the tunnel's own process can't be started on this host."""
        self.check_exit()
        self._number += 1
        task = self._tasks[self._number] = RayTask(on_lines, on_end, self, self._number)
        if self._idle is not None:
            self._idle.cancel()
        if self._child is None or self._child.poll_exit() is not None:
            command = local_command(["--no-lifeline", "ray-tunnel", self._session])
            self._child = start_child("Ray can't be used to reach other hosts", command, self._on_lines, self.check_exit)
        self._child.send(_line(id=self._number, node=node, program=base64.b64encode(text).decode("ascii")))
        return task

    def cancel(self, number: int) -> None:
        """End the program of a task."""
        self._tasks.pop(number, None)
        if self._child is not None and self._child.poll_exit() is None:
            self._child.send(_line(cancel=number))
        self._end_when_idle()

    def check_exit(self) -> None:
        """If the tunnel's process has ended, end all its tasks with an error: nothing more is known of them."""
        if self._child is None or (code := self._child.poll_exit()) is None:
            return
        reason = self._child.last_words or f"the cluster's Python ended with exit code {code}"
        self.close()
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.receive({"code": 255, "err": reason})

    def close(self) -> None:
        """Kill the tunnel's process at once; Ray then ends its tasks on other hosts."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def close_if_idle(self) -> None:
        """Kill the tunnel's process if it has no task."""
        if not self._tasks:
            self.close()

    def _on_lines(self, lines: list[bytes]) -> None:
        for message in filter(None, map(parse_message, lines)):
            number = message.get("id")
            task = self._tasks.get(number) if isinstance(number, int) else None
            if task is not None:
                task.receive(message)
            if task is not None and "code" in message:
                self._tasks.pop(task.number, None)
        self._end_when_idle()

    def _end_when_idle(self) -> None:
        if not self._tasks:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, self.close_if_idle)


def _line(**request: object) -> bytes:
    return json.dumps(request).encode() + b"\n"
