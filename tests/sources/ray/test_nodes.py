from __future__ import annotations

import copy
from typing import Any

import pytest

from cockpit.model import Amount, Gpu, Holder, HostMemory, Quantity
from cockpit.sources.ray.client import NodeFacts
from cockpit.sources.source import SourceError
from tests.sources.ray.recorded_ray import HEAD, WORKER, Clock, RecordedRay, recorded

MIB = 2**20
NODE = "65ce6d7fb998dc5136443a763b5e22db0f5920b16d6aba220d7d61ea"


class Cluster(RecordedRay):
    """A cluster with copies of a recorded node, in the states that a test needs."""

    def __init__(self, count: int = 1) -> None:
        super().__init__()
        self.clock = Clock()
        self.single = recorded("nodes")["data"]["summary"][0]
        self.entries = [copy.deepcopy(self.single) for _ in range(count)]
        for number, entry in enumerate(self.entries):
            entry["raylet"]["nodeId"] = f"{number:056x}"
            entry["hostname"] = f"w{number}"
        self.paths["/nodes"] = lambda _: {"result": True, "msg": "", "data": {"summary": self.entries, "nodeLogicalResources": {}}}
        self.paths["/api/v0/nodes"] = (500, "busy")
        self.it = self.ray(self.clock)

    async def read(self, later: float = 5.0) -> NodeFacts:
        self.clock.now += later
        return await self.it.read_nodes()


async def test_a_node_is_converted_into_a_value_of_the_model():
    facts = await RecordedRay().ray().read_nodes()
    (node,) = facts.nodes
    assert (node.id, node.host, node.ip, node.head, node.state) == (NODE, "vm", "127.0.0.1", True, "ALIVE")
    assert (node.agent.cpu, node.agent.cpus, node.workers) == (34.8, 2, 5)
    memory = node.agent.memory
    assert (memory.used, memory.total, memory.kill_at) == (979390464, 25276518400, None)
    assert node.object_store == Amount(used=0, total=200000000)
    assert (node.agent.shm, node.agent.shared) == (None, 8945664), "Ray's shm is not the size of /dev/shm"
    assert [disk.path for disk in node.agent.disks] == ["/", "/tmp/ray"]
    assert node.resources["GPU"] == Quantity(used=2.0, total=2.0)
    assert node.resources["accelerator_type:H100"] == Quantity(used=0.0, total=1.0)
    assert node.agent.gpus is not None
    gpu = node.agent.gpus[0]
    assert (gpu.index, gpu.memory_used, gpu.memory_total) == (0, 30000 * MIB, 81559 * MIB), "in bytes"
    assert (gpu.utilization, gpu.power, gpu.temperature) == (55.0, 350.0, 61.0), "in watts"


async def test_every_process_on_a_gpu_is_a_holder_and_the_agent_is_no_driver_although_ray_lists_it_as_one():
    facts = await RecordedRay().ray().read_nodes()
    assert Holder(node=NODE, index=0, pid=999999, memory=9520 * MIB) in facts.holders, "one that is not Ray's"
    assert {worker.pid for worker in facts.workers if not worker.driver} >= {23669, 23670, 23799}
    assert [worker.pid for worker in facts.workers if worker.driver] == [23768]


async def test_a_worker_without_job_and_actor_has_none():
    facts = await RecordedRay(nodes="nodes_dead").ray().read_nodes()
    assert all("f" * 8 not in (worker.job or "") + (worker.actor or "") for worker in facts.workers)


async def test_figures_that_nvml_could_not_read_are_unknown():
    cluster = Cluster()
    gpu = {"index": 1002, "uuid": "MIG-1", "name": "MIG 1g", "utilizationGpu": -1, "memoryUsed": -1, "memoryTotal": 9856, "powerMw": -1}
    cluster.entries[0]["gpus"] = [
        {**gpu, "processesPids": [{"pid": 7, "gpuMemoryUsage": 0}, {"pid": 8}]},
        {"index": 1, "processesPids": None},
    ]
    facts = await cluster.read()
    assert facts.nodes[0].agent.gpus is not None
    mig = facts.nodes[0].agent.gpus[0]
    assert (mig.label, mig.utilization, mig.memory_used, mig.memory_total, mig.power) == ("1.2", None, None, 9856 * MIB, None)
    assert [(holder.pid, holder.memory) for holder in facts.holders] == [(7, None), (8, None)]


