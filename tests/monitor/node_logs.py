"""The logs folders of two nodes, as Ray's log API shows them."""

from __future__ import annotations

from fnmatch import fnmatchcase

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

    async def read_end(self, node, name, lines):
        return self.files[node][name][-lines:]

    async def follow(self, node, name, lines, is_over):
        yield self.files[node][name]
        self.over = await is_over()

    async def follow_log(self, job, lines):
        yield [f"log of {job}"]
