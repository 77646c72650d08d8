"""Detects sources that fail: NVML of a node, the probe of a host, single reads of a probe, and lists of the dashboard."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Fault, Finding, Level, Remedy
from cockpit.text import age, clean, count, join_first
from cockpit.text.grouping import group_by

NVML_CODE, PROBE_CODE, SOURCE_CODE = "gpus-unseen", "host-unseen", "source-failing"
MAX_NAMES, MAX_TEXT = 4, 200
DRAIN = "drain the node until then (`cockpit drain-node {}`)"
RELOAD = "`rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia`"
NVML_CAUSES: tuple[tuple[str, str, str], ...] = (
    ("version mismatch", "driver and library versions differ: the driver was upgraded while it was loaded",
        f"reboot the host, or end all GPU processes there and reload the driver ({RELOAD}); {DRAIN}"),
    ("unknown error", "unknown error, as in a container that has lost its GPU devices",
        f"in a container: restart it; on a host: `dmesg | grep -i nvrm` shows why, then reset the GPU or reboot; {DRAIN}"),
    ("has not answered", "the driver does not answer",
        f"`dmesg | grep -i -e nvrm -e xid` shows why; if the driver hangs, only a reboot helps; {DRAIN}"),
    ("not loaded", "the driver is not loaded",
        f"load the driver (`modprobe nvidia`; `dmesg | grep -i nvrm` shows why it failed); {DRAIN}"),
    ("not found", "the driver's library is not there",
        f"install the driver's user-space library of the version in /proc/driver/nvidia/version; {DRAIN}"),
)  # fmt: skip
"""Words of NVML's own error texts (nvmlErrorString, nvml.h), the cause, and the remedy; `{}` stands for the node."""
OTHER_NVML_REMEDY = f"run `nvidia-smi` there, and see `dmesg | grep -i nvrm`; reset the GPU or reboot; {DRAIN}"
NO_PYNVML = "pynvml is missing"
SLOW_WORDS = ("so it is read only every", "are not listed (too many)")
"""Parts of the texts of faults that only mean that a probe reads less, or less often: nothing is broken."""
SOURCE_NAMES = {
    "processes": "its processes",
    "memory": "its host memory",
    "shm": "its /dev/shm",
    "sessions": "its Ray sessions",
    "disks": "its disks",
    "rays": "its Ray processes",
    "temps": "its Ray temp dirs",
    "logs": "its Ray logs",
    "engines": "its inference engines",
    "ray.nodes": "nodes",
    "ray.actors": "actors",
    "ray.placement_groups": "placement groups",
    "ray.jobs": "jobs",
    "ray.oom": "workers that Ray's memory monitor killed",
    "ray.status": "used and pending resources",
    "ray.engines": "inference engines",
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
    """NVML fails on a host whose GPUs Ray offers, or on which cockpit has seen GPUs."""
    for host in facts.snapshot.hosts.values():
        fault = next((fault for fault in host.faults if fault.source == "nvml"), None)
        if fault is None or not _has_lasted(facts, fault, facts.limits.gpu_lost_age):
            continue
        known, nodes, offered = facts.known.hosts[host.name], facts.known.index.nodes_on(host), 0.0
        for node in nodes:
            has = node.resources.get("GPU")
            offered += has.total if node.state == "ALIVE" and has and has.total and isfinite(has.total) else 0.0
        gpus = offered or len(known.gpus or ())
        if not gpus:
            continue
        name, text = facts.host_title(host), fault.text.lower()
        other = clean(fault.text), OTHER_NVML_REMEDY
        cause, remedy = next(((cause, remedy) for word, cause, remedy in NVML_CAUSES if word in text), other)
        is_lacking_module = NO_PYNVML in text
        if is_lacking_module:
            cause = "the Python module pynvml is missing there"
            remedy = "install it for the Python that runs the probe there: `pip install nvidia-ml-py`"
        action = "drain-node" if offered and "{}" in remedy and not any(node.head for node in nodes) else None
        fails = " and new work placed there will fail" if offered and not is_lacking_module else ""
        number = "one GPU" if gpus == 1 else f"{count(gpus)} GPUs"

        # ", 2 reserved by job train1,"
        held, reserved = "", _reserved_by_job(facts, [node.id for node in nodes if node.id])
        if reserved:
            jobs = [job for job, _ in sorted(reserved.items(), key=lambda item: -item[1]) if job]
            named = join_first([clean(facts.job_title(job))[:60] for job in jobs], MAX_NAMES)
            by = f" by job {named}" if len(jobs) == 1 else f" by jobs {named}" if jobs else ""
            held = f", {count(sum(reserved.values()))} reserved{by},"

        evidence = [f"the probe of {name}: {clean(fault.text)[:MAX_TEXT]} (`nvidia-smi` there shows the same)"]
        at = known.observed_at("nvml")
        if known.gpus is not None and at is not None:
            evidence.append(f"its GPUs were last seen {age(max(0.0, facts.now - at))} ago")

        # The node's title as a shell takes it; its id if several nodes have that title.
        target = nodes[0].id or name if nodes and nodes[0].title != facts.title(nodes[0]) else clean(name)
        level: Level = "info" if is_lacking_module or not offered else "critical" if reserved else "warning"
        words = f"NVML on {name} can't be used ({cause[:MAX_TEXT]}): its {number}{held} can't be seen{fails}"
        about = tuple(node.key for node in nodes) or (f"node:{host.name}",)
        yield Finding(
            NVML_CODE, level, name, words, tuple(evidence), fault.since, Remedy(remedy.format(shlex.quote(target)), action), about
        )


def _reserved_by_job(facts: Facts, nodes: Sequence[str]) -> Mapping[str | None, float]:
    """By job id: the GPUs on these nodes reserved by its placement groups, and by its actors outside of groups."""
    needs = [
        (group.job, bundle.needs)
        for group in facts.snapshot.placement_groups or ()
        for bundle in group.bundles
        if group.state != "REMOVED" and bundle.node in nodes
    ]
    actors = [one for one in facts.snapshot.actors or () if one.state == "ALIVE" and one.node in nodes and not one.placement_group]
    found: dict[str | None, float] = {}
    for job, amounts in (*needs, *((actor.job, actor.needs) for actor in actors)):
        gpus = amounts.get("GPU", 0.0)
        if isfinite(gpus) and gpus > 0:
            found[job] = found.get(job, 0.0) + gpus
    return found


@rests_on()
def unseen_hosts(facts: Facts) -> Iterator[Finding]:
    """Hosts whose probe has fallen silent, one finding each; and one finding for all hosts whose probe has never answered."""
    never: list[Fault] = []
    for fault in facts.snapshot.faults:
        if fault.source != "probe" or not _has_lasted(facts, fault, facts.limits.source_failing):
            continue
        host = facts.known.hosts.get(fault.host or "")
        if host is None or host.taken is None:
            never.append(fault)
            continue
        name, lasted = facts.host_title(host), age(max(0.0, facts.now - (host.taken or facts.now)))
        matters = host.local or any(node.state == "ALIVE" for node in facts.known.index.nodes_on(host))
        why = clean(fault.text)[:MAX_TEXT]
        text = f"{name} has not been seen for {lasted}: {why}; what is shown of its processes, GPUs, memory and disks is as old"
        command = "`uptime`, `dmesg | tail`" if host.local else f"`ssh {shlex.quote(clean(host.name))} uptime`"
        remedy = f"see whether the host still answers and is not overloaded: {command}; cockpit starts its probe again by itself"
        evidence, about = (f"{fault.source} of {host.name}: {why}",), facts.known.index.node_keys_on(host)
        yield Finding(PROBE_CODE, "warning" if matters else "info", name, text, evidence, host.taken, Remedy(remedy), about)
    if not never:
        return

    # If Ray knows the hosts, its agents still report GPUs and memory.
    names = sorted({fault.host or "?" for fault in never})
    living = {name for node in facts.living_nodes for name in (node.host, node.name, node.ip, node.title)}
    is_known, one = all(name in living for name in names), len(names) == 1
    there = "there" if one else "of these hosts"
    text = f"No probe runs on {join_first(names, MAX_NAMES)}: orphans, /dev/shm, drivers and logs {there} can't be seen"
    if is_known:
        text += f"; for GPUs and memory Ray's own {'agent is' if one else 'agents are'} used"
    else:
        text += f", nor whether {'it lives' if one else 'they live'}"
    first = shlex.quote(clean(names[0]))
    remedy = f"make `ssh {first} true` work without a password from this host, or set `reach` or `hosts` in the config file"
    yield facts.cluster_finding(
        [node for node in facts.living_nodes if not {node.host, node.name, node.ip, node.title}.isdisjoint(names)],
        "hosts-unreached",
        "info" if is_known else "warning",
        text,
        (f"{fault.host or '?'}: {clean(fault.text)[:MAX_TEXT]}" for fault in never[:MAX_NAMES]),
        remedy,
        since=min(fault.since for fault in never),
    )


@rests_on()
def failing_reads(facts: Facts) -> Iterator[Finding]:
    """Single reads of a probe that fail, and lists that the dashboard does not answer, by host and reason.

    NVML, whole probes, and faults that stop all of Ray's sources at once are left out: they have findings of their own.
    """
    is_ray_unreachable = facts.snapshot.cluster.reachable is False or facts.has_fault("ray.identity") or facts.has_fault("ray.gcs")
    single: list[Fault] = []
    for fault in facts.snapshot.faults:
        if fault.host is not None:
            has_own_finding = fault.source in ("nvml", "probe")
        else:
            is_of_all = is_ray_unreachable or fault.cause is not None or fault.source in ("ray.identity", "ray.gcs")
            has_own_finding = fault.source.startswith("ray.") and is_of_all
        if not has_own_finding and _has_lasted(facts, fault, facts.limits.source_failing):
            single.append(fault)
    for (host_name, reason), faults in group_by(single, lambda fault: (fault.host, fault.text)).items():
        host = facts.snapshot.hosts.get(host_name or "")
        sources = sorted({fault.source for fault in faults})
        where = facts.host_title(host) if host else host_name
        is_slow, is_ray = any(words in reason for words in SLOW_WORDS), sources[0].startswith("ray.")
        what = join_first([SOURCE_NAMES.get(source, source) for source in sources], MAX_NAMES)
        is_engines = sources == ["ray.engines"]
        if is_engines:
            failing = "The numbers of inference engines can't be read"
        elif where:
            failing = f"{where}: {what}" if is_slow else f"{where}: {what} can't be seen"
        else:
            failing = f"Ray's dashboard does not list {what}" if is_ray else what
        remedy = "read logs/dashboard.log on the head; a dashboard that is overloaded answers late" if is_ray else ""
        if is_engines:
            remedy = "the agent of that node serves them: read logs/dashboard_agent.log there"
        if host is not None:
            remedy = HOST_REMEDIES.get(sources[0], OTHER_HOST_REMEDY)
        yield Finding(
            SOURCE_CODE,
            "info" if is_slow else "warning",
            f"{where} {sources[0]}" if where else sources[0],
            f"{failing}: {clean(reason)[:MAX_TEXT]}",
            tuple(f"{fault.source}: failing for {age(max(0.0, facts.now - fault.since))}" for fault in faults[:MAX_NAMES]),
            min(fault.since for fault in faults),
            Remedy(remedy) if remedy else None,
            facts.known.index.node_keys_on(host) if host else (),
        )


def _has_lasted(facts: Facts, fault: Fault, seconds: float) -> bool:
    """Whether a fault has lasted; in a single sample it counts at once, since no other sample follows."""
    return facts.is_single_sample or facts.now - fault.since >= seconds
