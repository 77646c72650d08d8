"""Xids: errors of a GPU that the NVIDIA driver has reported, with what they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cockpit.findings.facts import Facts
from cockpit.model import LEVELS, Finding, Gpu, Host, Level, Remedy, Xid
from cockpit.text import age, clean

MAX_LINES = 10
_RESET = "drain the node (`ray drain-node`), reset the GPU (`nvidia-smi -r -i INDEX`) or reboot, and test it (`dcgmi diag -r 3`)"
_JOB = "mostly the job's own mistake: see the end of its log; if it happens again with other jobs on this GPU alone, test the GPU"


class Meaning(NamedTuple):
    """Of a code."""

    level: Level
    words: str
    remedy: str = _RESET


# As in NVIDIA's catalog of Xids (docs.nvidia.com/deploy/xid-errors).
_MEANINGS: Mapping[int, Meaning] = {
    13: Meaning("info", "a kernel has failed (graphics engine exception)", _JOB),
    31: Meaning("info", "a kernel has used an address that is not there (MMU fault)", _JOB),
    43: Meaning("info", "the driver has stopped a program on it", _JOB),
    45: Meaning("info", "the driver has ended a program on it, mostly after another error", _JOB),
    48: Meaning("critical", "a memory error that could not be corrected (double-bit ECC)"),
    62: Meaning("critical", "its power management has failed (PMU halt)"),
    63: Meaning("info", "a bad row of its memory was set aside, to be retired or remapped", _RESET),
    64: Meaning("warning", "a bad row of its memory could not be retired or remapped"),
    74: Meaning("warning", "an NVLink error", "see the NVLinks of its host (`nvidia-smi nvlink -s`, `nvidia-smi nvlink -e`); " + _RESET),
    79: Meaning("critical", "it has fallen off the bus", _RESET + "; look at its power and its seat"),
    92: Meaning("warning", "many memory errors that were corrected"),
    94: Meaning("warning", "a memory error that has ended the program on it alone (contained)", "start that job again; then " + _RESET),
    95: Meaning("critical", "a memory error that may have spread (uncontained)"),
    119: Meaning("critical", "its own processor does not answer (GSP timeout)"),
    120: Meaning("critical", "its own processor has failed (GSP error)"),
}
_OTHER = Meaning(
    "warning", "an error of the driver or the GPU", "see NVIDIA's catalog of Xids (docs.nvidia.com/deploy/xid-errors); " + _RESET
)
HARMLESS = frozenset({63})
"""A row of memory that was remapped: where something is to be done, a pending remap is a finding of its own."""


def reported_xids(facts: Facts) -> Iterator[Finding]:
    """By host, until some hours after the last one; those that mostly are a job's mistake, for less."""
    for host in facts.snapshot.hosts.values():
        told = [(gpu, xid) for gpu in host.gpus or () if gpu.xids and gpu.index < 1000 for xid in gpu.xids if _is_told(facts, xid)]
        if told:
            yield _xid_finding(facts, host, sorted(told, key=lambda pair: -(pair[1].moment or 0.0)))


def _meaning(xid: Xid) -> Meaning:
    return _MEANINGS.get(xid.code, _OTHER)


def _is_told(facts: Facts, xid: Xid) -> bool:
    """A moment far ahead of ours tells nothing."""
    if xid.moment is None or xid.code in HARMLESS:
        return False
    told = facts.limits.xid_info_told if _meaning(xid).level == "info" else facts.limits.xid_told
    return -told <= facts.now - xid.moment < told


def _xid_finding(facts: Facts, host: Host, told: Sequence[tuple[Gpu, Xid]]) -> Finding:
    title = facts.host_title(host)
    gpu, worst = min(told, key=lambda pair: (LEVELS.index(_meaning(pair[1]).level), -(pair[1].moment or 0.0)))
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    node = next((node.key for node in map(facts.nodes.get, host.nodes) if node), f"node:{host.name}")
    meaning = _meaning(worst)
    return Finding(
        code="gpu-xid",
        level=meaning.level,
        subject=title,
        text=f"The driver has reported Xid {worst.code} of GPU {gpu.label} of {title} {age(_ago(facts, worst))} ago: {meaning.words}{more}",
        evidence=tuple(xid_line(facts, one, xid) for one, xid in told[:MAX_LINES]),
        since=min(xid.moment for _, xid in told if xid.moment is not None),
        remedy=Remedy(meaning.remedy),
        about=tuple(dict.fromkeys(f"{node}:{one.index}" for one, _ in told)),
        seen=facts.stale_since(host.name),
    )


def _ago(facts: Facts, xid: Xid) -> float:
    return max(0.0, facts.now - (xid.moment or facts.now))


def hardware_xids(gpu: Gpu) -> list[Xid]:
    """Those that tell of the GPU itself and not of a job's mistake, the newest first: why it may be ill."""
    known = [xid for xid in gpu.xids or () if xid.moment is not None and (_meaning(xid).level != "info" or xid.code in HARMLESS)]
    return sorted(known, key=lambda xid: -(xid.moment or 0.0))


def xid_line(facts: Facts, gpu: Gpu, xid: Xid) -> str:
    """As evidence."""
    source = f"`dmesg -T | grep -i xid`: {clean(xid.text)[:200]}" if xid.text else "told by NVML"
    return f"GPU {gpu.label}: Xid {xid.code}, {_meaning(xid).words}, {age(_ago(facts, xid))} ago ({source})"
