"""Reaches hosts through a Ray that lives: a program runs as a task on its node, and is heard as if it were a child of ours."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from cockpit.sources.child import Child, spoken
from cockpit.sources.source import SourceError
from cockpit.sources.spawn import local_command, spawn
from cockpit.text import clean, redact

IDLE: Final = 60.0
"""Seconds after which a ferry that carries nothing ends."""
Hear = Callable[[list[bytes]], None]


class Place(NamedTuple):
    """Where a host is in Ray: the session that lives there, and its node in it."""

    session: str
    node: str


class Passage:
    """A program on a node; `hear`, `wake` and the rest are as those of a `Child`."""

    def __init__(self, hear: Hear, wake: Callable[[], None], ferry: Ferry, number: int) -> None:
        self.started = time.monotonic()
        self.garbage = ""
        self.number = number
        self._hear, self._wake, self._ferry = hear, wake, ferry
        self._code: int | None = None
        self._errors = ""

    @property
    def last_words(self) -> str:
        """The last line of its stderr, else the last that was not meant for us."""
        return redact(clean(self._errors.strip().rpartition("\n")[2] or self.garbage))[:300]

    def ended(self) -> int | None:
        """Its exit code once it is over; 255 also when Ray could not carry it."""
        if self._code is None:
            self._ferry.look()
        return self._code

    def end(self) -> None:
        """End it there, if it still runs, and listen no more."""
        if self._code is None:
            self._ferry.cancel(self.number)

    def learn(self, said: dict[str, object]) -> None:
        """Called by the ferry."""
        if "line" in said:
            self._hear([str(said["line"]).rstrip("\n").encode()])
        elif self._code is None:
            self._errors, self._code = str(said.get("err", "")), int(str(said.get("code", 255)))
            self._wake()


class Ferry:
    """One process in the cluster's own Python, connected to it, for all its nodes: `cockpit.probe.act.ferry`. Started on first need."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._child: Child | None = None
        self._passages: dict[int, Passage] = {}
        self._number = 0
        self._idle: asyncio.TimerHandle | None = None

    def carry(self, node: str, text: bytes, hear: Hear, wake: Callable[[], None]) -> Passage:
        """Run a program there. Raises `SourceError` when this host can't even begin."""
        self.look()
        self._number += 1
        passage = self._passages[self._number] = Passage(hear, wake, self, self._number)
        program = base64.b64encode(text).decode("ascii")
        self._running().say(_line(id=self._number, node=node, program=program))
        return passage

    def cancel(self, number: int) -> None:
        """End that program; nothing more is heard of it."""
        self._passages.pop(number, None)
        if self._child is not None and self._child.ended() is None:
            self._child.say(_line(cancel=number))
        self._rest()

    def look(self) -> None:
        """Notice that the ferry has ended: then nothing it carried is known any more."""
        if self._child is None or (code := self._child.ended()) is None:
            return
        said = self._child.last_words or f"the cluster's Python ended with code {code}"
        self.close()
        passages, self._passages = self._passages, {}
        for passage in passages.values():
            passage.learn({"code": 255, "err": said})

    def close(self) -> None:
        """End it at once; Ray ends what it had begun on other hosts."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def leave(self) -> None:
        """End it if it carries nothing."""
        if not self._passages:
            self.close()

    def _running(self) -> Child:
        if self._idle is not None:
            self._idle.cancel()
        if self._child is None or self._child.ended() is not None:
            command = local_command(["--no-lifeline", "ferry", self._session])
            try:
                self._child = Child(spawn(command), self._hear, self.look)
            except OSError as error:
                raise SourceError(f"{command[0]}: {(error.strerror or str(error)).lower()}") from error
        return self._child

    def _hear(self, lines: list[bytes]) -> None:
        for said in filter(None, map(spoken, lines)):
            number = said.get("id")
            passage = self._passages.get(number) if isinstance(number, int) else None
            if passage is not None:
                passage.learn(said)
            if passage is not None and "code" in said:
                self._passages.pop(passage.number, None)
        self._rest()

    def _rest(self) -> None:
        if not self._passages:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(IDLE, self.leave)


def _line(**request: object) -> bytes:
    return json.dumps(request).encode() + b"\n"
