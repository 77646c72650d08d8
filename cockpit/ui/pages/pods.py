"""The pod that a node is, as Kubernetes tells of it: its phase and group, its containers with their restarts, and why it waits or ends."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model import Container, Node, Pod
from cockpit.text import age, plural, size
from cockpit.ui import cells
from cockpit.ui.section import Pairs
from cockpit.ui.view import View


def pod_facts(node: Node, view: View) -> Pairs:
    """What people ask `kubectl describe pod` for; of a past moment only the name is known."""
    pod = _find_pod(node, view)
    if pod is None:
        yield from [("pod", node.pod)] if node.pod is not None else ()
        return
    yield "pod", f"{pod.name}  {_role(pod)}"
    yield "pod phase", f"{pod.phase or 'unknown'}, {_age_words(pod, view)}"
    if pod.unscheduled or pod.reason:
        yield "pod waits" if pod.phase == "Pending" else "pod message", _one_line(pod.unscheduled or pod.reason)
    if pod.ends is not None or pod.why_ends is not None:
        left = "" if pod.ends is None else f"within {age(pod.ends - view.now)}: "
        yield "pod ends", f"{left}{_one_line(pod.why_ends or 'somebody has deleted it')}"
    for container in pod.containers:
        yield "container", ", ".join(_container_words(container, view))


def _find_pod(node: Node, view: View) -> Pod | None:
    """Its address proves it while it lives; of a dead node the pod is found that has its name, which no other gets."""
    cluster = view.snapshot.kubernetes
    pods = (cluster.pods if cluster else None) or ()
    return next((pod for pod in pods if pod.name == (node.pod or node.host)), None)


def _role(pod: Pod) -> str:
    return "head" if pod.head else f"worker of group {pod.group}" if pod.group else "worker"


def _age_words(pod: Pod, view: View) -> str:
    made = "creation time unknown" if pod.created is None else f"created {cells.ago(pod.created, view)} ago"
    return f"{made}; Kubernetes was polled {cells.ago(view.snapshot.as_of.get('kubernetes'), view)} ago"


def _container_words(one: Container, view: View) -> Iterator[str]:
    yield one.name
    if one.waiting is not None:
        yield f"waits: {_one_line(': '.join(filter(None, (one.waiting, one.message))))}"
    yield plural(one.restarts, "restart")
    if one.ended is not None:
        code = "" if one.ended.exit_code is None else f" (exit code {one.ended.exit_code})"
        when = "" if one.ended.at is None else f" {cells.ago(one.ended.at, view)} ago"
        yield f"last ended{when}: {one.ended.reason or 'no reason given'}{code}"
    if one.memory_limit is not None:
        yield f"memory limit {size(one.memory_limit)}"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