@pytest.mark.parametrize("absurd", [1e305, 1e18, -1e300, "nan", "inf", "-Infinity"])
async def test_an_implausible_number_is_unknown(absurd):
    cluster = Cluster()
    held = {"pid": absurd, "gpuMemoryUsage": absurd}
    numbers = ("index", "utilizationGpu", "memoryUsed", "memoryTotal", "powerMw", "temperatureC")
    cluster.entries[0].update(
        cpu=absurd,
        cpus=[absurd, absurd],
        mem=[absurd] * 4,
        disk={"/": {"used": absurd, "total": absurd}, "/data": {"used": absurd, "total": 100, "free": absurd}},
        gpus=[{**dict.fromkeys(numbers, absurd), "uuid": "GPU-1", "processesPids": [held, {**held, "pid": 7}]}],
        agent={"pid": absurd},
    )
    raylet = cluster.entries[0]["raylet"]
    raylet.update(objectStoreUsedMemory=absurd, objectStoreAvailableMemory=absurd, resourcesTotal={"GPU": absurd})
    raylet["coreWorkersStats"] = [{"pid": absurd}, {"pid": 8}]
    facts = await cluster.read()
    (node,) = facts.nodes
    assert (node.agent.cpu, node.agent.cpus, node.agent.memory, node.object_store) == (None, None, HostMemory(), Amount())
    assert {(disk.used, disk.total) for disk in node.agent.disks} <= {(None, None), (None, 100)}
    assert node.resources == {"GPU": Quantity()}
    assert node.agent.gpus == (Gpu(index=0, uuid="GPU-1"),)
    assert facts.holders == (Holder(node=node.id, index=0, pid=7),)
    assert [worker.pid for worker in facts.workers] == [8]


@pytest.mark.parametrize(("version", "known"), [("2.60", True), ("2.44.1", True), ("2.9.3", False)])
async def test_an_empty_list_of_gpus_on_a_node_with_gpus_is_unknown(version, known):
    (node,) = (await RecordedRay(version).ray().read_nodes()).nodes
    assert node.resources["GPU"].total == 2.0
    assert (node.agent.gpus is not None) is known


async def test_a_list_of_gpus_or_disks_that_ray_made_up_is_left_out():
    cluster = Cluster()
    cluster.entries[0]["gpus"] = []
    del cluster.entries[0]["raylet"]["resourcesTotal"]["GPU"]
    assert (await cluster.read()).nodes[0].agent.gpus == ()
    cluster = Cluster()
    cluster.entries[0]["disk"] = {"/": {"total": 1, "used": 0, "free": 1, "percent": 0.0}}
    assert (await cluster.read()).nodes[0].agent.disks == ()


async def test_a_node_was_seen_when_its_agents_time_last_changed():
    cluster = Cluster()
    cluster.entries[0]["now"] = 42.0
    first = (await cluster.read()).nodes[0].agent.seen
    assert first == cluster.clock.now
    assert (await cluster.read(later=30.0)).nodes[0].agent.seen == first
    cluster.entries[0]["now"] = 41.0
    assert (await cluster.read()).nodes[0].agent.seen == cluster.clock.now


async def test_a_node_that_was_silent_before_the_start_is_as_old_as_its_figures():
    cluster = Cluster(4)
    for entry, now in zip(cluster.entries, (5000.0, 1400.0, 4991.0, "nan"), strict=True):
        entry["now"] = now
    facts = await cluster.read()
    assert [node.agent.seen and cluster.clock.now - node.agent.seen for node in facts.nodes] == [0.0, 3600.0, 0.0, None]
    cluster.entries[1]["now"] = 1405.0
    assert (await cluster.read()).nodes[1].agent.seen == cluster.clock.now, "its clock is behind, but it runs"


async def test_a_dead_node_keeps_its_name_and_its_message_but_no_figures():
    cluster = Cluster(2)
    await cluster.read()
    blank = next(entry for entry in recorded("nodes_dead")["data"]["summary"] if entry["raylet"]["state"] == "DEAD")
    blank["raylet"]["nodeId"] = cluster.entries[1]["raylet"]["nodeId"]
    cluster.entries[1] = blank
    facts = await cluster.read()
    dead = facts.nodes[1]
    assert (dead.host, dead.ip, dead.state) == ("w1", "127.0.0.1", "DEAD")
    assert dead.message == "Unexpected termination: health check failed due to missing too many heartbeats"
    assert (dead.agent.cpu, dead.agent.gpus, dead.agent.memory) == (None, None, None)
    assert dead.resources["GPU"] == Quantity(used=None, total=2.0)
    assert (dead.started, dead.ended) == (1795224816.166, 1795224469.434)
    assert "ce7483f2dbbd87837ae6917102000000" in dead.had
    assert {holder.node for holder in facts.holders} == {facts.nodes[0].id}
    assert {worker.node for worker in facts.workers} == {facts.nodes[0].id}


async def test_a_node_that_was_dead_before_the_start_is_read_from_the_state_api():
    facts = await RecordedRay(nodes="nodes_dead").ray().read_nodes()
    dead = next(node for node in facts.nodes if node.state == "DEAD")
    assert (dead.id, dead.name, dead.ip) == (WORKER, "worker1", "127.0.0.1")
    assert dead.resources["special_hw_a"].total == 1.0
    assert dead.labels["accel"] == "h100"


