"""How grave a plan is: what live work ends with it, and which word must then be typed before it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cockpit.actions import losses
from cockpit.actions.plan import Plan, Target
from cockpit.actions.table import find_act
from cockpit.model import LEFT_OVER, Snapshot

Weight = tuple[tuple[str, ...], str | None]


def weigh(snapshot: Snapshot, plan: Plan, addresses: Mapping[str, str]) -> Weight:
    """Sentences, and the word; `None` when a plain yes will do. Ray may know a host by its address (`addresses`, by name) alone."""
    verb = find_act(plan.act).verb
    if verb == "stop" and plan.targets:
        return _stopped(snapshot, plan, addresses)
    return _SCALES[verb](snapshot, plan) if verb in _SCALES and plan.targets else ((), None)


def _killed(snapshot: Snapshot, plan: Plan) -> Weight:
    alive = [target for target in plan.targets if target.kind not in LEFT_OVER]
    keys = {(target.host, target.pid, target.ticks) for target in alive}
    processes = [one for one in snapshot.processes or () if (one.host, one.pid, one.ticks) in keys]
    return losses.lost_with_processes(snapshot, processes), _name_of_work(snapshot, alive)


def _name_of_work(snapshot: Snapshot, targets: Sequence[Target]) -> str | None:
    """The job of the first of them, else its session; a process of nobody's here is named by its pid."""
    for target in targets:
        job = next((job.id for job in snapshot.jobs or () if target.job and target.job in (job.job, job.submission)), target.job)
        return job or (target.session if target.kind == "ray" else None) or str(target.pid)
    return None


def _stopped(snapshot: Snapshot, plan: Plan, addresses: Mapping[str, str]) -> Weight:
    hosts = {target.host for target in plan.targets}
    if snapshot.cluster.session not in {target.session for target in plan.targets}:  # nothing is known here of another Ray
        hosts = set()
    ends = losses.lost_with_session(snapshot, hosts | {addresses[host] for host in hosts if host in addresses})
    if any(target.beyond for target in plan.targets):
        return ends, "everything"
    at_work = ends or plan.losses or any(target.part in ("driver", "child") for target in plan.targets)
    name = next((target.session for target in plan.targets if target.session), snapshot.cluster.session)
    return ends, (name or "stop") if at_work else None


def _cleaned(snapshot: Snapshot, plan: Plan) -> Weight:  # noqa: ARG001 as its sisters
    named = dict.fromkeys(path for request in plan.requests.values() for path in request.get("dear") or ())
    folders = [target.path for target in plan.targets if target.what == "session" and target.path]
    inside = [path for path in named if any(path.startswith(f"{folder}/") for folder in folders)]
    gone = tuple(f"{path} goes for good, though it looks dear" for path in inside)
    return gone, "dear" if gone else None


def _actor(snapshot: Snapshot, plan: Plan) -> Weight:
    ends = tuple(dict.fromkeys(line for target in plan.targets for line in losses.lost_with_actor(snapshot, target.id or "")))
    (target, *others) = plan.targets
    return ends, f"{len(plan.targets)} actors" if others else target.name or target.class_ or (target.id or "")[:8]


def _group(snapshot: Snapshot, plan: Plan) -> Weight:
    ends = {target: losses.lost_with_group(snapshot, target.id or "") for target in plan.targets}
    used = [target for target, lines in ends.items() if lines and not target.leaked]
    all_ends = tuple(dict.fromkeys(line for lines in ends.values() for line in lines))
    if not used or len(plan.targets) > 1:
        return all_ends, f"{len(plan.targets)} groups" if used else None
    return all_ends, used[0].name or (used[0].id or "")[:8]


def _job(snapshot: Snapshot, plan: Plan) -> Weight:
    (target, *_) = plan.targets
    return losses.lost_with_job(snapshot, target.id or ""), target.id


_SCALES: Mapping[str, Callable[[Snapshot, Plan], Weight]] = {
    "kill": _killed,
    "clean": _cleaned,
    "kill_actor": _actor,
    "remove_placement_group": _group,
    "stop_job": _job,
}
