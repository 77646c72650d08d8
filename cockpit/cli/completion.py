"""Completes arguments in a shell: one function for each kind of argument, which click calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

import click

from cockpit.model import Actor, Job, Node, PlacementGroup

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
MAX_OFFERED: Final = 200
_FIT: Final = re.compile(r"\w[\w.:@-]{0,199}", re.ASCII)
"""Names that a shell can't take for anything but one word: names come from a cluster, where anybody may choose them."""


def _offer(kind: str) -> Completer:
    """Complete with names of this kind. `cockpit.cli.known_names` is imported only then: most commands complete nothing."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
        names = import_module("cockpit.cli.known_names").known_names(kind)
        found = dict.fromkeys(name for name in names if name and name.startswith(begun) and _FIT.fullmatch(name))
        return [*found][:MAX_OFFERED]

    return complete


complete_hosts = _offer("hosts")
complete_nodes = _offer("nodes")
complete_sessions = _offer("sessions")
complete_jobs = _offer("jobs")
complete_presets = _offer("presets")
complete_themes = _offer("themes")
complete_logs = _offer("logs")
BY_ROW: Final[Mapping[type | None, Completer]] = {
    Job: complete_jobs,
    Node: complete_nodes,
    Actor: _offer("actors"),
    PlacementGroup: _offer("groups"),
}
"""Completes the id that an action takes, by the kind of its target."""
