"""With real kubectl or a pod's service account, and without ssh: every pod is seen, and actions reach it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.kubernetes import EVERYTHING
from tests.lab import hosts, kubernetes
from tests.lab.cluster import ENV, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab, Process
from tests.lab.kubernetes import Kubernetes
from tests.lab.leftovers import leave_engine
from tests.lab.observe import COCKPIT, Watcher, action, kinds_on, once

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(900)]

START = "--num-cpus=4 --object-store-memory=100000000 --disable-usage-stats"
NAMED = "--kubernetes default/ray"
WATCHING = "KUBECONFIG=/run/lab/kubeconfig COCKPIT_PROBE_HOSTS=always"
FORWARD = "`kubectl port-forward -n default ray-head 8265:8265`"


class Pods:
    """Two hosts that play pods of KubeRay with a real Ray, and a login host with kubectl."""

    def __init__(self, lab: Lab) -> None:
        self.kubernetes, self.login = Kubernetes(lab, "login", ["ray-head", "ray-worker"]), lab["login"]
        self.head, self.worker = self.kubernetes.hosts.values()
        env = "".join(f"export {name}={value};" for name, value in {**ENV, "RAY_AUTH_MODE": "disabled"}.items())
        ports = f"--head --port=6379 --dashboard-host=0.0.0.0 --node-ip-address={self.head.address}"
        self.head.ssh(f"{env} {RAY} start {ports} {START}")
        self.worker.ssh(f"{env} {RAY} start --address={self.head.address}:6379 {START}")
        self.address = f"--address http://{self.head.address}:8265"
        eventually(lambda: len([node for node in self.look().get("nodes") or () if node["state"] == "ALIVE"]) == 2)

    def look(self, words: str = "") -> dict[str, Any]:
        """The status that a user with a kubeconfig and a forwarded port sees."""
        return once(self.login, f"{NAMED} {self.address} {words}", self.kubernetes.env)[1]

    def findings(self, *codes: str) -> list[dict[str, Any]]:
        return [finding for finding in self.look()["findings"] if finding["code"] in codes]

    def action(self, words: str) -> tuple[int, dict[str, Any], str]:
        return action(self.login, f"{words} {NAMED} {self.address}", self.kubernetes.env)


@pytest.fixture(scope="module")
def running() -> Iterator[Pods]:
    if reason := hosts.why_not() or kubernetes.why_no_kubectl() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    lab = Lab(f"ku{os.getpid() % 100000}", ["ray-head", "ray-worker", "login"], {"PATH": os.environ["PATH"]})
    try:
        yield Pods(lab)
    finally:
        lab.close()


@pytest.fixture
def pods(running: Pods) -> Pods:
    running.kubernetes.write_all()
    return running


def is_probed(facts: dict[str, Any]) -> bool:
    """Whether both pods have reported their processes."""
    return "ray" in kinds_on(facts, "ray-head") & kinds_on(facts, "ray-worker")


def probes(host: Host) -> list[Process]:
    return [process for process in host.processes() if process.outer.name().startswith("python") and "given.readline" in process.text]


def test_both_healthy_pods_get_one_probe_each_by_exec(pods: Pods):
    watcher = Watcher(pods.login, f"{NAMED} {pods.address}", WATCHING)
    try:
        watcher.until(is_probed)
        assert [len(probes(host)) for host in (pods.head, pods.worker)] == [1, 1]
        facts = watcher.now
    finally:
        watcher.end()
    assert not [fault for fault in facts["faults"] if fault["source"] in ("probe", "kubernetes")]
    assert not [one for one in facts["findings"] if one["code"].startswith(("pod-", "raycluster-", "rayjob-"))]
    assert {"orphan", "stale"}.isdisjoint(kinds_on(facts, "ray-head") | kinds_on(facts, "ray-worker"))


def test_one_status_waits_for_the_pods_of_the_named_raycluster(pods: Pods):
    facts = pods.look()
    assert is_probed(facts)
    assert not [fault for fault in facts["faults"] if fault["source"] == "probe"]


def test_the_probes_in_pods_end_with_a_cockpit_that_is_killed(pods: Pods):
    watcher = Watcher(pods.login, f"{NAMED} {pods.address}", WATCHING)
    watcher.until(is_probed)
    sent = [probe for host in (pods.head, pods.worker) for probe in probes(host)]
    watcher.process.outer.kill()
    eventually(lambda: sent and not any(probe.is_alive() for probe in sent))


def test_without_a_way_to_the_dashboard_the_pods_are_seen_and_the_way_is_named(pods: Pods):
    watcher = Watcher(pods.login, NAMED, WATCHING)
    try:
        watcher.until(is_probed)
        watcher.until(lambda now: [one for one in now["findings"] if FORWARD in one["remedy"]["text"]])
    finally:
        watcher.end()


def test_kubernetes_changes_to_pods_are_reported(pods: Pods):
    pods.kubernetes.add_pod(pods.kubernetes.pod("ray-gpu-worker-mh5wd", like=2))
    pods.kubernetes.add_pod(pods.kubernetes.pod("ray-cpu-worker-zz81q", like=3))
    texts = {one["code"]: one["text"] for one in pods.findings("pod-pending", "pod-image")}
    assert "0/4 nodes are available: 4 Insufficient nvidia.com/gpu" in texts["pod-pending"]
    assert "Back-off pulling image" in texts["pod-image"]


def test_a_rayjob_whose_job_ray_has_lost_is_reported(pods: Pods):
    pods.kubernetes.add_rayjob("rayjob-sample-zdxm6")
    (one,) = pods.findings("rayjob-contradicts")
    assert one["text"] == "RayJob rayjob-sample reports job rayjob-sample-zdxm6 as RUNNING, but Ray knows no such job"


def test_an_unknown_raycluster_is_refused_in_kubernetes_words(pods: Pods):
    answer = once(pods.login, "--kubernetes default/none", pods.kubernetes.env)
    assert answer == (3, {}, 'cockpit: --kubernetes: Kubernetes: rayclusters.ray.io "none" not found\n')
    stderr = once(pods.login, "--kubernetes none", pods.kubernetes.env)[2]
    assert stderr == "cockpit: --kubernetes: expected NAMESPACE/RAYCLUSTER such as default/raycluster-kuberay, got none\n"


def test_doctor_names_the_way_to_pods(pods: Pods):
    text = pods.login.ssh(f"{pods.kubernetes.env} {COCKPIT} doctor {NAMED} {pods.address}", check=False)
    assert "Other hosts: by kubectl exec, into the pods of RayCluster default/ray (--kubernetes): probes, and every action" in text
    assert "Kubernetes: pods that wait, were killed or are being deleted" in text.partition("\nOK:")[2]


def test_inside_a_pod_the_service_account_asks_and_a_missing_right_is_named(pods: Pods):
    doctor = f"{COCKPIT} doctor"
    well = pods.head.ssh(f"{pods.kubernetes.env_of_pod(path='/none')} {doctor}", check=False)
    assert (
        "Other hosts: through Ray (RAY_CLUSTER_NAME): no probes; actions reach only nodes of a Ray cluster that runs on this host" in well
    )
    assert "with kubectl in PATH also into the pods of RayCluster default/ray" in well
    assert "Kubernetes: RayJobs whose status differs from Ray's" in well.partition("\nOK:")[2]
    pods.kubernetes.allow("get rayclusters")
    poor = pods.head.ssh(f"{pods.kubernetes.env_of_pod(path='/none')} {doctor}", check=False)
    assert 'cannot list resource "pods" in API group "" in the namespace "default"; packaging/kubernetes-role.yaml has the Role' in poor


def test_inside_a_pod_with_kubectl_the_other_pods_are_probed_by_exec_and_the_own_one_is_not(pods: Pods):
    kubectl = f"{pods.kubernetes.env_of_pod()} export COCKPIT_PROBE_HOSTS=always;"
    before = len(pods.kubernetes.asked())
    eventually(lambda: "ray" in kinds_on(once(pods.head, "--hosts ray-worker", kubectl)[1], "ray-worker"))
    executed = [line for line in pods.kubernetes.asked()[before:] if "/exec?" in line]
    assert executed
    assert all("/pods/ray-worker/exec" in line for line in executed)


def test_an_orphan_in_another_pod_is_ended_through_kubectl_and_ray_stays(pods: Pods):
    engine = leave_engine(pods.worker, 5)
    ranks = pods.worker.matching("raylet")
    code, done, stderr = pods.action("kill-orphans --yes")
    assert (code, stderr, [(row["host"], row["pid"]) for row in done["done"]]) == (0, "", [("ray-worker", engine.pid)])
    assert all(rank.is_alive() for rank in ranks)
    assert not engine.is_alive()


def test_ray_is_not_stopped_in_pods_and_the_alternative_is_named(pods: Pods):
    code, _, stderr = pods.action("stop --yes")
    assert code == 1
    assert stderr.startswith(
        "cockpit: KubeRay runs this Ray cluster and would start it again: delete the pod of a node (`cockpit delete-pod NODE`)"
    )
    assert pods.head.matching("raylet")
    assert pods.worker.matching("raylet")


def test_a_pod_is_deleted_only_with_that_right(pods: Pods):
    pods.kubernetes.allow(*(right for right in EVERYTHING if right != "delete pods"))
    code, answer, _ = pods.action("delete-pod ray-worker --yes")
    assert code == 1
    assert 'cannot delete resource "pods"' in answer["failed"][0]["error"]
    assert len(pods.kubernetes.pods()) == 2


def test_exactly_the_pod_of_the_node_is_deleted(pods: Pods):
    code, answer, stderr = pods.action("delete-pod ray-worker --yes")
    assert (code, stderr, [row["target"] for row in answer["done"]]) == (0, "", ["pod ray-worker"])
    assert [pod["metadata"]["name"] for pod in pods.kubernetes.pods()] == ["ray-head"]
    assert pods.action("delete-pod w9 --yes")[2] == "cockpit: RayCluster default/ray has no pod w9; it has ray-head\n"
