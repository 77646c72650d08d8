"""What Ray runs in, a Slurm job or a RayCluster of KubeRay's, and which settings follow from that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cockpit.config import kubernetes, slurm
from cockpit.config.kubernetes import KubernetesPlace
from cockpit.config.slurm import NodeNames, SlurmHosts

Layer = dict[str, tuple[Any, str]]
"""For each field that is given: its value, and where it was given."""
Orchestrator = SlurmHosts | KubernetesPlace


def find_orchestrators(env: Mapping[str, str]) -> tuple[Orchestrator, ...]:
    """Those in whose job or pod cockpit runs."""
    found = (
        slurm.find_allocation(env) if slurm.JOB in env else None,
        kubernetes.find_place(env) if kubernetes.CLUSTER in env else None,
    )
    return tuple(orchestrator for orchestrator in found if orchestrator is not None)


def settings_of(orchestrators: Iterable[Orchestrator]) -> Layer:
    """Their hosts, and the way to them: ssh seldom may."""
    return {name: given for orchestrator in orchestrators for name, given in _settings_of(orchestrator).items()}


def _settings_of(orchestrator: Orchestrator) -> Layer:
    """Pods come and go, and are asked for while cockpit runs; the nodes of a job stay."""
    if isinstance(orchestrator, KubernetesPlace):
        return {"kubernetes": (orchestrator, orchestrator.origin), "reach": (orchestrator.reach, orchestrator.origin)}
    job, nodes = orchestrator.origins
    return {
        "slurm": (orchestrator, job),
        "reach": (orchestrator.reach, job),
        **({"hosts": (orchestrator.hosts, nodes)} if orchestrator.hosts else {}),
        "slurm_nodes": (tuple(NodeNames(host.name) for host in orchestrator.hosts), nodes),
    }
