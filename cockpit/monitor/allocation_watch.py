"""Asks Slurm of the job that cockpit was told of, once a minute: its time left and the state of its nodes."""

from __future__ import annotations

import asyncio

from cockpit.monitor.poller import Poller
from cockpit.sources.slurm import read_allocation
from cockpit.sources.source import SourceError, within

ASK_EVERY_S = 60.0
"""Seconds between two questions: all jobs of a site ask one slurmctld."""
SOURCE = "slurm"


class AllocationWatch:
    """Of one job, or of none."""

    def __init__(self, poller: Poller, job: str | None) -> None:
        self._poller, self._job = poller, job
        self._asked = asyncio.Event()
        """Slurm has answered or failed once."""

    async def run(self) -> None:
        """Ask until cancelled; without a job this ends at once."""
        while self._job is not None:
            await self._ask(self._job)
            self._asked.set()
            await asyncio.sleep(ASK_EVERY_S)

    async def wait_until_asked(self, patience: float) -> None:
        """Until the first answer is in the poller, but not longer than so many seconds; a fault says that it is not."""
        if self._job is None:
            return
        try:
            await within(patience, self._asked.wait())
        except asyncio.TimeoutError:
            self._poller.doubt(SOURCE, f"Slurm has not answered within {patience:.0f} s")

    async def _ask(self, job: str) -> None:
        try:
            self._poller.tell_allocation(await read_allocation(job, self._poller.clock()))
        except SourceError as error:
            self._poller.doubt(SOURCE, str(error))
        else:
            self._poller.trust(SOURCE)
