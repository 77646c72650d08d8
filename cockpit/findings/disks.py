"""Where Ray puts what does not fit into memory: disks under its temp dirs, the object store, /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, inf

from cockpit.findings.facts import Facts
from cockpit.model import Disk, Finding, Host, Node, Remedy, Session
from cockpit.text import plural, size

STEP = 0.02
"""Share of a disk by which it must fall below its mark, and that dead sessions must hold to be a remedy."""
CALM = 0.05
ABSURD = 3.0
"""What doesn't fit into an object store Ray puts beside it, on disk, and counts it too; but no more than this."""
MOST = 10
"""Sessions that are listed."""


def full_disks(facts: Facts) -> Iterator[Finding]:
    """Disks under temp dirs near the mark at which Ray creates no more objects that would have to be spilled."""
    least = min(facts.limits.disk_filling, facts.limits.disk_full) - STEP
    met: set[tuple[str, str]] = set()
    for node in facts.snapshot.nodes or ():
        for disk in node.disks:
            used = _share(disk.used, disk.total)
            if not least <= used <= 1 or disk not in _rays_disks(node) or _guessed(facts, node, disk):
                continue
            if (place := (node.ip or node.host, disk.path)) not in met:
                met.add(place)  # several raylets on a host see the same disk
                yield from _disk(facts, node, disk, used)


def _rays_disks(node: Node) -> tuple[Disk, ...]:
    """Ray and probes list `/` beside the temp dirs; where these are elsewhere it is not Ray's."""
    return tuple(disk for disk in node.disks if disk.path != "/") or node.disks if len(node.disks) > 1 else node.disks


def _guessed(facts: Facts, node: Node, disk: Disk) -> bool:
    """Whether an agent names /tmp and Ray is elsewhere: those of older versions name it wherever Ray was started."""
    if node.probed or disk.path != "/tmp":  # noqa: S108 what agents say
        return False
    ours = [session.path for session in facts.snapshot.sessions or () if session.name == facts.snapshot.cluster.session]
    return bool(ours) and not any(path.startswith("/tmp/") for path in ours)  # noqa: S108


def _disk(facts: Facts, node: Node, disk: Disk, used: float) -> Iterator[Finding]:
    name, limits = facts.title(node), facts.limits
    subject = f"{name} {disk.path}"
    full = facts.over(used, limits.disk_full, limits.disk_full - STEP, "disk-full", subject)
    if not (full or facts.over(used, limits.disk_filling, limits.disk_filling - STEP, "disk-filling", subject)):
        return
    host = facts.hosts.get(node.id or "") or facts.snapshot.hosts.get(node.host)
    sessions = _sessions(host, disk)
    dead = [session for session in sessions if session.live is False]
    held = sum(session.size for session in dead if session.size is not None and 0 <= session.size <= (disk.total or 0))
    helps = bool(dead) and held >= STEP * (disk.total or 0)
    left = size((disk.total or 0) - (disk.used or 0))
    whose = f"; {plural(len(dead), 'dead session')} hold{'s' if len(dead) == 1 else ''} {size(held)} of it" if held else ""
    mark = "stops" if full else f"will stop at {limits.disk_full:.0%}"
    yield Finding(
        code="disk-full" if full else "disk-filling",
        level="critical" if full else "warning",
        subject=subject,
        text=f"the disk under {disk.path} on {name} is {_percent(used)} full ({left} of {size(disk.total)} left): "
        f"Ray {mark} making objects that may have to be spilled{whose}",
        evidence=(f"df {disk.path} on {name}: {size(disk.used)} of {size(disk.total)}", *map(_line, sessions[:MOST])),
        remedy=Remedy("remove what dead sessions left", "clean")
        if helps
        else Remedy(f"find what fills it (`du -xh --max-depth 2 {disk.path} | sort -h`): logs, core dumps, checkpoints, spilled objects"),
        about=(node.key, *(session.key for session in dead)),
        seen=facts.oldest([node]),
    )


