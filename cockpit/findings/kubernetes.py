"""Detects what only Kubernetes knows of a Ray cluster: pods that wait, were killed or are being deleted, and contradicting RayJobs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from cockpit.findings.actors import ENDED_STATES
from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Container, Finding, Level, Pod, RayCluster, Remedy
from cockpit.text import age, clean, plural, size

MAX_NAMED, MAX_TEXT_CHARS = 6, 300
"""Pods in the evidence; characters of a message of Kubernetes."""
SOURCE = "kubernetes"
IMAGE_REASONS = frozenset(["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"])
"""Reasons of a container that waits for its image (pkg/kubelet/images/types.go)."""
CRASHES = "CrashLoopBackOff"
OOM = "OOMKilled"
BEGINNING = ("", "ContainerCreating", "PodInitializing")
OVER = ("Complete", "Failed")
UNDER_WAY = ("", "Running")
"""Deployment statuses of a RayJob whose job KubeRay watches."""


@rests_on("kubernetes")
def waiting_pods(facts: Facts) -> Iterator[Finding]:
    """Pods that no node has room for, or whose image can't be pulled; one finding for pods that wait for the same reason."""
    by_reason: dict[tuple[str, str], list[Pod]] = {}
    for pod in _pods(facts):
        if pod.phase != "Pending" or pod.ends is not None:
            continue
        image = next((one for one in pod.containers if one.waiting in IMAGE_REASONS), None)
        stuck = next((one for one in pod.containers if one.waiting is not None and one.waiting not in BEGINNING), None)
        is_early = pod.created is None or facts.now - pod.created < facts.limits.waiting_long
        if image is not None:
            by_reason.setdefault(("pod-image", image.message or image.waiting or ""), []).append(pod)
        elif pod.unscheduled is not None and not is_early:
            by_reason.setdefault(("pod-pending", pod.unscheduled), []).append(pod)
        elif stuck is not None and not is_early:
            by_reason.setdefault(("pod-pending", ": ".join(filter(None, (stuck.waiting, stuck.message)))), []).append(pod)
    for (code, why), pods in by_reason.items():
        first = min(pods, key=lambda pod: (pod.created or facts.now, pod.name))
        one = len(pods) == 1
        if code == "pod-image":
            what = f"can't get {'its' if one else 'their'} image"
            remedy = "correct `image` or `imagePullSecrets` in the RayCluster, or push the image"
        else:
            what = f"{'waits' if one else 'wait'} to be started"
            remedy = "free what is missing, add nodes, or ask for less in the RayCluster; Ray does not know a pod before it runs"
        group = f"group {clean(pods[0].group)}" if pods[0].group else "the head"
        who = f"Pod {clean(pods[0].name)}" if one else f"{len(pods)} pods of {group}"
        found = _pod_finding(facts, code, f"pod {clean(first.name)}", f"{who} {what}: {_short(why)}", remedy, pods)
        yield replace(found, since=first.created, about=())


def _pod_finding(facts: Facts, code: str, subject: str, text: str, remedy: str, pods: list[Pod], level: Level = "warning") -> Finding:
    addresses = {pod.ip for pod in pods if pod.ip}
    about = tuple(node.key for node in facts.living_nodes if node.ip in addresses)
    evidence: list[str] = []
    for pod in pods[:MAX_NAMED]:
        containers = [f"{one.name} {one.waiting or 'up'}, {plural(one.restarts, 'restart')}" for one in pod.containers]
        state = clean("; ".join([pod.phase or "no phase", *containers]))
        evidence.append(f"`kubectl describe pod -n {_cluster(facts).namespace} {clean(pod.name)}`: {state}")
    if len(pods) > MAX_NAMED:
        evidence.append(f"and {len(pods) - MAX_NAMED} more")
    return Finding(code, level, subject, text, tuple(evidence), remedy=Remedy(remedy), about=about)


@rests_on("kubernetes")
def killed_containers(facts: Facts) -> Iterator[Finding]:
    """Containers whose first process the kernel killed for lack of memory: Ray only sees that the node died, without a reason."""
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
    """Containers that the kubelet restarts again and again, except those killed for lack of memory."""
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
    """The subject of a finding. The pod's name comes last: a narrow column keeps the end."""
    return clean(f"container {container.name} of pod {pod.name}")


