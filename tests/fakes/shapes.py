"""The answers of a Ray dashboard for a fictitious cluster: records of Ray 2.60, 2.44.1 or 2.9.3."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]

MIB = 2**20
GIB = 2**30
PADDING = 1100
"""Empty strings that setproctitle leaves in a process's argv; Ray returns them unchanged."""
GROUP_NODES = 8
"""Number of nodes of one placement group."""
NIL_ACTOR = "f" * 32
JOB = "02000000"
HOSTILE = (
    "[/]",
    "Actor[MyClass]",
    "[@click=app.quit]press me[/]",
    "\x1b]0;PWNED\x07",
    "\x1b[2J\x1b[31mred",
    "\x9b31mred",
    "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
    "zero\N{ZERO WIDTH SPACE}width\x00nul",
    "two\nlines\r\tand a tab",
    "\N{CJK UNIFIED IDEOGRAPH-4E2D}\N{CJK UNIFIED IDEOGRAPH-6587} wide",
    "e\N{COMBINING ACUTE ACCENT}" * 8,
    "long " * 60,
)
"""Names that users can choose: markup, escapes, C1 controls, bidi, width, length."""


def hex_id(kind: str, number: int, digits: int) -> str:
    """An id in Ray's format, always the same for the same thing."""
    return hashlib.sha512(f"{kind}{number}".encode()).hexdigest()[:digits]


