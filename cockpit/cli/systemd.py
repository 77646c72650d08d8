"""Tells systemd that a service is ready, alive or stopping, by the protocol of sd_notify(3)."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping


class ServiceNotifier:
    """Writes to the socket of the service manager. Without one, as in a shell, it does nothing."""

    def __init__(self, env: MutableMapping[str, str] = os.environ) -> None:
        """Removes the variables from the environment: children such as ssh must not speak for the service."""
        path = env.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path  # `@`: an abstract socket
        interval, pid = env.pop("WATCHDOG_USEC", None), env.pop("WATCHDOG_PID", None)
        self._has_watchdog = interval is not None and pid in (None, str(os.getpid()))
        self._is_ready = False

    def report_ready(self) -> None:
        """The service has begun its work. Only the first call is sent."""
        self._is_ready = self._is_ready or self._send("READY=1")

    def feed_watchdog(self) -> None:
        """The service has made progress. If these calls stop, systemd kills it."""
        if self._has_watchdog:
            self._send("WATCHDOG=1")

    def report_stopping(self) -> None:
        """The service ends."""
        self._send("STOPPING=1")

    def _send(self, state: str) -> bool:
        """Whether it was sent. It never waits: a manager that hangs must not stop the service."""
        if not self._address:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.setblocking(False)
                connection.sendto(state.encode(), self._address)
        except OSError:
            return False
        return True
