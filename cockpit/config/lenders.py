"""Who has lent the hosts, a job of Slurm's or a RayCluster of KubeRay's, and which settings follow from that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cockpit.config import kubernetes, slurm
from cockpit.config.kubernetes import KubernetesPlace
from cockpit.config.slurm import SlurmHosts

Layer = dict[str, tuple[Any, str]]
"""For each field that is given: its value, and where it was given."""
Lender = SlurmHosts | KubernetesPlace


def find_lenders(env: Mapping[str, str]) -> tuple[Lender, ...]:
    """Those in whose job or pod cockpit runs."""
    found = (
        slurm.find_allocation(env) if slurm.JOB in env else None,
        kubernetes.find_place(env) if kubernetes.CLUSTER in env else None,
    )
    return tuple(lender for lender in found if lender is not None)


def settings_of(lenders: Iterable[Lender]) -> Layer:
    """Their hosts, and the way to them: ssh seldom may."""
    return {name: given for lender in lenders for name, given in _settings_of(lender).items()}


def _settings_of(lender: Lender) -> Layer:
    """Pods come and go, and are asked for while cockpit runs; the nodes of a job stay."""
    if isinstance(lender, KubernetesPlace):
        return {"kubernetes": (lender, lender.origin), "reach": (lender.reach, lender.origin)}
    job, nodes = lender.origins
    return {"slurm": (lender.job, job), "reach": (lender.reach, job), **({"hosts": (lender.hosts, nodes)} if lender.hosts else {})}
