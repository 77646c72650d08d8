"""`check` finds temp dirs that are too long for Ray's sockets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.check.check import check
from cockpit.model import Host
from cockpit.presets import RayNode
from tests.check.worlds import NOW, asked, cluster, down, gpu, group, machine, preset, start

FLAGS = {"num_gpus": 8, "num_cpus": 16}
LONG = "/net/scratch/people/annsmith/slurm_jobdir/1355700/tmp.t0016/ray"
ACTOR = group("actor", 1)


def host(name="head", **more):
    return Host(name, ("10.0.0.1",), NOW, cpus=32, gpus=tuple(gpu(index, 0) for index in range(8)), processes=(), **more)


def node(name="head", **flags):
    return RayNode(name, flags={**FLAGS, **flags})


def lines(ray, world=None):
    result = check(preset(ray=ray), asked(ACTOR), world or down(host(pid_digits=5, pid_max=32768)))
    return [(line.level, line.text, line.change) for line in result.lines if "socket" in line.text]


def test_one_that_is_too_long_never_fits_and_says_how_long_it_may_be_also_one_of_the_environment():
    assert lines(start(node(temp_dir=LONG))) == [
        (
            "never",
            (
                f"head: the path of Ray's socket plasma_store in {LONG} (63 bytes) would have 125 bytes with a pid of 5 digits, "
                "but at most 107 are possible: `ray start` would fail"
            ),
            "use a temp dir of at most 36 bytes, such as /tmp/ray-NAME",
        )
    ]
    ((level, text, _),) = lines(start(node(), RAY_TMPDIR=LONG))
    assert (level, f"in {LONG}/ray (67 bytes)" in text) == ("never", True)
    assert [level for level, _, _ in lines(start(node(temp_dir=LONG)), cluster(machine(1)))] == ["doubt"]


@pytest.mark.parametrize("pids", [{}, {"pid_digits": 5, "pid_max": 4194304}])
def test_what_only_a_longer_pid_would_make_too_long_is_a_doubt(pids):
    ((level, text, _),) = lines(start(node(temp_dir="/" + "t" * 44, include_dashboard=False)), down(host(**pids)))
    assert (level, "may get too long" in text) == ("doubt", True)


def test_where_only_the_dashboard_would_have_no_sockets_and_the_ray_is_unknown_it_is_a_doubt():
    world = down(host(pid_digits=5, pid_max=32768))
    unknown = replace(world, cluster=replace(world.cluster, ray_version=None))
    ray = start(node(temp_dir="/" + "t" * 40))
    assert [level for level, _, _ in lines(ray, unknown)] == ["doubt"]
    assert [level for level, _, _ in lines(ray, world)] == ["never"]


def test_a_worker_is_told_only_where_it_has_a_temp_dir_of_its_own():
    ((level, text, _),) = lines(start(node(), node("w1", temp_dir=LONG), node("w2"), node("w3", temp_dir=LONG)))
    assert (level, text.startswith("w1, w3: the path of Ray's socket plasma_store")) == ("never", True)


@pytest.mark.parametrize(
    "fine",
    [
        start(node()),
        start(node(temp_dir="/tmp/ray-ann")),
        start(node(temp_dir="/" + "${JOB}" * 20)),
        start(node(), RAY_TMPDIR="$SCRATCH" * 20),
    ],
)
def test_what_fits_and_what_nobody_knows_is_not_told(fine):
    assert lines(fine) == []
