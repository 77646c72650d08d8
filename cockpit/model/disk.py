"""Defines the file systems that Ray writes to, and what fills them."""

from __future__ import annotations

from cockpit.model.value import Value


class Disk(Value, frozen=True):
    """A file system that Ray writes to."""

    path: str
    used: int | None = None
    total: int | None = None


class Filler(Value, frozen=True, kw_only=True):
    """A group of files that takes much of a disk."""

    kind: str
    """`driver_log`, `worker_log`, `ray_log`, `spilled` (objects), `runtime_env`, `session` (the rest of a session's folder), `cache`,
    `checkpoints`, `wandb`, `core`, `shm` (shared memory of a known kind), `deleted` (still open, without a name), `file`, `folder`."""
    path: str
    """The file, or the folder of all files; for shared memory a pattern."""
    size: int
    files: int = 1
    name: str | None = None
    """The program of a cache, the run of checkpoints, the meaning of files in shared memory."""
    job: str | None = None
    """The submission id of a driver's log, the job id of a worker's log; in the Ray of `session`."""
    worker: int | None = None
    """The pid, in its container, of the worker of a log."""
    session: str | None = None
    """The name of the Ray session that contains it and has the same owner: one of the host's `sessions`."""
    user: str | None = None
    """The owner of the largest file."""
    pid: int | None = None
    """A process that has one of them open, works there, or was started with that path."""
    command: str | None = None


class FilledDisk(Value, frozen=True):
    """The fillers of a file system, the largest first, as far as the probe has searched."""

    path: str
    """As in `Disk`; or `/dev/shm`."""
    fillers: tuple[Filler, ...] = ()
    whole: bool = False
    """The probe has counted everything that it may read; otherwise there may be larger fillers."""
    seen: float | None = None
    """When the search began; `None` from an older probe."""
