"""How long the paths of Ray's sockets become below a temp dir, and how long the kernel lets a socket's path be.

Ray makes its sockets at TEMP/session_YYYY-MM-DD_HH-MM-SS_ffffff_PID/sockets/NAME. PID is that of the head's `ray start`, on every node.
"""

from __future__ import annotations

import os
import re
from typing import Mapping, NamedTuple, Sequence, Tuple

MAX_PATH_BYTES = 107
"""sun_path of <linux/un.h> has 108 bytes, the last of which is the zero. Ray checks it itself: `validate_socket_filepath` in
ray/_private/utils.py, called by `_prepare_socket_file` in node.py (2.50 to 2.60); in 2.9 and 2.44 node.py alone."""
MAX_PID_DIGITS = 7
"""Of PID_MAX_LIMIT, 4194304 (linux/threads.h)."""
SESSION = "session_2026-11-27_21-34-42_343683_"
"""A session's name before its pid; all are as long as this one."""
_NODE_SOCKETS = {"plasma_store": "--plasma-store-socket-name", "raylet": "--raylet-socket-name"}
"""Of each node, with the flag of `ray start` that puts it elsewhere; the longest stands first."""
_DASHBOARD_SOCKETS = (((2, 58), "dash_TaskEventsHead"), ((2, 50), "dash_MetricsHead"))
"""The longest name of those of the dashboard's own parts, by the first Ray that was seen to have it: `get_socket_path` in
ray/dashboard/subprocesses/utils.py, the names of the parts are the classes in ray/dashboard/modules (2.44 has none)."""


class PidRange(NamedTuple):
    """How long the pids of this host's processes are."""

    digits: int | None = None
    """Of the newest one: the next one is as long, or a digit longer."""
    most: int | None = None
    """kernel.pid_max: all are below it."""


def node_socket(words: Sequence[str]) -> str | None:
    """The longest name of a node's own sockets, for `ray start` with these words; `None`: its flags put both elsewhere."""
    given = {word.partition("=")[0] for word in words}
    return next((name for name, elsewhere in _NODE_SOCKETS.items() if elsewhere not in given), None)


def dashboard_socket(version: str | None) -> str | None:
    """The longest name of a dashboard's sockets; `None`: that Ray has none. Of an unknown version: that of the newest one."""
    found = re.match(r"(\d+)\.(\d+)", version or "")
    if found is None:
        return _DASHBOARD_SOCKETS[0][1]
    return next((name for first, name in _DASHBOARD_SOCKETS if (int(found[1]), int(found[2])) >= first), None)


def path_bytes(temp: str, pid_digits: int, socket: str) -> int:
    """Of the socket's path, in a session whose pid has so many digits."""
    return len(os.fsencode(f"{temp.rstrip('/')}/{SESSION}/sockets/{socket}")) + pid_digits


def temp_dir(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """That of a head that is started so: `get_default_ray_temp_dir` in ray/_common/utils.py (2.60; alike from 2.9 on)."""
    given = next((word.partition("=")[2] for word in words if word.startswith("--temp-dir=")), "")
    return given or f"{environ.get('RAY_TMPDIR') or environ.get('TMPDIR') or '/tmp'}/ray"  # noqa: S108 Ray's own choice


class SocketFault(NamedTuple):
    """A socket for which a temp dir is too long, or may be."""

    temp: str
    socket: str
    path_bytes: int
    pid_digits: int
    """With a pid of so many digits."""
    certain: bool
    """False: only if the pid of `ray start` gets as long as pids may become there."""
    most_bytes: int
    """A temp dir of so many bytes fits whatever the pid is."""

    @property
    def is_dashboards(self) -> bool:
        """Ray itself starts then, and its dashboard ends at once."""
        return self.socket.startswith("dash_")

    @property
    def text(self) -> str:
        """One sentence."""
        of = f"the path of Ray's socket {self.socket} in {self.temp} ({len(os.fsencode(self.temp))} bytes)"
        size = f"{self.path_bytes} bytes with a pid of {self.pid_digits} digit{'s' * (self.pid_digits > 1)}"
        then = "the dashboard of Ray 2.50 and later would end at its start" if self.is_dashboards else "`ray start` would fail"
        if self.certain:
            return f"{of} would have {size}, but at most {MAX_PATH_BYTES} are possible: {then}"
        return f"{of} may get too long: {size}, but at most {MAX_PATH_BYTES} are possible; then {then}"

    @property
    def remedy(self) -> str:
        """What to change."""
        return f"use a temp dir of at most {self.most_bytes} bytes, such as /tmp/ray-NAME"


def find_fault(temp: str, sockets: Tuple[str | None, ...], pids: PidRange) -> SocketFault | None:
    """The first of these sockets whose path is too long now, else the first whose path may get too long; `None`: all fit."""
    names = tuple(filter(None, sockets))
    for digits, certain in ((pids.digits or 1, True), (len(str(pids.most - 1)) if pids.most else MAX_PID_DIGITS, False)):
        for name in names:
            size = path_bytes(temp, digits, name)
            if size > MAX_PATH_BYTES:
                most = MAX_PATH_BYTES - max(path_bytes("", MAX_PID_DIGITS, each) for each in names)
                return SocketFault(temp, name, size, digits, certain, most)
    return None
