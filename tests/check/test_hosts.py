"""`check` finds hosts without enough memory, /dev/shm or disk, and a Ray with wrong versions or limits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.check.result import exit_code
from cockpit.model import RayProcess, Remedy
from cockpit.presets import Needs
from tests.check.worlds import GIB, NOW, Amount, Disk, HostMemory, cluster, group, lines_of, looked, machine, of
from tests.world import finding

ACTOR = group("actor", 8)
STOPS = "where Ray stops creating objects that may need to be spilled"


def line(result, *words):
    return next(line for line in result.lines if all(word in line.text for word in words))


@pytest.mark.parametrize(
    ("need", "host", "level", "words"),
    [
        ({"host_memory_free": 800 * GIB}, {}, "fine", "asks for 800G; at least 850G free on 1 host"),
        ({"host_memory_free": 900 * GIB}, {}, "later", "needs.host_memory_free asks for 900G; head has 850G of 950G"),
        ({"host_memory_free": 2000 * GIB}, {}, "never", "asks for 2.0T, but no host has that much: head has 850G of 950G"),
        ({"host_memory_free": GIB}, {"memory": HostMemory()}, "unknown", "free amount unknown on head"),
        ({"shm_free": 480 * GIB}, {}, "fine", "/dev/shm: needs.shm_free asks for 480G; at least 480G free"),
        ({"shm_free": 490 * GIB}, {}, "later", "head has 480G of 500G"),
        ({"shm_free": 600 * GIB}, {}, "never", "no host has that much: head has 480G of 500G"),
        ({"shm_free": GIB}, {"shm": Amount()}, "unknown", "/dev/shm: needs.shm_free asks for 1.0G; free amount unknown"),
        ({"disk_free": 500 * GIB}, {}, "fine", "disk under Ray's temp dir below 95%: needs.disk_free asks for 500G; at least 550G free"),
        ({"disk_free": 600 * GIB}, {}, "later", "head has 550G of 950G"),
        ({"disk_free": GIB}, {"disks": ()}, "unknown", "needs.disk_free asks for 1.0G; free amount unknown"),
        ({"open_files": 65536}, {}, "fine", "open files: needs.open_files asks for 65536; Ray's limit is at least 65536"),
        ({"open_files": 100000}, {}, "never", "needs.open_files asks for 100000, but Ray runs with 65536 on head, until it is restarted"),
        ({"ray_version": ">=2.44,<3"}, {}, "fine", "Ray is 2.60.0; needs.ray_version asks for >=2.44,<3"),
        ({"ray_version": "2.44"}, {}, "never", "needs.ray_version asks for 2.44, but Ray is 2.60.0 on head"),
        ({"python_version": "3.11"}, {}, "fine", "Python is 3.11.9; needs.python_version asks for 3.11"),
        ({"python_version": "3.10"}, {}, "never", "needs.python_version asks for 3.10, but Python is 3.11.9 on head"),
    ],
)  # fmt: skip
def test_what_the_preset_needs_is_held_against_what_the_host_has(need, host, level, words):
    result = of(cluster(machine(1, **host)), ACTOR, needs=Needs(**need))
    assert line(result, words).level == level
    assert result.verdict == {"fine": "now"}.get(level, level)


def test_only_the_nodes_that_it_would_run_on_must_have_it_and_what_is_unknown_of_ray_is_unknown_if_asked_for():
    full = machine(2, 8, memory=HostMemory(940 * GIB, 1000 * GIB, 950 * GIB))
    assert of(cluster(machine(1), full), ACTOR, needs=Needs(host_memory_free=100 * GIB)).verdict == "now"
    blind = cluster(machine(1), hosts={})
    assert of(blind, ACTOR).verdict == "now"
    assert (
        of(blind, ACTOR, needs=Needs(python_version="3.11")).reason.text
        == "needs.python_version asks for 3.11; the version of Python is unknown"
    )
    assert of(blind, ACTOR, needs=Needs(open_files=1000)).verdict == "unknown"


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"memory": HostMemory(900 * GIB, 1000 * GIB, 950 * GIB)}, "close to Ray's kill line: head has 50G of 950G"),
        ({"memory": HostMemory(900 * GIB, 1000 * GIB)}, "close to Ray's kill line: head has 50G of 950G"),
        ({"shm": Amount(0, 64 << 20)}, "/dev/shm is too small for NCCL and data loaders: head has 64M of 64M"),
        ({"disks": (Disk("/tmp/ray", 920 * GIB, 1000 * GIB), Disk("/", 1, 2))}, f"close to 95%, {STOPS}: head has 30G of"),
    ],
)  # fmt: skip
def test_what_is_nearly_full_is_a_doubt(host, words):
    result = of(cluster(machine(1, **host)), ACTOR)
    assert (result.verdict, exit_code(result)) == ("now", 1)
    assert words in lines_of(result, "doubt")[0]


@pytest.mark.parametrize(
    ("key", "value", "doubted"),
    [
        ("ds.adam_offload", "True", True),
        ("ds.adam_offload", "False", False),
        ("actor.fsdp_config.param_offload", "true", True),
        ("x", "y", False),
    ],
)
def test_offloading_what_the_gpus_hold_needs_as_much_of_host_memory(key, value, doubted):
    small = machine(1, memory=HostMemory(100 * GIB, 500 * GIB, 475 * GIB))
    result = of(cluster(small), ACTOR, settings={key: value})
    assert bool(lines_of(result, "doubt")) == doubted
    if doubted:
        assert "head has 375G free below Ray's kill line, but this job's GPUs there have 640G of memory" in lines_of(result, "doubt")[0]


def test_few_open_files_are_a_doubt_with_the_command_that_raises_them():
    each = machine(1)
    few = looked(each, rays=(RayProcess("raylet", 10, node=each.id, files=100, files_limit=1024),))
    result = of(cluster(each, hosts={"head": few}), ACTOR)
    assert line(result, "workers: 1024 on head").change == "`ulimit -n 65535` before `ray start`"


@pytest.mark.parametrize(
    ("more", "told_of"),
    [
        ({"code": "gpu-lost", "about": (machine(1).key,)}, True),
        ({"code": "gpu-lost", "about": (machine(2).key,)}, False),
        ({"code": "node-dead", "about": (machine(3).key,)}, True),
        ({"code": "cpus-overcounted", "about": (machine(1).key,)}, True),
        ({"code": "cpus-overcounted", "about": (machine(1).key,), "level": "info"}, False),
        ({"code": "node-address-shared", "about": (machine(2).key,)}, False),
        ({"code": "job-failed", "about": ()}, False),
        ({"code": "gpu-lost", "about": (machine(1).key,), "level": "info"}, False),
    ],
)
def test_findings_that_would_hurt_it_are_told(more, told_of):
    found = finding(text="", remedy=Remedy("look"), **more)
    world = replace(cluster(machine(1), machine(2, 8)), findings=(found,))
    assert bool(lines_of(of(world, ACTOR), "doubt")) == told_of


@pytest.mark.parametrize("code", ["locked-memory-low", "host-name-loopback"])
def test_what_is_wrong_between_nodes_is_told_only_to_a_job_that_needs_several(code):
    found = finding(code=code, text="", remedy=Remedy("look"), about=(machine(1).key,))
    world = replace(cluster(machine(1), machine(2)), findings=(found,))
    assert not lines_of(of(world, ACTOR), "doubt")
    assert lines_of(of(world, group("actor", 16)), "doubt")


def test_many_findings_are_counted():
    many = tuple(finding(code="gpu-lost", subject=str(number), about=(machine(1).key,), since=NOW) for number in range(6))
    assert lines_of(of(replace(cluster(machine(1)), findings=many), ACTOR), "doubt")[-1] == "2 more findings"
