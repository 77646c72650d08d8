"""Adds to the reason of a failed job what the cluster shows now: who has the port or the name, who holds the memory, what is full."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from cockpit.findings.disks import SHM
from cockpit.findings.facts import Facts
from cockpit.findings.failures import known_part
from cockpit.findings.gpus import has_hardware_xid
from cockpit.findings.memory_trend import plausible_bytes
from cockpit.findings.port_ranges import count_ports, write_ranges
from cockpit.findings.ports import find_wanted_port, port_in
from cockpit.findings.versions import our_rays
from cockpit.model import Failure, Host, Job, Node, OomKill, Process
from cockpit.text import age, clean, join_first, plural, share_percent, size

MAX_COMMAND_CHARS: Final = 100
"""Of the command of a process."""
MAX_NAMED: Final = 3
KILL_BEFORE_S: Final = 300.0
"""A kill so many seconds before the failure may be its cause."""
KILL_AFTER_S: Final = 30.0
"""The clocks of hosts differ, and Ray notices an end late."""
KILLS_KEPT_S: Final = 3600.0
"""Probes report the kills of the last hour."""
SMALL_BYTES: Final = 1 << 30
"""Memory of a GPU that its driver may hold by itself."""


class AddedFacts(msgspec.Struct, frozen=True):
    """What the cluster's present state adds to a failure."""

    evidence: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    """Keys of the things that the action takes."""
    action: str | None = None
    words: str = ""
    """What follows the reason in the sentence."""


def added_facts(facts: Facts, job: Job, failure: Failure) -> AddedFacts:
    """The facts about the things that the error names.

    A log is only a text, which any user may have written: an action is offered only if its target is found in the cluster itself.
    """
    if failure.look_up == "port" or (failure.look_up is None and known_part(failure, ("port",))):
        return _port_facts(facts, job, failure)
    if failure.look_up == "actor-name":
        return _name_facts(facts, failure)
    node = facts.index.nodes.get(failure.node or "")
    if node is None:
        return AddedFacts()
    if failure.look_up == "oom-kill":
        return _kill_facts(facts, failure, node)
    look = _LOOK_UPS.get(failure.look_up or "")
    lines = tuple(look(facts, failure, node)) if look else ()
    about = _targets(facts, failure, node)
    return AddedFacts(lines, about, failure.action if about else None)


def _targets(facts: Facts, failure: Failure, node: Node) -> tuple[str, ...]:
    """The things on that node that the action of the row takes; empty: none is proven."""
    if failure.action == "kill-orphans":
        here = facts.index.processes_by_node.get(node.key, ())
        left = [each for each in here if each.left_over and each.ticks is not None]
        if failure.look_up == "gpu-memory":
            # Only what held memory before the job failed, of its own GPUs where these are known.
            left = [each for each in left if any(not failure.gpus or hold.index in failure.gpus for hold in each.gpus)]
            left = [each for each in left if each.started is not None and failure.moment is not None and each.started < failure.moment]
        return tuple(each.key for each in left)
    if failure.action == "clean":
        host = facts.index.host_of(node)
        return tuple(session.key for session in (host.sessions or () if host else ()) if session.live is False)
    if failure.action == "drain-node":
        is_worker = node.id is not None and not node.head and node.state == "ALIVE"
        return (node.key,) if is_worker and _has_bad_gpu(facts, node) else ()
    return ()


def _has_bad_gpu(facts: Facts, node: Node) -> bool:
    """Whether NVML fails there, or reports a fault of a GPU: a text in a log is no reason to take a node away."""
    host, gpus = facts.index.host_of(node), facts.index.machine(node).gpus or ()
    if host is not None and any(fault.source == "nvml" and fault.host == host.name for fault in facts.snapshot.faults):
        return True
    return any(gpu.fault or gpu.recovery or gpu.remap or gpu.ecc or has_hardware_xid(gpu) for gpu in gpus)


def _port_facts(facts: Facts, job: Job, failure: Failure) -> AddedFacts:
    """The processes that now listen on the port that the job needed, as far as known; else a command that shows them."""
    port, wanted = port_in(failure), find_wanted_port(job, facts.snapshot)
    if port is None:
        return AddedFacts()
    answer = next((one for one in facts.snapshot.ports if wanted and (one.host, one.port) == (wanted.host, wanted.port)), None)
    if wanted is None or answer is None or answer.listeners is None:
        return AddedFacts((f"`ss -ltnp 'sport = :{port}'` on the node where it failed shows who has port {port} now",))
    place = clean(facts.titles.of_host(wanted.host))
    lines: list[str] = []
    about: list[str] = []
    is_left_over = False
    for one in answer.listeners:
        listed = facts.index.processes_by_host.get(wanted.host, ())
        known = next((each for each in listed if each.pid == one.pid and one.ticks is not None and each.ticks == one.ticks), None)
        if known is not None:
            about.append(known.key)
            is_left_over = is_left_over or known.left_over
        user = clean(one.user or "")[:40]
        who = f"process {one.pid}{f' of {user}' if user else ''}" if one.pid else f"a process of {user or 'another user'}"
        ray = clean(", ".join(filter(None, (known.kind, known.session)))) if known else ""
        what = f"{f' ({ray})' if ray else ''}{_command_words(one.command)}"
        lines.append(f"{who} listens on port {wanted.port} of {place} now{what}")
    lines = lines or [f"nothing listens on port {wanted.port} of {place} now (containers not checked)"]
    return AddedFacts(tuple(lines), tuple(about), "kill-orphans" if is_left_over else None)


