"""Reads and writes presets: YAML files that describe a job and its cluster, with secrets that stay in the environment."""

from cockpit.presets.allocation import with_hosts
from cockpit.presets.folder import PresetError, UnknownPresetError, copy_preset, find_preset, presets, presets_folder, write_preset
from cockpit.presets.preset import JobSpec, Needs, Preset, RayNode, RayStart, SlurmStart, read_preset
from cockpit.presets.variables import FilledPreset, doubts, fill_preset, redact_preset

__all__ = [
    "FilledPreset",
    "JobSpec",
    "Needs",
    "Preset",
    "PresetError",
    "RayNode",
    "RayStart",
    "SlurmStart",
    "UnknownPresetError",
    "copy_preset",
    "doubts",
    "fill_preset",
    "find_preset",
    "presets",
    "presets_folder",
    "read_preset",
    "redact_preset",
    "with_hosts",
    "write_preset",
]
