"""Sources that fail where they matter: NVML of a node, the probe of a host, parts of what it reads, and lists of the dashboard."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite

from cockpit.alike import group_by
from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Fault, Finding, Host, Level, Node, Remedy
from cockpit.text import age, clean, count, join_first

NVML_CODE, PROBE_CODE, SOURCE_CODE = "gpus-unseen", "host-unseen", "source-failing"
MAX_NAMES, MAX_TEXT = 4, 200
DRAIN = "drain the node until then (`cockpit drain-node {}`)"
RELOAD = "`rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia`"
NVML_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        "version mismatch",
        "driver and library versions differ: the driver was upgraded while it was loaded",
        f"reboot the host, or end all GPU processes there and reload the driver ({RELOAD}); {DRAIN}",
    ),
    (
        "unknown error",
        "unknown error, as in a container that has lost its GPU devices",
        f"in a container: restart it; on a host: `dmesg | grep -i nvrm` shows why, then reset the GPU or reboot; {DRAIN}",
    ),
    (
        "has not answered",
        "the driver does not answer",
        f"`dmesg | grep -i -e nvrm -e xid` shows why; if the driver hangs, only a reboot helps; {DRAIN}",
    ),
    (
        "not loaded",
        "the driver is not loaded",
        f"load the driver (`modprobe nvidia`; `dmesg | grep -i nvrm` shows why it failed); {DRAIN}",
    ),
    (
        "not found",
        "the driver's library is not there",
        f"install the driver's user-space library of the version in /proc/driver/nvidia/version; {DRAIN}",
    ),
)
"""Words of NVML's own error texts (nvmlErrorString, nvml.h), the cause in words, and what to do; `{}` is the node."""
OTHER_NVML_REMEDY = f"run `nvidia-smi` there, and see `dmesg | grep -i nvrm`; reset the GPU or reboot; {DRAIN}"
NO_PYNVML = "pynvml is missing"
SLOW_WORDS = ("so it is read only every", "are not listed (too many)")
"""Of faults that say that less is read, or less often: nothing is broken."""
WHAT = {
    "processes": "its processes",
    "memory": "its host memory",
    "shm": "its /dev/shm",
    "sessions": "its Ray sessions",
    "disks": "its disks",
    "rays": "its Ray processes",
    "temps": "its Ray temp dirs",
    "logs": "its Ray logs",
    "ray.nodes": "nodes",
    "ray.actors": "actors",
    "ray.placement_groups": "placement groups",
    "ray.jobs": "jobs",
    "ray.oom": "workers that Ray's memory monitor killed",
    "ray.status": "used and pending resources",
}
HOST_REMEDIES = {
    "disks": "a disk that does not answer is mostly a network file system whose server is gone: `cat /proc/mounts`, `stat -f PATH`; "
    "processes that use it hang until it answers",
}
OTHER_HOST_REMEDY = (
    "look at the host itself: `uptime`, `dmesg | tail`, and processes in state D (`ps -eo state,pid,wchan:32,cmd | grep ^D`)"
)


@rests_on()
def unseen_gpus(facts: Facts) -> Iterator[Finding]:
    """NVML fails on a host whose GPUs Ray hands out, or on which cockpit has seen GPUs."""
    for host in facts.snapshot.hosts.values():
        fault = next((fault for fault in host.faults if fault.source == "nvml"), None)
        if fault is None or not _has_lasted(facts, fault, facts.limits.gpu_lost_age):
            continue
        nodes = facts.known.index.nodes_on(host)
        offered = sum(map(_offered_gpus, nodes))
        seen = len(facts.known.hosts[host.name].gpus or ())
        if offered or seen:
            yield _unseen_gpus_finding(facts, host, fault, nodes, offered or float(seen), is_offered=offered > 0)


