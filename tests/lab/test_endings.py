"""Failures, leaks, restart loops and hopeless waiting on a real Ray are found, with the right numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.lab.cluster import Cluster
from tests.lab.incidents import found, watching
from tests.lab.observe import Watcher, action
from tests.lab.placement_jobs import PlacementJobs

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]


@pytest.fixture
def asked(cluster: Cluster) -> PlacementJobs:
    """A healthy cluster of two nodes, each with 8 GPUs and 16 CPUs."""
    return PlacementJobs(cluster)


@pytest.fixture
def watcher(cluster: Cluster) -> Iterator[Watcher]:
    """Watches with short thresholds."""
    made = watching(cluster, waiting_hopeless=5, leak_age=2)
    yield made
    made.end()


def test_a_failure_a_leak_a_loop_and_hopeless_waiting_are_found(asked: PlacementJobs, watcher: Watcher):
    asked.run(
        "vain",
        """
kept = [named(f"Critic{n}", num_gpus=9).remote() for n in range(3)]
class Falls(Worker):
    def fall(self):
        import os
        os.kill(os.getpid(), 9)
falls = ray.remote(Falls).options(name="Falls", max_restarts=-1, num_cpus=0).remote()
for _ in range(3):
    while True:
        try:
            ray.get(falls.ready.remote())
            break
        except ray.exceptions.RayError:
            time.sleep(0.2)
    falls.fall.remote()
    time.sleep(1)
""",
    )
    asked.run(
        "leaves",
        """
group = placement_group([{"GPU": 2}] * 2, name="left", lifetime="detached")
ray.get(group.ready())
raise RuntimeError("the reward model has no head")
""",
    )
    failed = found(watcher, "job-failed", "Job leaves")
    assert failed["text"] == "Job leaves failed: RuntimeError: the reward model has no head (exit code 1)"
    leaked = found(watcher, "placement-group-leaked")
    assert leaked["text"] == "Job leaves has ended (FAILED), but its placement group left still holds 4 GPUs"
    vain = found(watcher, "actor-pending", "never fits on these nodes: needs 9 GPUs on one node; 2 nodes have 8", level="critical")
    assert vain["remedy"]["act"] == "stop-job"
    loop = found(watcher, "actor-restarting")
    assert re.fullmatch(r"Actor Falls of job vain was restarted 3 times (in the last|since its job started) \S+( ago)?", loop["text"])
    group = asked.ray("placement_groups")["left"]["placement_group_id"]
    code, _, stderr = action(asked.cluster.head, f"remove-placement-group {group} --yes")
    assert code == 0, stderr
    watcher.until(lambda facts: not [each for each in facts["findings"] if each["code"] == "placement-group-leaked"])


def test_tasks_too_large_for_every_node_are_found_and_tasks_that_can_run_later_are_not(asked: PlacementJobs, watcher: Watcher):
    asked.run(
        "large",
        """
rest = ray.remote(lambda: time.sleep(1))
large, small = rest.options(num_gpus=9), rest.options(num_cpus=8)  # each a class of Ray's scheduler: it tells of 100 of them
ray.get([*(large.remote() for _ in range(3)), *(small.remote() for _ in range(500))])
""",
    )
    vain = found(watcher, "task-pending", level="critical")
    assert vain["text"] == "3 tasks wait for 9 GPUs, 1 CPU: never fits on these nodes: needs 9 GPUs on one node; 2 nodes have 8"
    status = asked.cluster.http.get("/api/cluster_status").json()["data"]["clusterStatus"]
    assert [needs for needs, _ in status["loadMetricsReport"]["resourceDemand"] if needs == {"CPU": 8.0}], "they wait too"
    assert [each["code"] for each in watcher.now["findings"] if "wait" in each["text"]] == ["task-pending"]
    code, _, stderr = action(asked.cluster.head, "stop-job large --yes")
    assert code == 0, stderr
    watcher.until(lambda facts: not [each for each in facts["findings"] if each["code"] == "task-pending"])
