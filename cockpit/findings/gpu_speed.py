"""GPUs that are slower than others of their model: power limits, clocks that are held down, NVLinks and PCIe links that fail."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.gpu_history import CLOCK, POWER, UTILIZATION
from cockpit.findings.gpus import fill_in, which_gpus
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Gpu, GpuLinks, Host
from cockpit.text import age, clean

MIN_CAP_SHARE = 0.97
"""Of its default, from which on a power limit counts as that: boards differ by some watts."""
LOADED_PERCENT = 80.0
"""Percent of utilization, on average, from which on clocks are compared."""
MAX_CLOCK_SHARE, MAX_CLOCK_SHARE_CLEAR = 0.7, 0.8
"""Of the others' clock, what is far below it; the second once it was told. A GPU at its power limit runs at 0.7 of its highest clock."""
MAX_POWER_SHARE = 0.8
"""Of its limit, with which a GPU is surely not held down by that: it would draw all of it."""
MIN_FELLOWS = 3
"""GPUs of a model with which others are compared."""
REASONS = {0x2: "locked clocks", 0x4: "power cap", 0x8: "hardware", 0x10: "sync boost", 0x20: "thermal", 0x40: "thermal (hardware)",
    0x80: "power brake", 0x100: "display clocks"}  # fmt: skip
"""Bits of nvmlClocksEventReasons, but idleness."""
ERRORS_WITHIN_S = 600.0
"""Seconds in which new errors of links are counted."""
CLEAR_FACTOR = 0.5
"""Of the errors at which it begins: where it ends."""
MAX_ERRORS = 2**53
"""No counter has come so far."""
USED_PERCENT = 50.0
"""Percent of utilization from which on a GPU has no reason to save power on its PCIe link."""
ALONE_SHARE = 1 / 8
"""At most this share of them may have no NVLink at all: more, and they are not wired, as where bridges join pairs."""
_TEST = "drain the node (`cockpit drain-node NODE`) and test it (`dcgmi diag -r 3`, `nvidia-smi nvlink -s`)"
_RESEAT = (
    "drain the node (`cockpit drain-node NODE`), reseat the GPU or its riser, and test it (`dcgmi diag -r 3`); if the errors stay, "
    "replace the faulty part"
)

Known = Sequence[tuple[Gpu, GpuLinks]]
Ill = Sequence[tuple[Gpu, str]]
"""GPUs with what is wrong with each, as a line that can be checked."""


def _whole_gpus(facts: Facts) -> Iterator[tuple[Host, Gpu]]:
    return ((host, gpu) for host in facts.snapshot.hosts.values() for gpu in host.gpus or () if gpu.index < 1000)


def _finding(facts: Facts, host: Host, code: str, ill: Ill, words: str, remedy: str) -> Finding:
    gpus = [gpu for gpu, _ in ill]
    text = f"{which_gpus(facts, host, gpus)} {'has' if len(gpus) == 1 else 'have'} {words}"
    return facts.host_finding(
        host, code, "warning", text, (f"GPU {gpu.label}: {line}" for gpu, line in ill), fill_in(facts, host, remedy, gpus), gpus
    )


# Power limits and clocks


@rests_on("nvml")
def lowered_power(facts: Facts) -> Iterator[Finding]:
    """Power limits below the default, by host: an info where all GPUs of that model have it, as then somebody wants it so."""
    capped: dict[str, list[Gpu]] = defaultdict(list)
    free: set[str | None] = set()
    for host, gpu in _whole_gpus(facts):
        if gpu.power_limit is not None and gpu.power_default is not None:
            if 0 < gpu.power_limit < MIN_CAP_SHARE * gpu.power_default < 1e5:
                capped[host.name].append(gpu)
            else:
                free.add(gpu.name)
    for host in facts.snapshot.hosts.values():
        if gpus := capped.get(host.name):
            yield _power_finding(facts, host, gpus, uneven=any(gpu.name in free for gpu in gpus))


def _power_finding(facts: Facts, host: Host, gpus: Sequence[Gpu], *, uneven: bool) -> Finding:
    below = "has a power limit below its default" if len(gpus) == 1 else "have power limits below their default"
    others = "; other GPUs of this model have a higher one, and a job is as slow as its slowest GPU" if uneven else ""
    text = f"{which_gpus(facts, host, gpus)} {below}{others}"
    evidence = (
        f"GPU {gpu.label}: {gpu.power_limit:.0f} W, by default {gpu.power_default:.0f} W (`nvidia-smi -q -d POWER`)" for gpu in gpus
    )
    defaults = {f"{gpu.power_default:.0f}" for gpu in gpus}
    watts = defaults.pop() if len(defaults) == 1 else "WATTS"
    command = fill_in(facts, host, f"`nvidia-smi -i INDEX -pl {watts}`", gpus)
    remedy = f"if this limit is not intended: restore the default ({command}); it lasts until the driver is reloaded"
    return facts.host_finding(host, "gpu-power-capped", "warning" if uneven else "info", text, evidence, remedy, gpus)


