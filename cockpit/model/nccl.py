"""Defines what NCCL itself reports about the communicators of a job, by its RAS service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cockpit.model.value import Value

MAX_COMMUNICATORS: Final = 64
"""Kept of one report. Those with a difference or a trouble come first."""


class NcclRank(Value, frozen=True, kw_only=True):
    """A rank that a report names."""

    rank: int
    address: str = ""
    """The address that its process uses for NCCL; empty: unknown."""
    pid: int | None = None
    """In its own container."""
    gpu: int | None = None
    """Its index as NVML counts."""
    process: str | None = None
    """The key of the process among those that the probes see; `None`: none of them, or several."""


class CountGroup(Value, frozen=True):
    """The ranks of a communicator that have launched the same number of one collective."""

    launched: int
    number: int
    ranks: tuple[NcclRank, ...] = ()
    """Fewer than `number` if there are many: NCCL's text names only the few that differ, and at most so many are kept."""


class CountGap(Value, frozen=True):
    """A collective that not all ranks have launched equally often. Short differences are normal while a job works."""

    collective: str
    groups: tuple[CountGroup, ...]
    """The most launched first; at least two."""


class RankTrouble(Value, frozen=True):
    """Ranks of a communicator that have another problem than different counts."""

    what: str
    """Continues `3 ranks: `."""
    number: int
    ranks: tuple[NcclRank, ...] = ()
    """As in `CountGroup`."""


class Communicator(Value, frozen=True, kw_only=True):
    """One communicator of a job."""

    hash: str
    size: int | None = None
    answered: int | None = None
    """The number of ranks that answered for the report."""
    counts: Mapping[str, int] | None = None
    """By collective: the number that each rank has launched, if it is the same for all. `None`: a report as text does not have it."""
    gaps: tuple[CountGap, ...] = ()
    troubles: tuple[RankTrouble, ...] = ()
    unchanged_since: float | None = None
    """Since when all counts have been the same in each report; `None`: it has no counts, or there is no earlier report."""


class NcclReport(Value, frozen=True, kw_only=True):
    """NCCL's last report about a job. NCCL is asked automatically only if the config allows it."""

    job: str
    """The key of the job."""
    asked: float
    versions: tuple[str, ...] = ()
    """The versions of NCCL in the reports."""
    communicators: tuple[Communicator, ...] = ()
    """Those with a difference or a trouble first; the largest of the others."""
    number: int = 0
    """The number of all communicators that were read. `communicators` has only the first of very many."""
    timeouts: int = 0
    """How often a process did not answer another one while NCCL made the report."""
    troubles: tuple[str, ...] = ()
    """Sentences on processes that, by NCCL's report, no longer have a communicator."""
    problems: tuple[str, ...] = ()
    """Sentences on why a host has given no report, or why its report was refused or not read to its end."""
    not_covered: int = 0
    """The number of processes of the job with GPUs that no report covers, as far as that is known."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"nccl:{self.job}"
