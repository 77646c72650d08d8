"""Where Ray writes: file systems, and what fills them."""

from __future__ import annotations

from cockpit.model.value import Value


class Disk(Value, frozen=True):
    """A file system that Ray writes to."""

    path: str
    used: int | None = None
    total: int | None = None


class Filler(Value, frozen=True, kw_only=True):
    """Files that belong together and take much of a disk."""

    kind: str
    """`driver_log`, `worker_log`, `ray_log`, `spilled` (objects), `runtime_env`, `session` (the rest of a session's folder), `cache`,
    `checkpoints`, `wandb`, `core`, `shm` (shared memory of a known kind), `deleted` (has no name, and is still open), `file`, `folder`."""
    path: str
    """The file, or the folder in which all of them lie; of shared memory a pattern."""
    size: int
    files: int = 1
    name: str | None = None
    """Of a cache the program that uses it, of checkpoints the run, of shared memory what each file is."""
    job: str | None = None
    """Of a driver's log the submission id, of a worker's log the job id; of the Ray whose `session` it is."""
    worker: int | None = None
    """Of a worker's log its pid, as its container counts."""
    session: str | None = None
    """The name of the Ray session in whose folder it lies, and whose owner owns it: one of the host's `sessions`."""
    user: str | None = None
    """Whose the largest of the files is."""
    pid: int | None = None
    """A process that has one of them open, works there, or was started with that path; `None`: none is seen."""
    command: str | None = None
    """Of that process."""


class FilledDisk(Value, frozen=True):
    """What a file system is filled with, as far as its probe has looked: the largest first."""

    path: str
    """As of a `Disk`; or `/dev/shm`."""
    fillers: tuple[Filler, ...] = ()
    whole: bool = False
    """Everything there that the probe may read was counted; else there may be more, and larger."""
    seen: float | None = None
    """When the probe began to look, in seconds since 1970; `None`: a probe of an older version did not say."""
