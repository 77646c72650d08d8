"""Detects limits of locked memory that are too low for NCCL over InfiniBand or RDMA: then a job fails when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.live_raylets import LiveRaylet, is_spread, live_raylets
from cockpit.findings.sources import rests_on
from cockpit.model import Finding
from cockpit.text import clean, join_first, size

MAX_HOSTS_NAMED = 8
MAX_DEVICES_NAMED = 4
REMEDY = (
    "`ulimit -l unlimited` before `ray start` on each of them; in a container `--ulimit memlock=-1`; in a systemd unit "
    "LimitMEMLOCK=infinity; where ulimit is refused: `* - memlock unlimited` in /etc/security/limits.conf, then log in again"
)


@rests_on("ray.nodes", "rays")
def low_locked_memory(facts: Facts) -> Iterator[Finding]:
    """One finding for all hosts. A cluster on one host is left out: there NCCL needs no network."""
    if not is_spread(facts):
        return
    low: list[LiveRaylet] = []
    for live in live_raylets(facts):
        locked = live.raylet.locked_memory
        if live.raylet.rdma and locked is not None and 0 <= locked < facts.limits.locked_memory:
            low.append(live)
    if not low:
        return
    evidence: list[str] = []
    for live in low[:MAX_HOSTS_NAMED]:
        devices = join_first([clean(name) for name in live.raylet.rdma or ()], MAX_DEVICES_NAMED)
        limit = f"/proc/{live.raylet.pid}/limits on {live.host.name}: Max locked memory {live.raylet.locked_memory}"
        evidence.append(f"{limit}; /sys/class/infiniband: {devices}")
    names = list(dict.fromkeys(facts.title(live.node) for live in low))
    least = min(live.raylet.locked_memory or 0 for live in low)
    yield facts.cluster_finding(
        (live.node for live in low),
        "locked-memory-low",
        "warning",
        f"Workers may lock only {size(least)} of memory on {join_first(names, MAX_HOSTS_NAMED)} (ulimit -l; wanted: at least "
        f"{size(facts.limits.locked_memory)}), which {'have' if len(names) > 1 else 'has'} RDMA devices: NCCL fails there with "
        "`Call to ibv_reg_mr failed`",
        evidence,
        REMEDY,
    )
