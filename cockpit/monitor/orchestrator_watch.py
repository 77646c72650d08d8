"""Asks the orchestrator of the hosts, Slurm or Kubernetes, once in a while: of the job, or of the RayCluster, that cockpit was told of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from cockpit.monitor.poller import Poller
from cockpit.sources.source import SourceError, within

SLURM_EVERY_S: Final = 60.0
"""Seconds between two questions: all jobs of a site ask one slurmctld."""
KUBERNETES_EVERY_S: Final = 30.0
"""The same: KubeRay's own operator and the autoscaler ask the API server every few seconds; this answers from its memory."""


class OrchestratorWatch:
    """Of one job or one RayCluster, or of none."""

    def __init__(self, poller: Poller, name: str, every: float, ask: Callable[[], Awaitable[None]] | None) -> None:
        """`ask` tells the poller what is so now, or raises `SourceError`; `None`: there is nothing to ask of."""
        self._poller, self._name, self._every, self._ask_orchestrator = poller, name, every, ask
        self._asked = asyncio.Event()
        """It has answered or failed once."""
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Ask until cancelled; without anything to ask of this ends at once."""
        while self._ask_orchestrator is not None:
            self._wake.clear()
            await self._ask(self._ask_orchestrator)
            self._asked.set()
            await self._rest()

    def refresh(self) -> None:
        """Ask again now."""
        self._wake.set()

    async def wait_until_asked(self, patience: float) -> None:
        """Until the first answer is in the poller, but not longer than so many seconds; a fault says that it is not."""
        if self._ask_orchestrator is None:
            return
        try:
            await within(patience, self._asked.wait())
        except asyncio.TimeoutError:
            self._poller.doubt(self._source, f"{self._name} has not answered within {patience:.0f} s")

    @property
    def _source(self) -> str:
        return self._name.lower()

    async def _rest(self) -> None:
        try:
            await within(self._every, self._wake.wait())
        except asyncio.TimeoutError:
            return

    async def _ask(self, ask: Callable[[], Awaitable[None]]) -> None:
        try:
            await ask()
        except SourceError as error:
            self._poller.doubt(self._source, str(error))
        else:
            self._poller.trust(self._source)
