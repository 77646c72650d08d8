"""Links of GPUs that are down, slow or make errors: NVLink between them, PCIe to their host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cockpit.findings.facts import Facts
from cockpit.model import Finding, Gpu, GpuLinks, Host, Remedy
from cockpit.text import age

ERRORS_WITHIN_S = 600.0
"""Seconds in which new errors of links are counted."""
CLEAR_FACTOR = 0.5
"""Of the errors at which it begins: where it ends."""
MAX_ERRORS = 2**53
"""No counter has come so far."""
USED_PERCENT = 50.0
"""Percent of utilization from which on a GPU has no reason to save power on its PCIe link."""
MIN_FELLOWS = 3
"""GPUs of one model of which most must have as many NVLinks, for fewer to be wrong."""
ALONE_SHARE = 1 / 8
"""At most this share of them may have none at all: more, and they are not wired, as where bridges join pairs."""
_TEST = "drain the node (`ray drain-node`) and test it (`dcgmi diag -r 3`, `nvidia-smi nvlink -s`)"
_RESEAT = "drain the node (`ray drain-node`), reseat the GPU or its riser, and test it (`dcgmi diag -r 3`); if it stays, replace the part"


class Ill(NamedTuple):
    """A GPU with what is wrong with it, as a line that can be checked."""

    gpu: Gpu
    line: str


def faulty_links(facts: Facts) -> Iterator[Finding]:
    """By host and kind of fault."""
    expected = _expected_nvlinks(facts)
    for host in facts.snapshot.hosts.values():
        gpus = [gpu for gpu in host.gpus or () if gpu.index < 1000 and gpu.links is not None]
        if gpus and facts.stale_since(host.name) is None:
            yield from _down_findings(facts, host, gpus, expected)
            yield from _pcie_findings(facts, host, gpus)
            yield from _error_findings(facts, host, gpus)


def _links(gpu: Gpu) -> GpuLinks:
    return gpu.links or GpuLinks()


def _expected_nvlinks(facts: Facts) -> Mapping[str, tuple[int, bool]]:
    """By model: how many NVLinks most of the cluster's GPUs have, and whether none at all is wrong too."""
    known: dict[str, list[int]] = {}
    for host in facts.snapshot.hosts.values():
        for gpu in host.gpus or ():
            if gpu.index < 1000 and gpu.name and gpu.links is not None and gpu.links.nvlinks_active is not None:
                known.setdefault(gpu.name, []).append(gpu.links.nvlinks_active)
    found: dict[str, tuple[int, bool]] = {}
    for name, active in known.items():
        most, number = Counter(active).most_common(1)[0]
        if number >= MIN_FELLOWS and 2 * number > len(active) and most == max(active):
            found[name] = most, active.count(0) <= ALONE_SHARE * len(active)
    return found


def _down_findings(facts: Facts, host: Host, gpus: Iterable[Gpu], expected: Mapping[str, tuple[int, bool]]) -> Iterator[Finding]:
    ill = []
    for gpu in gpus:
        most, alone = expected.get(gpu.name or "", (0, False))
        active = _links(gpu).nvlinks_active
        if active is not None and active < most and (active > 0 or alone):
            ill.append(Ill(gpu, f"{active} of {most} NVLinks are active, {most} on most GPUs of this model (`nvidia-smi nvlink -s`)"))
    if ill and facts.seconds_lasting("gpu-nvlink-down", host.name) >= facts.limits.gpu_link_age:
        words = "NVLinks that are down: traffic between GPUs is slower, or goes over PCIe, and NCCL may hang"
        cause = "search for Xid 74 and for errors of the fabric manager (`dmesg | grep -i -e xid -e nvlink`, `nvidia-smi topo -m`)"
        yield _finding(facts, host, "gpu-nvlink-down", ill, words, f"{cause}; {_TEST}; a reset of the GPU trains its links anew")


