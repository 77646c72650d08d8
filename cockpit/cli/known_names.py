"""Lists the names that a shell may complete, from files and from the last recording; a cluster would answer too slowly."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress

from cockpit.config.document import InputError
from cockpit.config.settings import load
from cockpit.config.themes import shipped_folder, user_folder
from cockpit.model import Snapshot
from cockpit.presets import presets
from cockpit.recording.files import RecordingError, list_segments
from cockpit.recording.folder import list_recordings, recordings_path
from cockpit.recording.recording import Recording


def known_names(kind: str) -> Iterable[str | None]:
    """Names of one kind: presets, themes, hosts, nodes, sessions, jobs, actors, groups, logs (everything that has a log)."""
    if kind == "presets":
        return [preset.name for preset in presets()]
    if kind == "themes":
        return sorted({file.stem for folder in (shipped_folder(), user_folder()) for file in folder.glob("*.yaml")})
    last = last_recorded()
    nodes = [node.title for node in last.nodes or ()]
    jobs = [job.id for job in last.jobs or ()]
    actors = [actor.name or actor.id for actor in last.actors or ()]
    if kind == "hosts":
        with suppress(InputError):  # the command itself reports a mistake in the config
            return [*(host.name for host in load({}).hosts), *nodes]
    names: dict[str, list[str] | list[str | None]] = {
        "hosts": nodes,
        "nodes": nodes,
        "sessions": [last.cluster.session, *(session.name for session in last.sessions or ())],
        "jobs": jobs,
        "actors": actors,
        "groups": [group.name or group.id for group in last.placement_groups or ()],
        "logs": [*jobs, *nodes, *actors],
    }
    return names[kind]


def last_recorded() -> Snapshot:
    """The last recorded state of any cluster; an empty one if there is no recording."""
    try:
        recording = Recording.open([*list_segments(next(iter(list_recordings(recordings_path()))))][-1])
    except (OSError, IndexError, StopIteration, RecordingError):
        return Snapshot()
    with closing(recording):
        return recording.snapshot_at(recording.end) or Snapshot()
