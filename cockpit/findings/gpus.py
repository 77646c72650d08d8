"""Detects GPUs that are lost, faulty or throttled, Xids that the driver reported, and GPU counts that differ between Ray and NVML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from cockpit.findings.checks import is_in_slurm
from cockpit.findings.facts import Facts
from cockpit.findings.ray_gpus import count_in_ray, find_raylet, is_environment_known, list_visible_devices
from cockpit.findings.shell_words import quote_word, shell_word
from cockpit.findings.sources import rests_on
from cockpit.findings.waiting import longest_wait
from cockpit.model import LEVELS, Actor, Finding, Gpu, Host, Level, Node, PlacementGroup, Remedy, Xid
from cockpit.text import age, clean, gpus_words, plural

SLOWED_GAP_S = 60.0
"""Seconds for which a GPU that is throttled now and then may run freely before the finding ends."""
MAX_XID_LINES = 10
MAX_XIDS_PER_GPU = 2


class Trouble(msgspec.Struct, frozen=True):
    """One kind of trouble that a GPU can have."""

    code: str
    level: Level
    shows: Callable[[Gpu], bool]
    one: str
    """After `GPU 3 of w1 `."""
    many: str
    """After `GPUs 3, 4 of w1 `."""
    line: Callable[[Gpu], str]
    """The evidence."""
    remedy: str
    limit: str = ""
    """Name of the threshold in `Limits` for the seconds that it must last."""
    gap: float = 0.0
    """Seconds for which it may pause without being over."""
    past: str = ""
    """Instead of `one` and `many`, during a pause."""


def _should_drain(gpu: Gpu) -> bool:
    return bool(gpu.recovery) and str(gpu.recovery).startswith("drain")


def _recovery_line(gpu: Gpu) -> str:
    return f"NVML requests: {clean(gpu.recovery or '')[:60]} (`nvidia-smi -q`: GPU Recovery Action)"


def _slowed_line(gpu: Gpu) -> str:
    heat = f" at {gpu.temperature:.0f} degrees C" if gpu.temperature is not None and 1 <= gpu.temperature < 200 else ""
    return f"throttle reason: {clean(', '.join(filter(None, gpu.slowed or ())))[:60]}{heat}; `nvidia-smi -q -d PERFORMANCE` shows it"


_DRAIN = "drain the node (`cockpit drain-node NODE`), let its jobs finish or stop them"
_RESET = f"{_DRAIN}, then reset the GPU (`nvidia-smi -r -i INDEX`)"
_TROUBLES: tuple[Trouble, ...] = (
    Trouble("gpu-lost", "critical", lambda gpu: bool(gpu.fault),
        "is lost: NVML can't reach it any more", "are lost: NVML can't reach them any more",
        lambda gpu: f"NVML: {clean(gpu.fault or '')[:200]}" + ("" if _hardware_xids(gpu) else "; `dmesg | grep -i xid` shows why"),
        f"{_RESET}; if it does not come back, reboot the host; if it is lost again, replace it", "gpu_lost_age"),
    Trouble("gpu-recovery", "critical", lambda gpu: bool(gpu.recovery) and not _should_drain(gpu),
        "has failed: NVML requests a recovery", "have failed: NVML requests a recovery", _recovery_line,
        f"{_DRAIN}, then do what NVML requests (to reset: `nvidia-smi -r -i INDEX`)"),
    Trouble("gpu-drain", "warning", _should_drain,
        "still works, but NVML asks for no new work on it", "still work, but NVML asks for no new work on them", _recovery_line,
        f"{_DRAIN}, then do what NVML requests (to reset: `nvidia-smi -r -i INDEX`)"),
    Trouble("gpu-ecc", "warning", lambda gpu: (gpu.ecc or 0) > 0,
        "has lost data through memory errors (ECC) since its driver was loaded",
        "have lost data through memory errors (ECC) since their driver was loaded",
        lambda gpu: f"{plural(gpu.ecc or 0, 'uncorrected ECC error')}; `nvidia-smi -q -d ECC` lists them",
        "restart the job that was using it, which probably failed; if more errors follow: "
        f"{_RESET} and test it (`dcgmi diag -r 3`); replace it if the test fails"),
    Trouble("gpu-remap", "warning", lambda gpu: gpu.remap is True and not gpu.recovery,
        "has bad memory rows and needs a reset to replace them", "have bad memory rows and need a reset to replace them",
        lambda gpu: "a row remap is pending; `nvidia-smi -q -d ROW_REMAPPER` shows it", _RESET),  # noqa: ARG005 all say the same
    Trouble("gpu-slowed", "warning", lambda gpu: any(gpu.slowed or ()),
        "is throttled", "are throttled", _slowed_line,
        "thermal: check fans and air flow; power brake: check power supplies; hardware: check both; a job is as slow as its slowest GPU",
        "gpu_slow_age", SLOWED_GAP_S, "was throttled"),
)  # fmt: skip


@rests_on("nvml")
def gpu_trouble(facts: Facts) -> Iterator[Finding]:
    """Trouble that NVML reports for GPUs of probed hosts: one finding for each kind on a host."""
    for name, host in facts.snapshot.hosts.items():
        ill = [gpu for gpu in host.gpus or () if gpu.fault or gpu.ecc or gpu.slowed or gpu.recovery or gpu.remap]
        for trouble in _TROUBLES:
            if not ill and not trouble.gap:
                continue
            found = [gpu for gpu in ill if trouble.shows(gpu)]
            lasted = facts.seconds_steady(bool(found), trouble.code, name, trouble.gap)
            if lasted is None or lasted < (getattr(facts.limits, trouble.limit) if trouble.limit else 0.0):
                continue
            text = f"A GPU of {facts.host_title(host)} {trouble.past} within the last {age(trouble.gap)}"
            if found:
                text = f"{which_gpus(facts, host, found)} {trouble.many if len(found) > 1 else trouble.one}"
            # Throttling comes and goes, and may be over after a moment. The driver reports no Xids about it.
            level: Level = "info" if trouble.gap and facts.is_single_sample else trouble.level
            evidence: list[str] = []
            for gpu in found:
                evidence.append(f"GPU {gpu.label}: {trouble.line(gpu)}")
                if not trouble.gap:
                    evidence += [_xid_line(facts, gpu, xid) for xid in _hardware_xids(gpu)[:MAX_XIDS_PER_GPU]]
            yield facts.host_finding(host, trouble.code, level, text, evidence, fill_in(facts, host, trouble.remedy, found))


def which_gpus(facts: Facts, host: Host, gpus: Sequence[Gpu]) -> str:
    """`GPUs 3, 4 of w1`."""
    return f"GPU{'s' if len(gpus) > 1 else ''} {', '.join(gpu.label for gpu in gpus)} of {facts.host_title(host)}"


def fill_in(facts: Facts, host: Host, remedy: str, gpus: Sequence[Gpu]) -> str:
    """The remedy with the node's name and the GPUs' indices in its commands, ready to be typed.

    `nvidia-smi` takes several indices. It can't reset single MIG devices: for them INDEX stays.
    """
    remedy = remedy.replace("drain-node NODE", f"drain-node {shell_word(facts.host_title(host).partition(' ')[0])}")
    whole = [gpu.label for gpu in gpus if gpu.label.isdigit()]
    return remedy.replace("INDEX", ",".join(whole)) if whole and len(whole) == len(gpus) else remedy


_RETEST = "drain the node (`cockpit drain-node NODE`), reset the GPU (`nvidia-smi -r -i INDEX`) or reboot, and test it (`dcgmi diag -r 3`)"
_JOB_MISTAKE = "usually a fault of the job: see the end of its log; if it happens with other jobs too, only on this GPU, test the GPU"


class Meaning(msgspec.Struct, frozen=True):
    """The meaning of an Xid."""

    level: Level
    words: str
    remedy: str = _RETEST


# As in NVIDIA's catalog of Xids (docs.nvidia.com/deploy/xid-errors).
_XID_MEANINGS: Mapping[int, Meaning] = {
    13: Meaning("info", "a CUDA kernel failed (graphics engine exception)", _JOB_MISTAKE),
    31: Meaning("info", "a CUDA kernel accessed an invalid address (MMU fault)", _JOB_MISTAKE),
    43: Meaning("info", "the driver stopped a process on the GPU", _JOB_MISTAKE),
    45: Meaning("info", "the driver ended a process on the GPU, usually after another error", _JOB_MISTAKE),
    48: Meaning("critical", "a memory error that could not be corrected (double-bit ECC)"),
    62: Meaning("critical", "the GPU's power management failed (PMU halt)"),
    63: Meaning("info", "a bad row of GPU memory is marked to be retired or remapped"),
    64: Meaning("warning", "a bad row of GPU memory could not be retired or remapped"),
    74: Meaning("warning", "an NVLink error", "see the NVLinks of its host (`nvidia-smi nvlink -s`, `nvidia-smi nvlink -e`); " + _RETEST),
    79: Meaning("critical", "the GPU has fallen off the bus", _RETEST + "; check its power and that it sits firmly in its slot"),
    92: Meaning("warning", "many memory errors that were corrected"),
    94: Meaning("warning", "a memory error that killed only the process that used it (contained)", "start that job again; then " + _RETEST),
    95: Meaning("critical", "a memory error that may have spread (uncontained)"),
    119: Meaning("critical", "the GPU's system processor does not respond (GSP timeout)"),
    120: Meaning("critical", "the GPU's system processor failed (GSP error)"),
}
_OTHER_XID = Meaning(
    "warning", "an error of the driver or the GPU", "see NVIDIA's catalog of Xids (docs.nvidia.com/deploy/xid-errors); " + _RETEST
)
HARMLESS_XIDS = frozenset({63})
"""A row of memory was remapped. If something must be done, the pending remap is a finding of its own."""


@rests_on("nvml")
def reported_xids(facts: Facts) -> Iterator[Finding]:
    """Xids by host, until some hours after the last one; Xids that are mostly a job's mistake, for a shorter time."""
    limits = facts.limits
    for host in facts.snapshot.hosts.values():
        recent: list[tuple[Gpu, Xid]] = []
        for gpu in host.gpus or ():
            for xid in gpu.xids or () if not gpu.is_mig else ():
                keep = limits.xid_info_told if _meaning(xid).level == "info" else limits.xid_told
                # A moment far in the future comes from a wrong clock.
                if xid.moment is not None and xid.code not in HARMLESS_XIDS and -keep <= facts.now - xid.moment < keep:
                    recent.append((gpu, xid))
        if not recent:
            continue
        recent.sort(key=lambda pair: -(pair[1].moment or 0.0))
        gpu, worst = min(recent, key=lambda pair: LEVELS.index(_meaning(pair[1]).level))
        meaning, more = _meaning(worst), f" (and {len(recent) - 1} more)" if len(recent) > 1 else ""
        which = which_gpus(facts, host, [gpu])
        text = f"The driver reported Xid {worst.code} on {which} {_ago(facts, worst)} ago: {meaning.words}{more}"
        evidence = (_xid_line(facts, one, xid) for one, xid in recent[:MAX_XID_LINES])
        remedy = fill_in(facts, host, meaning.remedy, [gpu])
        found = facts.host_finding(host, "gpu-xid", meaning.level, text, evidence, remedy, [one for one, _ in recent])
        yield replace(found, since=recent[-1][1].moment)


