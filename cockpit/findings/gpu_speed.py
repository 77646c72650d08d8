"""Detects GPUs that are slower than others of their model: lowered power limits, low clocks, faulty NVLinks and PCIe links."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.gpu_history import CLOCK, POWER, UTILIZATION
from cockpit.findings.gpus import fill_in, which_gpus
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Gpu, Host, Level
from cockpit.text import age, clean

MIN_CAP_SHARE = 0.97
"""Share of its default at which a power limit still counts as the default: boards differ by some watts."""
LOADED_PERCENT = 80.0
"""Average utilization in percent from which on clocks are compared."""
MAX_CLOCK_SHARE, MAX_CLOCK_SHARE_CLEAR = 0.7, 0.8
"""Share of the others' clock up to which a clock is low; the second once it was found. At its power limit a GPU still runs at 0.7."""
MAX_POWER_SHARE = 0.8
"""Share of its power limit up to which the limit can't be the reason for a low clock: the GPU would draw all of it."""
MIN_FELLOWS = 3
"""Fewest normal GPUs of a model that others are compared with."""
REASONS = {0x2: "locked clocks", 0x4: "power cap", 0x8: "hardware", 0x10: "sync boost", 0x20: "thermal", 0x40: "thermal (hardware)",
    0x80: "power brake", 0x100: "display clocks"}  # fmt: skip
"""Bits of nvmlClocksEventReasons, without idleness."""
ERRORS_WITHIN_S = 600.0
"""Seconds in which new errors of links are counted."""
CLEAR_FACTOR = 0.5
"""Share of the errors at which a finding begins below which it ends."""
MAX_ERRORS = 2**53
"""Higher counts are wrong."""
USED_PERCENT = 50.0
"""Utilization in percent from which on a GPU has no reason to save power on its PCIe link."""
ALONE_SHARE = 1 / 8
"""Share of a model's GPUs that may lack all NVLinks by a fault. If more do, they were never wired, as with bridges between pairs."""
_TEST = "drain the node (`cockpit drain-node NODE`) and test it (`dcgmi diag -r 3`, `nvidia-smi nvlink -s`)"
_RESEAT = (
    "drain the node (`cockpit drain-node NODE`), reseat the GPU or its riser, and test it (`dcgmi diag -r 3`); if the errors stay, "
    "replace the faulty part"
)

Ill = Sequence[tuple[Gpu, str]]
"""GPUs, each with a line of evidence."""


def _whole_gpus(facts: Facts) -> Iterator[tuple[Host, Gpu]]:
    return ((host, gpu) for host in facts.snapshot.hosts.values() for gpu in host.gpus or () if not gpu.is_mig)


def _finding(facts: Facts, host: Host, code: str, ill: Ill, words: str, remedy: str, level: Level = "warning") -> Finding:
    """`words`: the rest of the sentence, after the GPUs."""
    gpus = [gpu for gpu, _ in ill]
    evidence = (f"GPU {gpu.label}: {line}" for gpu, line in ill)
    text = f"{which_gpus(facts, host, gpus)} {words}"
    return facts.host_finding(host, code, level, text, evidence, fill_in(facts, host, remedy, gpus), gpus)


def _has_or_have(ill: Ill) -> str:
    return "has" if len(ill) == 1 else "have"


# Power limits and clocks


@rests_on("nvml")
def lowered_power(facts: Facts) -> Iterator[Finding]:
    """Power limits below the default, by host. If all GPUs of a model have one, it is intended, and only an info."""
    capped: dict[str, list[Gpu]] = defaultdict(list)
    free: set[str | None] = set()
    for host, gpu in _whole_gpus(facts):
        if gpu.power_limit is not None and gpu.power_default is not None:
            if 0 < gpu.power_limit < MIN_CAP_SHARE * gpu.power_default < 1e5:
                capped[host.name].append(gpu)
            else:
                free.add(gpu.name)
    for name, gpus in capped.items():
        uneven = any(gpu.name in free for gpu in gpus)
        words = "has a power limit below its default" if len(gpus) == 1 else "have power limits below their default"
        words += "; other GPUs of this model have a higher one, and a job is as slow as its slowest GPU" if uneven else ""
        ill = [(gpu, f"{gpu.power_limit:.0f} W, by default {gpu.power_default:.0f} W (`nvidia-smi -q -d POWER`)") for gpu in gpus]
        defaults = {f"{gpu.power_default:.0f}" for gpu in gpus}
        command = f"`nvidia-smi -i INDEX -pl {defaults.pop() if len(defaults) == 1 else 'WATTS'}`"
        remedy = f"if this limit is not intended: restore the default ({command}); it lasts until the driver is reloaded"
        yield _finding(facts, facts.snapshot.hosts[name], "gpu-power-capped", ill, words, remedy, "warning" if uneven else "info")


