"""What was told to whom, kept on disk for a cluster: a restart tells nothing twice, and tells what has ended meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec
import platformdirs

from cockpit.config.notify import NotifyTarget
from cockpit.model import Cluster
from cockpit.notify.message import FindingNotice, is_near
from cockpit.recording.folder import folder_name
from cockpit.trust import read_end
from cockpit.whole_file import OWNER_READS, write_whole

FILE = "told.json"
MOST_BYTES = 16 << 20
SentNotices = Mapping[str, tuple[FindingNotice, ...]]
"""By target."""


def notify_path() -> Path:
    """`$XDG_STATE_HOME/cockpit/notify`: a folder for each cluster."""
    return Path(platformdirs.user_state_path("cockpit")) / "notify"


def cluster_folder(cluster: Cluster) -> str:
    """That of its address, which outlives Ray's restarts; hosts that share a home each have a 127.0.0.1."""
    name = folder_name(Cluster(address=cluster.address))
    return f"{folder_name(Cluster(session=socket.gethostname()))}-{name}" if is_near(cluster) else name


def identify(target: NotifyTarget) -> str:
    """The same as long as it stands the same in the config; nobody can read an address in it."""
    return blake2b(msgspec.json.encode(target), digest_size=8).hexdigest()


def load_told(folder: Path) -> SentNotices:
    """What was told until now; nothing where that can't be read."""
    try:
        return msgspec.json.decode(read_end(folder / FILE, MOST_BYTES), type=dict[str, tuple[FindingNotice, ...]])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def save_told(folder: Path, told: SentNotices) -> None:
    """Whole or not at all. Raises `OSError`."""
    write_whole(folder / FILE, msgspec.json.encode(told).decode(), OWNER_READS, lasting=True)
