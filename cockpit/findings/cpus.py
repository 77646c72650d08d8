"""Detects nodes on which Ray offers more CPUs than its raylet and workers may use.

Fewer CPUs are no fault: they were left to others on purpose, and work that waits for CPUs is a finding of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.live_raylets import LiveRaylet, live_raylets
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Remedy
from cockpit.text import clean, count

MAX_CPUS = 1 << 13
"""NR_CPUS of linux/arch/x86/Kconfig: no host has more."""
MAX_OFFERED = 1e6


class _UsableCpus(msgspec.Struct, frozen=True, order=True):
    """The number of CPUs that a raylet may use under one limit, and the words for it."""

    number: float
    words: str
    evidence: str
    way_out: str = ""
    """How to raise the limit."""


@rests_on("ray.nodes", "rays")
def overcounted_cpus(facts: Facts) -> Iterator[Finding]:
    """Nodes with too many CPUs: a warning if Ray offers all CPUs of the host, since then the number was counted wrongly.

    Ray respects the limits of its own container, but neither an affinity (taskset, Slurm) nor the limits of cgroups above it
    (`get_num_cpus` in ray/_private/utils.py, 2.60); `--num-cpus=$(nproc)` respects no cgroup at all. Any other number was chosen by a
    person, so it is only an info.
    """
    for live in live_raylets(facts):
        total = live.node.resources["CPU"].total if "CPU" in live.node.resources else None
        usable = min(_usable_cpus(live), default=None)
        if total is None or usable is None or not facts.limits.cpu_overcount * usable.number <= total <= MAX_OFFERED:
            continue
        host_cpus = live.host.cpus
        is_miscounted = total == host_cpus and usable.number < host_cpus
        name = facts.title(live.node)
        text = f"Ray offers {count(total)} CPUs on {name}, but {usable.words}: up to {count(total)} tasks of one CPU run there at once"
        evidence = (f"CPU resource of {name}: {count(total)}", usable.evidence, f"CPUs of that host: {count(host_cpus)}")
        again = f"`ray stop` on {name}, then its `ray start` again with --num-cpus={max(1, int(usable.number))}"
        remedy = Remedy(f"if that is not meant: {again}{usable.way_out}")
        yield facts.node_finding(live.node, "cpus-overcounted", "warning" if is_miscounted else "info", text, evidence, remedy)


def _usable_cpus(live: LiveRaylet) -> Iterator[_UsableCpus]:
    """The usable CPUs under each known limit."""
    limit, pid, has = live.raylet.cpu_limit, live.raylet.pid, live.host.cpus
    if has is not None and 0 < has <= MAX_CPUS:
        yield _UsableCpus(has, f"its host has {count(has)}", "`nproc --all`: " + count(has))
    if limit is not None and limit.affinity is not None and 0 < limit.affinity <= MAX_CPUS:
        words = f"its raylet may run on only {count(limit.affinity)} (taskset, cpuset or Slurm)"
        evidence = f"`taskset -cp {pid}`: {count(limit.affinity)} CPUs"
        yield _UsableCpus(limit.affinity, words, evidence, ", or start it where more CPUs are allowed (in Slurm: --cpus-per-task)")
    if limit is not None and limit.quota is not None and limit.path and 0 < limit.quota <= MAX_CPUS:
        path = clean(limit.path)
        words = f"its cgroup may use {count(limit.quota)} ({path.rpartition('/')[2]})"
        yield _UsableCpus(limit.quota, words, f"{path}: {count(limit.quota)} CPUs", ", or raise the limit of its container or cgroup")