class LoadedGpu(msgspec.Struct, frozen=True):
    """A GPU that works, with its average clock in megahertz and its average power in watts."""

    host: Host
    gpu: Gpu
    clock: float
    power: float | None


@rests_on("nvml")
def low_clocks(facts: Facts) -> Iterator[Finding]:
    """GPUs that work with far lower clocks than others of their model that work. A single look can't tell."""
    found: dict[str, list[tuple[LoadedGpu, float]]] = defaultdict(list)
    for each, usual in _find_low(facts) if not facts.is_single_look else ():
        if facts.seconds_lasting("gpu-clock-low", f"{each.host.name} {each.gpu.index}") >= facts.limits.gpu_clock_age:
            found[each.host.name].append((each, usual))
    for low in found.values():
        yield _clock_finding(facts, low[0][0].host, low)


def _find_low(facts: Facts) -> Iterator[tuple[LoadedGpu, float]]:
    for gpus in _loaded_by_model(facts).values():
        usual = median(each.clock for each in gpus)
        low = [each for each in gpus if _is_low(facts, each, usual)]
        if len(gpus) - len(low) >= max(MIN_FELLOWS, len(low)):
            yield from ((each, usual) for each in low if not any(each.gpu.slowed or ()))  # what slows it down is a finding of its own


def _is_low(facts: Facts, each: LoadedGpu, usual: float) -> bool:
    """Far below the usual clock, though its power limit would allow more."""
    share = MAX_CLOCK_SHARE_CLEAR if facts.was_found("gpu-clock-low", facts.host_title(each.host)) else MAX_CLOCK_SHARE
    limit = each.gpu.power_limit
    return each.clock <= share * usual and each.power is not None and limit is not None and each.power <= MAX_POWER_SHARE * limit


def _loaded_by_model(facts: Facts) -> Mapping[str, list[LoadedGpu]]:
    found: dict[str, list[LoadedGpu]] = defaultdict(list)
    nodes = {host.name: next(iter(facts.index.nodes_on(host)), None) for host in facts.snapshot.hosts.values()}
    for host, gpu in _whole_gpus(facts):
        node = nodes[host.name]
        load = facts.gpu_history.load(node.key, gpu.index) if node and gpu.name else None
        if load and load[CLOCK] and (load[UTILIZATION] or 0.0) >= LOADED_PERCENT:
            found[gpu.name or ""].append(LoadedGpu(host, gpu, load[CLOCK] or 0.0, load[POWER]))
    return found


def _clock_finding(facts: Facts, host: Host, low: Sequence[tuple[LoadedGpu, float]]) -> Finding:
    gpus, least, usual = [each.gpu for each, _ in low], min(each.clock for each, _ in low), low[0][1]
    lasted = min(facts.seconds_lasting("gpu-clock-low", f"{host.name} {gpu.index}") for gpu in gpus)
    text = (
        f"{which_gpus(facts, host, gpus)} {'has' if len(gpus) == 1 else 'have'} run at {least:.0f} MHz for {age(lasted)}, other GPUs "
        f"of this model at {usual:.0f} MHz: a job is as slow as its slowest GPU"
    )
    remedy = (
        "if its clocks were locked: unlock them (`nvidia-smi -i INDEX -rgc`, `nvidia-smi -i INDEX -rac`); if not, see what slows them "
        "down (`nvidia-smi -q -d PERFORMANCE`) and test the GPU (`dcgmi diag -r 3`)"
    )
    lines = (_clock_line(each) for each, _ in low)
    return facts.host_finding(host, "gpu-clock-low", "warning", text, lines, fill_in(facts, host, remedy, gpus), gpus)


def _clock_line(each: LoadedGpu) -> str:
    watts = "" if each.power is None else f", {each.power:.0f} of {each.gpu.power_limit or 0:.0f} W"
    reasons = clean(", ".join(words for bit, words in REASONS.items() if (each.gpu.clock_reasons or 0) & bit))
    why = f"throttle reason: {reasons}" if reasons else "the driver gives no reason"
    return f"GPU {each.gpu.label}: {each.clock:.0f} MHz on average{watts}; {why} (`nvidia-smi -q -d CLOCK,PERFORMANCE`)"


# Links


@rests_on("nvml")
def faulty_links(facts: Facts) -> Iterator[Finding]:
    """By host and kind of fault."""
    expected = _expected_nvlinks(facts)
    for host in facts.snapshot.hosts.values():
        known = [(gpu, gpu.links) for gpu in host.gpus or () if gpu.index < 1000 and gpu.links is not None]
        if known and facts.stale_since(host.name) is None:
            yield from _down_findings(facts, host, known, expected)
            yield from _pcie_findings(facts, host, known)
            yield from _error_findings(facts, host, known)


