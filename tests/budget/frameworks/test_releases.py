"""Which release a command is read for: the one it is pinned to, else the one that is installed, if its flags can be that one's."""

from __future__ import annotations

import pytest

from cockpit.budget import Budget, budget_of

VERL = "python3 -m verl.trainer.main_ppo trainer.nnodes=2 trainer.n_gpus_per_node=8"
OPENRLHF = "python -m openrlhf.cli.train_ppo_ray --pretrain m --reward_pretrain r --actor_num_gpus_per_node 8 --vllm_num_engines 4"
GROUPS = f"{OPENRLHF} --ref_num_gpus_per_node 8 --critic_num_gpus_per_node 8 --reward_num_gpus_per_node 8"


def doubts(budget: Budget) -> str:
    return " ".join(line.text for line in budget.lines if line.level == "doubt")


def test_where_nobody_says_which_release_it_is_cpus_are_open():
    budget = budget_of(VERL)
    assert (budget.amount("GPU"), budget.amount("CPU")) == (16, None)


@pytest.mark.parametrize(("release", "cpus"), [("0.2.0.post2", 17), ("0.5.0", 17), ("0.7.1", 49), ("0.9.0", 57), ("1.4", 57)])
def test_cpus_are_those_of_the_release_that_is_installed(release: str, cpus: float):
    assert budget_of(VERL, installed={"verl": release}).amount("CPU") == cpus
    assert budget_of(VERL, packages=[f"verl=={release}"]).amount("CPU") == cpus
    assert budget_of(f"pip install verl=={release} && {VERL}").amount("CPU") == cpus


def test_what_the_job_installs_itself_comes_before_what_is_there():
    budget = budget_of(VERL, packages=["verl[vllm]==0.9.0"], installed={"verl": "0.5.0"})
    assert (budget.dialect, budget.amount("CPU")) == ("0.9.0 and later", 57)


def test_keys_that_the_installed_release_does_not_have_are_anothers():
    budget = budget_of(f"{VERL} trainer.use_v1=False", installed={"verl": "0.5.0"})
    assert (budget.dialect, budget.amount("GPU")) == ("0.9.0 and later", 16)
    assert "veRL 0.5.0 is installed, but these keys are of veRL 0.9.0 and later: the job needs another release" in doubts(budget)


def test_an_installed_release_decides_between_two_that_reserve_different_amounts():
    older, newer = (budget_of(GROUPS, installed={"openrlhf": release}) for release in ("0.5.7", "0.8.5"))
    assert (older.amount("GPU"), newer.amount("GPU")) == (36, 36)
    assert (older.dialect, newer.dialect) == ("0.5.7", "0.8.5")
    assert [group.name for group in older.groups or ()] != [group.name for group in newer.groups or ()]


def test_flags_that_the_installed_release_refuses_are_anothers():
    budget = budget_of(GROUPS, installed={"openrlhf": "0.11.2"})
    assert budget.amount("GPU") == 36
    assert "OpenRLHF 0.11.2 is installed, and refuses these flags (unrecognized arguments: " in doubts(budget)


def test_beside_a_flag_that_no_release_has_groups_are_those_of_the_installed_release():
    budget = budget_of(f"{GROUPS} --nope 3", installed={"openrlhf": "0.8.5"})
    assert (budget.dialect, budget.groups) == ("0.8.5", budget_of(GROUPS, installed={"openrlhf": "0.8.5"}).groups)
    assert "--nope is not a flag of OpenRLHF" in doubts(budget)
    assert "the job needs another release" not in doubts(budget)


def test_sources_that_the_command_runs_in_come_before_what_is_installed():
    tree = {"openrlhf/cli/train_ppo_ray.py": "# the trainer", "version.txt": "0.8.5\n"}
    assert budget_of(GROUPS, read=tree.get, installed={"openrlhf": "0.5.7"}).dialect == "0.8.5"
    tree = {"verl/version/version": "0.7.1\n"}
    assert budget_of(VERL, read=tree.get, installed={"verl": "0.5.0"}).amount("CPU") == 49


@pytest.mark.parametrize("odd", ["", "²", "0.8.5; rm -rf /", "main", "v"])
def test_what_is_no_release_tells_none(odd: str):
    assert budget_of(VERL, installed={"verl": odd}) == budget_of(VERL)
    assert budget_of(GROUPS, read={"openrlhf/cli/train_ppo_ray.py": "#", "version.txt": odd}.get) == budget_of(GROUPS)
