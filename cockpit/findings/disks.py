"""Detects full disks under Ray's temp dirs, full object stores, and a /dev/shm that is full or too small."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from cockpit.findings.facts import Facts
from cockpit.findings.fillers import find_filling
from cockpit.findings.shell_words import quote_word
from cockpit.findings.sources import rests_on
from cockpit.model import Disk, Finding, Level, Node, Remedy, Session
from cockpit.text import UNKNOWN, clean, join_first, plural, share_percent, size

SHM = "/dev/shm"  # noqa: S108 a fixed place
DISK_STEP_SHARE = 0.02
"""Share of a disk by which its use must fall below a mark to end a finding, and that dead sessions must hold to be a remedy."""
STORE_STEP_SHARE = 0.05
MAX_STORE_SHARE = 3.0
"""Ray also counts objects that it put on disk because the store was full, so a use above 100 % is plausible, up to this share."""
MAX_SESSIONS_LISTED = 10
MAX_USERS_LISTED = 6


@rests_on("disks")
def full_disks(facts: Facts) -> Iterator[Finding]:
    """Disks under temp dirs near the mark at which Ray stops creating objects that may need to be spilled."""
    limits = facts.limits
    met: set[tuple[str, str]] = set()
    for node in facts.snapshot.nodes or ():
        # Ray and probes also list `/`: it matters only if no temp dir is listed.
        disks = facts.index.machine(node).disks
        for disk in tuple(one for one in disks if one.path != "/") or disks:
            used, place = _used_share(disk.used, disk.total), (node.ip or node.host, disk.path)
            if not min(limits.disk_filling, limits.disk_full) - DISK_STEP_SHARE <= used <= 1 or place in met:
                continue
            met.add(place)  # several raylets on a host see the same disk
            subject = f"{facts.title(node)} {disk.path}"
            if facts.is_over_mark(used, limits.disk_full, limits.disk_full - DISK_STEP_SHARE, "disk-full", subject):
                yield _disk_finding(facts, node, disk, subject, "disk-full", "critical", "Ray no longer creates")
            elif facts.is_over_mark(used, limits.disk_filling, limits.disk_filling - DISK_STEP_SHARE, "disk-filling", subject):
                mark = f"at {limits.disk_full:.0%} Ray stops creating"
                yield _disk_finding(facts, node, disk, subject, "disk-filling", "warning", mark)


def _disk_finding(facts: Facts, node: Node, disk: Disk, subject: str, code: str, level: Level, mark: str) -> Finding:
    name, used, total = facts.title(node), disk.used or 0, disk.total or 0

    # The sessions on this disk, dead ones first, then by size.
    host = facts.index.host_of(node)
    sessions: list[Session] = []
    if host is not None and host.sessions:
        others = [other.path for other in host.disks if other.path != "/" and len(other.path) > len(disk.path)]
        under = "" if disk.path == "/" or len(host.disks) == 1 else f"{disk.path}/"
        here = [one for one in host.sessions if one.path.startswith(under) and not any(one.path.startswith(f"{path}/") for path in others)]
        sessions = sorted(here, key=lambda session: (session.live is not False, -(session.size or 0)))
    dead = [session for session in sessions if session.live is False]
    held = sum(session.size for session in dead if session.size is not None and 0 <= session.size <= total)
    whose = f"; {plural(len(dead), 'dead session')} use{'s' if len(dead) == 1 else ''} {size(held)} of the disk" if held else ""
    filled = find_filling(facts, node, disk.path, disk.total)
    text = (
        f"The disk under {clean(disk.path)} on {name} is {share_percent(_used_share(disk.used, disk.total))} full "
        f"({size(total - used)} of {size(disk.total)} left): {mark} objects that may need to be spilled{filled.words}{whose}"
    )

    word = quote_word(disk.path)
    evidence = [f"{f'df {word}' if word is not None else 'the disk'} on {name}: {size(disk.used)} of {size(disk.total)}", *filled.lines]
    for session in sessions[:MAX_SESSIONS_LISTED]:
        life = {True: "live", False: "dead", None: "unknown whether live"}[session.live]
        keeps = f", protected: {clean(', '.join(session.keeps[:3]))}" if session.keeps else ""
        quoted = quote_word(session.path)
        shown = f"du -sh {quoted}" if quoted is not None else clean(session.path)
        amount = size(session.size) if session.size is not None else "size still unknown"
        evidence.append(f"{shown}: {amount} ({life}{f', of {clean(session.owner)}' if session.owner else ''}{keeps})")

    search = f" (`du -xh --max-depth 2 {word} | sort -h`)" if word is not None else ""
    remedy = Remedy(filled.remedy or f"find what fills it{search}: logs, core dumps, checkpoints, spilled objects")
    if dead and held >= DISK_STEP_SHARE * total:
        clean_up = "remove the files of dead sessions; files that look like checkpoints or core dumps stay"
        remedy = Remedy(f"{clean_up}; then {filled.remedy}" if filled.remedy and filled.largest > held else clean_up, "clean")
    about = (node.key, *filled.about, *(session.key for session in dead))
    return Finding(code, level, subject, text, tuple(evidence), None, remedy, about, facts.oldest_stale([node]))


def _used_share(used: float | None, total: float | None) -> float:
    """The share in use; 0 if unknown."""
    return used / total if used is not None and total is not None and total > 0 else 0.0


@rests_on("ray.nodes")
def full_stores(facts: Facts) -> Iterator[Finding]:
    """Object stores so full that Ray spills objects to disk."""
    least = min(facts.limits.store_filling, facts.limits.store_full) - STORE_STEP_SHARE
    for node in facts.living_nodes:
        used = _used_share(node.object_store.used, node.object_store.total)
        if not least <= used < MAX_STORE_SHARE:
            continue
        name, limits, store = facts.title(node), facts.limits, node.object_store
        filling = facts.is_over_mark(used, limits.store_filling, limits.store_filling - STORE_STEP_SHARE, "object-store-filling", name)
        full = facts.is_over_mark(used, limits.store_full, limits.store_full - STORE_STEP_SHARE, "object-store-full", name)
        full = full and facts.seconds_lasting("object-store-full", name) >= limits.store_age
        if not full and not (filling and facts.seconds_lasting("object-store-filling", name) >= limits.store_age):
            continue
        code = "object-store-full" if full else "object-store-filling"
        level: Level = "warning" if full and not facts.is_single_sample else "info"  # rollouts fill it for a moment
        what = "new objects wait until others are spilled to disk" if full else "Ray spills objects to disk"
        text = f"Ray's object store on {name} is {share_percent(used)} full ({size(store.used)} of {size(store.total)}): {what}"
        evidence = ("`ray memory --stats-only` shows what is in it and what was spilled",)
        remedy = Remedy(
            "delete object references that are not needed (`ray memory` lists them), or start Ray with a larger --object-store-memory"
        )
        yield Finding(code, level, name, text, evidence, None, remedy, (node.key,), facts.last_answer_before_fault("ray.nodes"))


@rests_on("shm")
def small_shm(facts: Facts) -> Iterator[Finding]:
    """A /dev/shm that is smaller than the object store: Ray then keeps the store on disk."""
    small: list[tuple[Node, float, float]] = []
    for node in facts.living_nodes:
        has, store = (
            facts.index.machine(node).shm.total or 0,
            node.resources.get("object_store_memory"),
        )  # as started, without spilled objects
        want = store.total if store and store.total and store.total < inf else 0.0
        if 0 < has < want:
            small.append((node, has, want))
    if not small:
        return
    names = join_first([f"{facts.title(node)} ({size(has)}, needs {size(want)})" for node, has, want in small], MAX_SESSIONS_LISTED)
    text = (
        f"Shared memory (/dev/shm) is smaller than Ray's object store on {names}: Ray keeps it on disk, which is slow, "
        "and NCCL may lack shared memory"
    )
    lines = [f"df /dev/shm on {facts.title(node)}: {size(has)}; ray start: {size(want)}" for node, has, want in small[:MAX_SESSIONS_LISTED]]
    remedy = "use a larger /dev/shm (docker: --shm-size, Kubernetes: an emptyDir with medium Memory), or a smaller --object-store-memory"
    nodes = [node for node, _, _ in small]
    yield facts.cluster_finding(nodes, "shm-small", "warning", text, lines, remedy, seen=facts.oldest_stale(nodes))


@rests_on("shm")
def full_shm(facts: Facts) -> Iterator[Finding]:
    """A /dev/shm with hardly any memory left."""
    met, mark = set[str](), facts.limits.shm_full
    for node in facts.living_nodes:
        shm = facts.index.machine(node).shm
        used = _used_share(shm.used, shm.total)
        if not mark - DISK_STEP_SHARE <= used <= 1 or (node.ip or node.host) in met:
            continue
        met.add(node.ip or node.host)
        name = facts.title(node)
        over = facts.is_over_mark(used, mark, mark - DISK_STEP_SHARE, "shm-full", name)
        if not over or facts.seconds_lasting("shm-full", name) < facts.limits.store_age:
            continue
        left, store = (shm.total or 0) - (shm.used or 0), node.object_store.used
        held = f"; Ray's object store holds {size(store)}" if store is not None and 0 <= store < inf else ""
        filled = find_filling(facts, node, SHM, shm.total)
        text = (
            f"Shared memory (/dev/shm) on {name} is {share_percent(used)} full ({size(left)} of {size(shm.total)} left)"
            f"{filled.words or held}: the next process that writes there is killed by a bus error (NCCL, data loaders, engines)"
        )
        evidence = [f"df /dev/shm on {name}: {size(shm.used)} of {size(shm.total)}", *filled.lines]

        # The users of /dev/shm, the largest first, and memory that no visible file accounts for.
        host = facts.index.host_of(node)
        users = [one for one in (host and host.shm_users) or () if 0 < one.size <= (shm.total or 0)]
        if users:
            largest = sorted(users, key=lambda one: -one.size)[:MAX_USERS_LISTED]
            words = ", ".join(f"{clean(one.user or UNKNOWN)[:40]} {size(one.size)}" for one in largest)
            evidence.append(f"files in /dev/shm by user: {words}")
        unnamed = (shm.used or 0) - sum(one.size for one in users)
        if host is not None and host.shm_users is not None and unnamed >= DISK_STEP_SHARE * (shm.total or 0):
            hidden = "deleted files that are still open, as Ray's object store is, or in files that the probe can't see"
            evidence.append(f"{size(unnamed)} is in {hidden}")
        remedy = Remedy(
            "`ls -lS /dev/shm` shows the largest files; `cockpit clean` removes those that nobody uses; otherwise use fewer data "
            "loader workers, a smaller --object-store-memory, or a larger /dev/shm (docker: --shm-size)"
        )
        yield facts.node_finding(node, "shm-full", "warning", text, evidence, remedy, filled.about)
