"""The names that a shell may complete: they lie on disk or were recorded last.

No cluster is asked: a key that is pressed must be answered at once.
"""

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

Names = Iterable["str | None"]


def last_recorded() -> Snapshot:
    """The last state that was recorded, of whatever cluster; an empty one where there is none."""
    try:
        recording = Recording.open([*list_segments(next(iter(list_recordings(recordings_path()))))][-1])
    except (OSError, IndexError, StopIteration, RecordingError):
        return Snapshot()
    with closing(recording):
        return recording.snapshot_at(recording.end) or Snapshot()


def nodes() -> Names:
    """Titles of nodes."""
    return (node.title for node in last_recorded().nodes or ())


def jobs() -> Names:
    """Ids of jobs."""
    return (job.id for job in last_recorded().jobs or ())


def actors() -> Names:
    """Names of actors; the id of one without a name."""
    return (actor.name or actor.id for actor in last_recorded().actors or ())


def groups() -> Names:
    """The same of placement groups."""
    return (group.name or group.id for group in last_recorded().placement_groups or ())


def sessions() -> Names:
    """The session of the followed Ray, and those that probes found."""
    last = last_recorded()
    return (last.cluster.session, *(session.name for session in last.sessions or ()))


def hosts() -> Names:
    """Hosts of the config, and nodes."""
    with suppress(InputError):  # a mistake in the config is told by the command itself
        yield from (host.name for host in load({}).hosts)
    yield from nodes()


def preset_names() -> Names:
    """Your own presets and the ready-made ones."""
    return (preset.name for preset in presets())


def themes() -> Names:
    """Files in the folders of themes."""
    return sorted({file.stem for folder in (shipped_folder(), user_folder()) for file in folder.glob("*.yaml")})


def logs() -> Names:
    """Whatever has a log."""
    return (*jobs(), *nodes(), *actors())