def _sessions(host: Host | None, disk: Disk) -> list[Session]:
    """Those on this disk, dead ones first, of these the largest."""
    if host is None or not host.sessions:
        return []
    others = [other.path for other in host.disks if other.path != "/" and len(other.path) > len(disk.path)]
    under = "" if disk.path == "/" or len(host.disks) == 1 else f"{disk.path}/"
    here = [one for one in host.sessions if one.path.startswith(under) and not any(one.path.startswith(f"{path}/") for path in others)]
    return sorted(here, key=lambda session: (session.live is not False, -(session.size or 0)))


def _share(used: float | None, total: float | None) -> float:
    """Unknown is not full."""
    return used / total if used is not None and total is not None and total > 0 else 0.0


def _percent(used: float) -> str:
    """Rounded down: what is below a mark must not look as if it were at it."""
    return f"{floor(100 * used + 1e-6)}%"


def _line(session: Session) -> str:
    life = {True: "live", False: "dead", None: "nobody knows whether it lives"}[session.live]
    keeps = f", keeps {', '.join(session.keeps[:3])}" if session.keeps else ""
    amount = size(session.size) if session.size is not None else "not counted yet"
    return f"du -sh {session.path}: {amount} ({life}{f', of {session.owner}' if session.owner else ''}{keeps})"


def full_stores(facts: Facts) -> Iterator[Finding]:
    """Object stores so full that Ray spills."""
    least = min(facts.limits.store_filling, facts.limits.store_full) - CALM
    for node in facts.alive:
        used = _share(node.object_store.used, node.object_store.total)
        if least <= used < ABSURD:
            yield from _store(facts, node, used)


def _store(facts: Facts, node: Node, used: float) -> Iterator[Finding]:
    name, limits = facts.title(node), facts.limits
    filling = facts.over(used, limits.store_filling, limits.store_filling - CALM, "object-store-filling", name)
    full = facts.over(used, limits.store_full, limits.store_full - CALM, "object-store-full", name)
    full = full and facts.lasts("object-store-full", name) >= limits.store_age
    if not full and not (filling and facts.lasts("object-store-filling", name) >= limits.store_age):
        return
    what = "what is put into it waits until something was spilled to disk" if full else "Ray spills objects to disk"
    yield Finding(
        code="object-store-full" if full else "object-store-filling",
        level="warning" if full and not facts.once else "info",  # rollouts fill it for moments
        subject=name,
        text=f"Ray's object store on {name} is {_percent(used)} full "
        f"({size(node.object_store.used)} of {size(node.object_store.total)}): {what}",
        evidence=("ray memory --stats-only: what is in it, and what was spilled",),
        remedy=Remedy("let go of object references that nobody needs (`ray memory`), or start Ray with a larger --object-store-memory"),
        about=(node.key,),
        seen=facts.heard("ray.nodes"),
    )


def small_shm(facts: Facts) -> Iterator[Finding]:
    """Shared memory that can't hold the object store: Ray then keeps it on a disk."""
    small = [(node, has, want) for node in facts.alive if (has := node.shm.total or 0) > 0 and (want := _capacity(node)) > has]
    if not small:
        return
    listed = ", ".join(f"{facts.title(node)} ({size(has)} for {size(want)})" for node, has, want in small[:MOST])
    more = f" and {len(small) - MOST} more" if len(small) > MOST else ""
    yield Finding(
        code="shm-small",
        level="warning",
        subject="cluster",
        text=f"shared memory (/dev/shm) is smaller than Ray's object store on {listed}{more}: Ray keeps it on disk instead, which is slow, "
        "and NCCL may lack shared memory",
        evidence=tuple(f"df /dev/shm on {facts.title(node)}: {size(has)}; ray start: {size(want)}" for node, has, want in small[:MOST]),
        remedy=Remedy(
            "a larger /dev/shm (docker: --shm-size, Kubernetes: an emptyDir with medium Memory), or a smaller --object-store-memory"
        ),
        about=tuple(node.key for node, _, _ in small),
        seen=facts.oldest(node for node, _, _ in small),
    )


def _capacity(node: Node) -> float:
    """As the node was started with; not what its store has grown to on disk."""
    told = node.resources.get("object_store_memory")
    return told.total if told and told.total and told.total < inf else 0.0