def _unseen_gpus_finding(facts: Facts, host: Host, fault: Fault, nodes: Sequence[Node], gpus: float, *, is_offered: bool) -> Finding:
    name, text = facts.host_title(host), fault.text.lower()
    cause, remedy = next(((cause, remedy) for word, cause, remedy in NVML_CAUSES if word in text), (clean(fault.text), OTHER_NVML_REMEDY))
    is_lacking_module = NO_PYNVML in text
    reserved = _reserved_by_job(facts, [node.id for node in nodes if node.id])
    level: Level = "info" if is_lacking_module or not is_offered else "critical" if reserved else "warning"
    if is_lacking_module:
        cause = "the Python module pynvml is missing there"
        remedy = "install it for the Python that runs the probe there: `pip install nvidia-ml-py`"
    act = "drain-node" if is_offered and "{}" in remedy and not _is_head(nodes) else None
    fails = " and new work placed there will fail" if is_offered and not is_lacking_module else ""
    whose = "one GPU" if gpus == 1 else f"{count(gpus)} GPUs"
    return Finding(
        code=NVML_CODE,
        level=level,
        subject=name,
        text=f"NVML on {name} can't be used ({cause[:MAX_TEXT]}): its {whose}{_reserved_words(facts, reserved)} can't be seen{fails}",
        evidence=(f"the probe of {name}: {clean(fault.text)[:MAX_TEXT]} (`nvidia-smi` there shows the same)", *_last_seen(facts, host)),
        since=fault.since,
        remedy=Remedy(remedy.format(_drain_target(facts, nodes, name)), act),
        about=tuple(node.key for node in nodes) or (f"node:{host.name}",),
    )


def _drain_target(facts: Facts, nodes: Sequence[Node], name: str) -> str:
    """The node as a shell takes it: its title, or its id where that names it alone."""
    return shlex.quote(nodes[0].id or name) if nodes and nodes[0].title != facts.title(nodes[0]) else shlex.quote(clean(name))


def _is_head(nodes: Iterable[Node]) -> bool:
    return any(node.head for node in nodes)


def _last_seen(facts: Facts, host: Host) -> tuple[str, ...]:
    known = facts.known.hosts[host.name]
    at = known.observed_at("nvml")
    return () if known.gpus is None or at is None else (f"its GPUs were last seen {age(max(0.0, facts.now - at))} ago",)


def _offered_gpus(node: Node) -> float:
    """GPUs that Ray hands out there."""
    told = node.resources.get("GPU")
    return told.total if node.state == "ALIVE" and told and told.total and isfinite(told.total) else 0.0


def _reserved_by_job(facts: Facts, nodes: Sequence[str]) -> Mapping[str | None, float]:
    """By job id: the GPUs of these nodes that Ray has given to its placement groups, and to its actors outside of these."""
    found: Counter[str | None] = Counter()
    for group in facts.snapshot.placement_groups or ():
        for bundle in group.bundles if group.state != "REMOVED" else ():
            if bundle.node in nodes:
                found[group.job] += _amount(bundle.needs)  # type: ignore[assignment]  # Counter counts halves of GPUs too
    for actor in facts.snapshot.actors or ():
        if actor.state == "ALIVE" and actor.node in nodes and not actor.placement_group:
            found[actor.job] += _amount(actor.needs)  # type: ignore[assignment]
    return {job: gpus for job, gpus in found.items() if gpus > 0}


def _amount(needs: Mapping[str, float]) -> float:
    gpus = needs.get("GPU", 0.0)
    return gpus if isfinite(gpus) and gpus > 0 else 0.0


def _reserved_words(facts: Facts, reserved: Mapping[str | None, float]) -> str:
    """`, 2 reserved by job train1,`."""
    if not reserved:
        return ""
    jobs = [job for job, _ in sorted(reserved.items(), key=lambda item: -item[1]) if job]
    named = join_first([clean(facts.job_title(job))[:60] for job in jobs], MAX_NAMES)
    by = f" by job {named}" if len(jobs) == 1 else f" by jobs {named}" if jobs else ""
    return f", {count(sum(reserved.values()))} reserved{by},"


@rests_on()
def unseen_hosts(facts: Facts) -> Iterator[Finding]:
    """Hosts whose probe has fallen silent, one finding each; and, as one finding, those that could never be looked at."""
    never: list[Fault] = []
    for fault in facts.snapshot.faults:
        if fault.source != "probe" or not _has_lasted(facts, fault, facts.limits.source_failing):
            continue
        host = facts.known.hosts.get(fault.host or "")
        if host is None or host.taken is None:
            never.append(fault)
        else:
            yield _silent_host_finding(facts, host, fault)
    if never:
        yield _unreached_finding(facts, never)


def _silent_host_finding(facts: Facts, host: Host, fault: Fault) -> Finding:
    name, lasted = facts.host_title(host), age(max(0.0, facts.now - (host.taken or facts.now)))
    matters = host.local or any(node.state == "ALIVE" for node in facts.known.index.nodes_on(host))
    return Finding(
        code=PROBE_CODE,
        level="warning" if matters else "info",
        subject=name,
        text=f"{name} has not been seen for {lasted}: {clean(fault.text)[:MAX_TEXT]}; what is shown of its processes, GPUs, "
        "memory and disks is as old",
        evidence=(f"{fault.source} of {host.name}: {clean(fault.text)[:MAX_TEXT]}",),
        since=host.taken,
        remedy=Remedy(
            "see whether the host still answers and is not overloaded: "
            + ("`uptime`, `dmesg | tail`" if host.local else f"`ssh {shlex.quote(clean(host.name))} uptime`")
            + "; cockpit starts its probe again by itself"
        ),
        about=facts.known.index.node_keys_on(host),
    )