def _name_facts(facts: Facts, failure: Failure) -> AddedFacts:
    """The living actors that have the name; it can be killed if it is the only one, detached, and of no job that runs."""
    name, namespace = known_part(failure, ("name", "actor_name")), known_part(failure, ("namespace",))
    if facts.snapshot.actors is None or not name:
        return AddedFacts()
    having = [
        actor
        for actor in facts.snapshot.actors
        if actor.name == name and actor.state != "DEAD" and not actor.internal and (not namespace or actor.namespace == namespace)
    ]
    lines = [
        f"actor {clean(name)[:80]} is {clean(actor.state)} now{', detached' if actor.detached else ''}, of job {facts.job_title(actor.job)}"
        f"{f', in namespace {clean(actor.namespace)[:80]}' if actor.namespace else ''}"
        for actor in having[:MAX_NAMED]
    ]
    if not having and facts.snapshot.actors_complete:
        lines.append(f"no living actor has the name {clean(name)[:80]} now")
    is_proven = failure.action == "kill-actor" and len(having) == 1 and having[0].detached is True and bool(facts.snapshot.actors_complete)
    # The name comes from a log: an actor of a job that runs is in use, whatever the log says.
    creator = facts.index.jobs.get(having[0].job or "") if is_proven else None
    is_proven = is_proven and not (creator is not None and creator.running)
    return AddedFacts(tuple(lines), tuple(actor.key for actor in having) if is_proven else (), "kill-actor" if is_proven else None)


def _kill_facts(facts: Facts, failure: Failure, node: Node) -> AddedFacts:
    """Kills by the kernel or by Ray on that node shortly before the failure; or that none is known."""
    if failure.moment is None:
        return AddedFacts()
    title, host, moment = clean(facts.title(node)), facts.index.host_of(node), failure.moment
    near = [
        kill
        for kill in facts.snapshot.oom_kills or ()
        if kill.moment is not None
        and moment - KILL_BEFORE_S <= kill.moment <= moment + KILL_AFTER_S
        and (kill.node == node.id if kill.node else host is not None and kill.host == host.name)
    ]
    near.sort(key=lambda kill: -(kill.moment or 0.0))
    if near:
        lines = tuple(_kill_words(kill, title, moment) for kill in near[:MAX_NAMED])
        return AddedFacts(lines, (node.key,), words=f"; {lines[0]}")
    # Kills of an hour are kept: about older failures nothing is known. What a probe saw before the failure says nothing about it.
    is_too_early = host is None or host.oom_kills is None or (host.taken or 0.0) < moment
    if is_too_early or facts.now - moment > KILLS_KEPT_S - KILL_BEFORE_S:
        unknown = f"whether the kernel or Ray killed a process on {title} at that time is unknown"
        return AddedFacts((unknown,))
    return AddedFacts(
        (f"no kill by the kernel or by Ray is known on {title} in the {age(KILL_BEFORE_S)} before it failed",),
        words=f" (no kernel or Ray kill is known on {title}: it may be somebody's kill -9, the scheduler, or a container limit)"
        if failure.known is None
        else "",
    )


def _kill_words(kill: OomKill, title: str, moment: float) -> str:
    name = f"{clean(kill.name)[:80]} " if kill.name else ""
    who = f"{name}(pid {kill.pid})" if kill.pid is not None else plural(kill.count, "process", "processes")
    held, limit, used = plausible_bytes(kill.held), plausible_bytes(kill.limit), plausible_bytes(kill.used)
    numbers = [f"it held {size(held)}" if held is not None else "", f"{size(used)} in use" if used is not None else ""]
    numbers.append(f"limit {size(limit)}" if limit is not None else "")
    said = ", ".join(filter(None, numbers))
    seconds = moment - (kill.moment or moment)
    when = f"{age(seconds)} before" if seconds >= 1 else "at that time"
    by = "the kernel" if kill.by == "kernel" else "Ray's memory monitor"
    return f"{by} killed {who} on {title} {when}{f' ({said})' if said else ''}"


def _gpu_lines(facts: Facts, failure: Failure, node: Node) -> Iterator[str]:
    """Who holds memory of the GPUs of that node now."""
    gpus = facts.index.machine(node).current_gpus
    if not gpus:
        return
    title = clean(facts.title(node))
    asked = [gpu for gpu in gpus if gpu.index in failure.gpus] or list(gpus)
    holders = [(gpu, process, hold) for gpu in asked for process, hold in facts.index.gpu_holders.get((node.key, gpu.index), ())]
    holders.sort(key=lambda each: -(each[2].memory or 0))
    for gpu, process, hold in holders[:MAX_NAMED]:
        total = f" of {size(gpu.memory_total)}" if gpu.memory_total else ""
        amount = f"{size(hold.memory)}{total}" if hold.memory is not None else "memory"
        yield f"{_process_words(facts, process)} holds {amount} of {title} GPU {gpu.label} now{_command_words(process.command)}"
    if not holders and all(gpu.memory_used is not None and gpu.memory_used < SMALL_BYTES for gpu in asked):
        yield f"no process holds memory of the GPUs of {title} now"


