"""`--kubernetes NAMESPACE/RAYCLUSTER`: a RayCluster of KubeRay's that was named, asked for before anything else."""

from __future__ import annotations

import asyncio
import os

from cockpit.config.document import InputError
from cockpit.config.kubernetes import FLAG, KubernetesPlace, named_place
from cockpit.sources.kubernetes.api import KubernetesApi
from cockpit.sources.kubernetes.facts import check_ray_cluster
from cockpit.sources.source import SourceError


def find_place(name: str) -> KubernetesPlace:
    """Raises `InputError`."""
    try:
        place = named_place(name, os.environ)
        asyncio.run(check_ray_cluster(KubernetesApi(place)))
    except (SourceError, InputError) as error:
        raise InputError(f"{FLAG}: {error}") from error
    return place
