"""A check ends with a verdict for any answers of a cluster, and never calls unknown a fit."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.budget import Budget, Group
from cockpit.check.check import check
from cockpit.check.result import check_json, exit_code
from cockpit.check.result_text import check_text
from cockpit.model import Host, Quantity
from cockpit.presets import Needs, RayNode
from tests.check.worlds import GIB, Amount, Disk, Hold, HostMemory, asked, cluster, gpu, group, machine, preset, process, start

SIZE = st.none() | st.sampled_from([0, -1, GIB, 80 * GIB, 2**63])
NUMBER = st.none() | st.sampled_from([0.0, 0.5, 4.0, 8.0, -1.0, 1e300])
AMOUNT = st.builds(Amount, SIZE, SIZE)
GPU = st.builds(
    lambda index, used, total, fault: gpu(index, memory_used=used, memory_total=total, fault=fault),
    st.integers(0, 9), SIZE, SIZE, st.none() | st.just("lost\x1b[2J"),
)  # fmt: skip
NODE = st.builds(
    lambda **more: machine(1, **more),
    resources=st.dictionaries(st.sampled_from(["GPU", "CPU", "memory", "tpu", "tpuPod"]), st.builds(Quantity, NUMBER, NUMBER)),
    gpus=st.none() | st.lists(GPU, max_size=3).map(tuple),
    memory=st.builds(HostMemory, SIZE, SIZE, SIZE),
    shm=AMOUNT,
    object_store=AMOUNT,
    disks=st.lists(st.builds(Disk, st.sampled_from(["/", "/tmp/ray"]), SIZE, SIZE), max_size=2).map(tuple),
    state=st.sampled_from(["ALIVE", "DEAD", "UNKNOWN"]),
)
KIND = st.sampled_from(["orphan", "stale", "foreign", "unknown", "worker"])
PROCESS = st.builds(
    lambda pid, kind, index, held, user: process(pid, kind=kind, host="head", node=None, gpus=(Hold(index, held),), user=user),
    st.integers(1, 9), KIND, st.integers(0, 9), SIZE, st.none() | st.just("u"),
)  # fmt: skip
WORLD = st.builds(
    lambda node, reachable, nodes, processes, hosts: replace(
        cluster(node, processes=processes, **({} if hosts else {"hosts": {}})),
        cluster=replace(cluster().cluster, reachable=reachable),
        **({} if nodes else {"nodes": None, "actors": None, "placement_groups": None, "jobs": None, "processes": None}),
    ),
    NODE, st.none() | st.booleans(), st.booleans(), st.lists(PROCESS, max_size=3).map(tuple), st.booleans(),
)  # fmt: skip
NEEDS = st.builds(
    Needs,
    gpus=st.none() | st.just(8.0),
    gpu_memory_free=SIZE,
    host_memory_free=SIZE,
    shm_free=SIZE,
    disk_free=SIZE,
    open_files=st.none() | st.just(5),
    ray_version=st.none() | st.just("2.44"),
    python_version=st.none() | st.just(">=3"),
)
RAY = st.none() | st.sampled_from([
    start(RayNode("head")), start(RayNode("w9", flags={"num_gpus": 8, "resources": "{", "labels": "[]"}), CUDA_VISIBLE_DEVICES="all"),
])  # fmt: skip
BUDGET = st.sampled_from([
    asked(group("actor", 8)), asked(group("actor", 1, tpu_pod=1.0), group("x", 2, None, GPU=0.5)), asked(Group("vLLM", None)), asked(),
    asked(group("nothing", 3, GPU=0.0)), Budget(None, unread=("?",)), asked(group("vLLM", 8), settings={"gpu_memory_utilization": "nan"}),
    asked(Group("pool", (({"CPU": 3.0}, 8),), "STRICT_PACK", ("CPU",))),
])  # fmt: skip


@settings(max_examples=150)
@given(WORLD, NEEDS, RAY, BUDGET)
def test_no_facts_trip_it_and_what_is_unknown_never_fits(world, needs, ray, budget):
    result = check(preset(needs=needs, ray=ray), budget, world)
    assert exit_code(result) in range(4)
    assert check_json(result)
    assert "\x1b" not in check_text("ppo", result)
    if world.nodes is None and ray is None:
        assert result.verdict in ("unknown", "never")


def test_a_host_without_any_facts_is_a_host():
    bare = cluster(machine(1), hosts={"head": Host("head")})
    assert check(preset(), asked(group("actor", 8)), bare).verdict == "now"
