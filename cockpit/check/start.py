"""Checks a preset's `ray` section against itself and against its hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cockpit.budget import Line
from cockpit.check.nodes import DEVICES, Site, list_devices
from cockpit.check.temp_dirs import temp_dir_lines
from cockpit.model import Snapshot
from cockpit.placement import SCALE
from cockpit.presets import Preset, RayNode, RayStart
from cockpit.secrets import redact
from cockpit.text import gpus_words, join_first, plural, size

LARGE_STORE_BYTES = 10**10
"""Ray refuses a larger object store that does not fit into /dev/shm (REQUIRE_SHM_SIZE_THRESHOLD in ray_constants.py, 2.9 to 2.60)."""
ALLOW_SLOW_STORE = "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE"


def start_lines(preset: Preset, site: Site, snapshot: Snapshot) -> Iterator[Line]:
    """Lines about mistakes that would stop `cockpit recover`, or give the job fewer resources than the preset says."""
    if preset.job is not None and DEVICES in preset.job.env:
        yield Line("doubt", f"job.env sets {DEVICES}, but Ray sets it for each worker itself", f"remove {DEVICES} from job.env")
    if site.allocation is not None:
        text = f"no Ray runs: checked against the {_amount(site, len(site.placement_nodes))} of Slurm job {site.allocation}"
        yield Line(
            "later",
            text,
            "to start Ray on these nodes, write a preset whose `ray` section names no hosts, then run `cockpit recover PRESET`",
        )
    if not isinstance(preset.ray, RayStart):
        return
    recover = f"`cockpit recover {preset.name}{f' --slurm {preset.ray.slurm}' if preset.ray.slurm else ''}`"
    if site.planned:
        of = f"of Slurm job {preset.ray.slurm}, on which the preset starts Ray" if preset.ray.slurm else "that the preset starts"
        text = f"no Ray runs: checked against the {_amount(site, len(preset.ray.nodes))} {of}"
        yield Line("later", text, recover)
    elif site.more:
        yield Line("doubt", f"more nodes may join: {site.more}", None if snapshot.growing else recover)
    yield from temp_dir_lines(preset.ray, site, snapshot)
    for start in preset.ray.nodes:
        yield from _device_lines(start, preset.ray.env.get(DEVICES))
        if site.planned:
            yield from _host_lines(start, site, snapshot)
            yield from _store_lines(start, site, preset.ray.env)


def _amount(site: Site, nodes: int) -> str:
    gpus = sum(node.total.get("GPU", 0) for node in site.placement_nodes) / SCALE
    return plural(nodes, "node") + (f", {gpus_words(gpus)}" if site.placement_nodes else "")


def _device_lines(start: RayNode, devices: str | None) -> Iterator[Line]:
    """Ray refuses to start if --num-gpus is larger than the number of CUDA_VISIBLE_DEVICES. If it is smaller, GPUs stay unused."""
    gpus = start.flags.get("num_gpus")
    if not isinstance(gpus, int) or devices is None or "$" in devices:
        return
    seen = len(list_devices(devices))
    which = f"ray.env sets {DEVICES}={redact(devices)} ({plural(seen, 'GPU')}), but {start.host} has num_gpus: {gpus}"
    if gpus > seen:
        yield Line("never", f"{which}; Ray refuses to start", f"set num_gpus: {seen}, or list {gpus} GPUs in {DEVICES}")
    elif gpus < seen:
        yield Line("doubt", f"{which}; {seen - gpus} of them stay unused", f"set num_gpus: {seen}")


def _store_lines(start: RayNode, site: Site, env: Mapping[str, str]) -> Iterator[Line]:
    """Compare the object store with the host's /dev/shm, whose whole size counts: what is in it may be a dead Ray's."""
    host, store = site.hosts.get(start.host), start.flags.get("object_store_memory")
    shm = host.shm.total if host else None
    if not isinstance(store, int) or not shm or store <= shm or start.flags.get("plasma_directory"):
        return
    text = f"{start.host} has object_store_memory: {store} ({size(store)}), but its /dev/shm has {size(shm)}"
    change = f"object_store_memory: at most {shm}, or a larger /dev/shm (docker: --shm-size, Kubernetes: an emptyDir with medium Memory)"
    if store > LARGE_STORE_BYTES and not env.get(ALLOW_SLOW_STORE):
        yield Line("never", f"{text}; `ray start` would fail", change)
    else:
        yield Line("doubt", f"{text}; Ray would put the object store on a disk", change)


def _host_lines(start: RayNode, site: Site, snapshot: Snapshot) -> Iterator[Line]:
    """Compare the flags of a node's `ray start` with its host."""
    host = site.hosts.get(start.host)
    if host is None:
        names = {start.host, start.address}
        why = next((fault.text for fault in snapshot.faults if fault.source == "probe" and fault.host in names), "it is not probed")
        yield Line("doubt", f"resources of {start.host} are unknown: {why}")
        return
    gpus = start.flags.get("num_gpus")
    if isinstance(gpus, int) and host.gpus is not None and gpus > len(host.gpus):
        yield Line("doubt", f"{start.host} has num_gpus: {gpus}, but NVML sees {len(host.gpus)}", f"set num_gpus: {len(host.gpus)}")
    address = start.flags.get("node_ip_address")
    if isinstance(address, str) and host.addresses and address not in host.addresses and "$" not in address:
        has = join_first(list(host.addresses))
        text = f"{start.host} has node_ip_address: {redact(address)}, but its host has {has}: other nodes may not reach it"
        yield Line("doubt", text, f"set node_ip_address: {host.addresses[0]}")
