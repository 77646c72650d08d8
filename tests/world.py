"""A made-up cluster with trouble in it, for tests that need to see everything at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from cockpit.model import (
    Actor,
    AgentReport,
    Amount,
    Bundle,
    Cluster,
    Disk,
    Engine,
    Fault,
    Finding,
    Gpu,
    Hold,
    Host,
    HostMemory,
    Job,
    MemoryUser,
    Node,
    PlacementGroup,
    Process,
    Quantity,
    Session,
    Snapshot,
)

GIB = 1 << 30
NOW = 1_795_223_900.0


def gpu(index: int, used: float = 60, **more: Any) -> Gpu:
    facts = {
        "uuid": f"GPU-{index:08d}", "name": "NVIDIA H100 80GB HBM3", "utilization": float(10 * index), "memory_used": int(used * GIB),
        "memory_total": 80 * GIB, "power": 350.0, "power_limit": 700.0, "temperature": 61.0, "ecc": 0, **more,
    }  # fmt: skip
    return Gpu(index=index, **facts)


def figures_of(number: int) -> dict[str, Any]:
    """What is known of a machine where a test says nothing of it."""
    return {
        "seen": NOW - number,
        "cpu": 39.4,
        "cpus": 192,
        "memory": HostMemory(700 * GIB, 1000 * GIB, 950 * GIB),
        "shm": Amount(20 * GIB, 500 * GIB),
        "disks": (Disk("/tmp/ray", 400 * GIB, 1000 * GIB),),
        "gpus": tuple(gpu(index, 70 - 8 * index, uuid=f"GPU-{number}-{index}") for index in range(8)),
    }


def node(number: int, text: str = "", **more: Any) -> Node:
    """Figures of its machine are in its agent's report, until `snapshot` knows the host whose probe it names."""
    probed = more.pop("probed", number == 1)
    own = {name: more.pop(name) for name in AgentReport.__struct_fields__ if name in more}
    facts = {
        "id": f"{number:056x}", "host": f"node{number}{text}", "ip": f"10.0.0.{number}", "head": number == 1, "state": "ALIVE",
        "agent": AgentReport(**{**figures_of(number), **own}), "probe": more.get("host", f"node{number}") if probed else None,
        "object_store": Amount(30 * GIB, 200 * GIB), "resources": {"CPU": Quantity(30, 192), "GPU": Quantity(6, 8)}, **more,
    }  # fmt: skip
    return Node(**facts)


def with_figures(node: Node, **figures: Any) -> Node:
    """The node, with another report of its agent."""
    return replace(node, agent=replace(node.agent, **figures))


def actor(number: int, text: str = "", **more: Any) -> Actor:
    facts = {
        "id": f"{number:032x}", "class_": f"PolicyModelActor{text}", "name": f"actor{number}{text}", "state": "ALIVE", "job": "02000000",
        "node": f"{1:056x}", "pid": 1000 + number, "needs": {"GPU": 0.2, "CPU": 1.0}, "restarts": 0, "detached": False, **more,
    }  # fmt: skip
    return Actor(**facts)


def process(pid: int, text: str = "", **more: Any) -> Process:
    facts = {
        "host": "node1", "pid": pid, "ticks": pid * 10, "started": NOW - 3600, "parent": 1, "user": "train",
        "command": f"python train.py {text}", "name": f"python{text}", "state": "S", "rss": 3 * GIB, "kind": "worker",
        "why": (f"a worker of the live session {text}",), "node": f"{1:056x}", **more,
    }  # fmt: skip
    return Process(**facts)


def engine(pid: int = 4711, text: str = "", **more: Any) -> Engine:
    facts = {
        "software": "vllm", "number": "0", "model": f"qwen-7b{text}", "node": f"{1:056x}", "pid": pid, "job": "02000000",
        "actor": f"{pid:032x}", "by": "node", "running": 4, "waiting": 0, "kv_cache": 0.4, "tokens_per_second": 800.0,
        "preemptions_per_minute": 0.0, "preemptions": 0, "read": NOW, **more,
    }  # fmt: skip
    return Engine(**facts)


OTHER_RAY = "session_2026-11-22_08-06-42_896130_410"


def theirs(pid: int, **more: Any) -> Process:
    """A worker of another Ray on the first host, which has numbered its job as ours is numbered."""
    facts = {"ours": False, "session": OTHER_RAY, "other_job": "02000000", "node": f"{9:056x}", "why": ("another Ray",), **more}
    return process(pid, **facts)


def finding(text: str = "", **more: Any) -> Finding:
    facts = {
        "code": "gpu-lost", "level": "critical", "subject": f"node2 GPU 3{text}", "text": f"GPU 3 of node2 is lost{text}",
        "evidence": (f"nvidia-smi -L{text}",), "since": NOW - 50, "about": (f"{node(2).key}:3",), **more,
    }  # fmt: skip
    return Finding(**facts)


