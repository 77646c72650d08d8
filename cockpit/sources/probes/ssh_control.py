"""Chooses a folder for the control sockets of OpenSSH's shared connections, and ends these connections when cockpit ends."""

from __future__ import annotations

import os
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.trust.private_folder import private_folders

_MAX_PREFIX_BYTES: Final = 107 - 17 - 40
"""The bytes of a socket's path, without the suffix that ssh adds while it creates one, and without the digest of a host (`%C`)."""
_EXIT_REQUEST: Final = struct.pack(">III", 8, 1, 4) + struct.pack(">III", 8, 0x10000005, 0)
"""The request of `ssh -O exit`, sent without a process for each host (OpenSSH's PROTOCOL.mux): a hello of version 4 and MUX_C_TERMINATE."""
_CLOSE_TIMEOUT_S: Final = 0.2
"""For all connections together; one takes half a millisecond."""


class SshControlSockets:
    """The control sockets of this cockpit alone: it never ends a connection of another cockpit.

    After a `kill -9` of cockpit, each connection ends by itself after a minute without use.
    """

    def __init__(self) -> None:
        self._prefix: str | None = None

    @property
    def control(self) -> str:
        """The value of `{control}` in a reach; `none` if there is no folder for sockets: then each call opens its own connection."""
        if self._prefix is None:
            self._prefix = _find_prefix()
        return f"{self._prefix}%C" if self._prefix else "none"

    def close(self) -> None:
        """Ask each connection to end. One that hangs ends by itself later."""
        deadline = time.monotonic() + _CLOSE_TIMEOUT_S
        for path in Path(self._prefix).parent.glob(f"{Path(self._prefix).name}*") if self._prefix else ():
            with suppress(OSError), socket.socket(socket.AF_UNIX) as master:
                master.settimeout(max(deadline - time.monotonic(), 0.001))
                master.connect(str(path))
                master.sendall(_EXIT_REQUEST)
                master.recv(64)  # ssh reads the request only after its own hello has been read


def _find_prefix() -> str:
    """The start of the sockets' paths; empty if all folders are too long or reachable for other users."""
    prefixes = (f"{folder}/{os.getpid()}-" for folder in private_folders())
    return next((prefix for prefix in prefixes if len(os.fsencode(prefix)) <= _MAX_PREFIX_BYTES and "%" not in prefix), "")
