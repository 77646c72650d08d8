"""Limits of processes and threads."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Limits
from cockpit.findings.tasks import task_limits
from cockpit.model import Cluster, Host, Process, RayProcess, TaskLimit
from tests.findings.detection import FreshTracker, detect, only
from tests.world import NOW, node, snapshot

TASKS = (task_limits,)
SESSION = "session_2026-11-21_00-00-00_000000_8"
CLUSTER = Cluster("http://10.0.0.1:8265", "2.60.0", SESSION, reachable=True)
CGROUP = "/sys/fs/cgroup/user.slice/pids.max"


def seen(*limits, more=()):
    """A raylet of the cluster with these limits, and other raylets."""
    raylet = RayProcess("raylet", 21, SESSION, node(1).id, "S", tasks=limits)
    here = Host("node1", ("10.0.0.1",), NOW, nodes=(node(1).id,), rays=(raylet, *more))
    owner = Process(host="node1", pid=21, ticks=1, user="ann", kind="ray")
    return snapshot(cluster=CLUSTER, nodes=(node(1),), hosts={"node1": here}, processes=(owner,))


def of_user(used, limit=4096):
    return TaskLimit("user", used, limit)


def test_a_user_near_its_limit_gets_the_command_that_raises_it_until_clearly_below():
    found = only(detect(seen(of_user(3500)), detectors=TASKS), "task-limit-near")
    assert found.text == (
        "User ann on node1 has 3500 of at most 4096 processes and threads (ulimit -u): "
        "at the limit no worker, engine or thread can be started"
    )
    assert (found.level, found.subject, found.about) == ("warning", "node1 user ann", (node(1).key,))
    assert found.evidence == ("/proc/21/limits: Max processes 4096", "ps -L -U ann --no-headers | wc -l: 3500")
    assert "`prlimit --pid 21 --nproc=65536`" in found.remedy.text
    judge = FreshTracker(Limits(), TASKS)
    reported = [[found.code for found in judge(seen(of_user(used, 1000))).findings] for used in (799, 800, 701, 699)]
    assert reported == [[], ["task-limit-near"], ["task-limit-near"], []]


@pytest.mark.parametrize(
    ("limit", "text", "remedy"),
    [
        (TaskLimit("cgroup", 990, 1000, CGROUP), "The cgroup of raylet (pid 21) on node1 has 990 of at most 1000 ", "TasksMax"),
        (of_user(9000), "User ann on node1 has 9000 of at most 4096 ", "prlimit"),
        (TaskLimit("threads", 126_000, 127_000), "node1 has 126000 of at most 127000 ", "`sysctl -w kernel.threads-max=254000`"),
        (TaskLimit("pids", 32_700, 32_768), "node1 has 32700 of at most 32768 ", "`sysctl -w kernel.pid_max=65536`"),
    ],
)
def test_every_limit_has_its_text_and_remedy(limit, text, remedy):
    found = only(detect(seen(limit), detectors=TASKS), "task-limit-reached")
    assert (found.level, found.text.startswith(text)) == ("critical", True), found.text
    assert remedy in found.remedy.text
    if limit.path:
        assert found.evidence == (f"{CGROUP}: 1000", "/sys/fs/cgroup/user.slice/pids.current: 990")


def test_several_raylets_of_a_user_are_one_finding_and_other_rays_have_none():
    beside = RayProcess("raylet", 21, SESSION, node(1).id, "S", tasks=(of_user(3500),))
    assert len(detect(seen(of_user(3500), more=(beside,)), detectors=TASKS)) == 1
    other = RayProcess("raylet", 707, "session_2", "f" * 56, tasks=(of_user(4000),))
    assert detect(seen(more=(other,)), detectors=TASKS) == ()
    here = seen()
    unknown = replace(here.hosts["node1"], rays=(replace(here.hosts["node1"].rays[0], tasks=None),))
    assert detect(replace(here, hosts={"node1": unknown}), detectors=TASKS) == ()


@pytest.mark.parametrize("limit", [of_user(None), of_user(4000, None), of_user(4000, 0), of_user(-1, -1), of_user(1 << 60), of_user(0)])
def test_unknown_or_impossible_limits_are_not_reported(limit):
    assert detect(seen(limit), detectors=TASKS) == ()
