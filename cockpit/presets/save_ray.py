"""Makes the `ray` section of a preset from the command lines of a running Ray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cockpit.config.document import InputError
from cockpit.model import RayProcess, Snapshot
from cockpit.presets.ray_flags import FLAGS, HOST_SPECIFIC, flag_name, flag_value
from cockpit.text import clean, join_first, plural

UNSHOWN: Final = (
    "variables of Ray's environment (ray.env), memory, ports that Ray chose itself, and whether a number was given or found by Ray"
)
"""Facts that no command line shows."""


def describe_ray(snapshot: Snapshot, env: Mapping[str, str] = {}) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the start of the followed Ray as keys with values, and sentences about its unknown parts.

    The first is `None` if the head's flags are unknown. `env`: the variables of Ray's processes, if they are known.
    """
    if snapshot.kubernetes is not None:
        return None, ["KubeRay starts this Ray: the RayCluster says how, and no preset can"]
    # Each living node with its host and raylet, if a probe has seen its flags; the head first.
    raylets: dict[str | None, tuple[str, RayProcess]] = {}
    for host in snapshot.hosts.values():
        for ray in host.rays or ():
            if ray.role == "raylet" and ray.start is not None:
                raylets.setdefault(ray.node, (host.name, ray))
    living = [node for node in snapshot.nodes or () if node.state == "ALIVE" and node.id is not None]
    nodes = sorted(living, key=lambda node: not node.head)
    if not nodes or not nodes[0].head or nodes[0].id not in raylets:
        return None, ["How Ray was started is not saved: no probe on the head's host has reported it"]

    # A preset starts one Ray on a host.
    notes = []
    head_host, head = raylets[nodes[0].id]
    hosts, workers = [head_host], []
    for node in nodes[1:]:
        if node.id not in raylets:
            continue
        name, raylet = raylets[node.id]
        if name in hosts:
            notes.append(f"Left out: {clean(node.title)}, which runs on the same host as another node ({clean(name)})")
        else:
            hosts.append(name)
            workers.append(raylet)
    if silent := [clean(node.title) for node in nodes[1:] if node.id not in raylets]:
        notes.append(f"Left out, as no probe has reported how its Ray was started: {join_first(silent, 8)}")

    flags = [{**_flags(head), **_gcs_flags(head_host, snapshot)}, *map(_flags, workers)]
    if all(ray.slurm is None for ray in (head, *workers)):
        listed = [{"host": name, **flags_of_host} for name, flags_of_host in zip(hosts, flags, strict=True)]
        section: dict[str, Any] = {"head": listed[0], **({"workers": listed[1:]} if workers else {})}
    else:
        # Without hosts a preset has one set of flags for all workers: those that all of them have.
        section = {"head": {name: value for name, value in flags[0].items() if name not in HOST_SPECIFIC}}
        if workers:
            first = {name: value for name, value in flags[1].items() if name not in HOST_SPECIFIC}
            section["workers"] = {name: value for name, value in first.items() if all(each.get(name) == value for each in flags[1:])}
        notes.append("It ran in a Slurm job, so that no hosts are named: recover takes the nodes of the job that it runs in")

    pythons = {(ray.start or {}).get("python") for ray in (head, *workers)}
    if len(pythons) > 1:
        notes.append(f"Not saved: ray.python, as the hosts have {plural(len(pythons), 'different path')} of it")
    elif python := pythons.pop():
        section["python"] = python
    notes.append(f"Not saved, as no command line shows it: {UNSHOWN}")
    return section | ({"env": dict(env)} if env else {}), notes


def _gcs_flags(host: str, snapshot: Snapshot) -> dict[str, Any]:
    """Return the flags that only the head has: the ports and addresses of its GCS and dashboard."""
    rays = snapshot.hosts[host].rays or ()
    gcs = next((ray for ray in rays if ray.role == "gcs_server" and ray.session == snapshot.cluster.session), None)
    flags = {} if gcs is None else _flags(gcs)
    address = next((ray.gcs for ray in rays if ray.gcs and ray.session == snapshot.cluster.session), None)
    if "port" not in flags and address is not None and (port := address.rpartition(":")[2]).isdigit():
        flags["port"] = int(port)
    return flags


def _flags(ray: RayProcess) -> dict[str, Any]:
    """Return the flags as a preset has them. A command line may contain anything, so invalid values are left out."""
    flags: dict[str, Any] = {}
    for name, text in (ray.start or {}).items():
        if name == "python" or name not in FLAGS:
            continue
        number = FLAGS[name].kind in ("port", "count", "number", "bytes")
        try:
            value = flag_value(flag_name(name), (int(text) if text.isdigit() else float(text)) if number else text)
        except (InputError, ValueError):
            continue
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None:
            flags[name] = value
    return flags