@dataclass(frozen=True)
class Shape:
    """The size of the cluster, and the version of Ray that it reports."""

    nodes: int = 2
    gpus: int = 8
    actors: int = 24
    pending: int = 4
    workers: int = 20
    jobs: int = 20
    hostile: bool = False
    version: str = "2.60.0"
    started: float = field(default_factory=lambda: time.time() - 5 * 3600)

    @property
    def release(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))

    @property
    def alive(self) -> int:
        return self.actors - self.pending

    @property
    def groups(self) -> int:
        return -(-self.nodes // GROUP_NODES)

    @property
    def session(self) -> str:
        return time.strftime("session_%Y-%m-%d_%H-%M-%S_164160_11638", time.gmtime(self.started))

    @property
    def started_ms(self) -> int:
        return int(self.started * 1000)

    def name(self, plain: str, number: int) -> str:
        """The user's name for a thing: `plain`, or a hostile one."""
        return f"{plain} {HOSTILE[number % len(HOSTILE)]}" if self.hostile else plain

    def host(self, node: int) -> str:
        return self.name(f"gpu-{node:04}", node)

    def ip(self, node: int) -> str:
        return f"10.{node // 62500}.{node // 250 % 250}.{node % 250 + 1}"

    def node_id(self, node: int) -> str:
        return hex_id("node", node, 56)

    def actor_id(self, actor: int) -> str:
        return hex_id("actor", actor, 24) + JOB

    def group_id(self, group: int) -> str:
        return hex_id("group", group, 28) + JOB

    def bundle(self, node: int, slot: int) -> tuple[str, int]:
        """The placement group that has that GPU of that node, and the index of its bundle there."""
        return self.group_id(node // GROUP_NODES), node % GROUP_NODES * self.gpus + slot

    def actor_on(self, node: int, slot: int) -> int | None:
        """The actor of that worker, if it has one."""
        actor = slot * self.nodes + node
        return actor if actor < self.alive else None


def mangled(shape: Shape, resource: str) -> str:
    """The name after Ray's camel-casing (dashboard/utils.py, 2.49 and later)."""
    first, *rest = resource.split("_")
    return resource if shape.release < (2, 49) else first + "".join(part.title() for part in rest)


def group_needs(group: str, bundle: int) -> dict[str, float]:
    """The placement group's resources that an actor in a bundle uses."""
    names = [f"{kind}_group_{part}{group}" for kind in ("CPU", "GPU") for part in ("", f"{bundle}_")]
    return dict.fromkeys(names, 1.0) | {f"bundle_group_{group}": 0.001, f"bundle_group_{bundle}_{group}": 0.001}


def totals(shape: Shape, node: int) -> dict[str, float]:
    """A node's resources by their real names."""
    head = {"node:__internal_head__": 1.0} if node == 0 else {}
    return head | {
        "CPU": 192.0,
        "GPU": float(shape.gpus),
        "memory": 1800.0 * GIB,
        "object_store_memory": 200.0 * GIB,
        "accelerator_type:H100": 1.0,
        f"node:{shape.ip(node)}": 1.0,
    }


def process(pid: int, cmdline: list[str], rss: int) -> Record:
    """A process as the reporter agent describes it (reporter_models.py)."""
    return {
        "pid": pid,
        "createTime": 1795224814.13,
        "cpuPercent": 1.2,
        "cpuTimes": {"user": 1.49, "system": 0.3, "childrenUser": 0.0, "childrenSystem": 0.0},
        "cmdline": cmdline,
        "memoryInfo": {"rss": float(rss), "vms": 1763602432.0, "pfaults": None, "pageins": None},
        "memoryFullInfo": None,
        "numFds": 79,
        "gpuMemoryUsage": None,
        "gpuUtilization": None,
    }


def raylet_command(shape: Shape, node: int) -> list[str]:
    """As long as a real raylet's, with all flags that cockpit reads."""
    folder = f"/tmp/ray/{shape.session}"
    worker = (
        f"--node-ip-address={shape.ip(node)} --object-store-name={folder}/sockets/plasma_store --raylet-name={folder}/sockets/raylet " * 6
    )
    return [
        "/opt/ray-env/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet",
        f"--raylet_socket_name={folder}/sockets/raylet",
        f"--store_socket_name={folder}/sockets/plasma_store",
        f"--node_id={shape.node_id(node)}",
        f"--node_ip_address={shape.ip(node)}",
        f"--python_worker_command=/opt/ray-env/bin/python3 default_worker.py {worker}",
        f"--java_worker_command=/opt/ray-env/bin/python3 setup_worker.py {worker}",
        f"--dashboard_agent_command=/opt/ray-env/bin/python3 -u agent.py {worker}",
        f"--session_dir={folder}",
        f"--temp_dir={folder.rpartition('/')[0]}",
        f"--gcs-address={shape.ip(0)}:6379",
        f"--session-name={shape.session}",
    ]


def worker(shape: Shape, node: int, slot: int) -> Record:
    """A worker of a node, with its actor."""
    actor = shape.actor_on(node, slot)
    holds = actor is not None and slot < shape.gpus
    needs = group_needs(*shape.bundle(node, slot)) if holds else {}
    used = {mangled(shape, name): {"resourceSlots": [{"slot": str(slot), "allocation": amount}]} for name, amount in needs.items()}
    return {
        "ipAddress": shape.ip(node),
        "port": str(30000 + slot),
        "actorId": NIL_ACTOR if actor is None else shape.actor_id(actor),
        "numExecutedTasks": 6,
        "jobId": JOB,
        "workerId": hex_id("worker", node * 1000 + slot, 56),
        "pid": worker_pid(slot),
        "numRunningTasks": "1",
        "numPendingTasks": 0,
        "numObjectRefsInScope": 0,
        "usedResources": used,
        "numInPlasma": 0,
        "numLocalObjects": 0,
        "usedObjectStoreMemory": "0",
        "taskQueueLength": 0,
        "objectRefs": [],
        "language": "PYTHON",
        "workerType": "WORKER",
        "objectsTotal": "0",
        "numOwnedObjects": "0",
        "numOwnedActors": "0",
        "numInFlightArgPinningRequests": "0",
        "numOfFailedArgPinningRequests": "0",
    }


def worker_pid(slot: int) -> int:
    return 20000 + slot


def gpu(shape: Shape, node: int, index: int) -> Record:
    """A busy H100; `utilizationGpu` and `memoryUsed` keep their width, so that they can be changed in place."""
    record = {
        "index": index,
        "name": shape.name("NVIDIA H100 80GB HBM3", index),
        "uuid": f"GPU-{node:08x}-0000-0000-0000-{index:012x}",
        "utilizationGpu": 55,
        "memoryUsed": 71234,
        "memoryTotal": 81559,
        "processesPids": [{"pid": worker_pid(index), "gpuMemoryUsage": 69000, "gpuUtilization": 50}],
    }
    return record | {"powerMw": 650000, "temperatureC": 61} if shape.release >= (2, 55) else record


def raylet(shape: Shape, node: int) -> Record:
    """A node's GcsNodeInfo and stats in one record."""
    folder = f"/tmp/ray/{shape.session}"
    return {
        "coreWorkersStats": [worker(shape, node, slot) for slot in range(shape.workers)],
        "numWorkers": shape.workers,
        "storeStats": {"objectStoreBytesAvail": str(200 * GIB), "cumulativeCreatedObjects": "7", "cumulativeCreatedBytes": "56"},
        "objectStoreUsedMemory": 20 * GIB,
        "objectStoreAvailableMemory": 180 * GIB,
        "nodeId": shape.node_id(node),
        "nodeManagerAddress": shape.ip(node),
        "rayletSocketName": f"{folder}/sockets/raylet",
        "objectStoreSocketName": f"{folder}/sockets/plasma_store",
        "nodeManagerPort": 33273,
        "objectManagerPort": 40385,
        "nodeManagerHostname": shape.host(node),
        "metricsExportPort": 0,  # its addresses are made up: nothing may ask them
        "resourcesTotal": {mangled(shape, name): amount for name, amount in totals(shape, node).items()},
        "nodeName": shape.ip(node),
        "startTimeMs": str(shape.started_ms),
        "isHeadNode": node == 0,
        "labels": {"ray.io/accelerator-type": "H100", "ray.io/node-id": shape.node_id(node)},
        "runtimeEnvAgentPort": 44603,
        "stateSnapshot": {"state": "ACTIVE", "idleDurationMs": "0", "nodeActivity": []},
        "metricsAgentPort": 42359,
        "dashboardAgentListenPort": 52365,
        "tempDir": "/tmp/ray",
        "sessionDir": folder,
        "state": "ALIVE",
        "instanceId": "",
        "nodeTypeName": "",
        "instanceTypeName": "",
        "endTimeMs": "0",
        "stateMessage": None,
    }


def node(shape: Shape, number: int) -> Record:
    """An entry of `/nodes?view=summary`; `now` and `cpu` keep their width."""
    total = 2048 * GIB
    disk = {"total": 7000 * GIB, "used": 900 * GIB, "free": 6100 * GIB, "percent": 12.9}
    record = {
        "now": 1795224871.508,
        "hostname": shape.host(number),
        "ip": shape.ip(number),
        "cpu": 34.8,
        "cpus": [192, 96],
        "mem": [total, total - 400 * GIB, 19.5, 400 * GIB],
        "shm": 20 * GIB,
        "raylet": raylet(shape, number),
        "agent": process(486, ["ray::DashboardAgent", *[""] * PADDING], 140 * MIB),
        "bootTime": 1795000000.0,
        "loadAvg": [[2.3, 5.5, 4.1], [0.01, 0.03, 0.02]],
        "disk": {"/": disk, "/tmp/ray": disk},
        "diskIo": [3029038080, 3929903104, 100000, 200000],
        "diskIoSpeed": [76039.4, 80936.4, 2.0, 12.3],
        "gpus": [gpu(shape, number, index) for index in range(shape.gpus)],
        "network": [932067, 850355570],
        "networkSpeed": [0.0, 0.0],
        "cmdline": raylet_command(shape, number),
    }
    if shape.release >= (2, 56):
        record |= {"hostMem": [400 * GIB, total], "cgroupMem": None}
    if shape.release >= (2, 49):
        record |= {"tpus": []}
    if number == 0:
        record["gcs"] = process(155, ["/opt/ray-env/lib/python3.11/site-packages/ray/core/src/ray/gcs/gcs_server"], 900 * MIB)
    return record


def logical(shape: Shape) -> str:
    """A node's logical resources as text, as `/nodes` returns them beside the summary."""
    gpus = f"{shape.gpus}.0/{shape.gpus}.0 GPU ({shape.gpus}.0 used of {shape.gpus}.0 reserved in placement groups)"
    return f"{shape.gpus}.0/192.0 CPU\n{gpus}\n0.0/1.0 accelerator_type:H100\n0B/1.76TiB memory\n20.00GiB/200.00GiB object_store_memory"
