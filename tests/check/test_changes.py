"""What `check` proposes is done, and then its line is gone. No proposal changes the training itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from cockpit.budget import budget_of
from cockpit.check.check import check
from cockpit.check.result import CheckOutcome
from cockpit.model import Node, Snapshot
from cockpit.presets import RayNode
from tests.check.worlds import asked, cluster, down, group, lines_of, looked, machine, preset, start

OPENRLHF = "python3 -m openrlhf.cli.train_ppo_ray --remote_rm_url /data/reward_func.py"
SMALL = f"{OPENRLHF} --ref_num_nodes 1 --ref_num_gpus_per_node 1 --actor_num_nodes 1 --actor_num_gpus_per_node 1"
ISSUE = f"{SMALL} --vllm_num_engines 2 --vllm_tensor_parallel_size 1"
VERL = (
    "python3 -m verl.trainer.main_ppo trainer.use_v1=False trainer.n_gpus_per_node={gpus} trainer.nnodes={nodes} "
    "algorithm.adv_estimator=grpo actor_rollout_ref.actor.use_dynamic_bsz=True"
)
NODES = (machine(1, cores=96), machine(2, cores=96))
ONE, TWO = cluster(NODES[0]), cluster(*NODES)


def checked(command: str, world: Snapshot) -> CheckOutcome:
    return check(preset(), budget_of(command), world)


def change_of(outcome: CheckOutcome, words: str) -> str:
    """The change of the line with these words."""
    [change] = [line.change for line in outcome.lines if words in line.text and line.level in ("never", "later")]
    assert change
    return change


def grown(nodes: Sequence[Node], change: str) -> Snapshot:
    """The cluster of these nodes after as many were added as the change says."""
    found = re.match(r"add (\d+) nodes? with (\d+) GPUs?", change)
    assert found, change
    first = len(nodes) + 1
    return cluster(*nodes, *(machine(number, cores=96, has=int(found[2])) for number in range(first, first + int(found[1]))))


@pytest.mark.parametrize(
    ("command", "nodes", "change"),
    [
        (ISSUE, NODES[:1], "add 1 node with 8 GPUs"),
        (ISSUE.replace("_engines 2", "_engines 20"), NODES, "add 2 nodes with 8 GPUs each"),
        (f"{ISSUE} --critic_num_gpus_per_node 1", (machine(1, cores=96, has=3),), "add 1 node with 3 GPUs"),
        (VERL.format(gpus=8, nodes=4), NODES, "add 2 nodes with 8 GPUs each"),
    ],
)  # fmt: skip
def test_as_many_more_nodes_as_are_enough(command: str, nodes: Sequence[Node], change: str):
    outcome = checked(command, cluster(*nodes))
    assert outcome.verdict == "never"
    assert change_of(outcome, "GPU") == change
    assert checked(command, grown(nodes, change)).verdict == "now"
    number = int(change.split()[1])
    if number > 1:
        fewer = grown(nodes, change.replace(str(number), str(number - 1), 1))
        assert checked(command, fewer).verdict == "never", "it is the least that does"


def test_a_part_of_the_job_that_no_node_is_large_enough_for_needs_larger_nodes():
    outcome = checked(VERL.format(gpus=16, nodes=1), TWO)
    assert change_of(outcome, "GPU") == "add nodes with at least 16 GPUs each"
    assert checked(VERL.format(gpus=16, nodes=1), cluster(machine(1, cores=96), machine(2, cores=96, has=16))).verdict == "now"


def test_gpus_that_others_hold_become_free():
    command = f"{ISSUE} --critic_num_gpus_per_node 4"
    change = change_of(checked(command, cluster(machine(1, 2, cores=96))), "critic: needs 4 x 1 GPU")
    assert change == "wait until enough GPUs are free, or stop what holds them"
    assert checked(command, cluster(machine(1, cores=96))).verdict == "now"


def test_where_more_nodes_like_these_do_not_help_nothing_is_proposed():
    budget = asked(group("pool", 9, GPU=1.0, TPU=1.0))
    assert check(preset(), budget, ONE).reason.change is None


@pytest.mark.parametrize("framework", ["OpenRLHF", "veRL", "EasyR1", "slime", "SkyRL", "NeMo-RL", "ROLL", "AReaL", "Ray"])
def test_no_proposal_names_a_flag_of_the_training(framework: str):
    budget = asked(group("actor", 9), framework=framework, settings={"--actor.num_nodes": "9", "trainer.nnodes": "9"})
    assert check(preset(), budget, ONE).reason.change == "add 1 node with 8 GPUs"


def test_gpus_and_cpus_that_are_both_too_few_are_both_told_and_gpus_first():
    world = cluster(machine(1, cores=4))
    outcome = checked(ISSUE, world)
    gpus, cpus = (line for line in outcome.lines if line.level == "never")
    assert gpus.text == "all groups together: needs 12 x 1 GPU; there are only 8 GPUs in total"
    assert cpus.text == "critic: needs 8 x 1 CPU; there are only 4 CPUs in total"
    assert cpus.change == "start Ray with `--num-cpus=12`, or more; Ray only counts CPUs: more than exist are allowed"
    assert gpus.change == "add 1 node with 8 GPUs"
    assert checked(ISSUE, cluster(machine(1, cores=12), machine(2, cores=12))).verdict == "now"
    outcome = checked(ISSUE.replace("_engines 2", "_engines 4"), cluster(machine(1, cores=8)))
    assert lines_of(outcome, "never") == [
        "all groups together: needs 14 x 1 GPU; there are only 8 GPUs in total",
        "all groups together: needs 14 x 1 CPU; there are only 8 CPUs in total",
    ]


@pytest.mark.parametrize("cores", [(4, 4), (8, 2), (2, 3)])
def test_each_node_is_told_as_many_cpus_as_all_groups_need_there(cores: tuple[int, int]):
    world = cluster(*(machine(number, cores=has) for number, has in enumerate(cores, 1)))
    outcome = checked(ISSUE, world)
    assert outcome.reason.text.startswith(("all groups together: enough GPUs, but not enough CPU", "critic: enough GPUs"))
    found = re.search(r"start Ray on each node with `--num-cpus=(\d+)`, or more", outcome.reason.change)
    assert (
        checked(ISSUE, cluster(*(machine(number, cores=max(int(found[1]), has)) for number, has in enumerate(cores, 1)))).verdict == "now"
    )
    fewer = cluster(*(machine(number, cores=max(int(found[1]) - 1, has)) for number, has in enumerate(cores, 1)))
    assert checked(ISSUE, fewer).verdict != "now", "it is the least that does"


def test_groups_that_lack_cpus_are_told_the_number_for_their_node_or_none_if_they_are_a_crowd():
    line = check(preset(), asked(group("pool", 8, "STRICT_PACK", GPU=1.0, CPU=3.0)), cluster(machine(1))).reason
    assert line.change == "start Ray with `--num-cpus=24`, or more; Ray only counts CPUs: more than exist are allowed"
    command = VERL.format(gpus=8, nodes=600)
    assert checked(command, TWO).reason.change == "add nodes with 8 GPUs each"


def test_a_preset_that_starts_ray_is_told_its_own_key():
    bare = looked(machine(1, cores=4), nodes=(), rays=(), cpus=4)
    outcome = check(preset(ray=start(RayNode("head"))), budget_of(ISSUE.replace("--ref", "--critic_num_gpus_per_node 4 --ref")), down(bare))
    assert change_of(outcome, "CPU") == (
        "set num_cpus: 8 under ray.head in the preset, or more; Ray only counts CPUs: more than exist are allowed"
    )


def test_either_of_two_ways_is_told_where_each_of_them_is_enough():
    few = (machine(1, cores=1), machine(2, cores=96))
    nodes, _, cpus = checked(ISSUE, cluster(*few)).reason.change.partition(", or ")
    assert (nodes, cpus.split(",")[0]) == ("add 1 node with 8 GPUs", "start Ray on each node with `--num-cpus=4`")
    assert checked(ISSUE, grown(few, nodes)).verdict == "now"
    assert checked(ISSUE, cluster(machine(1, cores=4), machine(2, cores=96))).verdict == "now"


def test_a_preset_that_starts_ray_is_told_where_more_nodes_go():
    outcome = check(preset(ray=start(RayNode("head"))), budget_of(ISSUE), down(looked(machine(1, cores=96), nodes=(), rays=(), cpus=96)))
    assert change_of(outcome, "all groups together") == "add 1 node with 8 GPUs under ray.workers in the preset"


@pytest.mark.parametrize("name", ["gpus-only", "gpus-and-cpus"])
def test_the_cases_need_one_more_node(name: str):
    cases = Path(__file__).parents[3] / "shared" / "cases" / "21-check"
    if not cases.exists():
        pytest.skip("the cases are not here")
    entrypoint = (cases / f"{name}.yaml").read_text().partition("entrypoint: ")[2].strip()
    outcome = checked(entrypoint, ONE)
    assert change_of(outcome, "all groups together: needs 12 x 1 GPU") == "add 1 node with 8 GPUs"
