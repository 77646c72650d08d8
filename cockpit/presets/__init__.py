"""Presets: jobs and the clusters they run on, written down in YAML, with secrets that stay in the environment."""

from cockpit.presets.preset import JobSpec, Needs, Preset, RayNode, RayStart, read_preset

__all__ = ["JobSpec", "Needs", "Preset", "RayNode", "RayStart", "read_preset"]
