"""Lists all presets, each with the needs of its job and whether the job fits now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cockpit.config.settings import Config
from cockpit.model import Snapshot, Value
from cockpit.presets import Preset, PresetError, presets, redact_preset, with_hosts

if TYPE_CHECKING:
    from cockpit.check.result import CheckOutcome


class PresetEntry(Value, frozen=True):
    """One preset file."""

    name: str
    path: str
    preset: Preset | None = None
    """`None`: it can't be read, and `mistake` says why. It may contain secrets: show only `hide_secrets(entry)`."""
    mistake: str | None = None
    checked: CheckOutcome | None = None
    """`None`: it has no job, or can't be read."""

    @property
    def key(self) -> str:
        """Identifies the entry among the rows of a page."""
        return f"preset:{self.path}"


def hide_secrets(entry: PresetEntry) -> PresetEntry:
    """Return the entry without the secrets in its preset."""
    return entry if entry.preset is None else replace(entry, preset=redact_preset(entry.preset))


def check_presets(snapshot: Snapshot, env: Mapping[str, str], config: Config) -> tuple[PresetEntry, ...]:
    """Read and check all presets, with the scripts that they name. It takes some tenths of a second on a slow disk."""
    from cockpit.check.check import check  # all three: what reads commands takes 80 ms of the start, and no first page needs it
    from cockpit.check.installed import find_frameworks
    from cockpit.check.preset import budget_for

    entries = []
    for found in presets():
        if isinstance(found, PresetError):
            entries.append(PresetEntry(found.name, str(found.path), mistake=str(found)))
            continue
        preset = with_hosts(found, config)
        checked = check(preset, budget_for(preset, env, find_frameworks(snapshot)), snapshot, config.limits) if preset.job else None
        entries.append(PresetEntry(preset.name, str(preset.path), preset, checked=checked))
    return tuple(entries)