def _expected_nvlinks(facts: Facts) -> Mapping[str, tuple[int, bool]]:
    """By model: how many NVLinks most of the cluster's GPUs have, and whether none at all is wrong too."""
    known: dict[str, list[int]] = defaultdict(list)
    for _, gpu in _whole_gpus(facts):
        if gpu.name and gpu.links is not None and gpu.links.nvlinks_active is not None:
            known[gpu.name].append(gpu.links.nvlinks_active)
    found: dict[str, tuple[int, bool]] = {}
    for name, active in known.items():
        most, number = Counter(active).most_common(1)[0]
        if number >= MIN_FELLOWS and 2 * number > len(active) and most == max(active):
            found[name] = most, active.count(0) <= ALONE_SHARE * len(active)
    return found


def _down_findings(facts: Facts, host: Host, known: Known, expected: Mapping[str, tuple[int, bool]]) -> Iterator[Finding]:
    ill = []
    for gpu, links in known:
        active, (most, alone) = links.nvlinks_active, expected.get(gpu.name or "", (0, False))
        if active is not None and active < most and (active > 0 or alone):
            ill.append((gpu, f"{active} of {most} NVLinks are active, {most} on most GPUs of this model (`nvidia-smi nvlink -s`)"))
    if ill and facts.seconds_lasting("gpu-nvlink-down", host.name) >= facts.limits.gpu_link_age:
        words = "NVLinks that are down: traffic between GPUs is slower, or goes over PCIe, and NCCL may hang"
        cause = "search for Xid 74 and for errors of the fabric manager (`dmesg | grep -i -e xid -e nvlink`, `nvidia-smi topo -m`)"
        yield _finding(facts, host, "gpu-nvlink-down", ill, words, f"{cause}; {_TEST}; resetting the GPU retrains its links")


def _pcie_findings(facts: Facts, host: Host, known: Known) -> Iterator[Finding]:
    """Under load only: an idle link goes slower by itself."""
    slow = [(gpu, line) for gpu, links in known if USED_PERCENT <= (gpu.utilization or 0) <= 100 and (line := _slow_pcie_line(links))]
    age_s = facts.limits.gpu_pcie_age
    ill = [(gpu, line) for gpu, line in slow if facts.seconds_lasting("gpu-pcie-slow", f"{host.name} {gpu.index}") >= age_s]
    if ill:
        words = "a PCIe link that runs below its maximum: loading, offloading and traffic to other hosts take longer"
        remedy = f"look for errors of the link (`dmesg | grep -i -e aer -e pcie`); {_RESEAT}"
        yield _finding(facts, host, "gpu-pcie-slow", ill, words, remedy)


def _slow_pcie_line(links: GpuLinks) -> str | None:
    """What is 0 is not known, as in some virtual machines."""
    pairs = (("width x", links.pcie_width, links.pcie_width_max), ("generation ", links.pcie_generation, links.pcie_generation_max))
    slow = [f"{word}{now} of {most}" for word, now, most in pairs if now and most and 0 < now < most]
    return f"PCIe {' and '.join(slow)} under load (`nvidia-smi -q`: GPU Link Info)" if slow else None


_ERRORS = (
    ("gpu-nvlink-errors", "nvlink_errors", "`nvidia-smi nvlink -e`",
        "a growing number of NVLink errors: data is sent again, and all ranks wait for it",
        f"such errors often come days before a link fails: {_TEST}"),
    ("gpu-pcie-errors", "pcie_replays", "`nvidia-smi -q`: Replays Since Reset",
        "a growing number of PCIe errors: data is sent again, and transfers are slower", _RESEAT),
)  # fmt: skip
"""The code, the name of the count in `GpuLinks` and of its mark in `Limits`, where the count can be seen, what it means, what to do."""


def _error_findings(facts: Facts, host: Host, known: Known) -> Iterator[Finding]:
    """A count that becomes known begins anew with all others of its host: from which on it has grown is not known."""
    for code, name, tool, words, remedy in _ERRORS:
        numbers: Iterator[tuple[Gpu, int | None]] = ((gpu, getattr(links, name)) for gpu, links in known)
        counts = {gpu.label: (gpu, float(number)) for gpu, number in numbers if number is not None and 0 <= number < MAX_ERRORS}
        if not counts:
            continue
        what = f"{code} {host.name} {','.join(counts)}"
        grown = facts.growth_by_name(what, {label: number for label, (_, number) in counts.items()}, ERRORS_WITHIN_S)
        least = getattr(facts.limits, name) * (CLEAR_FACTOR if facts.was_found(code, facts.host_title(host)) else 1)
        within = age(min(ERRORS_WITHIN_S, facts.seconds_grown(what)))
        ill = [
            (counts[label][0], f"{more:.0f} more in the last {within}, {counts[label][1]:.0f} since its driver was loaded ({tool})")
            for label, more in grown.items()
            if more >= max(1.0, least)
        ]
        if ill:
            yield _finding(facts, host, code, ill, words, remedy)
