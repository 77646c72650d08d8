"""The connections that OpenSSH keeps open for us, one per host: where their sockets lie, and how they end when we do."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.trust import why_not_ours

_MAX_PREFIX_BYTES: Final = 107 - 17 - 40
"""Bytes of a socket's path, less what ssh adds while it makes one, less the digest of a host that `%C` stands for."""
_EXIT_REQUEST: Final = struct.pack(">III", 8, 1, 4) + struct.pack(">III", 8, 0x10000005, 0)
"""`ssh -O exit` without a process for each host, as OpenSSH's PROTOCOL.mux says: a hello of version 4, and MUX_C_TERMINATE."""
_CLOSE_TIMEOUT_S: Final = 0.2
"""Seconds for all of them together; one takes half a millisecond."""


class SshControlSockets:
    """Those of this cockpit alone, so that none is cut that another one uses. After a kill -9 each ends by itself, a minute unused."""

    def __init__(self) -> None:
        self._prefix: str | None = None

    @property
    def control(self) -> str:
        """What `{control}` in a reach stands for; `none` where no socket can lie, and then each call connects anew."""
        if self._prefix is None:
            self._prefix = _prefix()
        return f"{self._prefix}%C" if self._prefix else "none"

    def close(self) -> None:
        """Ask each to end; one that hangs is left to end by itself."""
        until = time.monotonic() + _CLOSE_TIMEOUT_S
        for path in Path(self._prefix).parent.glob(f"{Path(self._prefix).name}*") if self._prefix else ():
            with suppress(OSError), socket.socket(socket.AF_UNIX) as master:
                master.settimeout(max(until - time.monotonic(), 0.001))
                master.connect(str(path))
                master.sendall(_EXIT_REQUEST)
                master.recv(64)  # it hears nobody out who doesn't let it finish its own hello


def _prefix() -> str:
    """Of the sockets' paths; empty where they would be too long, or where somebody else could reach them."""
    runtime, user = os.environ.get("XDG_RUNTIME_DIR"), f"cockpit-{os.geteuid()}"
    for folder in ([f"{runtime}/cockpit"] if runtime else []) + [f"{place}/{user}" for place in (tempfile.gettempdir(), "/tmp")]:  # noqa: S108
        prefix = f"{folder}/{os.getpid()}-"
        if len(os.fsencode(prefix)) <= _MAX_PREFIX_BYTES and "%" not in prefix and _is_private(folder):
            return prefix
    return ""


def _is_private(folder: str) -> bool:
    """Made by us, and open to nobody else: in /tmp, somebody may have been there before; in another user's folder, he may be later."""
    try:
        above = os.stat(os.path.dirname(folder))
        if why_not_ours(Path(folder)) is not None or (above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX):
            return False
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