def _pcie_findings(facts: Facts, host: Host, gpus: Iterable[Gpu]) -> Iterator[Finding]:
    """Under load only: an idle link goes slower by itself."""
    ill = []
    for gpu in gpus:
        line = _slow_pcie_line(_links(gpu))
        lasted = facts.seconds_lasting("gpu-pcie-slow", f"{host.name} {gpu.index}") if line and _is_used(gpu) else 0.0
        if line and lasted >= facts.limits.gpu_pcie_age:
            ill.append(Ill(gpu, line))
    if ill:
        words = "a PCIe link that is slower than it could be: loading, offloading and traffic to other hosts take longer"
        yield _finding(
            facts, host, "gpu-pcie-slow", ill, words, f"look for errors of the link (`dmesg | grep -i -e aer -e pcie`); {_RESEAT}"
        )


def _is_used(gpu: Gpu) -> bool:
    return gpu.utilization is not None and USED_PERCENT <= gpu.utilization <= 100


def _slow_pcie_line(links: GpuLinks) -> str | None:
    """What is 0 is not known, as in some virtual machines."""
    pairs = (("width x", links.pcie_width, links.pcie_width_max), ("generation ", links.pcie_generation, links.pcie_generation_max))
    slow = [f"{word}{now} of {most}" for word, now, most in pairs if now and most and 0 < now < most]
    return f"PCIe {' and '.join(slow)} under load (`nvidia-smi -q`: GPU Link Info)" if slow else None


def _error_findings(facts: Facts, host: Host, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    limits = facts.limits
    words = "a growing number of NVLink errors: all ranks wait for what is sent again"
    remedy = f"such errors often come days before a link fails: {_TEST}"
    yield from _growth(facts, host, gpus, "gpu-nvlink-errors", lambda links: links.nvlink_errors, limits.nvlink_errors, words, remedy)
    words = "a growing number of PCIe errors: each is data that was sent again"
    yield from _growth(facts, host, gpus, "gpu-pcie-errors", lambda links: links.pcie_replays, limits.pcie_replays, words, _RESEAT)


def _growth(
    facts: Facts, host: Host, gpus: Sequence[Gpu], code: str, count: Callable[[GpuLinks], int | None], mark: float, words: str, remedy: str
) -> Iterator[Finding]:
    """A count that becomes known begins anew with all others of its host: from which on it has grown is not known."""
    counts = {gpu.label: float(number) for gpu in gpus if (number := count(_links(gpu))) is not None and 0 <= number < MAX_ERRORS}
    if not counts:
        return
    what = f"{code} {host.name} {','.join(counts)}"
    grown = facts.growth_by_name(what, counts, ERRORS_WITHIN_S)
    least = mark * (CLEAR_FACTOR if facts.was_found(code, facts.host_title(host)) else 1)
    by_label = {gpu.label: gpu for gpu in gpus}
    within = age(min(ERRORS_WITHIN_S, facts.seconds_grown(what)))
    tool = "`nvidia-smi nvlink -e`" if "nvlink" in code else "`nvidia-smi -q`: Replays Since Reset"
    ill = [
        Ill(by_label[label], f"{more:.0f} more in the last {within}, {counts[label]:.0f} since its driver was loaded ({tool})")
        for label, more in grown.items()
        if more >= max(1.0, least)
    ]
    if ill:
        yield _finding(facts, host, code, ill, words, remedy)


def _finding(facts: Facts, host: Host, code: str, ill: Sequence[Ill], words: str, remedy: str) -> Finding:
    title, labels = facts.host_title(host), ", ".join(one.gpu.label for one in ill)
    which = f"GPU {labels} of {title} has" if len(ill) == 1 else f"GPUs {labels} of {title} have"
    node = next((node.key for node in map(facts.nodes.get, host.nodes) if node), f"node:{host.name}")
    return Finding(
        code=code,
        level="warning",
        subject=title,
        text=f"{which} {words}",
        evidence=tuple(f"GPU {one.gpu.label}: {one.line}" for one in ill),
        remedy=Remedy(remedy),
        about=tuple(f"{node}:{one.gpu.index}" for one in ill),
    )
