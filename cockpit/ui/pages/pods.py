"""Lists the facts of the Kubernetes pod that a node runs in: phase, group, containers with restarts, and why it waits or ends."""

from __future__ import annotations

from cockpit.model import Container, Node
from cockpit.text import age, plural, size
from cockpit.ui import cells
from cockpit.ui.section import Pairs
from cockpit.ui.view import View


def pod_facts(node: Node, view: View) -> Pairs:
    """What people ask `kubectl describe pod` for; of a recorded moment only the name is known."""
    cluster = view.snapshot.kubernetes
    # The address proves which pod a living node is. The pod of a dead node is found by its name, which no other pod gets.
    pods = (cluster.pods if cluster else None) or ()
    pod = next((pod for pod in pods if pod.name == (node.pod or node.host)), None)
    if pod is None:
        if node.pod is not None:
            yield "pod", node.pod
        return
    yield "pod", f"{pod.name}  {'head' if pod.head else f'worker of group {pod.group}' if pod.group else 'worker'}"
    created = "creation time unknown" if pod.created is None else f"created {cells.time_since(pod.created, view)} ago"
    polled = f"Kubernetes was polled {cells.time_since(view.snapshot.as_of.get('kubernetes'), view)} ago"
    yield "pod phase", f"{pod.phase or 'unknown'}, {created}; {polled}"
    if pod.unscheduled or pod.reason:
        yield "pod waits" if pod.phase == "Pending" else "pod message", _one_line(pod.unscheduled or pod.reason)
    if pod.ends is not None or pod.why_ends is not None:
        left = "" if pod.ends is None else f"within {age(pod.ends - view.now)}: "
        yield "pod ends", f"{left}{_one_line(pod.why_ends or 'somebody has deleted it')}"
    for container in pod.containers:
        yield "container", _container_words(container, view)


def _container_words(container: Container, view: View) -> str:
    words = [container.name]
    if container.waiting is not None:
        words.append(f"waits: {_one_line(': '.join(filter(None, (container.waiting, container.message))))}")
    words.append(plural(container.restarts, "restart"))
    if ended := container.ended:
        code = "" if ended.exit_code is None else f" (exit code {ended.exit_code})"
        when = "" if ended.at is None else f" {cells.time_since(ended.at, view)} ago"
        words.append(f"last ended{when}: {ended.reason or 'no reason given'}{code}")
    if container.memory_limit is not None:
        words.append(f"memory limit {size(container.memory_limit)}")
    return ", ".join(words)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
