"""Defines a Slurm job, an allocation of nodes for a time, as Slurm reports it."""

from __future__ import annotations

from cockpit.model.value import Value


class SlurmNode(Value, frozen=True):
    """A node of the allocation."""

    name: str
    state: str
    """In the words of `sinfo`: `allocated`, `draining`, `down*`. For a sign at the end see sinfo(1), NODE STATE CODES."""
    reason: str | None = None
    """The reason that an administrator gave for taking it out of service."""
    others: tuple[str, ...] = ()
    """Its other names: its `NodeHostname`, which `hostname -s` prints there, and its `NodeAddr`."""


class Allocation(Value, frozen=True):
    """A Slurm job."""

    job: str
    state: str
    """In the words of `squeue`, such as `RUNNING`."""
    ends: float | None
    """When Slurm ends it; `None`: it has no limit, or the limit is unknown."""
    nodes: tuple[SlurmNode, ...]
    lacks: str | None = None
    """Why the nodes' states are unknown, in a sentence."""
