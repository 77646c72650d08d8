"""In a Slurm job its nodes are found and reached; elsewhere, or if the list can't be read, nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.config.document import InputError
from cockpit.config.reach import DEFAULT_REACH, HostEntry, reach_command
from cockpit.config.settings import load
from cockpit.config.slurm import (
    MAX_NODES,
    NodeNames,
    by_slurm_names,
    expand_nodes,
    find_allocation,
    has_other_names,
    named_allocation,
    names_of,
)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with an `srun`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "srun").touch(mode=0o755)
    return tmp_path / "bin"


def allocation(programs: Path, nodes: str = "gpu[1-2]", job: str = "42") -> dict[str, str]:
    return {"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": nodes, "PATH": str(programs)}


def test_its_nodes_are_the_hosts_and_a_step_on_each_is_the_way(programs: Path, tmp_path: Path):
    config = load({}, allocation(programs), tmp_path / "none.yaml")
    assert config.hosts == (HostEntry("gpu1"), HostEntry("gpu2"))
    words = "srun --jobid=42 --overlap --nodes=1 --ntasks=1 --nodelist=gpu2 --quiet python3 -"
    assert reach_command(config.reach, config.hosts[1]) == words.split()
    assert config.slurm == find_allocation(allocation(programs))
    assert config.named_job is None
    assert config.slurm_nodes == (NodeNames("gpu1"), NodeNames("gpu2"))
    nodes = dict.fromkeys(("hosts", "slurm_nodes"), "SLURM_JOB_NODELIST")
    assert config.origins == {"slurm": "SLURM_JOB_ID", "reach": "SLURM_JOB_ID", **nodes}


def test_a_named_job_overrides_the_config_file_and_the_current_job(programs: Path, tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text("reach: ssh {address} {python} -\nhosts: [{name: gpu7, python: /opt/python}, gpu9]\n")
    config = load({}, allocation(programs), path, orchestrators=[named_allocation("43", "gpu[7-8]")])
    assert config.slurm == named_allocation("43", "gpu[7-8]")
    assert config.named_job == "43"
    assert config.hosts == config.named_hosts == (HostEntry("gpu7", python="/opt/python"), HostEntry("gpu8"))
    assert "--jobid=43 " in config.reach
    assert load({"hosts": "gpu8"}, {}, path, orchestrators=[named_allocation("43", "gpu[7-8]")]).hosts == (HostEntry("gpu8"),)


def test_a_part_of_a_heterogeneous_job_is_reached_through_its_leader(programs: Path):
    named = named_allocation("43", "gpu9", name="42+1", parts=["42"])
    assert "--jobid=42 --het-group=1 --overlap" in named.reach
    within = find_allocation({**allocation(programs), "SLURM_JOB_ID_HET_GROUP_0": "42", "SLURM_JOB_ID_HET_GROUP_1": "43"})
    assert within is not None
    for job in (named, within):
        assert job.ids == {"42", "43"}


def test_lists_of_too_many_nodes_are_refused_or_leave_the_hosts_to_ray(tmp_path: Path, programs: Path):
    with pytest.raises(InputError, match="more than 2000 nodes"):
        named_allocation("42", "n[0001-1500],m[0001-1500]")
    assert find_allocation(allocation(programs, "n[0-1999]m[0-1999]")).hosts == ()
    assert len(find_allocation(allocation(programs, f"n[1-{MAX_NODES}]")).hosts) == MAX_NODES


def test_the_config_file_and_flags_override_slurm_and_without_srun_hosts_are_reached_by_ssh(programs: Path, tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text("reach: ssh {address} {python} -\n")
    config = load({"hosts": "w1"}, allocation(programs), path)
    assert (config.reach, config.hosts) == ("ssh {address} {python} -", (HostEntry("w1"),))
    assert load({}, allocation(tmp_path), tmp_path / "none.yaml").reach == DEFAULT_REACH


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("login", ["login"]),
        ("a,b", ["a", "b"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,12]", ["n08", "n09", "n10", "n12"]),
        ("gpu[1-2],login1", ["gpu1", "gpu2", "login1"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
    ],
)
def test_a_list_of_nodes_is_expanded_as_scontrol_does(nodes: str, names: list[str]):
    assert list(expand_nodes(nodes)) == names


@pytest.mark.parametrize("nodes", ["n[1-", "n[a-b]", "n]1[", "n[1-999999999]", "n[1-2000,1-2000]", "n[]"])
def test_an_invalid_list_of_nodes_leaves_the_hosts_to_ray(programs: Path, nodes: str):
    found = find_allocation(allocation(programs, nodes))
    assert found is not None
    assert found.hosts == ()
    with pytest.raises(InputError):
        list(expand_nodes(nodes))


@pytest.mark.parametrize("nodes", ["-w", "a b", "$(x)"])
def test_a_name_that_srun_could_take_for_something_else_is_no_host(programs: Path, nodes: str):
    assert find_allocation(allocation(programs, nodes)).hosts == ()


@pytest.mark.parametrize(
    "env", [{}, {"SLURM_JOB_ID": "42"}, {"SLURM_JOB_NODELIST": "gpu1"}, {"SLURM_JOB_ID": "4 2", "SLURM_JOB_NODELIST": "a"}]
)
def test_outside_of_a_job_there_is_none(programs: Path, env: dict[str, str]):
    assert find_allocation({"PATH": str(programs), **env}) is None


def test_a_step_that_was_started_from_outside_of_its_job_has_all_nodes_of_the_job_as_hosts(programs: Path, tmp_path: Path):
    """As `srun --overlap --jobid=1 -w gpu-a-03` of Slurm 22.05 writes them, from a login host."""
    env = {**allocation(programs, "gpu-a-03"), "SLURM_NODELIST": "gpu-a-[01-03]"}
    config = load({}, env, tmp_path / "none.yaml")
    assert [entry.name for entry in config.hosts] == ["gpu-a-01", "gpu-a-02", "gpu-a-03"]
    assert config.origins["hosts"] == "SLURM_NODELIST"


def test_hosts_are_matched_by_address_if_slurm_uses_other_names():
    assert has_other_names("--slurm", {}, "login1")
    assert has_other_names("SLURM_JOB_ID", {"SLURMD_NODENAME": "gpu-a-01"}, "c27n01")
    assert has_other_names("SLURM_JOB_ID", {"SLURMD_NODENAME": "gpu1"}, "gpu1.cluster.example")
    assert has_other_names("SLURM_JOB_ID", {}, "login1"), "salloc's shell may be anywhere"
    assert not has_other_names("SLURM_JOB_ID", {"SLURMD_NODENAME": "gpu1"}, "gpu1")
    assert not has_other_names("config.yaml:2", {"SLURMD_NODENAME": "gpu-a-01"}, "c27n01")
    assert not has_other_names(None, {}, "gpu1")


NAMED = (NodeNames("gpu-a-01", ("c27n01", "10.0.0.1"), "10.0.0.1"), NodeNames("gpu-a-02", ("c27n02", "n02-ib"), "10.0.0.2"))


def test_a_node_has_all_its_names_unless_a_host_plays_several_nodes():
    assert names_of("c27n02", NAMED) == ("c27n02", "gpu-a-02", "n02-ib", "10.0.0.2")
    assert names_of("gpu-a-01", NAMED) == ("gpu-a-01", "c27n01", "10.0.0.1")
    assert names_of("other", NAMED) == ("other",)
    twins = (NodeNames("a1", ("big", "10.0.0.1")), NodeNames("a2", ("big", "10.0.0.1")))
    assert names_of("big", twins) == ("big",)
    assert names_of("a2", twins)[0] == "a2"


def test_a_host_by_any_name_is_one_host_by_slurms_which_srun_takes():
    typed = (
        HostEntry("c27n02", python="/opt/python"),
        HostEntry("gpu-a-02"),
        HostEntry("gpu-a-01", address="10.1.0.1"),
        HostEntry("login"),
    )
    assert by_slurm_names(typed, NAMED) == (
        HostEntry("gpu-a-02", "10.0.0.2", python="/opt/python"),
        HostEntry("gpu-a-01", "10.1.0.1"),
        HostEntry("login"),
    )
