"""The presets that there are, each with what its job asks for, and whether that would fit now."""

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
    """One file."""

    name: str
    path: str
    preset: Preset | None = None
    """`None`: it can't be read, and `mistake` says why. Secrets may stand in it: what is shown is `redact_preset(preset)`."""
    mistake: str | None = None
    checked: CheckOutcome | None = None
    """`None`: it has no job, or can't be read."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"preset:{self.path}"


def hide_secrets(entry: PresetEntry) -> PresetEntry:
    """Fit to be shown: without the secrets that may stand in the file."""
    return entry if entry.preset is None else replace(entry, preset=redact_preset(entry.preset))


def check_presets(snapshot: Snapshot, env: Mapping[str, str], config: Config) -> tuple[PresetEntry, ...]:
    """All of them, read again; scripts that they name are read too. Takes some tenths of a second on a slow disk."""
    return tuple(_entry(found, snapshot, env, config) for found in presets())


def _entry(found: Preset | PresetError, snapshot: Snapshot, env: Mapping[str, str], config: Config) -> PresetEntry:
    from cockpit.check.check import check  # deferred: reading commands is a tenth of a second of imports that no start waits for
    from cockpit.check.installed import find_frameworks
    from cockpit.check.preset import budget_for

    if isinstance(found, PresetError):
        return PresetEntry(found.name, str(found.path), mistake=str(found))
    preset = with_hosts(found, config)
    checked = check(preset, budget_for(preset, env, find_frameworks(snapshot)), snapshot, config.limits) if preset.job else None
    return PresetEntry(preset.name, str(preset.path), preset, checked=checked)