def _process_words(facts: Facts, process: Process) -> str:
    """`process 12 (job ppo)`, `process 12 (orphan, session_old)`."""
    if process.left_over:
        whose = ", ".join(filter(None, (process.kind, process.session)))
    elif process.job:
        whose = f"job {facts.job_title(process.job)}"
    else:
        whose = process.other_owner or f"{process.kind}{f', of {process.user}' if process.user else ''}"
    return f"process {process.pid} ({clean(whose)[:80]})"


def _command_words(command: str | None) -> str:
    text = clean(" ".join((command or "").split()))[:MAX_COMMAND_CHARS]
    return f": {text}" if text else ""


def _disk_lines(facts: Facts, failure: Failure, node: Node) -> Iterator[str]:
    """The fullest file systems that Ray uses on that node, and the one of the path that the error names."""
    path = known_part(failure, ("path", "place", "file", "directory")) or ""
    title = clean(facts.title(node))
    known = [
        (disk.used / disk.total, disk)
        for disk in facts.index.machine(node).disks
        if disk.total and disk.used is not None and disk.used >= 0
    ]
    known.sort(key=lambda pair: -pair[0])
    # Whether another path lies on the root file system is unknown: only disks that Ray uses are listed.
    own = max(
        (pair for pair in known if pair[1].path != "/" and f"{path}/".startswith(f"{pair[1].path}/")),
        key=lambda pair: len(pair[1].path),
        default=None,
    )
    for share, disk in dict.fromkeys([*([own] if own else []), *known[: MAX_NAMED - 1]]):
        left = max(0, (disk.total or 0) - (disk.used or 0))
        yield f"{clean(disk.path)} on {title} is {share_percent(share)} full now ({size(left)} of {size(disk.total)} left)"


def _shm_lines(facts: Facts, _: Failure, node: Node) -> Iterator[str]:
    """The size and use of /dev/shm there, and its largest users."""
    title, shm, host = clean(facts.title(node)), facts.index.machine(node).shm, facts.index.host_of(node)
    if shm.total is None or shm.used is None:
        return
    users = sorted((host.shm_users or ()) if host else (), key=lambda user: -user.size)[:MAX_NAMED]
    held = ", ".join(f"{clean(user.user or 'an unknown user')[:40]} {size(user.size)}" for user in users)
    yield f"{SHM} on {title} has {size(shm.used)} of {size(shm.total)} in use now{f': {held}' if held else ''}"


def _port_range_lines(facts: Facts, _: Failure, node: Node) -> Iterator[str]:
    """How many ports the raylet there gives to its workers."""
    for _host, ray in our_rays(facts, facts.fresh_hosts):
        if ray.role == "raylet" and ray.node == node.id and ray.ports is not None:
            ranges = ray.ports.workers
            has = (
                f"{plural(count_ports(ranges), 'port')} for workers ({write_ranges(ranges)})" if ranges else "any free port for its workers"
            )
            yield f"the raylet on {clean(facts.title(node))} has {has}"


def _driver_lines(facts: Facts, _: Failure, node: Node) -> Iterator[str]:
    """The version of the driver there, and the nodes with another one."""
    here = facts.index.host_of(node)
    if here is None or not here.driver or here not in facts.fresh_hosts:
        return
    others: dict[str, dict[str, Host]] = defaultdict(dict)
    for host, ray in our_rays(facts, facts.fresh_hosts):
        if ray.role == "raylet" and host.driver and host.driver != here.driver:
            others[host.driver][host.name] = host
    named = [
        f"{join_first([clean(facts.host_title(host)) for host in hosts.values()])}: {clean(driver)[:40]}"
        for driver, hosts in others.items()
    ]
    different = f"; other nodes differ: {'; '.join(named[:MAX_NAMED])}" if named else ""
    yield f"the NVIDIA driver of {clean(facts.title(node))} is {clean(here.driver)[:40]}{different}"


def _store_lines(facts: Facts, _: Failure, node: Node) -> Iterator[str]:
    """The size and use of the object store there."""
    store = node.object_store
    if store.total:
        used = f"{size(store.used)} of {size(store.total)} in use now" if store.used is not None else f"a size of {size(store.total)}"
        yield f"the object store of {clean(facts.title(node))} has {used}"


_LOOK_UPS: Final[Mapping[str, Callable[[Facts, Failure, Node], Iterator[str]]]] = {
    "gpu-memory": _gpu_lines,
    "disk": _disk_lines,
    "shm": _shm_lines,
    "worker-ports": _port_range_lines,
    "driver": _driver_lines,
    "object-store": _store_lines,
}
