"""Frozen and killed parts of a real Ray: each is one finding that names the process, and it ends when the part is back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.cluster import Cluster, eventually
from tests.lab.incidents import found, serious_findings, watching
from tests.lab.observe import Watcher

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]


@pytest.fixture
def watcher(cluster: Cluster) -> Iterator[Watcher]:
    """Watches with short thresholds and has seen the cluster complete."""
    made = watching(cluster, agent_silent=12, gcs_silent=2, dashboard_silent=3, monitor_silent=1, disk_filling=1, disk_full=1)
    made.until(lambda now: [each["state"] for each in now["nodes"]].count("ALIVE") == 2 and not now["faults"], within=120)
    yield made
    made.end()


def over(watcher: Watcher) -> None:
    """Waits until nothing is found."""
    eventually(lambda: not serious_findings(watcher), within=120)


def test_each_frozen_part_of_the_head_is_one_finding_until_it_continues(cluster: Cluster, watcher: Watcher):
    over(watcher)
    for process, code in ((cluster.part("gcs"), "gcs-silent"), (cluster.part("dashboard"), "dashboard-silent")):
        process.freeze()
        one = found(watcher, code, f"(pid {process.pid}) is stopped by a signal")
        assert one["level"] == "critical"
        assert f"`kill -CONT {process.pid}` on head" in one["remedy"]["text"]
        assert set(serious_findings(watcher)) == {code}
        process.thaw()
        over(watcher)


def test_a_frozen_agent_and_a_frozen_monitor_are_found(cluster: Cluster, watcher: Watcher):
    agent, monitor = cluster.part("agent", "w1"), cluster.part("monitor")
    agent.freeze()
    monitor.freeze()
    found(watcher, "agent-silent", "Ray's agent on w1 has not reported for")
    found(watcher, "monitor-silent", f"(pid {monitor.pid}) is stopped by a signal")
    assert set(serious_findings(watcher)) == {"agent-silent", "monitor-silent"}
    agent.thaw()
    monitor.thaw()
    over(watcher)


def test_a_killed_raylet_is_a_dead_node_until_another_one_runs_there(cluster: Cluster, watcher: Watcher):
    cluster.part("raylet", "w1").kill()
    one = found(watcher, "node-dead", "w1 died", "ago (", "lost with it: 8 GPUs")
    assert one["level"] == "critical"
    assert one["since"] <= watcher.now["taken"]
    cluster.command(cluster.lab["w1"], f"ray start --address={cluster.gcs_address} --num-cpus=16 --object-store-memory=100000000")
    over(watcher)
