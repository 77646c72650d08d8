"""Sources fail while a job runs: each is a finding with level, cause and remedy, and no claim rests on its old facts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cockpit.demo import nvml
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import stopped
from tests.lab.incidents import found, over, watching
from tests.lab.observe import Watcher, node, once

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

IDLE = """
import nvml, os, pathlib, ray, time
ray.init(address="auto", log_to_driver=False)
class Rank:
    def hold(self):
        nvml.hold(pathlib.Path(os.environ[nvml.STATE]), os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"].split(","), 30 << 30)
ranks = [ray.remote(Rank).options(num_gpus=1, resources={"node:%s": 0.01}).remote() for _ in range(2)]
ray.get([rank.hold.remote() for rank in ranks])
time.sleep(10000)
"""


@pytest.fixture
def watcher(cluster: Cluster) -> Iterator[Watcher]:
    """Watches both hosts all the time; idle GPUs are reported after 20 s."""
    made = watching(cluster, "hosts: [head, w1]\nprobe_hosts: always\n", idle_for=20, idle_unheard=20)
    made.until(lambda now: all(node(now, name)["gpus"][0]["power_limit"] for name in ("head", "w1")), within=120)
    yield made
    made.end()


@pytest.mark.parametrize(("code", "cause"), [(18, "driver and library versions differ"), (999, "unknown error")])
def test_a_failing_nvml_is_reported_and_its_last_figures_support_no_claim(cluster, watcher, request, code, cause):
    w1 = cluster.lab["w1"]
    (cluster.head.tmp / "jobs" / "idle.py").write_text(IDLE % w1.address)
    cluster.submit("nvml-1", "python idle.py")
    watcher.until(lambda now: [each for each in now["processes"] if each["host"] == "w1" and each["gpus"]], within=120)
    request.addfinalizer(lambda: nvml.remove(w1.state, "error"))  # before the cluster is repaired
    nvml.add(w1.state, f"error {code} nvmlInit", f"error {code} nvmlDeviceGetCount")
    finding = found(watcher, "gpus-unseen", "job nvml-1")
    assert finding["level"] == "critical"
    assert f"NVML on w1 can't be used ({cause}" in finding["text"]
    assert "its 8 GPUs, 2 reserved by job nvml-1, can't be seen and new work placed there will fail" in finding["text"]
    assert "cockpit drain-node w1" in finding["remedy"]["text"]
    watcher.until(lambda now: (node(now, "w1")["gpus_age"] or 0) > 25 and node(now, "w1")["age"] < 10, within=90)
    stalled = [each for each in watcher.now["findings"] if each["code"] == "job-stalled"]
    assert all(each["seen"] is not None for each in stalled), "earlier findings have a date"
    before = {each["text"].partition(", as of")[0] for each in stalled}
    watcher.until(lambda now: node(now, "w1")["gpus_age"] > 50, within=90)
    after = {each["text"].partition(", as of")[0] for each in watcher.now["findings"] if each["code"] == "job-stalled"}
    assert after == before, "no finding begins, and no duration grows"
    code_of_status, facts, _ = once(cluster.head, env="XDG_CONFIG_HOME=/tmp/soon")
    assert code_of_status == 2, facts["findings"]
    nvml.remove(w1.state, "error")
    over(watcher, "gpus-unseen", "w1")
    watcher.until(lambda now: node(now, "w1")["gpus_age"] < 10, within=90)


def test_a_host_without_probe_and_sshd_is_reported_and_seen_again_later(cluster, watcher):
    w1 = cluster.lab["w1"]
    (cluster.head.tmp / "jobs" / "idle.py").write_text(IDLE % w1.address)
    cluster.submit("unseen-1", "python idle.py")
    watcher.until(lambda now: [each for each in now["processes"] if each["host"] == "w1" and each["gpus"]], within=120)
    probes = eventually(lambda: [process for process in w1.processes() if process.text.endswith("python3 -")])
    with stopped(w1):
        for probe in probes:
            probe.freeze()
        finding = found(watcher, "host-unseen", "w1 has not been seen for")
        assert finding["level"] in ("warning", "critical")
        for probe in probes:
            probe.thaw()
    over(watcher, "host-unseen")
