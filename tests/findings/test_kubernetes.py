"""Trouble that only Kubernetes knows, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings.kubernetes import (
    crashing_containers,
    killed_containers,
    leaving_pods,
    missing_pods,
    waiting_pods,
    wrong_rayjobs,
)
from cockpit.model import Container, ContainerEnd, Fault, Job, Pod, RayCluster, RayJob, Snapshot
from cockpit.report.snapshot_text import headline
from tests.findings.detection import codes, detect, only
from tests.world import GIB, NOW, node, snapshot

ALL = (waiting_pods, killed_containers, crashing_containers, leaving_pods, missing_pods, wrong_rayjobs)
NO_ROOM = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
SILENT = (Fault("kubernetes", "kubectl: connection refused", NOW),)


def pod(number: int = 2, **more: Any) -> Pod:
    facts = {"ip": f"10.0.0.{number}", "phase": "Running", "group": "gpu", "owned": True, "created": NOW - 3600, **more}
    return Pod(f"ray-gpu-worker-{number}", f"uid-{number}", **facts)


def waiting(number: int = 3, **more: Any) -> Pod:
    return pod(number, **{"ip": "", "phase": "Pending", "unscheduled": NO_ROOM, "created": NOW - 720, **more})


def container(**more: Any) -> Container:
    return Container("ray-worker", **more)


def seen(*pods: Pod, jobs: tuple[Job, ...] | None = (), rayjobs: tuple[RayJob, ...] = (), **more: Any) -> Snapshot:
    cluster = RayCluster("default", "raycluster-kuberay", **{"state": "ready", "wanted": 0, "pods": pods, "jobs": rayjobs, **more})
    return replace(snapshot(), nodes=(node(1), node(2)), jobs=jobs, kubernetes=cluster)


def found(world: Snapshot, seconds: float = 120, **limits: Any):
    return detect(world, seconds, detectors=ALL, **limits)


def test_pods_without_a_node_are_reported_together_with_what_is_missing():
    finding = only(found(seen(waiting(3), waiting(4, created=NOW - 300), pod())), "pod-pending")
    expected = "2 pods of group gpu wait to be started: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu"
    assert (finding.level, finding.text) == ("warning", expected)
    assert (finding.since, finding.subject) == (NOW - 720, "pod ray-gpu-worker-3")
    assert headline(finding, NOW) == f"WARNING {expected} (for 12m00s)"
    assert finding.evidence[0] == "`kubectl describe pod -n default ray-gpu-worker-3`: Pending"
    taint = waiting(4, unscheduled="0/4 nodes are available: 4 node(s) had untolerated taint")
    assert len({finding.subject for finding in found(seen(waiting(3), taint))}) == 2, "they have different reasons"


def test_a_pod_with_a_normal_wait_or_start_is_not_reported():
    assert found(seen(waiting(created=NOW - 100))) == ()
    assert only(found(seen(waiting(created=NOW - 120)), 0), "pod-pending").text.startswith("Pod ray-gpu-worker-3 waits to be started: ")
    assert found(seen(waiting(created=None))) == ()
    creating = container(waiting="ContainerCreating")
    assert found(seen(waiting(unscheduled=None, containers=(creating, container(waiting="PodInitializing"))))) == ()
    assert found(seen(waiting(unscheduled=None, containers=(container(),)))) == (), "it waits for its head"


def test_a_container_that_cannot_be_created_is_reported_with_the_reason():
    wrong = container(waiting="CreateContainerConfigError", message='secret "hf-token" not found')
    finding = only(found(seen(waiting(unscheduled=None, containers=(wrong,)))), "pod-pending")
    assert finding.text.endswith('CreateContainerConfigError: secret "hf-token" not found')


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_an_unavailable_image_is_reported_at_once(reason: str):
    image = container(waiting=reason, message="failed to pull: not found")
    finding = only(found(seen(waiting(unscheduled=None, created=NOW - 20, containers=(image,))), 0), "pod-image")
    assert (finding.level, finding.text) == ("warning", "Pod ray-gpu-worker-3 can't get its image: failed to pull: not found")


def killed(ago: float = 60, **more: Any) -> Snapshot:
    facts = {"memory_limit": 64 * GIB, "restarts": 2, "ended": ContainerEnd("OOMKilled", 137, NOW - ago), **more}
    return seen(pod(containers=(container(**facts),)))


def test_a_container_killed_for_lack_of_memory_is_reported_with_its_limit():
    finding = only(found(killed()), "pod-oom-killed")
    expected = "1m00s ago, out of memory at its limit of 64G; restarted 2 times so far"
    assert finding.text == f"The kernel killed container ray-worker of pod ray-gpu-worker-2 {expected}"
    assert (finding.level, finding.subject) == ("critical", "container ray-worker of pod ray-gpu-worker-2")
    assert finding.about == (node(2).key,)
    assert finding.evidence == ("`kubectl describe pod -n default ray-gpu-worker-2`: Running; ray-worker up, 2 restarts",)
    bare = only(found(killed(memory_limit=None, restarts=0, ended=ContainerEnd("OOMKilled"))), "pod-oom-killed")
    assert bare.text == "The kernel killed container ray-worker of pod ray-gpu-worker-2, out of memory"


def test_a_kill_is_critical_for_a_while_and_forgotten_after_an_hour():
    assert only(found(killed(700)), "pod-oom-killed").level == "warning"
    assert found(killed(3600)) == ()
    assert found(seen(pod(containers=(container(ended=ContainerEnd("Completed", 0, NOW - 60)),)))) == ()


def test_a_container_that_keeps_ending_is_reported():
    ended = ContainerEnd("Error", 1, NOW - 40)
    finding = only(found(seen(pod(containers=(container(waiting="CrashLoopBackOff", restarts=7, ended=ended),)))), "pod-crash-loop")
    expected = "is in a restart loop: it has ended 7 times, the last time with Error, exit code 1"
    assert (finding.level, finding.text) == ("warning", f"Container ray-worker of pod ray-gpu-worker-2 {expected}")
    assert finding.remedy.text == "read its last log: `kubectl logs -p -n default ray-gpu-worker-2 -c ray-worker`"
    assert codes(found(seen(pod(containers=(container(restarts=3, ended=ended),))))) == {"pod-crash-loop"}


@pytest.mark.parametrize(
    "one",
    [
        container(restarts=2, ended=ContainerEnd("Error", 1, NOW - 40)),
        container(restarts=9, ended=ContainerEnd("Error", 1, NOW - 700)),
        container(restarts=9),
    ],
)
def test_few_or_old_restarts_are_no_loop(one: Container):
    assert found(seen(pod(containers=(one,)))) == ()


def test_evicted_and_deleted_pods_of_living_nodes_are_reported_with_the_reason():
    finding = only(found(seen(pod(ends=NOW + 25, why_ends="Taint manager: deleting due to NoExecute taint"))), "pod-leaving")
    expected = "within 25s, with everything in it: Taint manager: deleting due to NoExecute taint"
    assert finding.text == f"Kubernetes is deleting pod ray-gpu-worker-2, {expected}"
    assert finding.about == (node(2).key,)
    assert only(found(seen(pod(ends=NOW + 25))), "pod-leaving").text.endswith("with everything in it: somebody has deleted it")
    evicted = pod(9, phase="Failed", reason="Evicted: The node was low on resource: ephemeral-storage.")
    events = "`kubectl get events -n default --field-selector involvedObject.name=ray-gpu-worker-9`"
    assert events in only(found(seen(evicted)), "pod-leaving").remedy.text
    text = only(found(seen(evicted)), "pod-leaving").text
    assert text == "Kubernetes has ended pod ray-gpu-worker-9: Evicted: The node was low on resource: ephemeral-storage"
    assert found(seen(pod(9, ends=NOW + 25))) == ()
    assert found(seen(pod())) == ()


def test_missing_worker_pods_are_reported_with_kuberays_message():
    finding = only(found(seen(pod(), wanted=3, trouble="exceeded quota: gpus")), "raycluster-short")
    expected = "RayCluster default/raycluster-kuberay wants 3 workers, but only 1 has a pod: exceeded quota: gpus"
    assert (finding.level, finding.text) == ("warning", expected)
    assert only(found(seen(wanted=3)), "raycluster-short").text.endswith("only 0 have a pod, and KubeRay gives no reason")
    assert found(seen(wanted=3), 30) == (), "they were requested just now"


@pytest.mark.parametrize(
    "world",
    [
        seen(pod(2), pod(3), wanted=2),
        seen(waiting(3), wanted=1),
        seen(wanted=None),
        seen(wanted=3, state="suspended"),
        seen(wanted=3, pods=None),
    ],
)
def test_complete_or_unknown_workers_are_not_missing(world: Snapshot):
    assert "raycluster-short" not in codes(found(world))


RUNNING = RayJob("rayjob-sample", "rayjob-sample-zdxm6", "RUNNING", "Running", "Job is currently running.")


def job(status: str) -> Job:
    return Job("rayjob-sample-zdxm6", status=status, submission="rayjob-sample-zdxm6")


def test_a_job_lost_by_ray_whose_rayjob_runs_is_reported_after_a_while():
    finding = only(found(seen(rayjobs=(RUNNING,))), "rayjob-contradicts")
    assert finding.text == "RayJob rayjob-sample reports job rayjob-sample-zdxm6 as RUNNING, but Ray knows no such job"
    assert (finding.level, finding.subject) == ("warning", "RayJob rayjob-sample")
    assert finding.evidence == ("`kubectl get rayjob -n default rayjob-sample`: RUNNING, Running", "Job is currently running")
    assert found(seen(rayjobs=(RUNNING,)), 30) == ()


@pytest.mark.parametrize(
    ("one", "status", "expected", "action"),
    [
        (RUNNING, "FAILED", "reports job rayjob-sample-zdxm6 as RUNNING, but Ray reports FAILED", None),
        (
            replace(RUNNING, deployment="Failed", status="FAILED"),
            "RUNNING",
            "reports job rayjob-sample-zdxm6 as Failed, but Ray still runs it (RUNNING)",
            "stop-job",
        ),
        (
            replace(RUNNING, deployment="Complete"),
            "RUNNING",
            "reports job rayjob-sample-zdxm6 as Complete, but Ray still runs it (RUNNING)",
            "stop-job",
        ),
    ],
)
def test_a_rayjob_that_contradicts_ray_is_reported(one: RayJob, status: str, expected: str, action: str | None):
    finding = only(found(seen(rayjobs=(one,), jobs=(job(status),))), "rayjob-contradicts")
    assert finding.text == f"RayJob rayjob-sample {expected}"
    assert finding.remedy.action == action
    assert finding.about == (job(status).key,)


@pytest.mark.parametrize(
    ("one", "jobs"),
    [
        (RUNNING, (job("RUNNING"),)),
        (replace(RUNNING, status="FAILED", deployment="Failed"), (job("FAILED"),)),
        (replace(RUNNING, status="FAILED", deployment="Failed"), ()),
        (replace(RUNNING, status="", deployment="Initializing"), ()),
        (replace(RUNNING, submission=""), ()),
        (RUNNING, None),
    ],
)
def test_an_agreeing_or_unknown_rayjob_is_fine(one: RayJob, jobs: tuple[Job, ...] | None):
    assert found(seen(rayjobs=(one,), jobs=jobs)) == ()


@pytest.mark.parametrize("source", ["ray.jobs", "ray.identity", "kubernetes"])
def test_old_facts_of_either_side_contradict_nothing(source: str):
    assert found(replace(seen(rayjobs=(RUNNING,)), faults=(Fault(source, "silent", NOW),))) == ()


def test_nothing_new_follows_while_kubernetes_is_silent():
    everything = seen(waiting(), *killed().kubernetes.pods or (), pod(ends=NOW), wanted=9)
    assert len(codes(found(everything))) == 4
    assert found(replace(everything, faults=SILENT)) == ()


def test_kubernetes_texts_cannot_control_a_terminal():
    hostile = waiting(unscheduled="\x1b[2Jno\nroom" + "x" * 1000)
    text = only(found(seen(hostile)), "pod-pending").text
    assert "\x1b" not in text
    assert "\n" not in text
    assert len(text) < 400
