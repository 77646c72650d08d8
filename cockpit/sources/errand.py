"""Carries requests to the acting probes of hosts, all at once, and brings back their answers; a host that hangs delays no other."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from cockpit.config import Config
from cockpit.document import InputError
from cockpit.reach import THROUGH_RAY, HostEntry, reach_command
from cockpit.sources.child import Child, spoken
from cockpit.sources.masters import Masters
from cockpit.sources.payload import program
from cockpit.sources.ray_reach import Ferry, Passage, Place
from cockpit.sources.source import SourceError, within
from cockpit.sources.spawn import spawn
from cockpit.sources.watch import why_it_ended
from cockpit.text import clean, redact

MOST: Final = 32
"""Hosts at once."""
RAY_STARTS: Final = 30.0
"""Seconds more that Ray gets: a worker must be started over there, perhaps on a busy node."""
LONGEST: Final = 3600.0
"""Seconds that one host may take, however often it says how far it is."""
ANSWERS: Final = frozenset(("targets", "done", "error"))
"""An answer has one of these; a login shell may print JSON too."""
Way = Literal["local", "reach", "ray"]


@dataclass(frozen=True)
class Progress:
    """How far a host is: `waiting`, `connecting`, `running` until its probe says more; in the end `answered`, or why there is no answer."""

    text: str
    done: int | None = None
    of: int | None = None


@dataclass(frozen=True)
class Answer:
    """What a host has answered, raw: secrets are in it; or one sentence that says why there is no answer."""

    host: str
    way: Way
    reply: Mapping[str, Any] | None = None
    error: str | None = None
    refused: bool = False
    """Its probe was reached, and does nothing of what it was asked."""


class RefusedError(SourceError):
    """A probe's own word: it does nothing of what it was asked."""


class Trip(NamedTuple):
    """What goes where; a Ray can't be stopped through itself."""

    host: str
    request: str
    through_ray: bool
    hear: Callable[[Progress], None]
    patience: float

    @property
    def text(self) -> bytes:
        """The program that is sent; of a hundred kilobytes, so that it is made only when its turn has come."""
        return program(["--no-lifeline", "act", self.request], acting=True)


class Errands:
    """The way to hosts of whoever changes something there; never built when cockpit only looks. Close it at the end."""

    def __init__(
        self,
        config: Config,
        local: str,
        entries: Mapping[str, HostEntry],
        places: Mapping[str, Place] | None = None,
        masters: Masters | None = None,
    ) -> None:
        """`local` is what this host is called; `entries` says how to reach the others, `places` where they are in a Ray that lives.

        Both may change meanwhile. `masters` are those of whoever looks at the same hosts, and closes them: `Hosts.masters`.
        """
        self._config, self._local, self._entries = config, local, entries
        self._known_places, self._masters = {} if places is None else places, masters
        self._ferries: dict[str, Ferry] = {}
        self._closed = False
        self._under_way: set[Child | Passage] = set()
        self._free = asyncio.Semaphore(MOST)

    async def send(
        self,
        requests: Mapping[str, Mapping[str, Any]],
        hear: Callable[[str, Progress], None],
        patience: float = 30.0,
    ) -> dict[str, Answer]:
        """Each host's answer; one that says nothing for `patience` seconds is given up. When cancelled it ends every child at once."""
        for host in requests:
            hear(host, Progress("waiting"))
        await asyncio.to_thread(program, (), acting=True)  # packed once, which takes a tenth of a second
        if any(request.get("act") == "stop" for request in requests.values()):
            for ferry in self._ferries.values():
                ferry.leave()  # it must not pass for a driver that would be lost
        trips = [Trip(host, json.dumps(each), each.get("act") != "stop", partial(hear, host), patience) for host, each in requests.items()]
        return {answer.host: answer for answer in await asyncio.gather(*map(self._go, trips))}

    def close(self) -> None:
        """End every child at once, also what reaches hosts through Ray, and the connections that are kept open; waits for none."""
        self._closed = True
        for child in self._under_way:
            child.end()
        for ferry in self._ferries.values():
            ferry.close()
        self._ferries = {}
        if self._masters is not None:
            self._masters.close()

    async def _go(self, trip: Trip) -> Answer:
        answer = await self._run(trip)
        trip.hear(Progress(answer.error or "answered"))
        return answer

    async def _run(self, trip: Trip) -> Answer:
        way: Way = "local" if trip.host == self._local else "ray" if self._config.reach == THROUGH_RAY else "reach"
        errand = Errand(trip.host, trip.hear)
        try:
            return Answer(trip.host, way, reply=await self._travel(trip, way, errand))
        except RefusedError as error:
            return Answer(trip.host, way, error=str(error), refused=True)
        except SourceError as error:
            if way != "reach" or errand.spoke or not trip.through_ray or trip.host not in self._known_places:
                return Answer(trip.host, way, error=str(error))
            return await self._run_through_ray(trip, str(error))

    async def _run_through_ray(self, trip: Trip, why: str) -> Answer:
        """Where the usual way has failed before a probe spoke. What it said is kept: it is worth mending."""
        errand = Errand(trip.host, trip.hear)
        try:
            reply = await self._travel(trip, "ray", errand, f"connecting through Ray: {why}")
        except SourceError as error:
            return Answer(trip.host, "ray", error=f"{why}; through Ray: {error}", refused=isinstance(error, RefusedError))
        notes = reply.get("notes")
        return Answer(
            trip.host, "ray", reply={**reply, "notes": [*(notes if isinstance(notes, list) else ()), f"{why}; reached through Ray"]}
        )

    async def _travel(self, trip: Trip, way: Way, errand: Errand, words: str = "connecting") -> Mapping[str, Any]:
        async with self._free:
            trip.hear(Progress(words))
            child = self._start(trip, way, errand)
            self._under_way.add(child)
            try:
                return await errand.run(child, trip.patience + (RAY_STARTS if way == "ray" else 0))
            finally:
                self._under_way.discard(child)

    def _start(self, trip: Trip, way: Way, errand: Errand) -> Child | Passage:
        if self._closed:
            raise SourceError(f"{trip.host}: cockpit ends")
        if way == "ray":
            return self._embark(trip, errand)
        command = self._command(trip.host)
        try:
            return Child(spawn(command), errand.hear, errand.wake, trip.text)
        except OSError as error:
            raise SourceError(f"{trip.host}: {command[0]}: {(error.strerror or str(error)).lower()}") from error

    def _embark(self, trip: Trip, errand: Errand) -> Passage:
        place = self._known_places.get(trip.host)
        if not trip.through_ray:
            raise SourceError(f"{trip.host}: a Ray can't be stopped through itself, and there is no other way there")
        if place is None:
            raise SourceError(f"{trip.host} can't be reached through Ray: it is no living node of the Ray on this host")
        ferry = self._ferries.setdefault(place.session, Ferry(place.session))
        return ferry.carry(place.node, trip.text, errand.hear, errand.wake)

    def _command(self, host: str) -> Sequence[str]:
        """Never a request: a command line is read by everybody, and by `ray stop`."""
        if host == self._local:
            return [sys.executable, "-"]
        if host not in self._entries:
            raise SourceError(f"{host} is not a host that can be reached from here")
        try:
            return reach_command(self._config.reach, self._entries[host], self._masters.control if self._masters else "none")
        except InputError as error:
            raise SourceError(f"{host}: {error}") from error