def _meaning(xid: Xid) -> Meaning:
    return _XID_MEANINGS.get(xid.code, _OTHER_XID)


def _ago(facts: Facts, xid: Xid) -> str:
    return age(max(0.0, facts.now - (xid.moment or facts.now)))


def has_hardware_xid(gpu: Gpu) -> bool:
    """Whether the driver has reported a fault of the GPU itself. Any job can cause the other Xids."""
    return any(xid.code not in HARMLESS_XIDS for xid in _hardware_xids(gpu))


def _hardware_xids(gpu: Gpu) -> list[Xid]:
    """Xids about the GPU itself, not about a job's mistake, the newest first: possible causes of its trouble."""
    known = [xid for xid in gpu.xids or () if xid.moment is not None and (_meaning(xid).level != "info" or xid.code in HARMLESS_XIDS)]
    return sorted(known, key=lambda xid: -(xid.moment or 0.0))


def _xid_line(facts: Facts, gpu: Gpu, xid: Xid) -> str:
    source = f"`dmesg -T | grep -i xid`: {clean(xid.text)[:200]}" if xid.text else "reported by NVML"
    return f"GPU {gpu.label}: Xid {xid.code}, {_meaning(xid).words}, {_ago(facts, xid)} ago ({source})"


@rests_on("ray.nodes", "nvml", "rays")
def gpu_counts(facts: Facts) -> Iterator[Finding]:
    """Nodes that offer another number of GPUs in Ray than exist there, or than their raylet may use.

    Nodes that share a host are left out: their raylets may use the same GPUs or different ones.
    """
    near = Counter(node.ip or node.host for node in facts.living_nodes)
    sighted = any(facts.index.machine(node).gpus for node in facts.living_nodes)
    for node in facts.living_nodes:
        # An agent stops at the first GPU that NVML can't reach, so it may list none. If no agent lists any, Ray can't read GPUs at all.
        is_agent_blind = sighted and not node.probed and node.agent.seen is not None and bool(count_in_ray(node))
        gpus = facts.index.machine(node).gpus
        if near[node.ip or node.host] == 1 and node.resources and (gpus is not None or is_agent_blind):
            for finding in _count_findings(facts, node, gpus or ()):
                if facts.seconds_lasting(finding.code, finding.subject) >= facts.limits.gpu_count_age:
                    yield finding


