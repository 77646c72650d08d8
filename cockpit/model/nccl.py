"""Defines what NCCL itself reports about the communicators of a job, by its RAS service."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.model.value import Value


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
    """A collective that not all ranks have launched equally often; a short difference is normal while a job works."""

    collective: str
    groups: tuple[CountGroup, ...]
    """The most launched first; at least two."""


class RankTrouble(Value, frozen=True):
    """Ranks of a communicator with something wrong but their counts."""

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
    """Ranks that the report has facts of."""
    counts: Mapping[str, int] | None = None
    """By collective: how many each rank has launched, for those that all have launched equally often. `None`: the text does not tell."""
    gaps: tuple[CountGap, ...] = ()
    troubles: tuple[RankTrouble, ...] = ()
    unchanged_since: float | None = None
    """Since when all counts have been the same in each report; `None`: it has no counts, or there is no earlier report."""


class NcclReport(Value, frozen=True, kw_only=True):
    """What NCCL has reported about one job when it was asked. Not asked by itself, unless the config allows it."""

    job: str
    """The key of the job."""
    asked: float
    versions: tuple[str, ...] = ()
    """Of NCCL, as the reports name them."""
    communicators: tuple[Communicator, ...] = ()
    """Those with a difference or a trouble first; the largest of the others."""
    number: int = 0
    """Of all communicators; `communicators` has only the first of very many."""
    timeouts: int = 0
    """How often a process has not answered another one while they collected the report."""
    troubles: tuple[str, ...] = ()
    """Processes that have no communicator any more in NCCL's eyes, in sentences."""
    problems: tuple[str, ...] = ()
    """Why a host has given no report, or why it was not believed, in one sentence each."""
    not_covered: int = 0
    """Processes of the job with GPUs that no report is about, as far as that is known."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"nccl:{self.job}"