class LoadedGpu(msgspec.Struct, frozen=True):
    """A busy GPU with its average clock in megahertz and its average power in watts."""

    host: Host
    gpu: Gpu
    clock: float
    power: float | None


@rests_on("nvml")
def low_clocks(facts: Facts) -> Iterator[Finding]:
    """Busy GPUs with far lower clocks than other busy GPUs of their model. A single sample can't find them."""
    if facts.is_single_sample:
        return
    code = "gpu-clock-low"
    found: dict[str, list[tuple[LoadedGpu, float]]] = defaultdict(list)
    for gpus in _loaded_by_model(facts).values():
        # A clock is low if it is far below the usual one, although its power limit would allow more.
        usual = median(each.clock for each in gpus)
        low: list[LoadedGpu] = []
        for each in gpus:
            share = MAX_CLOCK_SHARE_CLEAR if facts.was_found(code, facts.host_title(each.host)) else MAX_CLOCK_SHARE
            limit = each.gpu.power_limit
            if each.clock <= share * usual and each.power is not None and limit is not None and each.power <= MAX_POWER_SHARE * limit:
                low.append(each)
        if len(gpus) - len(low) < max(MIN_FELLOWS, len(low)):
            continue
        for each in low:
            if any(each.gpu.slowed or ()):
                continue  # throttling is a finding of its own
            if facts.seconds_lasting(code, f"{each.host.name} {each.gpu.index}") >= facts.limits.gpu_clock_age:
                found[each.host.name].append((each, usual))
    for name, slow in found.items():
        lasted = min(facts.seconds_lasting(code, f"{name} {each.gpu.index}") for each, _ in slow)
        ill: list[tuple[Gpu, str]] = []
        for each, _ in slow:
            watts = "" if each.power is None else f", {each.power:.0f} of {each.gpu.power_limit or 0:.0f} W"
            reasons = clean(", ".join(words for bit, words in REASONS.items() if (each.gpu.clock_reasons or 0) & bit))
            why = f"throttle reason: {reasons}" if reasons else "the driver gives no reason"
            ill.append((each.gpu, f"{each.clock:.0f} MHz on average{watts}; {why} (`nvidia-smi -q -d CLOCK,PERFORMANCE`)"))
        words = (
            f"{_has_or_have(ill)} run at {min(each.clock for each, _ in slow):.0f} MHz for {age(lasted)}, other GPUs "
            f"of this model at {slow[0][1]:.0f} MHz: a job is as slow as its slowest GPU"
        )
        remedy = (
            "if its clocks were locked: unlock them (`nvidia-smi -i INDEX -rgc`, `nvidia-smi -i INDEX -rac`); if not, see what slows them "
            "down (`nvidia-smi -q -d PERFORMANCE`) and test the GPU (`dcgmi diag -r 3`)"
        )
        yield _finding(facts, slow[0][0].host, code, ill, words, remedy)


def _loaded_by_model(facts: Facts) -> Mapping[str, list[LoadedGpu]]:
    found: dict[str, list[LoadedGpu]] = defaultdict(list)
    nodes = {host.name: next(iter(facts.index.nodes_on(host)), None) for host in facts.snapshot.hosts.values()}
    for host, gpu in _whole_gpus(facts):
        node = nodes[host.name]
        load = facts.gpu_history.load(node.key, gpu.index) if node and gpu.name else None
        if load and load[CLOCK] and (load[UTILIZATION] or 0.0) >= LOADED_PERCENT:
            found[gpu.name or ""].append(LoadedGpu(host, gpu, load[CLOCK] or 0.0, load[POWER]))
    return found


# Links

