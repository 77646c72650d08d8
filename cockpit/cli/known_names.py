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

Names = Iterable["str | None"]


def last_recorded() -> Snapshot:
    """The last recorded state of any cluster; an empty one if there is no recording."""
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
    """Names of placement groups; the id of one without a name."""
    return (group.name or group.id for group in last_recorded().placement_groups or ())


def sessions() -> Names:
    """The recorded Ray session, and the other sessions that probes found."""
    last = last_recorded()
    return (last.cluster.session, *(session.name for session in last.sessions or ()))


def hosts() -> Names:
    """Hosts of the config, and nodes."""
    with suppress(InputError):  # the command itself reports a mistake in the config
        yield from (host.name for host in load({}).hosts)
    yield from nodes()


def preset_names() -> Names:
    """Your own presets and the ready-made ones."""
    return (preset.name for preset in presets())


def themes() -> Names:
    """Files in the folders of themes."""
    return sorted({file.stem for folder in (shipped_folder(), user_folder()) for file in folder.glob("*.yaml")})


def logs() -> Names:
    """Everything that has a log."""
    return (*jobs(), *nodes(), *actors())
