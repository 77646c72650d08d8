"""What Kubernetes does to a Ray that Ray itself can't tell of: pods that wait, are ended or taken away, and RayJobs that say otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from cockpit.findings.actors import ENDED_STATES
from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Container, Finding, Job, Level, Pod, RayCluster, RayJob, Remedy
from cockpit.text import age, clean, plural, size

MAX_NAMED, MAX_TEXT_CHARS = 6, 300
"""Pods that are named; characters of what Kubernetes says."""
SOURCE = "kubernetes"
IMAGE_REASONS = frozenset(["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"])
"""Why a container waits for its image (pkg/kubelet/images/types.go)."""
CRASHES = "CrashLoopBackOff"
OOM = "OOMKilled"
BEGINNING = ("", "ContainerCreating", "PodInitializing")
OVER = ("Complete", "Failed")
UNDER_WAY = ("", "Running")
"""How far KubeRay is with a RayJob whose job it watches."""


@rests_on("kubernetes")
def waiting_pods(facts: Facts) -> Iterator[Finding]:
    """Pods that no node has room for, or whose image can't be had; those that wait for the same are told together."""
    alike: dict[tuple[str, str], list[Pod]] = {}
    for pod in _pods(facts):
        if waits := _why_waiting(facts, pod):
            alike.setdefault(waits, []).append(pod)
    for (code, why), pods in alike.items():
        yield _waiting_finding(facts, code, why, pods)


def _why_waiting(facts: Facts, pod: Pod) -> tuple[str, str] | None:
    """The code of its finding, and the reason in the words of Kubernetes."""
    if pod.phase != "Pending" or pod.ends is not None:
        return None
    image = next((one for one in pod.containers if one.waiting in IMAGE_REASONS), None)
    if image is not None:
        return "pod-image", image.message or image.waiting or ""
    if pod.created is None or facts.now - pod.created < facts.limits.waiting_long:
        return None
    if pod.unscheduled is not None:
        return "pod-pending", pod.unscheduled
    stuck = next((one for one in pod.containers if one.waiting is not None and one.waiting not in BEGINNING), None)
    return None if stuck is None else ("pod-pending", ": ".join(filter(None, (stuck.waiting, stuck.message))))


def _waiting_finding(facts: Facts, code: str, why: str, pods: list[Pod]) -> Finding:
    first = min(pods, key=lambda pod: (pod.created or facts.now, pod.name))
    one = len(pods) == 1
    if code == "pod-image":
        what = f"can't get {'its' if one else 'their'} image"
        remedy = "correct `image` or `imagePullSecrets` in the RayCluster, or push the image"
    else:
        what = f"{'waits' if one else 'wait'} to be started"
        remedy = "free what is missing, add nodes, or ask for less in the RayCluster; Ray does not know a pod before it runs"
    found = _pod_finding(facts, code, f"pod {clean(first.name)}", f"{_names(pods)} {what}: {_short(why)}", remedy, pods)
    return replace(found, since=first.created, about=())


def _pod_finding(facts: Facts, code: str, subject: str, text: str, remedy: str, pods: list[Pod], level: Level = "warning") -> Finding:
    addresses = {pod.ip for pod in pods if pod.ip}
    about = tuple(node.key for node in facts.living_nodes if node.ip in addresses)
    return Finding(code, level, subject, text, _evidence(facts, pods), remedy=Remedy(remedy), about=about)


@rests_on("kubernetes")
def killed_containers(facts: Facts) -> Iterator[Finding]:
    """The kernel has ended a container's first process for lack of memory: to Ray that is a node that has died without a word."""
    for pod, one in _containers(facts):
        if one.ended is None or one.ended.reason != OOM or (one.ended.at is not None and facts.now - one.ended.at >= facts.limits.oom_told):
            continue
        limit = f", out of memory at its limit of {size(one.memory_limit)}" if one.memory_limit is not None else ", out of memory"
        when = "" if one.ended.at is None else f" {age(facts.now - one.ended.at)} ago"
        again = f"; restarted {plural(one.restarts, 'time')} so far" if one.restarts else ""
        fresh = one.ended.at is not None and facts.now - one.ended.at < facts.limits.oom_fresh
        text = f"The kernel killed container {clean(one.name)} of pod {clean(pod.name)}{when}{limit}{again}"
        remedy = "raise `resources.limits.memory` of its group in the RayCluster, or reduce the memory of what runs there"
        found = _pod_finding(facts, "pod-oom-killed", _title(pod, one), text, remedy, [pod], "critical" if fresh else "warning")
        yield replace(found, since=one.ended.at)


