"""Computes whether the paths of Ray's sockets below a temp dir stay within the kernel's limit for socket paths.

Ray creates its sockets at TEMP/session_YYYY-MM-DD_HH-MM-SS_ffffff_PID/sockets/NAME. On each node, PID is the pid of the head's `ray start`.
"""

from __future__ import annotations

import os
import re
from typing import Mapping, NamedTuple, Sequence, Tuple

MAX_PATH_BYTES = 107
"""sun_path in <linux/un.h> has 108 bytes with the final zero. Ray checks this limit itself: `validate_socket_filepath` in
ray/_private/utils.py, called by `_prepare_socket_file` in node.py (2.50 to 2.60); in 2.9 and 2.44 only in node.py."""
MAX_PID_DIGITS = 7
"""Digits of PID_MAX_LIMIT, 4194304 (linux/threads.h)."""
SESSION = "session_2026-11-27_21-34-42_343683_"
"""The name of a session without its pid; it always has this length."""
_NODE_SOCKETS = {"plasma_store": "--plasma-store-socket-name", "raylet": "--raylet-socket-name"}
"""The sockets of each node, longest name first, and the flag of `ray start` that moves each of them elsewhere."""
_DASHBOARD_SOCKETS = (((2, 58), "dash_TaskEventsHead"), ((2, 50), "dash_MetricsHead"))
"""The longest socket name of the dashboard's modules, and the first Ray that has it: `get_socket_path` in
ray/dashboard/subprocesses/utils.py. The modules are named like the classes in ray/dashboard/modules; 2.44 has no such sockets."""


class PidRange(NamedTuple):
    """The pids of a host."""

    digits: int | None = None
    """Digits of the newest pid; the next one has as many, or one more."""
    most: int | None = None
    """kernel.pid_max: all pids are below it."""


def node_socket(words: Sequence[str]) -> str | None:
    """The longest name of a node's own sockets, for `ray start` with these words; `None` if its flags move all of them elsewhere."""
    given = {word.partition("=")[0] for word in words}
    return next((name for name, elsewhere in _NODE_SOCKETS.items() if elsewhere not in given), None)


def dashboard_socket(version: str | None) -> str | None:
    """The longest name of a dashboard's sockets; `None` if this Ray has none. An unknown version counts as the newest one."""
    found = re.match(r"(\d+)\.(\d+)", version or "")
    if found is None:
        return _DASHBOARD_SOCKETS[0][1]
    return next((name for first, name in _DASHBOARD_SOCKETS if (int(found[1]), int(found[2])) >= first), None)


def path_bytes(temp: str, pid_digits: int, socket: str) -> int:
    """The length of the socket's path in a session whose pid has `pid_digits` digits."""
    return len(os.fsencode(f"{temp.rstrip('/')}/{SESSION}/sockets/{socket}")) + pid_digits


def temp_dir(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """The temp dir of a head with this command and environment: `get_default_ray_temp_dir` in ray/_common/utils.py (2.9 to 2.60)."""
    given = next((word.partition("=")[2] for word in words if word.startswith("--temp-dir=")), "")
    return given or f"{environ.get('RAY_TMPDIR') or environ.get('TMPDIR') or '/tmp'}/ray"  # noqa: S108 Ray's default


class SocketFault(NamedTuple):
    """A socket whose path is too long in a temp dir, or may become too long."""

    temp: str
    socket: str
    path_bytes: int
    pid_digits: int
    """The digits of the pid in this path."""
    certain: bool
    """False: it is too long only if `ray start` gets the longest pid that is possible there."""
    most_bytes: int
    """The longest temp dir that is short enough for any pid."""

    @property
    def is_dashboards(self) -> bool:
        """Whether it is a socket of the dashboard: Ray then starts, but its dashboard ends at once."""
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
        """How to correct it."""
        return f"use a temp dir of at most {self.most_bytes} bytes, such as /tmp/ray-NAME"


def find_fault(temp: str, sockets: Tuple[str | None, ...], pids: PidRange) -> SocketFault | None:
    """Returns the first socket whose path is too long now. Without such a socket, it returns one that may become too long, or `None`."""
    names = tuple(filter(None, sockets))
    for digits, certain in ((pids.digits or 1, True), (len(str(pids.most - 1)) if pids.most else MAX_PID_DIGITS, False)):
        for name in names:
            size = path_bytes(temp, digits, name)
            if size > MAX_PATH_BYTES:
                most = MAX_PATH_BYTES - max(path_bytes("", MAX_PID_DIGITS, each) for each in names)
                return SocketFault(temp, name, size, digits, certain, most)
    return None
