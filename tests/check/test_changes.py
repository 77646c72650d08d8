"""A change that `check` proposes is typed into the command or the preset, and then its line is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cockpit.budget import budget_of
from cockpit.check.check import check
from cockpit.check.result import CheckOutcome
from cockpit.model import Snapshot
from cockpit.presets import RayNode
from tests.check.worlds import asked, cluster, down, group, lines_of, looked, machine, preset, start

OPENRLHF = "python3 -m openrlhf.cli.train_ppo_ray --remote_rm_url /data/reward_func.py"
SMALL = f"{OPENRLHF} --ref_num_nodes 1 --ref_num_gpus_per_node 1 --actor_num_nodes 1 --actor_num_gpus_per_node 1"
ISSUE = f"{SMALL} --vllm_num_engines 2 --vllm_tensor_parallel_size 1"
EQUAL = f"{OPENRLHF} --vllm_num_engines 8 --vllm_tensor_parallel_size 1 --advantage_estimator reinforce"
VERL = (
    "python3 -m verl.trainer.main_ppo trainer.use_v1=False trainer.n_gpus_per_node={gpus} trainer.nnodes={nodes} "
    "algorithm.adv_estimator=grpo actor_rollout_ref.actor.use_dynamic_bsz=True"
)
ACTOR, CRITIC = "--actor_num_nodes x --actor_num_gpus_per_node", "--critic_num_nodes x --critic_num_gpus_per_node"
REF, ENGINES = ACTOR.replace("actor", "ref"), "--vllm_num_engines x --vllm_tensor_parallel_size"
ONE, TWO = cluster(machine(1, cores=96)), cluster(machine(1, cores=96), machine(2, cores=96))


def dotted(flags: str) -> str:
    """As they are spelled from OpenRLHF 0.10.2 on."""
    return re.sub(r"--(\w+?)_", r"--\1.", flags)


def checked(command: str, world: Snapshot) -> CheckOutcome:
    return check(preset(), budget_of(command), world)


def change_of(outcome: CheckOutcome, words: str) -> str:
    """The change of the line with these words."""
    [change] = [line.change for line in outcome.lines if words in line.text and line.level in ("never", "later")]
    assert change
    return change


def typed(command: str, change: str) -> str:
    """The command after the first way of a change was typed into it, as a person would."""
    way = change.partition(", or ")[0]
    if found := re.fullmatch(r"set (\S+)=(\d+)", way):
        return re.sub(rf"{re.escape(found[1])}=\S+", f"{found[1]}={found[2]}", command)
    if found := re.fullmatch(r"let all models share the same \d+ GPUs: (--\S+)", way):
        return f"{command} {found[1]}"
    found = re.fullmatch(r"ask for at most (\d+) GPUs? instead of \d+ for [\w +]+: (.*)", way)
    assert found, way
    for product in found[2].split(" and "):
        first, second = product.split(" x ")
        command += f" {first} {found[1]} {second} 1" if "engines" in first else f" {first} 1 {second} {found[1]}"
    return command


@pytest.mark.parametrize(
    ("command", "world", "change"),
    [
        (ISSUE, ONE, f"ask for at most 4 GPUs instead of 8 for critic: {CRITIC}"),
        (ISSUE.replace("_engines 2", "_engines 20"), TWO, f"ask for at most 6 GPUs instead of 20 for vLLM: {ENGINES}"),
        (EQUAL, ONE, "let all models share the same 8 GPUs: --colocate_all_models"),
        (
            f"{EQUAL} --colocate_all_models --actor_num_gpus_per_node 16 --ref_num_gpus_per_node 16 --vllm_num_engines 16",
            ONE,
            f"ask for at most 8 GPUs instead of 16 for actor + ref + vLLM: {ACTOR} and {REF} and {ENGINES}",
        ),
        (VERL.format(gpus=16, nodes=1), ONE, "set trainer.n_gpus_per_node=8"),
        (VERL.format(gpus=8, nodes=4), TWO, "set trainer.n_gpus_per_node=4, or set trainer.nnodes=2"),
    ],
)  # fmt: skip
def test_fewer_gpus_by_the_flags_that_reach_it(command: str, world: Snapshot, change: str):
    outcome = checked(command, world)
    assert outcome.verdict == "never"
    assert change_of(outcome, "GPU") == change
    assert not [text for text in lines_of(checked(typed(command, change), world), "never", "later") if "needs" in text]


def test_the_number_of_nodes_is_the_other_way():
    assert checked(VERL.format(gpus=8, nodes=2), TWO).verdict == "now"


def test_of_gpus_that_others_hold_only_the_rest_is_left():
    command, free = f"{ISSUE} --critic_num_gpus_per_node 4", cluster(machine(1, 2, cores=96))
    change = change_of(checked(command, free), "critic: needs 4 x 1 GPU")
    assert change == f"ask for at most 2 GPUs instead of 4 for critic: {CRITIC}"
    assert checked(typed(command, change), free).verdict == "now"


def test_flags_that_no_number_makes_fit_are_not_told_and_where_no_group_alone_can_do_it_all_are_named():
    command = f"{ISSUE} --critic_num_gpus_per_node 1"
    for world in (cluster(machine(1, cores=96, has=3)), cluster(machine(1, 5, cores=96))):
        assert "GPU" in checked(command, world).reason.text
        assert checked(command, world).reason.change is None
    command = f"{OPENRLHF} --vllm_num_engines 9 --vllm_tensor_parallel_size 1"
    change = checked(command, ONE).reason.change
    assert change.startswith("ask for fewer GPUs in several groups: ")
    assert f"critic (8 GPUs: {CRITIC})" in change


@pytest.mark.parametrize(
    ("framework", "key", "name", "change"),
    [
        ("OpenRLHF", "--vllm.num_engines", "vLLM", f"ask for at most 8 GPUs instead of 9 for vLLM: {dotted(ENGINES)}"),
        ("OpenRLHF", "--vllm.num_engines", "actor + ref",
            f"ask for at most 8 GPUs instead of 9 for actor + ref: {dotted(ACTOR)} and {dotted(REF)}"),
        ("simpleRL-reason", "--ref_num_nodes", "critic", f"ask for at most 8 GPUs instead of 9 for critic: {CRITIC}"),
        ("EasyR1", "trainer.nnodes", "actor + rollout", "set trainer.n_gpus_per_node=8"),
        ("simpleRL-reason", "trainer.nnodes", "pool", "set trainer.n_gpus_per_node=8"),
        ("Ray", "", "job", "ask for at most 8 GPUs instead of 9 for job: in the job itself, and under needs in the preset"),
    ],
)  # fmt: skip
def test_each_group_has_flags_of_its_own(framework: str, key: str, name: str, change: str):
    budget = asked(group(name, 9), framework=framework, settings={key: "9"})
    assert check(preset(), budget, ONE).reason.change == change


def test_gpus_and_cpus_that_are_both_too_few_are_both_told_and_gpus_first():
    world = cluster(machine(1, cores=4))
    outcome = checked(ISSUE, world)
    gpus, cpus = (line for line in outcome.lines if line.level == "never")
    assert gpus.text == "all groups together: needs 12 x 1 GPU; there are only 8 GPUs in total"
    assert cpus.text == "critic: needs 8 x 1 CPU; there are only 4 CPUs in total"
    assert cpus.change == "start Ray with `--num-cpus=12`, or more; Ray only counts CPUs: more than exist are allowed"
    assert checked(typed(ISSUE, gpus.change), cluster(machine(1, cores=12))).verdict == "now"
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
    assert checked(command, TWO).reason.change == "ask for fewer GPUs: trainer.n_gpus_per_node and trainer.nnodes"


def test_a_preset_that_starts_ray_is_told_its_own_key():
    bare = looked(machine(1, cores=4), nodes=(), rays=(), cpus=4)
    outcome = check(preset(ray=start(RayNode("head"))), budget_of(ISSUE.replace("--ref", "--critic_num_gpus_per_node 4 --ref")), down(bare))
    assert change_of(outcome, "CPU") == (
        "set num_cpus: 8 under ray.head in the preset, or more; Ray only counts CPUs: more than exist are allowed"
    )


def test_either_of_two_ways_is_told_where_each_of_them_is_enough():
    world = cluster(machine(1, cores=1), machine(2, cores=96))
    fewer, _, more = checked(ISSUE, world).reason.change.partition(", or ")
    assert (fewer.startswith("ask for at most 5 GPUs instead of 8 for critic: "), more.split(",")[0]) == (
        True,
        "start Ray on each node with `--num-cpus=4`",
    )
    assert checked(typed(ISSUE, fewer), world).verdict == "now"
    assert checked(ISSUE, cluster(machine(1, cores=4), machine(2, cores=96))).verdict == "now"


@pytest.mark.parametrize("name", ["gpus-only", "gpus-and-cpus"])
def test_the_cases_name_the_flag_of_the_group_that_is_too_large(name: str):
    cases = Path(__file__).parents[3] / "shared" / "cases" / "21-check"
    if not cases.exists():
        pytest.skip("the cases are not here")
    entrypoint = (cases / f"{name}.yaml").read_text().partition("entrypoint: ")[2].strip()
    outcome = checked(entrypoint, ONE)
    assert change_of(outcome, "all groups together: needs 12 x 1 GPU").startswith("ask for at most 4 GPUs instead of 8 for critic")
