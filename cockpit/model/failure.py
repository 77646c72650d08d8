"""Defines a failure: the root error of a job or actor that failed, as its logs show it."""

from __future__ import annotations

from cockpit.model.value import Value


class Failure(Value, frozen=True):
    """The error that caused a job or actor to fail, or why that could not be read. Texts are clean and without secrets."""

    about: str
    """The key of the job or actor."""
    moment: float | None = None
    """When the job failed; a later failure of the same job is another one. `None`: it runs, or it is an actor."""
    text: str | None = None
    """The error in its own words, at most a few lines; `None`: the log shows no error."""
    file: str | None = None
    """The log in which it stands."""
    known: str | None = None
    """The name of the row in the table of known errors; `None`: there is none."""
    is_notice: bool = False
    """It is only a notice of something slow or unusual, the last that the log shows: by itself it ends no job."""
    cause: str | None = None
    """What went wrong, in one sentence; `None`: the error is not known."""
    remedy: str | None = None
    action: str | None = None
    """The id of cockpit's action that helps."""
    look_up: str | None = None
    """What the cluster's present state can add: `port`, `gpu-memory`, …, as in `cockpit.failures.known.error.LookUp`."""
    is_consequence: bool = False
    """It only reports that something else has failed, and the log does not show what."""
    raised_at: str | None = None
    """`trainer.py:210 in fit`."""
    node: str | None = None
    """The id of the node whose process reports it; `None`: unknown."""
    ip: str | None = None
    """The address of that node, if the log names it."""
    pid: int | None = None
    rank: int | None = None
    gpus: tuple[int, ...] = ()
    """The GPUs of its node that the process held; empty: unknown, or none."""
    parts: tuple[tuple[str, str], ...] = ()
    """The named parts of a known error, such as the port."""
    also: int = 0
    """The number of other processes that report the same error."""
    others: str | None = None
    """Another error that other processes report, in one line."""
    others_count: int = 0
    earlier_s: float | None = None
    """Seconds by which this error was earlier than that one."""
    repeats: str | None = None
    """The line that a running job writes again and again; `None`: it writes others too."""
    repeats_since: float | None = None
    """Since when it has written nothing else, by this host's clock."""
    unread: str | None = None
    """Why the log could not be read; `None`: it was."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"failure:{self.about}"
