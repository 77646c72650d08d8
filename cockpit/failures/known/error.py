"""Defines a row of the table of known errors."""

from __future__ import annotations

from typing import Literal

import msgspec

LookUp = Literal["port", "gpu-memory", "actor-name", "oom-kill", "disk", "shm", "worker-ports", "driver", "object-store"]


class KnownError(msgspec.Struct, frozen=True, kw_only=True):
    """An error that is known: how to recognise it, its cause and its remedy."""

    name: str
    """A stable name in kebab case, such as `cuda-out-of-memory`."""
    marker: str | tuple[str, ...]
    """A text that every match contains, in exactly these letters, or several of which it contains one. It is looked for first, since that is
    quick; so it should be rare in logs."""
    pattern: str
    """Searched in the line with the marker and the ten lines after it, with `re.MULTILINE`. Its named groups are the parts of the sentences."""
    cause: str
    """What went wrong, in one sentence without a full stop. `{part}` is the text of a named group."""
    remedy: str
    """What to do; commands in backticks work as typed."""
    source: str
    """Where the text comes from: file and version, or issue."""
    matches: tuple[str, ...]
    """Real texts that match."""
    differs: tuple[str, ...]
    """Texts that look similar and must not match."""
    action: str | None = None
    """The id of cockpit's action that helps."""
    look_up: LookUp | None = None
    """What the cluster's present state can add to the cause: who has the port, who holds the GPU's memory."""
    is_consequence: bool = False
    """Whether it usually follows from another error elsewhere, such as a peer that died; another error in the same log is then the cause."""
    is_warning: bool = False
    """Whether it is only a notice, of something slow or unusual: by itself it ends no job."""
    is_general: bool = False
    """Whether more special rows match the same texts; general rows come last in the table."""

    explains_only_kind: bool = False
    """Whether it says only what all errors of its kind have in common, as every `KeyError`; it never decides which error is the root error."""

    @property
    def markers(self) -> tuple[str, ...]:
        """The markers: every match contains at least one of them."""
        return (self.marker,) if isinstance(self.marker, str) else self.marker

    @property
    def is_symptom(self) -> bool:
        """Whether it reports something else's failure, or no failure at all."""
        return self.is_consequence or self.is_warning

    @property
    def is_certain(self) -> bool:
        """Whether it can be the cause of a failure by itself."""
        return not self.is_symptom and not self.explains_only_kind


def general_error(
    name: str,
    marker: str | tuple[str, ...],
    pattern: str,
    cause: str,
    remedy: str,
    source: str,
    *matches: str,
    differs: str = "INFO all processes have ended",
    kind: bool = False,
    consequence: bool = False,
    warning: bool = False,
    general: bool = True,
) -> KnownError:
    """A row of a list of errors. `kind`: it explains only the kind of error, and others of the log come before it."""
    return KnownError(
        name=name,
        marker=marker,
        pattern=pattern,
        cause=cause,
        remedy=remedy,
        source=source,
        matches=matches,
        differs=(differs,),
        is_general=general,
        explains_only_kind=kind,
        is_consequence=consequence,
        is_warning=warning,
    )