def _unreached_finding(facts: Facts, faults: Sequence[Fault]) -> Finding:
    """Ray's agents tell of GPUs and memory there; of what Ray doesn't know nothing is said."""
    names = sorted({fault.host or "?" for fault in faults})
    living = {name for node in facts.living_nodes for name in (node.host, node.name, node.ip, node.title)}
    is_known = all(name in living for name in names)
    one = len(names) == 1
    return Finding(
        code="hosts-unreached",
        level="info" if is_known else "warning",
        subject="cluster",
        text=f"No probe runs on {join_first(names, MAX_NAMES)}: orphans, /dev/shm, drivers and logs {'there' if one else 'of these hosts'} "
        "can't be seen"
        + (
            f"; for GPUs and memory Ray's own {'agent is' if one else 'agents are'} used"
            if is_known
            else f", nor whether {'it lives' if one else 'they live'}"
        ),
        evidence=tuple(f"{fault.host or '?'}: {clean(fault.text)[:MAX_TEXT]}" for fault in faults[:MAX_NAMES]),
        since=min(fault.since for fault in faults),
        remedy=Remedy(
            f"make `ssh {shlex.quote(clean(names[0]))} true` work without a password from this host, or set `reach` or `hosts` in the "
            "config file"
        ),
        about=tuple(node.key for node in facts.living_nodes if not {node.host, node.name, node.ip, node.title}.isdisjoint(names)),
    )


@rests_on()
def failing_reads(facts: Facts) -> Iterator[Finding]:
    """Parts of what a probe reads, and lists that the dashboard does not answer, by what fails."""
    told = [fault for fault in facts.snapshot.faults if _is_told_here(facts, fault)]
    for (host_name, text), faults in group_by(told, lambda fault: (fault.host, fault.text)).items():
        host = facts.snapshot.hosts.get(host_name or "")
        lasting = [fault for fault in faults if _has_lasted(facts, fault, facts.limits.source_failing)]
        if lasting:
            yield _failing_finding(facts, host, text, lasting)


def _is_told_here(facts: Facts, fault: Fault) -> bool:
    """What stops all of Ray's sources at once has findings of its own, and so have NVML and whole probes."""
    if fault.host is not None:
        return fault.source not in ("nvml", "probe")
    is_rays = fault.source.startswith("ray.")
    dashboard_is_gone = facts.snapshot.cluster.reachable is False or facts.has_fault("ray.identity") or facts.has_fault("ray.gcs")
    return not (is_rays and (dashboard_is_gone or fault.cause is not None or fault.source in ("ray.identity", "ray.gcs")))


def _failing_finding(facts: Facts, host: Host | None, text: str, faults: Sequence[Fault]) -> Finding:
    sources = sorted({fault.source for fault in faults})
    where = facts.host_title(host) if host else faults[0].host
    subject = f"{where} {sources[0]}" if where else sources[0]
    is_slow = any(words in text for words in SLOW_WORDS)
    what = join_first([WHAT.get(source, source) for source in sources], MAX_NAMES)
    about_what = (
        f"{where}: {what} can't be seen"
        if where and not is_slow
        else f"{where}: {what}"
        if where
        else f"Ray's dashboard does not list {what}"
        if sources[0].startswith("ray.")
        else what
    )
    remedy = "read logs/dashboard.log on the head; a dashboard that is overloaded answers late" if sources[0].startswith("ray.") else ""
    if host is not None:
        remedy = HOST_REMEDIES.get(sources[0], OTHER_HOST_REMEDY)
    return Finding(
        code=SOURCE_CODE,
        level="info" if is_slow else "warning",
        subject=subject,
        text=f"{about_what}: {clean(text)[:MAX_TEXT]}",
        evidence=tuple(f"{fault.source}: failing for {age(max(0.0, facts.now - fault.since))}" for fault in faults[:MAX_NAMES]),
        since=min(fault.since for fault in faults),
        remedy=Remedy(remedy) if remedy else None,
        about=facts.known.index.node_keys_on(host) if host else (),
    )


def _has_lasted(facts: Facts, fault: Fault, seconds: float) -> bool:
    """Whoever looks only once is told at once: nobody will look again."""
    return facts.is_single_look or facts.now - fault.since >= seconds
