"""`check` finds GPUs without enough free memory."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.check.result import exit_code
from cockpit.model import Quantity, RayProcess
from cockpit.presets import Needs
from tests.check.worlds import GIB, Hold, cluster, gpu, group, lines_of, looked, machine, of, process

ACTOR = group("actor", 8)
NEEDY = Needs(gpu_memory_free=70 * GIB)


def holding(index, amount=40, pid=1200, **more):
    facts = {"host": "head", "node": f"{1:056x}", "kind": "orphan", "gpus": (Hold(index, amount * GIB),), "user": "train", **more}
    return process(pid, **facts)


def held(*processes, gpus=0.0, number=1, **more):
    """One node, its GPUs filled by these processes."""
    full = {hold.index: hold.memory for each in processes for hold in each.gpus}
    cards = tuple(gpu(index, full.get(index, 0) / GIB, uuid=f"GPU-{index}") for index in range(8))
    return cluster(machine(number, gpus, gpus=cards, **more), processes=processes)


def test_an_orphan_on_a_gpu_that_it_must_get_is_named_with_what_frees_it():
    line = of(held(holding(3)), ACTOR, needs=NEEDY).reason
    assert line.level == "later"
    assert line.text == (
        "1 of the 8 GPUs that Ray does not use on head has too little free memory (needs.gpu_memory_free asks for 70G), "
        "the job would get at least 1 of them: GPU 3 has 40G free of 80G (pid 1200, orphan, 40G)"
    )
    assert line.change == "`cockpit kill-orphans head` frees 40G"


def test_empty_gpus_are_fine_where_enough_are_free_others_are_a_doubt_and_rays_own_workers_hold_what_is_theirs():
    empty = of(held(), ACTOR, needs=NEEDY)
    assert exit_code(empty) == 0
    assert "GPU memory: at least 80G free on each GPU that the job may get; needs.gpu_memory_free asks for 70G" in lines_of(empty, "fine")
    enough = of(held(holding(3)), group("actor", 7), needs=NEEDY)
    assert (enough.verdict, exit_code(enough)) == ("now", 1)
    assert "the job may get one of them" in lines_of(enough, "doubt")[0]
    no_word = of(held(holding(3)), ACTOR)
    assert no_word.verdict == "now"
    assert "GPU 3 has 40G free" in lines_of(no_word, "doubt")[0]
    assert exit_code(of(held(holding(0, kind="worker"), gpus=1.0), group("actor", 7), needs=NEEDY)) == 0


@pytest.mark.parametrize(
    ("share", "verdict"), [("0.9", "later"), ("0.5", "now"), ("a lot", "now"), ("0", "now")]
)  # fmt: skip
def test_the_share_that_the_engine_takes_must_be_free(share, verdict):
    budget = {"settings": {"vllm.gpu_memory_utilization": share}}
    assert of(held(holding(3, 20)), group("actor + vLLM", 8), **budget).verdict == verdict


def test_only_the_gpus_of_the_engines_need_their_share():
    budget = {"settings": {"vllm.gpu_memory_utilization": "0.9"}}
    half = [group("actor", 4), group("vLLM", 4)]
    assert of(held(holding(3)), *half, **budget).verdict == "now"
    five = [group("actor", 2), group("vLLM", 6)]
    assert of(held(holding(2, pid=1), holding(3, pid=2), holding(4, pid=3)), *five, **budget).verdict == "later"


def test_the_engines_share_counts_also_where_the_preset_asks_for_less():
    budget = {"settings": {"--vllm.gpu_memory_utilization": "0.95"}}
    result = of(held(holding(3, 6)), group("vLLM", 8), needs=NEEDY, **budget)
    assert "(--vllm.gpu_memory_utilization 0.95 takes 95% of each)" in result.reason.text


@pytest.mark.parametrize(
    ("process", "change"),
    [
        (holding(3, kind="foreign", user="eve"), "ask eve to stop what holds it, or start Ray without those GPUs (CUDA_VISIBLE_DEVICES)"),
        (holding(3, kind="foreign", user=None), "find what holds it (`fuser -v /dev/nvidia*` on head), or start Ray without"),
        (holding(3, kind="stale"), "`cockpit kill-orphans head` frees 40G"),
    ],
)  # fmt: skip
def test_who_is_to_be_asked_hangs_on_whose_it_is(process, change):
    assert of(held(process), ACTOR, needs=NEEDY).reason.change.startswith(change)


def test_a_lost_gpu_is_none():
    cards = tuple(gpu(index, 0, uuid=f"GPU-{index}", fault="GPU is lost" if index == 5 else None) for index in range(8))
    line = of(cluster(machine(1, gpus=cards)), ACTOR, needs=NEEDY).reason
    assert line.level == "later"
    assert "GPU 5 can't be reached by NVML (GPU is lost)" in line.text


def test_more_memory_than_any_gpu_has_is_never():
    result = of(held(), ACTOR, needs=Needs(gpu_memory_free=100 * GIB))
    assert result.verdict == "never"
    assert result.reason.text == "needs.gpu_memory_free asks for 100G on each of 8 GPUs, but only 0 are that large; the largest has 80G"
    assert of(replace(held(), growing=True), ACTOR, needs=Needs(gpu_memory_free=100 * GIB)).verdict == "later"


@pytest.mark.parametrize("gpus", [None, (), tuple(gpu(index, memory_used=None) for index in range(8))])
def test_unknown_memory_is_unknown_where_it_is_asked_for_and_else_a_doubt(gpus):
    world = cluster(machine(1, gpus=gpus))
    assert of(world, ACTOR, needs=NEEDY).verdict == "unknown"
    assert lines_of(of(world, ACTOR), "doubt") == ["free GPU memory is unknown on head: neither a probe nor Ray's agent reports it"]


def test_gpus_that_ray_counts_otherwise_are_never_surely_got():
    cards = tuple(gpu(index, 40 if index == 9 else 0, uuid=f"GPU-{index}") for index in range(10))
    world = cluster(machine(1, gpus=cards))
    assert of(world, ACTOR, needs=NEEDY).verdict == "now"


@pytest.mark.parametrize("visible", ["0,1,2,3", "GPU-0,GPU-1,GPU-2,GPU-3"])
def test_gpus_that_ray_was_not_given_are_not_looked_at(visible):
    cards = tuple(gpu(index, 60 if index > 3 else 0, uuid=f"GPU-{index}") for index in range(8))
    each = machine(1, gpus=cards, resources={"GPU": Quantity(0, 4), "CPU": Quantity(0, 16)})
    raylet = RayProcess("raylet", 10, node=each.id, visible=visible)
    result = of(cluster(each, hosts={"head": looked(each, rays=(raylet,))}), group("actor", 4), needs=NEEDY)
    assert (result.verdict, lines_of(result, "doubt")) == ("now", [])


def test_many_nodes_are_told_in_a_few_lines():
    nodes = [machine(number, gpus=tuple(gpu(index, 40, uuid=f"GPU-{number}-{index}") for index in range(8))) for number in range(1, 11)]
    result = of(cluster(*nodes, hosts={each.host: looked(each) for each in nodes}), group("actor", 80), needs=NEEDY)
    later = lines_of(result, "later")
    assert (len(later), later[-1]) == (7, "the same on 4 more nodes")


def test_a_gpu_on_which_another_ray_is_at_work_is_not_free():
    result = of(held(holding(3, kind="worker", ours=False)), ACTOR, needs=NEEDY)
    assert "GPU 3 has 40G free of 80G (pid 1200, worker of another Ray session of train, 40G)" in result.reason.text
    assert of(held(holding(3, kind="worker", ours=True), gpus=1.0), group("actor", 7), needs=NEEDY).verdict == "now"
