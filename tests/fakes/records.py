"""The records that the State API, the job API and the autoscaler monitor would return for a fictitious cluster."""

from __future__ import annotations

from tests.fakes.shapes import GIB, GROUP_NODES, JOB, Record, Shape, group_needs, hex_id, mangled, totals, worker_pid


def actor(shape: Shape, number: int, *, detail: bool) -> Record:
    """A record of `/api/v0/actors`: the first ones live, the others wait, some of them in their constructor."""
    waits = number >= shape.alive
    late = number - shape.alive
    record = {
        "actor_id": shape.actor_id(number),
        "class_name": shape.name("RolloutWorker" if number % 3 else "PolicyTrainer", number),
        "state": "ALIVE" if not waits else "DEPENDENCIES_UNREADY" if late % 20 == 19 else "PENDING_CREATION",
        "job_id": JOB,
        "name": shape.name(f"rank_{number}", number),
        "node_id": None if waits else shape.node_id(number % shape.nodes),
        "pid": 0 if waits else worker_pid(number // shape.nodes),
        "ray_namespace": "train",
    }
    return record | _actor_detail(shape, number) if detail else record


def _actor_detail(shape: Shape, number: int) -> Record:
    group, needs = _place(shape, number)
    return {
        "serialized_runtime_env": "{}",
        "required_resources": needs,
        "death_cause": None,
        "is_detached": False,
        "placement_group_id": group,
        "repr_name": "",
        "num_restarts": "0",
        "num_restarts_due_to_lineage_reconstruction": "0",
        "num_restarts_due_to_node_preemption": "0",
        "call_site": None,
        "label_selector": {},
        "fallback_strategy": None,
    }


def _place(shape: Shape, number: int) -> tuple[str | None, dict[str, float]]:
    """The actor's placement group and needs: every GPU belongs to a group, and half of the waiting actors want a group without a place."""
    if number < shape.alive:
        slot, node = divmod(number, shape.nodes)
        group, bundle = shape.bundle(node, slot)
        return (group, group_needs(group, bundle)) if slot < shape.gpus else (None, {})
    if number % 2:
        return None, {"CPU": 1.0, "GPU": 1.0}
    group = shape.group_id(shape.groups)
    return group, group_needs(group, number % (GROUP_NODES * shape.gpus))


def placement_group(shape: Shape, number: int) -> Record:
    """A record of `/api/v0/placement_groups?detail=1`: a bundle for each GPU of a few nodes; the last group has no place."""
    placed = number < shape.groups
    nodes = range(number * GROUP_NODES, min((number + 1) * GROUP_NODES, shape.nodes)) if placed else range(GROUP_NODES)
    stats = {
        "creation_request_received_ns": f"{shape.started_ms}000000",
        "scheduling_started_time_ns": f"{shape.started_ms}000000",
        "scheduling_attempt": 1,
    }
    return {
        "placement_group_id": shape.group_id(number),
        "name": shape.name(f"rollout_{number}", number),
        "creator_job_id": JOB,
        "state": "CREATED" if placed else "PENDING",
        "bundles": [_bundle(shape, number, node, index, placed=placed) for node in nodes for index in range(shape.gpus)],
        "is_detached": False,
        "stats": stats | {"scheduling_state": "FINISHED" if placed else "NO_RESOURCES", "highest_retry_delay_ms": 0.0},
        "topology_strategy": {},
        "topology_assignments": {},
    }


def _bundle(shape: Shape, group: int, node: int, index: int, *, placed: bool) -> Record:
    return {
        "bundle_id": {"placement_group_id": shape.group_id(group), "bundle_index": shape.bundle(node, index)[1]},
        "unit_resources": {"GPU": 1.0, "CPU": 1.0},
        "node_id": shape.node_id(node) if placed else "",
        "label_selector": {},
    }


def job(shape: Shape, number: int) -> Record:
    """A record of `/api/jobs/`; the first one runs."""
    runs = number == 0
    return {
        "type": "SUBMISSION",
        "job_id": f"{number + 2:02x}000000",
        "submission_id": shape.name(f"ppo-7b-{number}", number),
        "driver_info": {"id": f"{number + 2:02x}000000", "node_ip_address": shape.ip(0), "pid": str(19000 + number)},
        "status": "RUNNING" if runs else "SUCCEEDED",
        "entrypoint": shape.name("python -m openrlhf.cli.train_ppo_ray --actor.num_nodes 1", number),
        "message": shape.name("Job is currently running." if runs else "Job finished successfully.", number),
        "error_type": None,
        "start_time": shape.started_ms + number * 1000,
        "end_time": None if runs else shape.started_ms + 600000,
        "metadata": None,
        "runtime_env": None,
        "driver_agent_http_address": f"http://{shape.ip(0)}:52365",
        "driver_node_id": shape.node_id(0),
        "driver_exit_code": None if runs else 0,
    }


def node_record(shape: Shape, number: int) -> Record:
    """A record of `/api/v0/nodes?detail=1` with real resource names."""
    return {
        "node_id": shape.node_id(number),
        "node_ip": shape.ip(number),
        "is_head_node": number == 0,
        "state": "ALIVE",
        "state_message": None,
        "node_name": shape.ip(number),
        "resources_total": totals(shape, number),
        "labels": {"ray.io/node-id": shape.node_id(number)},
        "start_time_ms": shape.started_ms,
        "end_time_ms": 0,
    }


def worker_record(shape: Shape, number: int) -> Record:
    """A record of `/api/v0/workers?detail=1`: a living worker."""
    node_number, slot = divmod(number, shape.workers)
    return {
        "worker_id": hex_id("worker", node_number * 1000 + slot, 56),
        "is_alive": True,
        "worker_type": "WORKER",
        "exit_type": None,
        "node_id": shape.node_id(node_number),
        "ip": shape.ip(node_number),
        "pid": worker_pid(slot),
        "exit_detail": None,
        "worker_launch_time_ms": shape.started_ms,
        "worker_launched_time_ms": shape.started_ms + 500,
        "start_time_ms": shape.started_ms + 600,
        "end_time_ms": 0,
        "debugger_port": None,
        "num_paused_threads": None,
    }


def cluster_status(shape: Shape, now: float) -> Record:
    """The data of `/api/cluster_status`, as the autoscaler monitor stores them in GCS."""
    by_node = {shape.node_id(number): _usage(shape, number) for number in range(shape.nodes)}
    demand = [[{"CPU": 1.0, "GPU": 1.0}, shape.pending]] if shape.pending else []
    group = [[{"bundles": [[{"CPU": 1.0, "GPU": 1.0}, shape.gpus]], "strategy": "PACK"}, 1]] if shape.pending else []
    report = {
        "usage": {"GPU": [float(shape.nodes * shape.gpus)] * 2, "CPU": [8.0 * shape.nodes, 192.0 * shape.nodes]},
        "resourceDemand": demand,
        "pgDemand": group,
        "requestDemand": [],
        "nodeTypes": [[totals(shape, 0), shape.nodes]],
        "headIp": None,
        "usageByNode": by_node,
        "nodeTypeMapping": None,
        "idleTimeMap": None,
    }
    status = {
        "gcsRequestTime": 0.0039,
        "time": now,
        "monitorPid": 674,
        "autoscalerUpdateTime": 0.0037,
        "autoscalerReport": _autoscaler(shape),
        "nonTerminatedNodesTime": 6.9e-06,
        "loadMetricsReport": report,
    }
    return {"autoscalingStatus": f"Cluster status: {shape.nodes} nodes", "autoscalingError": None, "clusterStatus": status}


def _usage(shape: Shape, number: int) -> dict[str, list[float]]:
    busy = [slot for slot in range(shape.gpus) if shape.actor_on(number, slot) is not None]
    used = {"GPU": float(shape.gpus), "CPU": float(shape.gpus), "object_store_memory": 20.0 * GIB}
    plain = {name: [used.get(name, 0.0), total] for name, total in totals(shape, number).items()}
    groups: dict[str, list[float]] = {}
    for slot in range(shape.gpus):
        for name, amount in group_needs(*shape.bundle(number, slot)).items():
            has = groups.setdefault(name, [0.0, 0.0])
            has[0] += amount if slot in busy else 0.0
            has[1] += amount if amount == 1.0 else 1000.0
    return {mangled(shape, name): amounts for name, amounts in (plain | groups).items()}


def _autoscaler(shape: Shape) -> Record:
    nodes = [shape.node_id(number) for number in range(shape.nodes)]
    return {
        "activeNodes": {mangled(shape, f"node_{node}"): 1 for node in nodes},
        "idleNodes": None,
        "pendingNodes": [],
        "pendingLaunches": {},
        "failedNodes": [],
        "nodeAvailabilitySummary": {"nodeAvailabilities": {}},
        "nodeActivities": None,
        "pendingResources": {},
        "nodeTypeMapping": {node: f"node_{node}" for node in nodes},
        "legacy": True,
    }