def _count_findings(facts: Facts, node: Node, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    """Findings about a node that shares its host with no other; `gpus`: the GPUs that exist."""
    promised, there = count_in_ray(node), len(gpus)
    if promised is None or (promised == there and not node.probed):
        return
    raylet = find_raylet(node, facts.index.host_of(node))
    listed = list_visible_devices(raylet)
    usable = there if listed is None else min(there, len(listed))
    if promised == usable and not listed:
        return
    has_mig_devices = any(gpu.is_mig for gpu in gpus)  # Ray counts either the devices or their GPUs, as it was started
    strange = _missing_devices(listed or (), gpus) if node.probed and not has_mig_devices else []
    title = facts.title(node)
    where = "`nvidia-smi -L`" if node.probed else "Ray's agent there (/nodes?view=summary)"
    evidence = [f"Ray: {gpus_words(promised)} (`ray status -v`)", f"{where}: {gpus_words(there)}"]
    if listed is not None:
        evidence.append(f"CUDA_VISIBLE_DEVICES={clean(','.join(listed))[:120]} in /proc/PID/environ of its raylet")

    # Ray offers more GPUs than work there can use.
    if promised > usable:
        seen = f"its raylet can use only {len(listed)}" if listed is not None and len(listed) < there else f"NVML sees {there}"
        if not node.probed:
            seen = f"Ray's agent there reports {there or 'none'} (it stops at the first GPU that NVML can't reach)"
        text = f"Ray offers {gpus_words(promised)} on {title}, but {seen}: work placed there can fail for lack of a GPU"
        remedy = Remedy(
            "if a GPU is missing, search for it (`nvidia-smi -L`, `lspci | grep -i nvidia`, `dmesg | grep -i xid`); if not, "
            f"{_restart_words(node, usable, listed)}, and without RAY_OVERRIDE_RESOURCES"
        )
        yield facts.node_finding(node, "gpu-count", "warning", text, evidence, remedy)

    # Ray offers fewer. Without a probe it is unknown whether Slurm gave the node fewer.
    may_have_less = not node.probed and is_in_slurm(facts.snapshot)
    if promised < usable and not has_mig_devices and (promised or not node.head) and not may_have_less:
        is_known = is_environment_known(raylet)  # if not, CUDA_VISIBLE_DEVICES may allow no more GPUs than Ray offers
        waiting = [each for each in facts.waiting_for_gpus if has_waited_long(facts, each)]
        wait = f", while {waiting_words(waiting)} for GPUs" if waiting else ""
        text = f"Ray offers only {gpus_words(promised)} of the {usable}{' usable' if is_known else ''} on {title}{wait}"
        unset = ", from a shell in which you ran `unset CUDA_VISIBLE_DEVICES`: it may name fewer, and Ray then refuses to start"
        remedy = Remedy(f"if Ray may use the others: {_restart_words(node, usable, listed)}{'' if is_known else unset}")
        about = (each.key for each in waiting[:8])
        yield facts.node_finding(node, "gpu-unused", "warning" if waiting else "info", text, evidence, remedy, about)

    # The raylet was given devices that do not exist.
    if strange:
        text = f"The raylet of {title} was given GPUs that do not exist: CUDA_VISIBLE_DEVICES names {clean(', '.join(strange))[:80]}"
        if known := [device for device in listed or () if device not in strange]:
            words = f"{_restart_words(node, len(known), known)}, or with others that `nvidia-smi -L` lists"
        else:
            words = f"restart Ray on {clean(node.title)}, from a shell in which you ran `unset CUDA_VISIBLE_DEVICES`"
        yield facts.node_finding(node, "gpu-visible", "warning", text, evidence, Remedy(words))


def _restart_words(node: Node, gpus: int, listed: Sequence[str] | None) -> str:
    """Ray refuses to start with more GPUs than CUDA_VISIBLE_DEVICES names (2.60, `resource_and_label_spec.py`): so both are named."""
    visible = ""
    if listed is not None:
        devices = quote_word(",".join(listed))
        named = f"`CUDA_VISIBLE_DEVICES={devices}`" if devices is not None else "a CUDA_VISIBLE_DEVICES that names as many"
        visible = f" and {named} before it"
    return f"restart Ray on {clean(node.title)} with `--num-gpus={gpus}`{visible}"


def has_waited_long(facts: Facts, waiting: Actor | PlacementGroup) -> bool:
    """Whether it has waited longer than anything needs to start."""
    return longest_wait(facts, waiting, facts.now) >= facts.limits.waiting_long


def waiting_words(waiting: Sequence[object]) -> str:
    """As a part of a sentence: `3 actors or placement groups wait`."""
    return plural(len(waiting), "actor or placement group waits", "actors or placement groups wait")


def _missing_devices(listed: Sequence[str], gpus: Sequence[Gpu]) -> list[str]:
    """Devices of CUDA_VISIBLE_DEVICES that are none of these GPUs; other names than indices and UUIDs count as known."""
    uuids, last = [gpu.uuid for gpu in gpus], max((gpu.index for gpu in gpus), default=0)
    strange: list[str] = []
    for device in listed if gpus else ():
        if device.isdecimal():
            is_there = int(device) <= last
        else:
            is_there = not device.startswith("GPU-") or not all(uuids) or any(uuid.startswith(device) for uuid in uuids)
        if not is_there:
            strange.append(device)
    return strange
