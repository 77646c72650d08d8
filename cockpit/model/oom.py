"""What was killed because memory ran low."""

from __future__ import annotations

from typing import Literal

from cockpit.model.value import Value


class OomKill(Value, frozen=True):
    """A process that was ended because memory ran low."""

    by: Literal["ray", "kernel"]
    moment: float | None = None
    pid: int | None = None
    name: str | None = None
    """A task or actor as Ray names it, or a command."""
    actor: str | None = None
    job: str | None = None
    """Of the followed cluster, as in a `Process`."""
    node: str | None = None
    """Ray's id of its node."""
    host: str | None = None
    held: int | None = None
    text: str = ""
    """The line that says so, as it was written."""
    rays: bool | None = None
    """Of the kernel's: whether the probe there had seen it to be Ray's; `None` where it had not looked yet, or no pid is told."""
    session: str | None = None
    """The name of the Ray session whose log tells of it; `None` where the API or the kernel does."""
    ours: bool | None = None
    """Whether the Ray that tells of it is the followed one; `None`: that can't be told."""
    count: int = 1
    """How many: a counter may have grown by several."""
    within: float | None = None
    """Of a counter: it has grown in so many seconds before `moment`."""
    limit: int | None = None
    """Bytes that may be used in the cgroup: of a pid that at which it was killed; else that of the job or container."""
    used: int | None = None
    """Of these in use when a counter was seen to have grown."""
    slurm: str | None = None
    """The Slurm job whose limit that is."""

    @property
    def key(self) -> str:
        """Its identity: the API and the log tell of the same. What a counter tells of is known by what it has grown from and to."""
        return f"oom:{self.node or self.host}:{self.text if self.pid is None else self.pid}"