@rests_on("kubernetes")
def crashing_containers(facts: Facts) -> Iterator[Finding]:
    """What the kubelet starts again and again; one that was killed for lack of memory is told as that."""
    limits = facts.limits
    for pod, one in _containers(facts):
        ended = one.ended
        lately = ended is not None and ended.at is not None and facts.now - ended.at <= limits.restarts_within
        if (ended and ended.reason == OOM) or not (one.waiting == CRASHES or (lately and one.restarts >= limits.restarts)):
            continue
        code = "" if ended is None or ended.exit_code is None else f", exit code {ended.exit_code}"
        how = "" if ended is None else f", the last time with {ended.reason or 'no reason given'}{code}"
        text = (
            f"Container {clean(one.name)} of pod {clean(pod.name)} is in a restart loop: "
            f"it has ended {plural(one.restarts, 'time')}{clean(how)}"
        )
        remedy = f"read its last log: `kubectl logs -p -n {_cluster(facts).namespace} {clean(pod.name)} -c {clean(one.name)}`"
        found = _pod_finding(facts, "pod-crash-loop", _title(pod, one), text, remedy, [pod])
        yield replace(found, since=ended.at if ended else None)


def _title(pod: Pod, container: Container) -> str:
    """The pod's name last: where there is no room its end is kept."""
    return clean(f"container {container.name} of pod {pod.name}")


@rests_on("kubernetes", "ray.nodes")
def leaving_pods(facts: Facts) -> Iterator[Finding]:
    """Kubernetes takes a pod away, or has evicted it."""
    alive = {node.ip for node in facts.living_nodes}
    for pod in _pods(facts):
        if pod.phase == "Failed" and pod.reason is not None:
            text = f"Kubernetes has ended pod {clean(pod.name)}: {_short(pod.reason)}"
            events = f"`kubectl get events -n {_cluster(facts).namespace} --field-selector involvedObject.name={clean(pod.name)}`"
            remedy = f"see why in {events}; a training job without checkpoints starts from the beginning"
        elif pod.ip in alive and (pod.ends is not None or pod.why_ends is not None):
            left = "" if pod.ends is None else f", within {age(pod.ends - facts.now)}"
            why = _short(pod.why_ends or "somebody has deleted it")
            text = f"Kubernetes is deleting pod {clean(pod.name)}{left}, with everything in it: {why}"
            remedy = "save a checkpoint if there is time; KubeRay creates another pod, with an empty disk"
        else:
            continue
        yield _pod_finding(facts, "pod-leaving", clean(pod.name), text, remedy, [pod])


@rests_on("kubernetes")
def missing_pods(facts: Facts) -> Iterator[Finding]:
    """The RayCluster is to have more workers than it has pods for: what waits as a pod is told as that."""
    cluster = facts.snapshot.kubernetes
    if cluster is None or cluster.wanted is None or cluster.pods is None or cluster.state == "suspended" or facts.has_fault(SOURCE):
        return
    there = sum(not pod.head and pod.ends is None and pod.phase not in ("Failed", "Succeeded") for pod in cluster.pods)
    if there >= cluster.wanted or facts.seconds_lasting("pods missing", cluster.title) < facts.limits.node_missing:
        return
    why = f": {_short(cluster.trouble)}" if cluster.trouble else ", and KubeRay gives no reason"
    yield Finding(
        code="raycluster-short",
        level="warning",
        subject=f"RayCluster {clean(cluster.title)}",
        text=f"RayCluster {clean(cluster.title)} wants {plural(cluster.wanted, 'worker')}, "
        f"but only {there} {'has' if there == 1 else 'have'} a pod{why}",
        evidence=(f"`kubectl describe raycluster -n {cluster.namespace} {cluster.name}` shows its events",),
        remedy=Remedy("if a quota is named, raise it or ask for fewer workers; if no reason is given, check that KubeRay's operator runs"),
    )