class Errand:
    """One request under way on one host."""

    def __init__(self, host: str, hear: Callable[[Progress], None]) -> None:
        self.spoke = False
        """Whether a probe has said anything: from then on nobody else may be sent with the same request."""
        self._host, self._tell = host, hear
        self._reply: Mapping[str, Any] | None = None
        self._garbage = ""
        self._heard = time.monotonic()
        self._turned = asyncio.Event()

    async def run(self, child: Child | Passage, patience: float) -> Mapping[str, Any]:
        """The answer; raises `SourceError`. The child has been ended when this returns, or is cancelled."""
        try:
            return await self._answer(child, patience)
        finally:
            child.end()

    def wake(self) -> None:
        """Something may be over."""
        self._turned.set()

    async def _answer(self, child: Child | Passage, patience: float) -> Mapping[str, Any]:
        self._heard = began = time.monotonic()
        while self._reply is None:
            if (code := child.ended()) is not None and self._reply is None:
                child.garbage = self._garbage
                raise SourceError(why_it_ended(self._host, code, child.last_words, spoke=self.spoke).replace("; started again", ""))
            now = time.monotonic()
            if now - self._heard > patience or now - began > LONGEST:
                raise SourceError(self._timed_out(child, now - self._heard))
            with suppress(asyncio.TimeoutError):  # an end makes no sound
                await within(0.05, self._turned.wait())
            self._turned.clear()
        if isinstance(error := self._reply.get("error"), str):
            raise RefusedError(f"{self._host}: {redact(clean(error))}")
        return self._reply

    def _timed_out(self, child: Child | Passage, silence: float) -> str:
        last = f": {child.last_words}" if child.last_words else ""
        return f"{self._host}: timed out, nothing was heard for {silence:.0f} s{last}"

    def hear(self, lines: Sequence[bytes]) -> None:
        """Progress, the answer, or what a login shell prints."""
        self._heard = time.monotonic()
        for line in lines:
            said = spoken(line)
            if said is None:
                self._garbage = line[:300].decode("utf-8", "replace") or self._garbage
                continue
            if not self.spoke:
                self.spoke = True
                self._tell(Progress("running"))
            if isinstance(tell := said.get("tell"), str):
                self._tell(Progress(redact(clean(tell)), _number(said.get("done")), _number(said.get("of"))))
            elif ANSWERS & said.keys():
                self._reply = said
        self._turned.set()


def _number(said: Any) -> int | None:
    return said if isinstance(said, int) else None
