"""Finds the GPUs of a node that its raylet may use, and those that Ray can never hand out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cockpit.model import Gpu, Host, Node, RayProcess, Snapshot

NO_DEVICES = ("", "-1", "none", "void", "nodevfiles")
"""Values of CUDA_VISIBLE_DEVICES that mean no device."""
MAX_GPUS_PER_HOST = 10_000
"""More GPUs are implausible."""


def find_raylet(node: Node, host: Host | None) -> RayProcess | None:
    """The node's raylet in the probe's list; `None` if there is none or more than one."""
    raylets = [ray for ray in (host.rays if host else None) or () if ray.role == "raylet" and ray.node == node.id]
    return raylets[0] if len(raylets) == 1 else None


def list_visible_devices(raylet: RayProcess | None) -> list[str] | None:
    """The devices in the raylet's CUDA_VISIBLE_DEVICES; `None`: it is not set, or unknown."""
    text = raylet.visible if raylet else None
    if text is None:
        return None
    return [] if text.strip().lower() in NO_DEVICES else [device.strip() for device in text.split(",") if device.strip()]


def is_environment_known(raylet: RayProcess | None) -> bool:
    """Whether the probe could read the raylet's environment: it needs the same rights as counting its open files."""
    return raylet is not None and (raylet.visible is not None or raylet.files is not None)


def count_in_ray(node: Node) -> float | None:
    """The node's GPUs by Ray's count; `None` if the count is unknown or implausible."""
    known = node.resources.get("GPU")
    total = known.total if known else 0.0
    return total if total is not None and 0 <= total <= MAX_GPUS_PER_HOST else None


def find_not_given(node: Node, gpus: Sequence[Gpu] | None, host: Host | None) -> tuple[Gpu, ...] | None:
    """Those GPUs of the node that Ray can't hand out, because its raylet was not given them; `None`: unknown.

    A raylet that counts N GPUs has the first N that CUDA_VISIBLE_DEVICES names, else those with the indices 0 to N-1
    (Ray 2.60, `resource_and_label_spec.py` and `accelerators/nvidia_gpu.py`). For raylets that share a host it is unknown.
    """
    total = count_in_ray(node)
    if node.state != "ALIVE" or not node.id or not node.resources or gpus is None or total is None:
        return None
    if any(gpu.is_mig for gpu in gpus):
        return None
    if total >= len(gpus):
        return ()
    raylet = find_raylet(node, host)
    if not is_environment_known(raylet) or sum(ray.role == "raylet" for ray in (host.rays if host else None) or ()) != 1:
        return None
    listed = list_visible_devices(raylet)
    given = [str(number) for number in range(len(gpus))] if listed is None else listed
    return tuple(gpu for gpu in gpus if not is_named(gpu, given[: int(total)]))


def is_named(gpu: Gpu, devices: Sequence[str]) -> bool:
    """Whether one of these devices of CUDA_VISIBLE_DEVICES is this GPU."""
    return any(device == gpu.label or (device.startswith("GPU-") and bool(gpu.uuid) and gpu.uuid.startswith(device)) for device in devices)


def find_all_not_given(snapshot: Snapshot) -> Mapping[str, tuple[Gpu, ...]]:
    """By key of the node, without the nodes for which it is unknown."""
    index = snapshot.index
    found = {node.key: find_not_given(node, index.machine(node).gpus, index.host_of(node)) for node in snapshot.nodes or ()}
    return {key: gpus for key, gpus in found.items() if gpus is not None}
