"""Defines a process that was killed because memory ran low."""

from __future__ import annotations

from typing import Literal

from cockpit.model.value import Value


class OomKill(Value, frozen=True):
    """A process that Ray's memory monitor or the kernel killed because memory ran low."""

    by: Literal["ray", "kernel"]
    moment: float | None = None
    pid: int | None = None
    name: str | None = None
    """Ray's name of a task or actor, or a command."""
    actor: str | None = None
    job: str | None = None
    node: str | None = None
    host: str | None = None
    held: int | None = None
    text: str = ""
    """The original line of the log."""
    rays: bool | None = None
    """For a kill by the kernel: whether the probe had seen that it was Ray's; `None`: it had not looked yet, or the pid is unknown."""
    session: str | None = None
    """The Ray session whose log reports it; `None`: the API or the kernel reports it."""
    ours: bool | None = None
    """Whether that Ray is the followed one; `None`: unknown."""
    count: int = 1
    """The number of kills, because a counter may grow by several at once."""
    within: float | None = None
    """For a counter: it has grown within this number of seconds before `moment`."""
    limit: int | None = None
    """The memory limit of the cgroup at which a pid was killed; without a pid, the limit of the job or container."""
    used: int | None = None
    """Bytes in use there when a counter had grown."""
    slurm: str | None = None
    """The Slurm job with that limit."""

    @property
    def key(self) -> str:
        """Its identity: the API and the log report the same kill. `text` identifies a counter by its values before and after."""
        return f"oom:{self.node or self.host}:{self.text if self.pid is None else self.pid}"
