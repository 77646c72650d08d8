"""Combines the facts about a node's machine: from the probe of its host if there is one, else from Ray's agent."""

from __future__ import annotations

from msgspec.structs import replace

from cockpit.model.disk import Disk, FilledDisk
from cockpit.model.gpu import Gpu
from cockpit.model.host import Amount, Host, HostMemory
from cockpit.model.ray import Node
from cockpit.model.value import Value

STALE_AFTER_S = 20.0
"""Seconds after which facts about a node or host are old: Ray's agents report every 5 s, and need time to collect."""


class Machine(Value, frozen=True):
    """The machine of a node."""

    seen: float | None = None
    """When most facts were true, by this host's clock."""
    cpu: float | None = None
    cpus: int | None = None
    memory: HostMemory = HostMemory()
    shm: Amount = Amount()
    disks: tuple[Disk, ...] = ()
    filled: tuple[FilledDisk, ...] = ()
    """As in `Host`."""
    gpus: tuple[Gpu, ...] | None = None
    gpus_seen: float | None = None
    """When its GPUs were last seen, if that is long before `seen` because NVML fails; `None`: as the other facts."""

    @property
    def current_gpus(self) -> tuple[Gpu, ...] | None:
        """The GPUs, or `None` if NVML fails and `gpus` is old."""
        return self.gpus if self.gpus_seen is None else None


UNKNOWN_MACHINE = Machine()


def machine_of(node: Node, host: Host | None) -> Machine:
    """Return the machine of a node. `host` is the one that `Node.probe` names; the facts of the node's agent take precedence."""
    agent = node.agent
    if host is None:
        return Machine(
            seen=agent.seen,
            cpu=agent.cpu,
            cpus=agent.cpus,
            memory=HostMemory() if agent.memory is None else agent.memory,
            shm=Amount() if agent.shm is None else agent.shm,
            disks=agent.disks or (),
            gpus=agent.gpus,
        )
    gpus, gpus_seen = agent.gpus, agent.seen
    if gpus is None and host.gpus is not None:
        gpus, gpus_seen = host.gpus, host.observed_at("nvml")
        if agent.given:
            gpus = tuple([gpu for gpu in gpus if gpu.uuid in agent.given])
    is_behind = gpus_seen is not None and host.taken is not None and host.taken - gpus_seen > STALE_AFTER_S
    return Machine(
        seen=host.taken,
        cpu=host.cpu,
        cpus=host.cpus or agent.cpus,
        memory=_memory_with_kill_line(node, host) if agent.memory is None else agent.memory,
        shm=host.shm if agent.shm is None else agent.shm,
        disks=host.disks,
        filled=host.filled,
        gpus=gpus,
        gpus_seen=gpus_seen if is_behind else None,
    )


def _memory_with_kill_line(node: Node, host: Host) -> HostMemory:
    """Return the host's memory as the node's own raylet counts it: other raylets differ, and any process can be named raylet."""
    memory = host.memory
    raylets = [ray for ray in host.rays or () if ray.role == "raylet"]
    same = [ray for ray in raylets if ray.node == node.id] or [ray for ray in raylets if ray.node is None]
    if not same or same[0].kill_at is None or len({ray.kill_at for ray in same}) > 1:
        return memory
    ray = same[0]
    if ray.kill_used is None:
        return replace(memory, kill_at=ray.kill_at)
    total = memory.total if ray.kill_total is None else ray.kill_total
    whole = Amount(memory.used, memory.total)
    isolation = ray.isolation if ray.charged is not None else None
    return replace(memory, used=ray.kill_used, total=total, kill_at=ray.kill_at, whole=whole, isolation=isolation, charged=ray.charged)
