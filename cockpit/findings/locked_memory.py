"""Detects limits of locked memory that are too low for NCCL over InfiniBand or RDMA: then a job fails when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.live_raylets import is_spread, live_raylets
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Node
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
    low: list[tuple[Node, int]] = []
    evidence: list[str] = []
    for live in live_raylets(facts):
        locked = live.raylet.locked_memory
        if live.raylet.rdma and locked is not None and 0 <= locked < facts.limits.locked_memory:
            low.append((live.node, locked))
            limit = f"/proc/{live.raylet.pid}/limits on {live.host.name}: Max locked memory {locked}"
            devices = join_first([clean(name) for name in live.raylet.rdma], MAX_DEVICES_NAMED)
            evidence.append(f"{limit}; /sys/class/infiniband: {devices}")
    if not low:
        return
    names = list(dict.fromkeys(facts.title(node) for node, _ in low))
    text = (
        f"Workers may lock only {size(min(locked for _, locked in low))} of memory on {join_first(names, MAX_HOSTS_NAMED)} (ulimit -l; "
        f"wanted: at least {size(facts.limits.locked_memory)}), which {'have' if len(names) > 1 else 'has'} RDMA devices: NCCL fails "
        "there with `Call to ibv_reg_mr failed`"
    )
    yield facts.cluster_finding([node for node, _ in low], "locked-memory-low", "warning", text, evidence[:MAX_HOSTS_NAMED], REMEDY)