@rests_on("kubernetes", "ray.nodes")
def leaving_pods(facts: Facts) -> Iterator[Finding]:
    """Pods that Kubernetes deletes or has evicted."""
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
    """A RayCluster wants more workers than it has pods. Pods that exist and wait are another finding."""
    cluster = facts.snapshot.kubernetes
    if cluster is None or cluster.wanted is None or cluster.pods is None or cluster.state == "suspended" or facts.has_fault(SOURCE):
        return
    there = sum(not pod.head and pod.ends is None and pod.phase not in ("Failed", "Succeeded") for pod in cluster.pods)
    if there >= cluster.wanted or facts.seconds_lasting("pods missing", cluster.title) < facts.limits.node_missing:
        return
    why = f": {_short(cluster.trouble)}" if cluster.trouble else ", and KubeRay gives no reason"
    title, wanted, have = f"RayCluster {clean(cluster.title)}", plural(cluster.wanted, "worker"), "has" if there == 1 else "have"
    evidence = (f"`kubectl describe raycluster -n {cluster.namespace} {cluster.name}` shows its events",)
    remedy = "if a quota is named, raise it or ask for fewer workers; if no reason is given, check that KubeRay's operator runs"
    text = f"{title} wants {wanted}, but only {there} {have} a pod{why}"
    yield Finding("raycluster-short", "warning", title, text, evidence, remedy=Remedy(remedy))


@rests_on("kubernetes", "ray.jobs")
def wrong_rayjobs(facts: Facts) -> Iterator[Finding]:
    """RayJobs and Ray that report opposite statuses of the same job (KubeRay's issues 4217 and 3903)."""
    cluster, jobs = facts.snapshot.kubernetes, facts.snapshot.jobs
    if cluster is None or jobs is None or any(map(facts.has_fault, (SOURCE, "ray.jobs", "ray.identity"))):
        return
    by_id = {name: job for job in jobs for name in (job.id, job.submission) if name}
    for one in cluster.jobs or ():
        job = by_id.get(one.submission)
        is_watched = one.status == "RUNNING" and one.deployment in UNDER_WAY
        if not one.submission:
            continue
        if is_watched and job is None:
            instead = "Ray knows no such job"
            remedy = (
                "its head was probably restarted and has lost the job: delete the RayJob, and apply it again; "
                "KubeRay 1.5 and later fails such a RayJob by itself"
            )
        elif is_watched and job and job.status in ENDED_STATES:
            instead = f"Ray reports {clean(job.status)}"
            remedy = "read the job's log; KubeRay ends the RayJob as soon as its operator can ask Ray again"
        elif one.deployment in OVER and job and job.running:
            instead = f"Ray still runs it ({clean(job.status)})"
            remedy = f"stop job {clean(job.id)} if nobody needs it: it holds its GPUs"
        else:
            continue
        if facts.seconds_lasting("rayjob differs", one.name) < facts.limits.rayjob_differs:
            continue
        name, status = f"RayJob {clean(one.name)}", one.deployment if one.deployment in OVER else one.status
        listed = f"{clean(one.status) or '–'}, {clean(one.deployment) or '–'}"
        text = f"{name} reports job {clean(one.submission)} as {clean(status)}, but {instead}"
        evidence = [f"`kubectl get rayjob -n {cluster.namespace} {clean(one.name)}`: {listed}"]
        evidence += [_short(one.message)] if one.message else []
        stop = Remedy(remedy, "stop-job" if job is not None and job.running else None)
        about = (job.key,) if job is not None else ()
        yield Finding("rayjob-contradicts", "warning", name, text, tuple(evidence), remedy=stop, about=about)


def _cluster(facts: Facts) -> RayCluster:
    """The RayCluster; without Kubernetes one without pods."""
    return facts.snapshot.kubernetes or RayCluster("", "")


def _pods(facts: Facts) -> tuple[Pod, ...]:
    """The pods; none while Kubernetes does not answer."""
    return () if facts.has_fault(SOURCE) else _cluster(facts).pods or ()


def _containers(facts: Facts) -> Iterator[tuple[Pod, Container]]:
    return ((pod, container) for pod in _pods(facts) for container in pod.containers)


def _short(text: str) -> str:
    line = clean(" ".join(text.split())).rstrip(".")
    return line if len(line) <= MAX_TEXT_CHARS else f"{line[: MAX_TEXT_CHARS - 1]}…"