async def test_identities_are_read_rarely_and_figures_do_not_wait_for_them():
    ray, clock = RecordedRay(nodes="nodes_dead"), Clock()
    it = ray.ray(clock)
    for _ in range(10):
        await it.read_nodes()
        clock.now += 5.0
    assert ray.times_asked("/api/v0/nodes") == 1
    clock.now += 30.0
    await it.read_nodes()
    assert ray.times_asked("/api/v0/nodes") == 2
    cluster = Cluster()
    cluster.paths["/api/v0/nodes"] = (500, "500 Internal Server Error\n\nServer got itself in trouble")
    assert (await cluster.read()).nodes[0].agent.cpu == 34.8


@pytest.mark.parametrize(("pause", "times"), [(5.0, 2), (1.0, 4)])
async def test_a_sudden_empty_list_is_accepted_only_if_it_lasts(pause, times):
    cluster = Cluster(3)
    await cluster.read()
    cluster.entries.clear()
    for _ in range(times):
        with pytest.raises(SourceError, match=r"lists 0 nodes \(before: 3\), without 3 that were alive; cockpit checks again first"):
            await cluster.read(later=pause)
    assert (await cluster.read(later=10.0)).nodes == ()


async def test_the_loss_of_all_figures_is_not_accepted_at_once():
    cluster = Cluster(2)
    await cluster.read()
    whole = copy.deepcopy(cluster.entries)
    for entry in cluster.entries:
        raylet = {key: value for key, value in entry["raylet"].items() if key not in ("coreWorkersStats", "storeStats")}
        entry.clear()
        entry["raylet"] = {**raylet, "objectStoreUsedMemory": 0, "objectStoreAvailableMemory": 0}
    with pytest.raises(SourceError, match="has no figures of any node"):
        await cluster.read()
    cluster.entries[:] = whole
    assert (await cluster.read()).nodes[0].agent.cpu == 34.8


async def test_one_node_without_figures_keeps_its_old_ones_and_their_age():
    cluster = Cluster(2)
    before = await cluster.read()
    cluster.entries[1] = {"raylet": {key: value for key, value in cluster.entries[1]["raylet"].items() if key != "coreWorkersStats"}}
    cluster.entries[0]["now"] += 5
    after = await cluster.read()
    assert after.nodes[1] == before.nodes[1]
    assert after.nodes[0].agent.seen != after.nodes[1].agent.seen
    assert after.workers == before.workers


async def test_a_node_that_never_had_figures_has_none():
    cluster = Cluster()
    cluster.entries[0] = {"raylet": {"nodeId": HEAD, "state": "ALIVE", "nodeManagerAddress": "10.0.0.1", "nodeManagerHostname": "w9"}}
    (node,) = (await cluster.read()).nodes
    assert (node.host, node.object_store) == ("w9", Amount())
    assert node.agent.seen is node.agent.cpu is node.agent.gpus is node.workers is None


@pytest.mark.parametrize(("count", "seconds"), [(1, 5.0), (100, 5.0), (101, 10.0), (401, 15.0)])
async def test_many_nodes_are_read_less_often(count, seconds):
    cluster = Cluster(count)
    await cluster.read()
    source = next(source for source in cluster.it.sources if source.name == "ray.nodes")
    assert source.pause() == seconds


async def test_every_request_bypasses_rays_cache():
    cluster = Cluster()
    await cluster.read()
    await cluster.read()
    asked: list[Any] = [dict(request.url.params) for request in cluster.asked if request.url.path == "/nodes"]
    assert all(params["view"] == "summary" and params["nocache"] == "1" for params in asked)
    assert asked[0]["_"] != asked[1]["_"]


async def test_the_processes_of_a_node_have_their_gpus_and_no_padding():
    ray = RecordedRay()
    ray.paths[f"/nodes/{NODE}"] = recorded("node")
    found = {process.pid: process for process in await ray.ray().node_processes(NODE)}
    assert found[23486].command == "ray::DashboardAgent"
    assert found[23486].kind == "ray"
    assert (found[23670].kind, found[23670].rss) == ("worker", 94064640)
    assert [(hold.index, hold.memory) for hold in found[23670].gpus] == [(0, 20480 * MIB)]
    assert found[23768].kind == "driver"


async def test_an_unknown_node_is_an_error_and_not_an_empty_node():
    ray = RecordedRay()
    ray.paths["/nodes/abc"] = {"result": True, "msg": "", "data": {"detail": {"raylet": {"objectStoreUsedMemory": 0}, "workers": []}}}
    with pytest.raises(SourceError, match="knows no node abc"):
        await ray.ray().node_processes("abc")


async def test_a_cluster_grows_if_an_autoscaler_has_started_a_node():
    ray = RecordedRay()
    assert not (await ray.ray().read_nodes()).growing
    ray.paths["/nodes"]["data"]["summary"][0]["raylet"]["nodeTypeName"] = "gpu-worker"
    assert (await ray.ray().read_nodes()).growing
