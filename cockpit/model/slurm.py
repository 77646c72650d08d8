"""A Slurm job, which is an allocation of nodes for a time, as Slurm itself tells of it."""

from __future__ import annotations

from cockpit.model.value import Value


class SlurmNode(Value, frozen=True):
    """A node of the allocation."""

    name: str
    state: str
    """As `sinfo` writes it in full: `allocated`, `draining`, `down*`; a sign at its end says more (sinfo(1), NODE STATE CODES)."""
    reason: str | None = None
    """What somebody wrote who took it out of service."""
    others: tuple[str, ...] = ()
    """What else it is called: its `NodeHostname`, which is what `hostname -s` says there, and its `NodeAddr`."""


class Allocation(Value, frozen=True):
    """A Slurm job."""

    job: str
    state: str
    """As `squeue` writes it in full, such as `RUNNING`."""
    ends: float | None
    """When Slurm ends it and all that runs in it; `None`: it has no limit, or Slurm doesn't say."""
    nodes: tuple[SlurmNode, ...]
    lacks: str | None = None
    """Why their states are not known, in a sentence."""
