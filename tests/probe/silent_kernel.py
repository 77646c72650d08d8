"""A kernel's log that may not be read: kills are then known from raylets' logs alone."""

from __future__ import annotations

from cockpit.probe.look.kernel_log import Kernel


class SilentKernel(Kernel):
    def read(self) -> None:
        return None
