"""Parts of a real Ray that are frozen or killed are found, each as one finding that names the process, and end when they are back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.cluster import Cluster, eventually
from tests.lab.eyes import Facts, Watcher, lay_config

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

SOON = "findings: {agent_silent: 12, gcs_silent: 2, dashboard_silent: 3, monitor_silent: 1, disk_filling: 1, disk_full: 1}\n"


@pytest.fixture
def watcher(cluster: Cluster) -> Iterator[Watcher]:
    """Watches with thresholds that a test has the time for, and has seen the cluster whole."""
    lay_config(cluster.lab)
    folder = cluster.head.tmp / "soon" / "cockpit"
    folder.mkdir(parents=True, exist_ok=True)
    usual = cluster.head.folder / "run" / "lab" / "home" / ".config" / "cockpit" / "config.yaml"
    (folder / "config.yaml").write_text(usual.read_text() + SOON)
    made = Watcher(cluster.head, env="XDG_CONFIG_HOME=/tmp/soon")
    made.until(lambda now: [each["state"] for each in now["nodes"]].count("ALIVE") == 2 and not now["faults"], within=120)
    yield made
    made.end()


def told(watcher: Watcher) -> list[Facts]:
    """What is found that is more than an info."""
    return [each for each in watcher.now.get("findings", ()) if each["level"] != "info"]


def found(watcher: Watcher, code: str, *words: str) -> Facts:
    """The finding with this code and these words, as soon as it is told."""

    def right() -> Facts | None:
        named = [each for each in told(watcher) if each["code"] == code]
        return next((each for each in named if all(word in each["text"] for word in words)), None)

    try:
        return eventually(right, within=120) or {}
    except AssertionError as error:
        raise AssertionError(f"no {code} with {words}: {watcher.now.get('findings')}, {watcher.now.get('faults')}") from error


def over(watcher: Watcher) -> None:
    """Wait until nothing is found any more."""
    eventually(lambda: not told(watcher), within=120)


def test_frozen_parts_of_the_head_are_each_one_finding_and_end_when_they_go_on(cluster: Cluster, watcher: Watcher):
    over(watcher)
    for process, code in ((cluster.part("gcs"), "gcs-silent"), (cluster.part("dashboard"), "dashboard-silent")):
        process.freeze()
        one = found(watcher, code, f"(pid {process.pid}) is stopped by a signal")
        assert one["level"] == "critical"
        assert f"`kill -CONT {process.pid}` on head" in one["remedy"]["text"]
        assert {each["code"] for each in told(watcher)} == {code}
        process.thaw()
        over(watcher)


def test_a_frozen_agent_and_a_frozen_monitor_are_found(cluster: Cluster, watcher: Watcher):
    agent, monitor = cluster.part("agent", "w1"), cluster.part("monitor")
    agent.freeze()
    monitor.freeze()
    found(watcher, "agent-silent", "Ray's agent on w1 has not reported for")
    found(watcher, "monitor-silent", f"(pid {monitor.pid}) is stopped by a signal")
    assert {each["code"] for each in told(watcher)} == {"agent-silent", "monitor-silent"}
    agent.thaw()
    monitor.thaw()
    over(watcher)


def test_a_killed_raylet_is_a_dead_node_until_another_lives_there(cluster: Cluster, watcher: Watcher):
    cluster.part("raylet", "w1").kill()
    one = found(watcher, "node-dead", "w1 died", "ago (", "lost with it: 8 GPUs")
    assert one["level"] == "critical"
    assert one["since"] <= watcher.now["taken"]
    cluster.command(cluster.lab["w1"], f"ray start --address={cluster.gcs_address} --num-cpus=16 --object-store-memory=100000000")
    over(watcher)
