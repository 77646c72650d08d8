"""GPUs that are made slower than others of their model: by a lower power limit, or by clocks that are held down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from cockpit.findings.facts import Facts
from cockpit.findings.gpu_history import CLOCK, POWER, UTILIZATION
from cockpit.model import Finding, Gpu, Host, Remedy
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
REASONS = {0x2: "set clocks", 0x4: "power cap", 0x8: "hardware", 0x10: "sync boost", 0x20: "thermal", 0x40: "thermal (hardware)",
    0x80: "power brake", 0x100: "display clocks"}  # fmt: skip
"""Bits of nvmlClocksEventReasons, but idleness."""


class Loaded(NamedTuple):
    """A GPU that works, with its average clock in megahertz and its average power in watts."""

    host: Host
    gpu: Gpu
    clock: float
    power: float | None


def lowered_power(facts: Facts) -> Iterator[Finding]:
    """Power limits below the default, by host: an info where all GPUs of that model have it, as then somebody wants it so."""
    capped = [(host, gpu) for host in facts.snapshot.hosts.values() for gpu in host.gpus or () if _is_capped(gpu)]
    if not capped:
        return
    models = {gpu.name for _, gpu in capped}
    free = {gpu.name for host in facts.snapshot.hosts.values() for gpu in host.gpus or () if gpu.name in models and _is_uncapped(gpu)}
    for host in {host.name: host for host, _ in capped}.values():
        yield _power_finding(
            facts, host, [gpu for other, gpu in capped if other is host], uneven=any(gpu.name in free for _, gpu in capped)
        )


def _is_capped(gpu: Gpu) -> bool:
    limit, default = gpu.power_limit, gpu.power_default
    return gpu.index < 1000 and limit is not None and default is not None and 0 < limit < MIN_CAP_SHARE * default < 1e5


def _is_uncapped(gpu: Gpu) -> bool:
    return gpu.index < 1000 and gpu.power_limit is not None and gpu.power_default is not None and not _is_capped(gpu)


def _power_finding(facts: Facts, host: Host, gpus: Sequence[Gpu], *, uneven: bool) -> Finding:
    title, labels = facts.host_title(host), ", ".join(gpu.label for gpu in gpus)
    others = "; others of this model have more, and a job is as slow as its slowest GPU" if uneven else ""
    which = (
        f"GPU {labels} of {title} has a power limit below its"
        if len(gpus) == 1
        else f"GPUs {labels} of {title} have power limits below their"
    )
    return Finding(
        code="gpu-power-capped",
        level="warning" if uneven else "info",
        subject=title,
        text=f"{which} default{others}",
        evidence=tuple(
            f"GPU {gpu.label}: {gpu.power_limit:.0f} W, by default {gpu.power_default:.0f} W (`nvidia-smi -q -d POWER`)" for gpu in gpus
        ),
        remedy=Remedy(
            "if this limit is not intended: restore the default (`nvidia-smi -i INDEX -pl WATTS`); it lasts until the driver is reloaded"
        ),
        about=_about(facts, host, gpus),
        seen=facts.stale_since(host.name),
    )


def low_clocks(facts: Facts) -> Iterator[Finding]:
    """GPUs that work with far lower clocks than others of their model that work. A single look can't tell."""
    if facts.is_single_look:
        return
    found: dict[str, list[tuple[Loaded, float]]] = {}
    for each, usual in _find_low(facts):
        if facts.seconds_lasting("gpu-clock-low", f"{each.host.name} {each.gpu.index}") >= facts.limits.gpu_clock_age:
            found.setdefault(each.host.name, []).append((each, usual))
    for low in found.values():
        yield _clock_finding(facts, low[0][0].host, low)


def _find_low(facts: Facts) -> Iterator[tuple[Loaded, float]]:
    for gpus in _loaded_by_model(facts).values():
        usual = median(each.clock for each in gpus)
        low = [each for each in gpus if each.clock <= _max_share(facts, each.host) * usual and _has_power_left(each)]
        if len(gpus) - len(low) >= max(MIN_FELLOWS, len(low)):
            yield from ((each, usual) for each in low if not any(each.gpu.slowed or ()))  # what slows it down is a finding of its own


def _loaded_by_model(facts: Facts) -> Mapping[str, list[Loaded]]:
    found: dict[str, list[Loaded]] = {}
    for host in facts.snapshot.hosts.values():
        node = next((node for node in map(facts.nodes.get, host.nodes) if node), None)
        for gpu in host.gpus or () if node else ():
            load = facts.gpu_history.load(node.key, gpu.index) if node and gpu.name and gpu.index < 1000 else None
            if load and load[CLOCK] and (load[UTILIZATION] or 0.0) >= LOADED_PERCENT:
                found.setdefault(gpu.name or "", []).append(Loaded(host, gpu, load[CLOCK] or 0.0, load[POWER]))
    return found


def _max_share(facts: Facts, host: Host) -> float:
    return MAX_CLOCK_SHARE_CLEAR if facts.was_found("gpu-clock-low", facts.host_title(host)) else MAX_CLOCK_SHARE


def _has_power_left(each: Loaded) -> bool:
    return each.power is not None and each.gpu.power_limit is not None and each.power <= MAX_POWER_SHARE * each.gpu.power_limit


def _clock_finding(facts: Facts, host: Host, low: Sequence[tuple[Loaded, float]]) -> Finding:
    title, gpus = facts.host_title(host), [each.gpu for each, _ in low]
    least, usual = min(each.clock for each, _ in low), low[0][1]
    lasted = min(facts.seconds_lasting("gpu-clock-low", f"{host.name} {gpu.index}") for gpu in gpus)
    which = f"GPU {gpus[0].label} of {title} works" if len(gpus) == 1 else f"GPUs {', '.join(gpu.label for gpu in gpus)} of {title} work"
    return Finding(
        code="gpu-clock-low",
        level="warning",
        subject=title,
        text=f"{which} at {least:.0f} MHz, others of this model at {usual:.0f} MHz, for {age(lasted)}: a job is as slow as its slowest GPU",
        evidence=tuple(_clock_line(each) for each, _ in low),
        remedy=Remedy(
            "if its clocks were locked: unlock them (`nvidia-smi -i INDEX -rgc`, `nvidia-smi -i INDEX -rac`); if not, see what slows them "
            "down (`nvidia-smi -q -d PERFORMANCE`) and test the GPU (`dcgmi diag -r 3`)"
        ),
        about=_about(facts, host, gpus),
        seen=facts.stale_since(host.name),
    )


def _clock_line(each: Loaded) -> str:
    watts = "" if each.power is None else f", {each.power:.0f} of {each.gpu.power_limit or 0:.0f} W"
    reasons = clean(", ".join(clock_reasons(each.gpu)))
    told = "the driver gives no reason" if not reasons else f"slowed by: {reasons}"
    return f"GPU {each.gpu.label}: {each.clock:.0f} MHz on average{watts}; {told} (`nvidia-smi -q -d CLOCK,PERFORMANCE`)"


def clock_reasons(gpu: Gpu) -> list[str]:
    """What holds its clocks down now, in words."""
    return [words for bit, words in REASONS.items() if (gpu.clock_reasons or 0) & bit]


def _about(facts: Facts, host: Host, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    node = next((node.key for node in map(facts.nodes.get, host.nodes) if node), f"node:{host.name}")
    return tuple(f"{node}:{gpu.index}" for gpu in gpus)
