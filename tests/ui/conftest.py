from __future__ import annotations

import asyncio

import pytest
from world import NOW, snapshot

from cockpit.config import Config
from cockpit.sources.source import SourceError
from cockpit.ui.app import Cockpit


class Still:
    """Stands where the lookout does, and shows a cluster that a test makes up."""

    def __init__(self, publish, first):
        self.publish, self.first = publish, first
        self.choose = None
        self.closed = self.refreshed = False
        self.followed = []
        self.dead = ()
        self.log = []
        self.of_node = ()

    async def run(self):
        self.publish(self.first)
        await asyncio.Event().wait()

    def close(self):
        self.closed = True

    def refresh(self):
        self.refreshed = True

    def pace(self, step):
        return 2.0 + step

    def follow(self, address):
        self.followed.append(address)

    async def dead_actors(self):
        if isinstance(self.dead, SourceError):
            raise self.dead
        return self.dead

    async def node_processes(self, node):
        return self.of_node

    async def environment(self, process):
        return [f"PID={process.pid}", "WANDB_API_KEY=•••"]

    async def follow_log(self, job):
        for batch in self.log:
            yield batch


class Clock:
    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def make(clock):
    def app(first=None, **config):
        return Cockpit(Config(**config), lambda publish: Still(publish, first or snapshot()), clock=clock)

    return app
