"""Stands where Ray's log API and the probes do: files of nodes with given lines."""

from __future__ import annotations

from fnmatch import fnmatchcase

from cockpit.config.reach import HostEntry
from cockpit.sources.source import SourceError
from tests.world import node

NODE1, NODE2 = node(1).id, node(2).id
SESSION = "session_2026-11-21_01-17-58_164160_11638"


class Nodes:
    """Stands where Ray's client and its log files do: the files of each node, with their lines."""

    def __init__(self, **files):
        self.files = {NODE1: {}, NODE2: {}}
        self.error = None
        self.asked = []

    async def log_files(self):
        if self.error:
            raise self.error
        return self

    async def names(self, node, glob):
        self.asked.append((node, glob))
        return tuple(name for name in self.files[node] if fnmatchcase(name, glob))

    async def read_end(self, node, name, lines, most_bytes):
        return self.files[node][name][-lines:]

    async def follow(self, node, name, lines, is_over):
        yield self.files[node][name]
        self.over = await is_over()

    async def follow_log(self, job, lines):
        yield [f"log of {job}"]


class Probes:
    """Stands where the pool of probes does."""

    local = "node1"

    def __init__(self):
        self.names, self.answers, self.asked = ("x",), (), []

    async def ask(self, host, words, entry=None):
        self.asked.append((host, *words))
        if isinstance(self.names, SourceError):
            raise self.names
        return {"names": self.names}

    async def listen(self, host, words, entry=None):
        self.asked.append((host, *words))
        for answer in self.answers:
            yield answer


class Selection:
    def entry(self, node):
        return HostEntry(node.title)
