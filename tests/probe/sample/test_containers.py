"""Tests how the container of a process is found, and the command that probes it."""

from __future__ import annotations

import pytest

from cockpit.probe.sample.containers import ContainerRef, find_container, why_probed_inside
from tests.probe.process_tables import judged, process, table

ID = "0123456789ab" + "c" * 52
CONMON = f"/usr/bin/conmon --api-version 1 -c {ID} -u {ID} -r /usr/bin/runc -n train --exit-dir /run/libpod/exits"
SHIM = f"/usr/bin/containerd-shim-runc-v2 -namespace moby -id {ID} -address /run/containerd/containerd.sock"


def inner(parent: int, cgroup: tuple[str, str] | None = None, pids=(1701, 485)):
    one = process(pids[0], parent=parent, pids=pids)
    return one._replace(details=one.details._replace(cgroup=cgroup))


@pytest.mark.parametrize(
    ("watcher", "name", "known"),
    [
        (CONMON, "conmon", ContainerRef("podman", "train", 1000)),
        (SHIM, "containerd-shim", ContainerRef("docker", "0123456789ab", 1000)),
        (SHIM.replace("moby", "k8s.io"), "containerd-shim", ContainerRef("crictl", "0123456789ab", 1000)),
        (CONMON.replace("train", "k8s_ray_pod_ns"), "conmon", ContainerRef("crictl", "0123456789ab", 1000)),
        (SHIM.replace("moby", "mine"), "containerd-shim", None),
        (CONMON.replace("train", "$(reboot)"), "conmon", None),
        ("/usr/bin/conmon -n", "conmon", None),
        ("unshare --pid --fork", "unshare", None),
    ],
)
def test_a_container_is_known_by_the_program_that_watches_over_it(watcher, name, known):
    first = process(1600, parent=1500, pids=(1600, 1))
    made = table(process(1500, watcher, name=name), first, inner(1600))
    assert find_container(made[1701], made) == known


@pytest.mark.parametrize(("word", "engine"), [("libpod", "podman"), ("docker", "docker"), ("crio", "crictl"), ("cri-containerd", "crictl")])
def test_a_container_without_such_a_program_is_known_by_the_name_of_its_cgroup(word, engine):
    made = table(inner(1, (word, ID)))
    assert find_container(made[1701], made) == ContainerRef(engine, "0123456789ab")


def test_of_nested_containers_the_outermost_counts():
    outer = process(1500, CONMON, name="conmon")
    nested = process(1600, CONMON.replace("train", "nested"), parent=1500, name="conmon", pids=(1600, 7))
    made = table(outer, nested, inner(1600, pids=(1701, 485, 3)))
    assert find_container(made[1701], made) == ContainerRef("podman", "train", 1000)


def test_a_process_in_our_own_namespace_is_in_no_container():
    made = table(process(1500, CONMON, name="conmon"), process(1600, parent=1500))
    assert find_container(made[1600], made) is None


def test_an_unknown_process_in_a_container_comes_with_the_command_that_can_judge_it():
    first = process(1600, parent=1500, pids=(1600, 1))
    left = process(1701, parent=1600, pids=(1701, 485), RAY_RAYLET_PID="99999")
    verdict = judged(process(1500, CONMON, name="conmon"), first, left)[1701]
    assert (verdict.kind, verdict.why[-1]) == ("unknown", why_probed_inside(ContainerRef("podman", "train", 1000)))
    assert verdict.why[-1].endswith("of uid 1000, which has to be probed from inside: `podman exec -it train cockpit`")
    alone = judged(first, left)[1701]
    assert alone.why[-1].endswith("run cockpit in its container")
