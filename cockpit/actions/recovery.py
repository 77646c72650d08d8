"""Defines the action that runs a preset's runbook."""

from __future__ import annotations

from cockpit.actions.action import DiskRead, Runbook
from cockpit.actions.launch.actions import make_preset_read
from cockpit.presets import Preset


class Recover(Runbook):
    """From a stuck cluster to a running job."""

    id = "recover"
    keys = "R"
    title = "Recover"
    help = "Stop Ray, clean up, start a preset's cluster again and launch its job"
    command = False
    takes = Preset
    noun = "a preset"
    starts_job = True

    def find_disk_read(self, row: Preset) -> DiskRead:
        """Return how to read the preset's file as it is now."""
        return make_preset_read(row)