def snapshot(text: str = "", **more: Any) -> Snapshot:
    """`text` is put into every name, as a user of the cluster could."""
    group = PlacementGroup(
        f"{7:036x}",
        f"vllm{text}",
        "PENDING",
        "STRICT_PACK",
        tuple(Bundle({"GPU": 1.0, "CPU": 1.0}) for _ in range(16)),
        "02000000",
        NOW - 400,
        f"no node has the resources now{text}",
        "held",
    )
    processes = (
        process(1001, text, actor=f"{1:032x}", job="02000000", session=f"session_2026-11-21{text}", gpus=(Hold(0, 60 * GIB),)),
        process(1100, text, parent=1001, kind="child", gpus=(Hold(1, 50 * GIB),), actor=f"{1:032x}", job="02000000"),
        process(1200, text, kind="orphan", gpus=(Hold(2, 40 * GIB), Hold(3, 40 * GIB)), why=(f"its raylet is dead{text}",)),
        process(1300, text, kind="stale"),
        process(1400, text, kind="foreign", gpus=(Hold(5, GIB),), user=f"other{text}"),
        process(999999, text, kind="unknown", gpus=(Hold(6, None),), parent=None, command=None, name=None, ticks=None),
    )
    sessions = (
        Session(
            host="node1",
            name="session_2026-11-21_01-17-58_164160_11638",
            path=f"/tmp/ray/session_2026-11-21_01-17-58_164160_11638{text}",
            live=True,
            owner="train",
            size=GIB,
            latest=True,
        ),
        Session(
            host="node1",
            name="session_2026-11-20_01-17-58_164160_10000",
            path=f"/tmp/ray/session_2026-11-20_01-17-58_164160_10000{text}",
            live=False,
            owner="train",
            size=90 * GIB,
            keeps=(f"checkpoint-100{text}/model.safetensors",),
        ),
    )
    facts: dict[str, Any] = {
        "taken": NOW,
        "findings_as_of": NOW,
        "cluster": Cluster("http://10.0.0.1:8265", "2.60.0", f"session_2026-11-21_01-17-58_164160_11638{text}", "58908c", "disabled", True),
        "nodes": (
            node(1, text),
            node(2, text),
            node(3, text, state="DEAD", message=f"health check failed{text}", gpus=None, memory=HostMemory()),
        ),
        "actors": (
            actor(1, text),
            actor(2, text, class_=f"LLMRayActor{text}", pid=1002),
            actor(3, text, state="RESTARTING", restarts=3),
            *(
                actor(
                    number,
                    text,
                    state="PENDING_CREATION",
                    class_=f"CriticModelActor{text}",
                    node=None,
                    pid=None,
                    needs={"GPU": 1.0},
                    since=NOW - 300,
                    why=f"its placement group waits{text}",
                    wait="group",
                    placement_group=group.id,
                )
                for number in range(4, 8)
            ),
        ),
        "actor_counts": {"ALIVE": 2, "RESTARTING": 1, "PENDING_CREATION": 4},
        "actors_complete": True,
        "placement_groups": (
            group,
            PlacementGroup(f"{8:036x}", f"actors{text}", "CREATED", None, (Bundle({"GPU": 1.0}, f"{1:056x}"),), "02000000", NOW - 900),
        ),
        "jobs": (
            Job(f"ppo-7b{text}", "02000000", f"ppo-7b{text}", "RUNNING", f"python -m openrlhf.cli.train_ppo_ray {text}", NOW - 900),
            Job(
                f"ppo-6b{text}",
                "01000000",
                f"ppo-6b{text}",
                "FAILED",
                f"python x.py {text}",
                NOW - 1900,
                NOW - 1800,
                f"line one\nRuntimeError: boom{text}",
                "JOB_ENTRYPOINT_COMMAND_ERROR",
                exit_code=1,
            ),
        ),
        "processes": processes,
        "sessions": sessions,
        "hosts": {
            "node1": Host(
                "node1",
                ("10.0.0.1",),
                NOW,
                memory_users=(MemoryUser(1001, 3 * GIB, "train", f"python{text}"),),
                local=True,
                sessions=sessions,
                nodes=(f"{1:056x}",),
            )
        },
        "faults": (Fault("probe", f"w7: ssh: connection refused{text}", NOW - 100, f"w7{text}"),),
        "as_of": {"ray.nodes": NOW - 2},
        **more,
    }
    facts["nodes"], facts["hosts"] = move_figures(facts["nodes"], facts["hosts"])
    return Snapshot(**facts)


def move_figures(nodes: tuple[Node, ...] | None, hosts: Mapping[str, Host]) -> tuple[tuple[Node, ...] | None, dict[str, Host]]:
    """Nodes and hosts as the join makes them: what a test says of a probed node's machine is in its host."""
    moved, hosts = [], dict(hosts)
    for each in nodes or ():
        host = hosts.get(each.probe or "")
        if host is not None:
            hosts[host.name] = _with_figures_of(each, host)
            each = replace(each, agent=AgentReport(seen=each.agent.seen, given=each.agent.given))
        moved.append(each)
    return nodes and tuple(moved), hosts


def _with_figures_of(node: Node, host: Host) -> Host:
    number = int(node.id, 16) if node.id and re.fullmatch("[0-9a-f]+", node.id) else 1
    usual = figures_of(number)
    said: dict[str, Any] = {}
    for name, value in usual.items():
        own = getattr(node.agent, name)
        if name == "seen":
            if own != value and own is not None and host.taken is not None:
                said["taken"] = own
        elif own is not None and (own != value or (name != "shm" and getattr(host, name) == getattr(Host(""), name))):
            said[name] = own
    return replace(host, **said)
