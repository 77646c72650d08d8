"""Reads the logs folder of a node or session through Ray, or through a probe on its host if Ray can't be asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, Literal

import msgspec

from cockpit.config.reach import HostEntry
from cockpit.sources.probes.decode import convert_answer
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.ray.log_files import LogFiles
from cockpit.sources.ray.log_names import node_of, part_logs
from cockpit.sources.ray.logs import LineDecoder
from cockpit.sources.source import SourceError

Way = Literal["any", "ray", "probe"]
"""By whom a file is read; `any`: by Ray, and if it can't be asked by a probe."""
IsOver = Callable[[], Awaitable[bool]]
MAX_END_BYTES: Final = 8 << 20
MAX_RAYLETS: Final = 16
"""Logs of raylets on one host that are read to find a node's own."""


async def always() -> bool:
    """Whether a log is complete that nothing writes to."""
    return True


class NoRayError(SourceError):
    """No Ray can be asked: the node is dead, or the session is another Ray's."""


class ProbePlace(msgspec.Struct, frozen=True):
    """The folder for a probe: host and session, and how to reach the host."""

    host: str
    session: str
    entry: HostEntry | None = None


class LogFolder:
    """One logs folder. Every failure is a `SourceError`."""

    def __init__(
        self,
        title: str,
        pool: ProbePool,
        place: ProbePlace | None,
        node: str | None = None,
        ray: Callable[[], Awaitable[LogFiles]] | None = None,
    ) -> None:
        """`ray` and `node`: given if Ray can be asked; `place`: given if a probe can."""
        self.title = title
        self._pool, self._place, self._node, self._ray = pool, place, node, ray

    async def names(self, glob: str) -> tuple[str, ...]:
        """The names of files, not cleaned: any user who may write in the folder chooses them."""
        try:
            return await (await self._files()).names(self._node or "", glob)
        except SourceError as error:
            place = self._other_way(error)
            try:
                answer = await self._pool.ask(place.host, ("logs", place.session, glob), place.entry)
            except SourceError as why:
                raise _both(error, why) from None
            return convert_answer(answer, "names", tuple[str, ...], place.host)

    async def read_end(self, name: str, lines: int, most_bytes: int = MAX_END_BYTES, way: Way = "any") -> list[str]:
        """The last `lines` of a file as it is now, as far as they are in its last `most_bytes`."""
        why: SourceError = NoRayError(f"no probe can read the logs of {self.title}")
        if way != "probe":
            try:
                return await (await self._files()).read_end(self._node or "", name, lines, most_bytes)
            except SourceError as error:
                if way == "ray":
                    raise
                why = error
        self._other_way(why)
        # A probe searches the lines in the last 8 MB of the file.
        kept: list[str] = []
        size = 0
        async for batch in self._read_by_probe(name, lines, always, why):
            kept = (kept + batch)[-lines:]
            size += sum(map(len, batch)) + len(batch)
            if size > 2 * MAX_END_BYTES:
                break  # No probe sends so much: the host may be anybody's.
        left = most_bytes
        for number in range(len(kept) - 1, -1, -1):
            left -= len(kept[number]) + 1
            if left < 0:
                return kept[number + 1 :] or [kept[-1][-most_bytes:]]
        return kept

    async def follow(self, name: str, lines: int, is_over: IsOver) -> AsyncGenerator[list[str], None]:
        """Yield batches of raw lines from the last `lines` on, until `is_over` and the file is read to its end."""
        begun = False
        try:
            async for batch in (await self._files()).follow(self._node or "", name, lines, is_over):
                begun = True
                yield batch
            return
        except SourceError as error:
            if begun:
                raise
            self._other_way(error)
            why = error
        async for batch in self._read_by_probe(name, lines, is_over, why):
            yield batch

    async def raylet_log(self, names: tuple[str, ...], node: str) -> str | None:
        """The log of a node's raylet: of several the one whose first lines name the node."""
        found = part_logs(names, "raylet", "out")[:MAX_RAYLETS]
        for name in found if len(found) > 1 else ():
            first = self.follow(name, -1, always)
            try:
                if node_of(await anext(first, [])) == node:
                    return name
            finally:
                await first.aclose()
        return found[0] if len(found) == 1 else None

    async def _files(self) -> LogFiles:
        if self._ray is None:
            raise NoRayError(f"there is no Ray dashboard that has the logs of {self.title}")
        return await self._ray()

    def _other_way(self, error: SourceError) -> ProbePlace:
        """The folder for a probe, after Ray has failed; raises Ray's error if no probe can read it."""
        if self._place is None:
            raise error
        return self._place

    async def _read_by_probe(self, name: str, lines: int, is_over: IsOver, error: SourceError) -> AsyncGenerator[list[str], None]:
        place, read = self._other_way(error), LineDecoder()
        over = await is_over()
        words = ("log", place.session, name, str(lines), *(() if over else ("--follow",)))
        try:
            async for answer in self._pool.listen(place.host, words, place.entry):
                # Bytes as Latin-1; empty after every 2 s in which nothing was written.
                data = convert_answer(answer, "text", str, place.host).encode("latin-1", "replace")
                if batch := read.feed(data):
                    yield batch
                if not data and over:
                    break
                over = not data and await is_over()  # everything written before the end has been read at the second silence
        except SourceError as why:
            raise _both(error, why) if not read.size else why from None
        if last := read.last():
            yield last


def _both(error: SourceError, why: SourceError) -> SourceError:
    """The reasons why Ray (`error`) and the probe (`why`) failed; without the first if there is no Ray to ask."""
    return why if isinstance(error, NoRayError) else SourceError(f"{error}; {why}")