_ERRORS = (
    ("gpu-nvlink-errors", "nvlink_errors", "`nvidia-smi nvlink -e`",
        "a growing number of NVLink errors: data is sent again, and all ranks wait for it",
        f"such errors often come days before a link fails: {_TEST}"),
    ("gpu-pcie-errors", "pcie_replays", "`nvidia-smi -q`: Replays Since Reset",
        "a growing number of PCIe errors: data is sent again, and transfers are slower", _RESEAT),
)  # fmt: skip
"""Code, name of the count in `GpuLinks` and of its threshold in `Limits`, command that shows the count, its meaning, remedy."""


@rests_on("nvml")
def faulty_links(facts: Facts) -> Iterator[Finding]:
    """Links that are down, slow or have errors, by host and kind of fault."""
    expected = _expected_nvlinks(facts)
    for host in facts.snapshot.hosts.values():
        known = [(gpu, gpu.links) for gpu in host.gpus or () if not gpu.is_mig and gpu.links is not None]
        if not known or facts.stale_since(host.name) is not None:
            continue

        # NVLinks that are down
        down: list[tuple[Gpu, str]] = []
        for gpu, links in known:
            active, (most, alone) = links.nvlinks_active, expected.get(gpu.name or "", (0, False))
            if active is not None and active < most and (active > 0 or alone):
                down.append((gpu, f"{active} of {most} NVLinks are active, {most} on most GPUs of this model (`nvidia-smi nvlink -s`)"))
        if down and facts.seconds_lasting("gpu-nvlink-down", host.name) >= facts.limits.gpu_link_age:
            words = "NVLinks that are down: traffic between GPUs is slower, or goes over PCIe, and NCCL may hang"
            cause = "search for Xid 74 and for errors of the fabric manager (`dmesg | grep -i -e xid -e nvlink`, `nvidia-smi topo -m`)"
            remedy = f"{cause}; {_TEST}; resetting the GPU retrains its links"
            yield _finding(facts, host, "gpu-nvlink-down", down, f"{_has_or_have(down)} {words}", remedy)

        # PCIe links below their maximum under load: an idle link slows down by itself. 0 is unknown, as in some virtual machines.
        slow: list[tuple[Gpu, str]] = []
        for gpu, links in known:
            pairs = (("width x", links.pcie_width, links.pcie_width_max), ("generation ", links.pcie_generation, links.pcie_generation_max))
            parts = [f"{word}{now} of {most}" for word, now, most in pairs if now and most and 0 < now < most]
            is_slow = bool(parts) and USED_PERCENT <= (gpu.utilization or 0) <= 100
            if is_slow and facts.seconds_lasting("gpu-pcie-slow", f"{host.name} {gpu.index}") >= facts.limits.gpu_pcie_age:
                slow.append((gpu, f"PCIe {' and '.join(parts)} under load (`nvidia-smi -q`: GPU Link Info)"))
        if slow:
            words = "a PCIe link that runs below its maximum: loading, offloading and traffic to other hosts take longer"
            remedy = f"look for errors of the link (`dmesg | grep -i -e aer -e pcie`); {_RESEAT}"
            yield _finding(facts, host, "gpu-pcie-slow", slow, f"{_has_or_have(slow)} {words}", remedy)

        # Error counts that grow. If a GPU's count becomes known or unknown, all counts of its host start again from their present values.
        for code, name, tool, words, remedy in _ERRORS:
            numbers: Iterator[tuple[Gpu, int | None]] = ((gpu, getattr(links, name)) for gpu, links in known)
            counts = {gpu.label: (gpu, float(number)) for gpu, number in numbers if number is not None and 0 <= number < MAX_ERRORS}
            if not counts:
                continue
            what = f"{code} {host.name} {','.join(counts)}"
            grown = facts.growth_by_name(what, {label: number for label, (_, number) in counts.items()}, ERRORS_WITHIN_S)
            least = getattr(facts.limits, name) * (CLEAR_FACTOR if facts.was_found(code, facts.host_title(host)) else 1)
            within = age(min(ERRORS_WITHIN_S, facts.seconds_grown(what)))
            bad = [
                (counts[label][0], f"{more:.0f} more in the last {within}, {counts[label][1]:.0f} since its driver was loaded ({tool})")
                for label, more in grown.items()
                if more >= max(1.0, least)
            ]
            if bad:
                yield _finding(facts, host, code, bad, f"{_has_or_have(bad)} {words}", remedy)


def _expected_nvlinks(facts: Facts) -> Mapping[str, tuple[int, bool]]:
    """By model: the number of NVLinks that most GPUs of the cluster have, and whether a GPU without any is faulty too."""
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
