"""Without a running Ray the job is checked against the cluster that the preset starts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.budget import Budget
from cockpit.check.check import check
from cockpit.check.result import exit_code
from cockpit.config.settings import Config
from cockpit.config.slurm import named_allocation
from cockpit.model import Allocation, Amount, Bundle, Fault, Host, PlacementGroup, Session, SlurmNode
from cockpit.presets import Needs, Preset, RayNode, SlurmStart, with_hosts
from tests.check.worlds import GIB, NOW, HostMemory, asked, cluster, down, gpu, group, lines_of, machine, preset, start
from tests.world import with_figures

ACTOR = group("actor", 8)
FLAGS = {"num_gpus": 8, "num_cpus": 16}
TWO = start(RayNode("head", flags=FLAGS), RayNode("w1", flags=FLAGS))


def host(name, gpus=8, **more):
    return Host(
        name, (f"10.0.0.{1 + ('w' in name)}",), NOW, cpus=32, gpus=tuple(gpu(index, 0) for index in range(gpus)), processes=(), **more
    )


def planned(ray, *groups, world=None, needs=None):
    return check(preset(ray=ray, needs=needs), asked(*groups), world or down(host("head"), host("w1")))


def test_it_is_judged_for_the_nodes_that_the_preset_starts_and_fits_once_they_run():
    result = planned(TWO, ACTOR, group("vLLM", 8))
    assert (result.verdict, exit_code(result)) == ("later", 1)
    assert (result.reason.text, result.reason.change) == (
        "no Ray runs: checked against the 2 nodes, 16 GPUs that the preset starts",
        "`cockpit recover ppo`",
    )
    assert len([text for text in lines_of(result, "fine") if text.startswith(("actor", "vLLM"))]) == 2


@pytest.mark.parametrize(
    ("ray", "groups", "verdict", "words"),
    [
        (TWO, (group("actor", 17),), "never", "actor: needs 17 x 1 GPU"),
        (TWO, (group("pool", 8, "STRICT_PACK", GPU=1.0, CPU=3.0),), "never", "needs 24 CPUs on one node; 2 nodes have 16"),
        (start(RayNode("head")), (group("pool", 8, "STRICT_PACK", GPU=1.0, CPU=3.0),), "later", "no Ray runs"),
        (start(RayNode("head"), CUDA_VISIBLE_DEVICES="0,1"), (ACTOR,), "never", "actor: needs 8 x 1 GPU"),
        (start(RayNode("w9")), (ACTOR,), "unknown", "the CPU resource of w9 is unknown"),
        (start(RayNode("w9", flags=FLAGS)), (ACTOR,), "unknown", "free GPU memory is unknown on w9"),
        (start(RayNode("head", flags={**FLAGS, "resources": '{"tpu": 1}'})), (group("task", 1, tpu=1.0),), "later", "no Ray runs"),
        (start(RayNode("w9", flags=FLAGS)), (group("task", 1, memory=1.0),), "unknown", "the memory resource of w9 is unknown"),
        (start(RayNode("head", flags=FLAGS)), (group("task", 1, memory=200.0 * GIB),), "later", "no Ray runs"),
        (start(RayNode("head", flags=FLAGS)), (group("task", 1, memory=220.0 * GIB),), "never", "head has 210G"),
    ],
)  # fmt: skip
def test_by_what_the_preset_says_and_what_its_hosts_have(ray, groups, verdict, words):
    result = planned(ray, *groups, needs=Needs(gpu_memory_free=GIB))
    assert result.verdict == verdict
    assert any(words in line.text for line in result.lines if line.level == verdict), result.lines


@pytest.mark.parametrize(
    ("ray", "level", "text", "change"),
    [
        (start(RayNode("head", flags=FLAGS), CUDA_VISIBLE_DEVICES="0,1,2,3"), "never",
         "ray.env sets CUDA_VISIBLE_DEVICES=0,1,2,3 (4 GPUs), but head has num_gpus: 8; Ray refuses to start",
         "set num_gpus: 4, or list 8 GPUs in CUDA_VISIBLE_DEVICES"),
        (start(RayNode("head", flags={"num_gpus": 2}), CUDA_VISIBLE_DEVICES="0,1,2,3"), "doubt",
         "ray.env sets CUDA_VISIBLE_DEVICES=0,1,2,3 (4 GPUs), but head has num_gpus: 2; 2 of them stay unused", "set num_gpus: 4"),
        (start(RayNode("head", flags={"num_gpus": 16})), "doubt", "head has num_gpus: 16, but NVML sees 8", "set num_gpus: 8"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_or_its_hosts_is_told_with_what_to_change(ray, level, text, change):
    line = next(line for line in planned(ray, group("actor", 1)).lines if "num_gpus" in line.text)
    assert (line.level, line.text, line.change) == (level, text, change)


def test_devices_in_the_jobs_own_environment_are_a_doubt_and_those_of_the_shell_are_not_guessed():
    result = check(preset(env={"CUDA_VISIBLE_DEVICES": "0"}), asked(ACTOR), cluster(machine(1)))
    assert "job.env sets CUDA_VISIBLE_DEVICES" in lines_of(result, "doubt")[0]
    assert planned(start(RayNode("head", flags=FLAGS), CUDA_VISIBLE_DEVICES="${GPUS}"), ACTOR).verdict == "later"


def test_a_host_that_nobody_reaches_is_named():
    silent = down(host("head"), faults=(Fault("probe", "w1: ssh: no route to host", NOW, "w1"),))
    assert "resources of w1 are unknown: w1: ssh: no route to host" in lines_of(planned(TWO, ACTOR, world=silent), "doubt")


def test_orphans_are_seen_before_ray_is_started():
    full = Host("head", ("10.0.0.1",), NOW, cpus=32, gpus=tuple(gpu(index, 40) for index in range(8)), processes=())
    result = planned(start(RayNode("head", flags=FLAGS)), ACTOR, world=down(full), needs=Needs(gpu_memory_free=70 * GIB))
    assert "8 of the 8 GPUs" in lines_of(result, "later")[1]


def test_what_a_host_that_has_not_joined_could_bring_is_never_impossible():
    half = check(preset(ray=TWO), asked(ACTOR, group("vLLM", 8)), cluster(machine(1)))
    assert half.verdict == "later"
    assert half.reason.text.endswith(" (current nodes only); w1 of the preset has not joined")
    assert check(preset(ray=TWO), asked(group("actor", 17)), cluster(machine(1), machine(2))).verdict == "never"
    assert check(preset(ray=start(RayNode("x"))), asked(group("actor", 17)), cluster(machine(1))).verdict == "never"


def test_what_waits_in_a_ray_that_is_gone_is_nobody():
    old = replace(down(host("head"), host("w1")), placement_groups=(PlacementGroup("7", "g", "PENDING", "PACK", (Bundle({"GPU": 16.0}),)),))
    assert lines_of(planned(TWO, ACTOR, world=old), "later", "doubt") == [
        "no Ray runs: checked against the 2 nodes, 16 GPUs that the preset starts"
    ]


def in_slurm(*hosts, **more):
    nodes = tuple(SlurmNode(one.name, "mixed") for one in hosts)
    return replace(down(*hosts, **more), allocation=Allocation("42", "RUNNING", None, nodes))


def test_in_a_job_of_slurms_without_a_ray_it_is_judged_for_the_nodes_of_the_allocation():
    fits = check(preset(), asked(ACTOR, group("vLLM", 8)), in_slurm(host("head"), host("w1")))
    assert (fits.verdict, fits.reason.text) == ("later", "no Ray runs: checked against the 2 nodes, 16 GPUs of Slurm job 42")
    assert fits.reason.change == (
        "to start Ray on these nodes, write a preset whose `ray` section names no hosts, then run `cockpit recover PRESET`"
    )
    assert check(preset(), asked(group("actor", 17)), in_slurm(host("head"), host("w1"))).verdict == "never"
    assert check(preset(), asked(group("pool", 8, "STRICT_PACK", GPU=1.0)), in_slurm(host("head", 4), host("w1", 4))).verdict == "never"


def test_a_node_of_the_allocation_that_nobody_looks_at_is_unknown():
    seen = in_slurm(host("head"), host("w1"))
    half = replace(seen, hosts={"head": seen.hosts["head"]})
    told = check(preset(), asked(ACTOR), half)
    assert told.verdict == "unknown"
    assert told.reason.text.endswith("the CPU resource of w1 is unknown: no flag of its `ray start` sets it, and the host is not probed")


ANYWHERE = preset(ray=SlurmStart(FLAGS, FLAGS))


def test_a_preset_without_hosts_is_judged_for_the_nodes_of_the_job_and_its_flags():
    here = with_hosts(ANYWHERE, Config(slurm=named_allocation("42", "head,w1")))
    fits = check(here, asked(ACTOR, group("vLLM", 8)), in_slurm(host("head"), host("w1")))
    assert (fits.verdict, fits.reason.text, fits.reason.change) == (
        "later",
        "no Ray runs: checked against the 2 nodes, 16 GPUs of Slurm job 42, on which the preset starts Ray",
        "`cockpit recover ppo --slurm 42`",
    )
    assert check(here, asked(group("actor", 17)), in_slurm(host("head"), host("w1"))).verdict == "never"
    few = check(here, asked(group("pool", 8, "STRICT_PACK", GPU=1.0, CPU=3.0)), in_slurm(host("head"), host("w1")))
    assert "num_cpus: 24 under ray.head and ray.workers in the preset" in few.reason.change
    half = check(here, asked(ACTOR), in_slurm(host("head", 4), host("w1")))
    assert "head has num_gpus: 8, but NVML sees 4" in lines_of(half, "doubt")


def test_without_hosts_and_without_a_job_of_slurms_it_is_said_what_to_do():
    told = check(ANYWHERE, asked(ACTOR), down(host("head")))
    assert told.verdict == "unknown"
    assert told.reason.text == (
        "the preset names no hosts, and cockpit knows no Slurm job whose nodes could be used: "
        "run cockpit within the job, give --slurm JOBID, or name the hosts in the preset"
    )


@pytest.mark.parametrize("given", [preset(ray=TWO), ANYWHERE])
def test_if_a_ray_runs_it_is_judged_as_it_is(given):
    assert check(given, asked(ACTOR), cluster(machine(1))).verdict == "now"


@pytest.mark.parametrize("where", [down, in_slurm])
def test_a_live_ray_whose_dashboard_is_silent_is_unknown(where):
    world = where(host("head"), sessions=(Session(host="head", name="session_1", path="/tmp/ray/session_1", live=True),))
    told_why = check(preset(), asked(ACTOR), world).reason.text
    assert told_why.endswith("no Ray dashboard answers at http://10.0.0.1:8265, although a Ray runs on head")


@pytest.mark.parametrize(("threshold", "verdict"), [("0.97", "later"), ("0.5", "never"), ("much", "later"), ("${X}", "later")])
def test_the_line_at_which_the_presets_ray_would_kill_counts(threshold, verdict):
    memory = HostMemory(1 * GIB, 100 * GIB)
    world = down(host("head", memory=memory))
    world = replace(world, nodes=tuple(with_figures(each, memory=memory) for each in world.nodes))
    ray = start(RayNode("head", flags=FLAGS), RAY_memory_usage_threshold=threshold)
    assert planned(ray, ACTOR, world=world, needs=Needs(host_memory_free=60 * GIB)).verdict == verdict


def test_a_preset_without_a_job_is_checked_for_its_cluster_alone():
    bare = Preset("up", preset().path, ray=TWO, needs=Needs(host_memory_free=10 * GIB))
    result = check(bare, Budget(None), down(host("head", memory=HostMemory(1, 100 * GIB)), host("w1", memory=HostMemory(1, 100 * GIB))))
    assert result.verdict == "later"
    assert result.budget.amount("GPU") == 0


def test_an_address_that_a_host_has_not_is_a_doubt_and_one_that_it_has_or_is_not_known_yet_is_none():
    def told(address):
        result = planned(start(RayNode("head", flags={**FLAGS, "node_ip_address": address})), ACTOR)
        return [(line.text, line.change) for line in result.lines if line.level == "doubt"]

    text = "head has node_ip_address: 172.17.0.1, but its host has 10.0.0.1: other nodes may not reach it"
    assert told("172.17.0.1") == [(text, "set node_ip_address: 10.0.0.1")]
    assert told("10.0.0.1") == told("$(hostname -i)") == []


@pytest.mark.parametrize(
    ("store", "env", "level", "words"),
    [
        (64 * GIB, {}, "never", "but its /dev/shm has 32G; `ray start` would fail"),
        (64 * GIB, {"RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1"}, "doubt", "Ray would put the object store on a disk"),
        (32 * GIB, {}, None, ""),
    ],
)
def test_an_object_store_that_does_not_fit_into_shared_memory_is_told_before_launch(store, env, level, words):
    world = down(host("head", shm=Amount(0, 32 * GIB)))
    result = planned(start(RayNode("head", flags={**FLAGS, "object_store_memory": store}), **env), group("actor", 1), world=world)
    found = [(line.level, line.text) for line in result.lines if "object_store_memory" in line.text]
    assert [each[0] for each in found] == [level] * (level is not None)
    assert all(words in text for _, text in found)


def test_a_small_object_store_that_does_not_fit_is_only_slow():
    world = down(host("head", shm=Amount(0, GIB // 16)))
    result = planned(start(RayNode("head", flags={**FLAGS, "object_store_memory": 2 * GIB})), group("actor", 1), world=world)
    assert any("Ray would put the object store on a disk" in text for text in lines_of(result, "doubt"))
    apart = start(RayNode("head", flags={**FLAGS, "object_store_memory": 64 * GIB, "plasma_directory": "/data"}))
    assert not any("object_store_memory" in line.text for line in planned(apart, group("actor", 1), world=world).lines)
