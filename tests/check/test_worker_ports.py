"""`check` finds nodes with too few ports for a job's workers."""

from __future__ import annotations

import pytest

from cockpit.check.check import check
from cockpit.model import Host, RayPorts, RayProcess
from cockpit.presets import RayNode
from tests.check.worlds import NOW, asked, cluster, down, gpu, group, lines_of, looked, machine, of, preset, start

FLAGS = {"num_gpus": 8, "num_cpus": 16}
HEAD = Host("head", ("10.0.0.1",), NOW, cpus=32, gpus=tuple(gpu(index, 0) for index in range(8)), processes=())


def told(result):
    return [text for text in lines_of(result, "doubt") if "port" in text]


def planned(**flags):
    return check(preset(ray=start(RayNode("head", flags={**FLAGS, **flags}))), asked(group("engines", 8)), down(HEAD))


def running(ports):
    each = machine(1)
    raylet = RayProcess("raylet", 10, node=each.id, ray="2.60.0", python="3.11.9", files=100, files_limit=65536, ports=ports)
    return of(cluster(each, hosts={each.host: looked(each, rays=(raylet,))}), group("engines", 8))


def test_a_preset_or_a_raylet_that_gives_four_ports_to_eight_engines_is_told_with_both_numbers():
    text = "the job would hold 8 GPUs on head, whose raylet has 4 ports for workers ({}): Ray needs a port for each worker"
    assert told(planned(min_worker_port=10010, max_worker_port=10013)) == [text.format("10010-10013")]
    assert told(running(RayPorts(((10010, 10012), (10020, 10020))))) == [text.format("10010-10012, 10020")]
    assert told(planned(worker_port_list="10001,10003", min_worker_port=10010, max_worker_port=19999)), "a list overrules the range"


@pytest.mark.parametrize("flags", [{}, {"min_worker_port": 10010, "max_worker_port": 10017}, {"min_worker_port": 0, "max_worker_port": 0}])
def test_a_range_that_is_wide_enough_is_not_told(flags):
    assert told(planned(**flags)) == []


@pytest.mark.parametrize("ports", [None, RayPorts(), RayPorts(((10002, 19999),))])
def test_a_raylet_with_enough_any_or_unknown_ports_is_not_told(ports):
    assert told(running(ports)) == []
