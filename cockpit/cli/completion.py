"""What a shell completes: names that lie on disk or were recorded last.

No cluster is asked: a key that is pressed must be answered at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import click

from cockpit.model import Actor, Job, Node, PlacementGroup, Snapshot

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
MAX_OFFERED: Final = 200
_FIT: Final = re.compile(r"\w[\w.:@-]{0,199}", re.ASCII)
"""What a shell takes for one word that does nothing: names come from a cluster, where anybody may choose them."""


def _offer(names: Callable[[], Iterable[str | None]]) -> Completer:
    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
        found = dict.fromkeys(name for name in names() if name and name.startswith(begun) and _FIT.fullmatch(name))
        return [*found][:MAX_OFFERED]

    return complete


def last_recorded() -> Snapshot | None:
    """The last state that was recorded, of whatever cluster."""
    from cockpit.recording.files import RecordingError, list_segments
    from cockpit.recording.folder import list_recordings, recordings_path
    from cockpit.recording.recording import Recording

    try:
        folder = next(iter(list_recordings(recordings_path())), None)
        recording = None if folder is None else Recording.open([*list_segments(folder)][-1])
    except (OSError, IndexError, RecordingError):
        return None
    if recording is None:
        return None
    try:
        return recording.snapshot_at(recording.end)
    finally:
        recording.close()


def _nodes() -> Iterable[str | None]:
    last = last_recorded()
    return (node.title for node in (last.nodes or () if last else ()))


def _hosts() -> Iterable[str | None]:
    from cockpit.config.document import InputError
    from cockpit.config.settings import load

    with suppress(InputError):  # a mistake in the config is told by the command itself
        yield from (host.name for host in load({}).hosts)
    yield from _nodes()


def _sessions() -> Iterable[str | None]:
    last = last_recorded()
    if last:
        yield last.cluster.session
        yield from (session.name for session in last.sessions or ())


def _jobs() -> Iterable[str | None]:
    last = last_recorded()
    return (job.id for job in (last.jobs or () if last else ()))


def _actors() -> Iterable[str | None]:
    last = last_recorded()
    return (actor.name or actor.id for actor in (last.actors or () if last else ()))


def _groups() -> Iterable[str | None]:
    last = last_recorded()
    return (group.name or group.id for group in (last.placement_groups or () if last else ()))


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
