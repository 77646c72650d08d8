"""What a shell completes: names that lie on disk or were recorded last.

No cluster is asked: a key that is pressed must be answered at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import Final

import click

from cockpit.model import Actor, Job, Node, PlacementGroup, Snapshot

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
MAX_OFFERED: Final = 200
_FIT: Final = r"(?a)\w[\w.:@-]{0,199}"
"""What a shell takes for one word that does nothing: names come from a cluster, where anybody may choose them."""


def _offer(names: Callable[[], Iterable[str | None]]) -> Completer:
    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
        found = dict.fromkeys(name for name in names() if name and name.startswith(begun) and re.fullmatch(_FIT, name))
        return [*found][:MAX_OFFERED]

    return complete


def last_recorded() -> Snapshot:
    """The last state that was recorded, of whatever cluster; an empty one where there is none."""
    from cockpit.recording.files import RecordingError, list_segments
    from cockpit.recording.folder import list_recordings, recordings_path
    from cockpit.recording.recording import Recording

    try:
        recording = Recording.open([*list_segments(next(iter(list_recordings(recordings_path()))))][-1])
    except (OSError, IndexError, StopIteration, RecordingError):
        return Snapshot()
    with closing(recording):
        return recording.snapshot_at(recording.end) or Snapshot()


def _of_last(names: Callable[[Snapshot], Iterable[str | None]]) -> Callable[[], Iterable[str | None]]:
    return lambda: names(last_recorded())


_nodes = _of_last(lambda last: (node.title for node in last.nodes or ()))
_jobs = _of_last(lambda last: (job.id for job in last.jobs or ()))
_actors = _of_last(lambda last: (actor.name or actor.id for actor in last.actors or ()))
_groups = _of_last(lambda last: (group.name or group.id for group in last.placement_groups or ()))
_sessions = _of_last(lambda last: (last.cluster.session, *(session.name for session in last.sessions or ())))


def _hosts() -> Iterable[str | None]:
    from cockpit.config.document import InputError
    from cockpit.config.settings import load

    with suppress(InputError):  # a mistake in the config is told by the command itself
        yield from (host.name for host in load({}).hosts)
    yield from _nodes()


def _presets() -> Iterable[str]:
    from cockpit.presets import presets

    return (preset.name for preset in presets())


def _themes() -> Iterable[str]:
    from cockpit.config.themes import shipped_folder, user_folder

    return sorted({file.stem for folder in (shipped_folder(), user_folder()) for file in folder.glob("*.yaml")})


complete_hosts = _offer(_hosts)
complete_nodes = _offer(_nodes)
complete_sessions = _offer(_sessions)
complete_jobs = _offer(_jobs)
complete_presets = _offer(_presets)
complete_themes = _offer(_themes)
complete_logs = _offer(lambda: (*_jobs(), *_nodes(), *_actors()))
BY_ROW: Final[Mapping[type | None, Completer]] = {
    Job: complete_jobs,
    Node: complete_nodes,
    Actor: _offer(_actors),
    PlacementGroup: _offer(_groups),
}
"""What an act takes, by the rows that it is about on the screen."""
