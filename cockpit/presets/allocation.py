"""Fills in the hosts of a preset that names none: the nodes of the current or named Slurm job."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from cockpit.config.settings import Config
from cockpit.presets.preset import Preset, SlurmStart

NO_NODES: Final = (
    "the preset names no hosts, and cockpit knows no Slurm job whose nodes could be used: "
    "run cockpit within the job, give --slurm JOBID, or name the hosts in the preset"
)


def with_hosts(preset: Preset, config: Config) -> Preset:
    """Return the preset with the job's nodes as hosts; unchanged if it names hosts, or no Slurm job is known.

    Other hosts of the config are never used.
    """
    if not isinstance(preset.ray, SlurmStart) or (job := config.slurm) is None or not job.hosts:
        return preset
    known = {entry.name: entry for entry in config.hosts}
    return replace(preset, ray=preset.ray.on(job.job, [known.get(node.name, node) for node in job.hosts]))