@rests_on("kubernetes", "ray.jobs")
def wrong_rayjobs(facts: Facts) -> Iterator[Finding]:
    """A RayJob and Ray say opposite things of the same job (kuberay's issues 4217 and 3903)."""
    cluster, jobs = facts.snapshot.kubernetes, facts.snapshot.jobs
    if cluster is None or jobs is None or any(map(facts.has_fault, (SOURCE, "ray.jobs", "ray.identity"))):
        return
    by_id = {name: job for job in jobs for name in (job.id, job.submission) if name}
    for one in cluster.jobs or ():
        told = _contradiction(one, by_id) if one.submission else None
        if told is not None and facts.seconds_lasting("rayjob differs", one.name) >= facts.limits.rayjob_differs:
            yield _rayjob_finding(cluster, one, by_id.get(one.submission), *told)


def _contradiction(one: RayJob, jobs: Mapping[str, Job]) -> tuple[str, str] | None:
    """What Ray says instead, and what to do; `None`: they agree."""
    job = jobs.get(one.submission)
    watched = one.status == "RUNNING" and one.deployment in UNDER_WAY
    if watched and job is None:
        return "Ray knows no such job", (
            "its head was probably restarted and has lost the job: delete the RayJob, and apply it again; "
            "KubeRay 1.5 and later fails such a RayJob by itself"
        )
    if job is None:
        return None
    if watched and job.status in ENDED_STATES:
        return f"Ray reports {clean(job.status)}", "read the job's log; KubeRay ends the RayJob as soon as its operator can ask Ray again"
    if one.deployment in OVER and job.running:
        return f"Ray still runs it ({clean(job.status)})", f"stop job {clean(job.id)} if nobody needs it: it holds its GPUs"
    return None


def _rayjob_finding(cluster: RayCluster, one: RayJob, job: Job | None, instead: str, remedy: str) -> Finding:
    said = one.deployment if one.deployment in OVER else one.status
    return Finding(
        code="rayjob-contradicts",
        level="warning",
        subject=f"RayJob {clean(one.name)}",
        text=f"RayJob {clean(one.name)} reports job {clean(one.submission)} as {clean(said)}, but {instead}",
        evidence=(
            f"`kubectl get rayjob -n {cluster.namespace} {clean(one.name)}`: {clean(one.status) or '–'}, {clean(one.deployment) or '–'}",
            *((_short(one.message),) if one.message else ()),
        ),
        remedy=Remedy(remedy, "stop-job" if job is not None and job.running else None),
        about=(job.key,) if job is not None else (),
    )


def _cluster(facts: Facts) -> RayCluster:
    """Asked of only where it has pods."""
    return facts.snapshot.kubernetes or RayCluster("", "")


def _pods(facts: Facts) -> tuple[Pod, ...]:
    """Those of the last answer; while Kubernetes is silent nothing new follows from them."""
    return () if facts.has_fault(SOURCE) else _cluster(facts).pods or ()


def _containers(facts: Facts) -> Iterator[tuple[Pod, Container]]:
    return ((pod, container) for pod in _pods(facts) for container in pod.containers)


def _names(pods: list[Pod]) -> str:
    if len(pods) == 1:
        return f"Pod {clean(pods[0].name)}"
    return f"{len(pods)} pods of {f'group {clean(pods[0].group)}' if pods[0].group else 'the head'}"


def _short(text: str) -> str:
    said = clean(" ".join(text.split())).rstrip(".")
    return said if len(said) <= MAX_TEXT_CHARS else f"{said[: MAX_TEXT_CHARS - 1]}…"


def _evidence(facts: Facts, pods: list[Pod]) -> tuple[str, ...]:
    namespace = _cluster(facts).namespace
    lines = [f"`kubectl describe pod -n {namespace} {clean(pod.name)}`: {_state(pod)}" for pod in pods[:MAX_NAMED]]
    return (*lines, *([f"and {len(pods) - MAX_NAMED} more"] if len(pods) > MAX_NAMED else []))


def _state(pod: Pod) -> str:
    each = [f"{one.name} {one.waiting or 'up'}, {plural(one.restarts, 'restart')}" for one in pod.containers]
    return clean("; ".join([pod.phase or "no phase", *each]))
