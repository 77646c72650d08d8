"""Keeps on disk which notices each target was sent, so that a restart sends none twice and sends ends that it missed."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec
import platformdirs

from cockpit.config.notify import NotifyTarget
from cockpit.files.atomic import OWNER_READS, write_whole
from cockpit.model import Cluster
from cockpit.notify.message import FindingNotice, is_near
from cockpit.recording.folder import folder_name
from cockpit.trust import read_end

FILE = "told.json"
MAX_BYTES = 16 << 20
SentNotices = Mapping[str, tuple[FindingNotice, ...]]
"""Open notices by the id of their target."""


def notify_path() -> Path:
    """`$XDG_STATE_HOME/cockpit/notify`, which has a folder for each cluster."""
    return Path(platformdirs.user_state_path("cockpit")) / "notify"


def cluster_folder(cluster: Cluster) -> str:
    """The folder name of a cluster's address, which outlives Ray's restarts. Hosts may share a home, so 127.0.0.1 gets the host's name."""
    name = folder_name(Cluster(address=cluster.address))
    return f"{folder_name(Cluster(session=socket.gethostname()))}-{name}" if is_near(cluster) else name


def identify(target: NotifyTarget) -> str:
    """The id of a target: a hash of its settings, which reveals no address."""
    return blake2b(msgspec.json.encode(target), digest_size=8).hexdigest()


def load_sent(folder: Path) -> SentNotices:
    """The notices that were sent; empty if the file can't be read."""
    try:
        return msgspec.json.decode(read_end(folder / FILE, MAX_BYTES), type=dict[str, tuple[FindingNotice, ...]])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def save_sent(folder: Path, sent: SentNotices) -> None:
    """Replace the file at once. Raises `OSError`."""
    write_whole(folder / FILE, msgspec.json.encode(sent).decode(), OWNER_READS, lasting=True)
