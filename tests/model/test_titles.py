"""One name for one machine, whole names of processes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.model import Host, Process
from cockpit.model.claims import believed_hosts
from cockpit.model.titles import MachineTitles, count_machines, process_title, whole_name
from tests.world import NOW, node, snapshot


def titles(*nodes, **hosts):
    return MachineTitles(nodes, hosts, believed_hosts(nodes, hosts))


def vm(*nodes, name="vm", addresses=("10.0.0.1",), **more):
    return Host(name, addresses, NOW, nodes=tuple(one.id for one in nodes if one.id), processes=(), **more)


HEAD = node(1, name="head", head=True, probed=True)
W1 = node(2, name="w1", ip="10.0.0.1", host="node1", probed=True)


def test_a_host_is_called_as_its_node_or_the_head_among_several_by_every_name_it_has():
    known = titles(HEAD, vm=vm(HEAD))
    assert {known.of_host(name) for name in ("vm", "head", HEAD.ip, HEAD.host, HEAD.id)} == {"head"}
    assert known.of_host("ssh-name", HEAD.ip) == "head"
    assert titles(W1, HEAD, vm=vm(W1, HEAD)).of_host("vm") == "head"
    dead = node(1, name="head", head=True, probed=True, state="DEAD")
    assert titles(dead, vm=vm()).of_host("vm") == "head"


def test_two_nodes_with_one_name_get_ids_unless_they_are_on_one_machine():
    other = node(3, name="head", probed=True, id="b" * 56)
    assert titles(HEAD, other).of_node(other) == "head (bbbbbbbb)"
    assert titles(HEAD, other, vm=vm(HEAD), vm2=vm(other, name="vm2", addresses=())).of_host("vm2") == "head (bbbbbbbb)"
    assert titles(HEAD, other, vm=vm(HEAD, other)).of_host("vm") == "head"


def test_a_false_raylet_gives_its_host_no_name_of_another_node():
    second = node(3, name="w2", ip="10.0.0.3", host="node3", probed=True)
    hosts = {"liar": vm(HEAD, W1, name="liar", addresses=("10.0.0.9",)), "two": vm(W1, second, name="two", addresses=("10.0.0.3",))}
    head = replace(HEAD, ip="10.0.0.7")
    known = titles(head, W1, second, **hosts, one=vm(W1, name="one"), first=vm(head, name="first", addresses=("10.0.0.7",)))
    assert {name: known.of_host(name) for name in (*hosts, "one")} == {"liar": "liar", "two": "w2", "one": "w1"}
    assert known.names_of("w1") == {"one"}


def test_a_host_that_claims_a_node_without_its_address_is_called_so_only_if_no_other_does():
    known = titles(W1, a=vm(W1, name="a", addresses=("172.17.0.1",)), b=vm(W1, name="b", addresses=("172.18.0.1",)))
    assert (known.of_host("a"), known.of_host("b")) == ("a", "b")
    assert titles(W1, a=vm(W1, name="a", addresses=("172.17.0.1",))).of_host("a") == "w1"
    same = {name: vm(W1, name=name, addresses=("172.17.0.1",), machine="boot 1") for name in ("a", "b")}
    assert titles(W1, **same).names_of("w1") == {"a", "b"}


def test_an_address_alone_makes_no_host_a_node_and_an_unknown_name_stays():
    far = node(1, name="head", probed=False)
    assert titles(far, laptop=vm(name="laptop")).of_host("laptop") == "laptop"
    assert titles(far).of_host("elsewhere", "10.9.9.9") == "elsewhere"


def test_a_process_is_where_its_node_is():
    known = snapshot(nodes=(HEAD, W1), hosts={"vm": vm(HEAD, W1)}).index
    assert known.place_title(Process(host="vm", pid=1, node=W1.id)) == "w1"
    assert known.place_title(Process(host="vm", pid=1)) == "head"


@pytest.mark.parametrize(
    ("nodes", "hosts", "counts"),
    [
        ((HEAD, W1), {"vm": vm(HEAD, W1)}, (1, 1)),
        ((HEAD, node(2)), {"vm": vm(HEAD)}, (1, 2)),
        ((HEAD, node(2), node(2, state="DEAD", id="c" * 56, host="old")), {"vm": vm(HEAD)}, (1, 2)),
        ((HEAD, node(2), node(2, id=None, host="w1", ip=""), node(2, id=None, host="w1")), {"vm": vm(HEAD)}, (1, 2)),
        ((), {"vm": vm(machine="m"), "alias": vm(name="alias", machine="m")}, (1, 1)),
        ((HEAD,), {}, (0, 0)),
        ((node(1, probed=False),), {}, (0, 1)),
    ],
)
def test_a_machine_counts_once(nodes, hosts, counts):
    assert count_machines(nodes, hosts) == counts


@pytest.mark.parametrize(
    ("name", "command", "whole"),
    [
        ("ray::JobSupervi", "ray::JobSupervisor", "ray::JobSupervisor"),
        ("VLLM::EngineCor", "VLLM::EngineCore --x", "VLLM::EngineCore"),
        ("python", "/usr/bin/python train.py", "python"),
        ("named-by-itself", "/usr/bin/python train.py", "named-by-itself"),
        (None, "/usr/bin/python train.py", "python"),
        (None, None, ""),
    ],
)
def test_a_name_that_the_kernel_has_cut_is_completed(name, command, whole):
    assert whole_name(Process(pid=1, name=name, command=command)) == whole


def test_a_process_is_called_by_its_command_line():
    assert process_title(Process(pid=1, name="python", command="/opt/venv/bin/python /home/a/train.py --x /y")) == "python train.py --x /y"
    assert process_title(Process(pid=1, name="x", command=" ")) == "x"
