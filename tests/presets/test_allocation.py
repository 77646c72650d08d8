"""A preset without hosts is started on the nodes of the Slurm job, the first of which is the head."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from cockpit.config.reach import HostEntry
from cockpit.config.settings import Config
from cockpit.config.slurm import named_allocation
from cockpit.presets import Preset, RayNode, RayStart, SlurmStart, with_hosts

FLAGS = {"num_gpus": 8}
ANYWHERE = Preset("ppo", Path("ppo.yaml"), ray=SlurmStart({"port": 6400, **FLAGS}, FLAGS, {"A": "${B}"}, "/opt/python"))


def placed(nodes: str, *hosts: HostEntry) -> RayStart:
    job = named_allocation("42", nodes)
    ray = with_hosts(ANYWHERE, Config(slurm=job, hosts=hosts or job.hosts)).ray
    assert isinstance(ray, RayStart)
    return ray


def test_the_first_node_of_slurms_list_is_the_head_and_all_others_are_workers():
    start = placed("gpu[009-010,3],login1")
    assert start.head == RayNode("gpu009", None, {"port": 6400, **FLAGS})
    assert start.workers == (RayNode("gpu010", None, FLAGS), RayNode("gpu3", None, FLAGS), RayNode("login1", None, FLAGS))
    assert (start.env, start.python, start.slurm) == ({"A": "${B}"}, "/opt/python", "42")
    assert placed("gpu7").nodes == (RayNode("gpu7", None, {"port": 6400, **FLAGS}),)


def test_what_is_known_of_a_node_is_used_and_hosts_that_are_no_nodes_are_not():
    start = placed("gpu[1-2]", HostEntry("gateway"), HostEntry("gpu2", address="10.0.0.2"))
    assert [(node.host, node.address) for node in start.nodes] == [("gpu1", None), ("gpu2", "10.0.0.2")]


def test_without_a_job_of_slurms_it_is_started_on_no_host_that_is_merely_listed():
    listed = Config(hosts=(HostEntry("gpu1"), HostEntry("gpu2")), origins={"hosts": "--hosts"})
    assert with_hosts(ANYWHERE, listed) is ANYWHERE
    unread = replace(named_allocation("42", "gpu1"), hosts=())
    assert with_hosts(ANYWHERE, Config(slurm=unread)) is ANYWHERE
    assert ANYWHERE.nodes == ()


def test_a_preset_that_names_its_hosts_stays_as_it_is():
    named = Preset("ppo", Path("ppo.yaml"), ray=RayStart(RayNode("head")))
    assert with_hosts(named, Config(slurm=named_allocation("42", "gpu[1-2]"))) is named
