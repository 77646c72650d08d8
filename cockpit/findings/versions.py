"""Versions of Ray, Python and drivers that differ between hosts, and limits of open files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, Level, RayProcess, Remedy
from cockpit.text import join_first, plural

MAX_HOSTS_NAMED = 8
CLEAR_STEP_SHARE = 0.1
FULL_SHARE, FULL_CLEAR_SHARE = 0.95, 0.9
"""Shares of open files from which on it is critical, and below which no more."""


@rests_on("rays")
def differing_versions(facts: Facts) -> Iterator[Finding]:
    """Versions of Ray and Python that are not the same on every probed host."""
    same = facts.snapshot.cluster.ray_version
    raylets = [(host, ray) for host in facts.snapshot.hosts.values() for ray in host.rays or () if ray.role == "raylet"]
    told = {(same or ray.ray, ray.ray, ray.python) for _, ray in raylets}
    if all(cluster == version for cluster, version, _ in told) and len(told) < 2:
        return
    ours = [(host, ray) for host, ray in raylets if is_ours(facts, ray)]
    yield from _difference(facts, "ray-versions", "Ray", "warning", [(ray.ray, host) for host, ray in ours], same)
    yield from _difference(facts, "python-versions", "Python", "warning", [(ray.python, host) for host, ray in ours])


@rests_on("rays", "nvml")
def differing_drivers(facts: Facts) -> Iterator[Finding]:
    """NVIDIA drivers that are not the same on every probed host of this cluster."""
    if len({host.driver for host in facts.snapshot.hosts.values()} - {None}) < 2:
        return
    ours = [host for host in facts.snapshot.hosts.values() if any(ray.role == "raylet" and is_ours(facts, ray) for ray in host.rays or ())]
    yield from _difference(facts, "driver-versions", "The NVIDIA driver", "info", [(host.driver, host) for host in ours])


def is_ours(facts: Facts, ray: RayProcess) -> bool:
    """Whether it is of the followed cluster; where none is followed, of the only one that is seen."""
    session = facts.snapshot.cluster.session
    if ray.node and facts.nodes:
        return ray.node in facts.nodes
    return len(facts.seen_sessions) < 2 if session is None else ray.session in (None, session)


def _difference(
    facts: Facts, code: str, what: str, level: Level, told: Iterable[tuple[str | None, Host]], same: str | None = None
) -> Iterator[Finding]:
    """`same`: what the cluster itself has."""
    found: dict[str, dict[str, None]] = {}  # by version the names of hosts, in their order
    for version, on in told:
        if version:
            found.setdefault(version, {})[on.name] = None
    if found and same:
        found.setdefault(same, {})
    if len(found) < 2:
        return
    usual = same if same in found else max(found, key=lambda version: (len(found[version]), version))
    odd = {version: names for version, names in found.items() if version != usual}
    others = "the cluster has" if usual == same else plural(len(found[usual]), "other host has", "other hosts have")
    told_odd = " and ".join(f"{version} on {join_first([*names], MAX_HOSTS_NAMED)}" for version, names in sorted(odd.items()))
    odd_hosts = {name for names in odd.values() for name in names}
    yield facts.cluster_finding(
        (node for node in facts.living_nodes if (host := facts.index.host_of(node)) and host.name in odd_hosts),
        code,
        level,
        f"{what} is {told_odd}, but {others} {usual}",
        (f"{version}: {join_first([*names], MAX_HOSTS_NAMED) or 'the dashboard'}" for version, names in sorted(found.items())),
        _REMEDIES[code],
        seen=min((old for name in odd_hosts if (old := facts.stale_since(name)) is not None), default=None),
    )


_REMEDIES = {
    "ray-versions": "install the same Ray everywhere: Ray refuses drivers of another version, and mixed versions may not work together",
    "python-versions": "install the same Python everywhere, down to the patch version: pickles may not load in another version",
    "driver-versions": "install the same driver everywhere: NCCL or a new CUDA may fail with the oldest one",
}


@rests_on("rays")
def open_files(facts: Facts) -> Iterator[Finding]:
    """Raylets and GCS of this cluster that are near the most they may open, or may open too few."""
    few: list[tuple[Host, RayProcess, int]] = []
    for host in facts.snapshot.hosts.values():
        for ray in host.rays or ():
            if ray.files_limit is None or ray.files_limit <= 0 or not is_ours(facts, ray):
                continue
            if ray.files is not None and (facts.limits.open_files - CLEAR_STEP_SHARE) * ray.files_limit <= ray.files <= ray.files_limit:
                yield from _near_findings(facts, host, ray, ray.files, ray.files_limit)
            if ray.files_limit < facts.limits.open_files_least:
                few.append((host, ray, ray.files_limit))
    if few:
        yield _limit_finding(facts, few)


def _near_findings(facts: Facts, host: Host, ray: RayProcess, files: int, limit: int) -> Iterator[Finding]:
    title, on = facts.host_title(host), facts.limits.open_files
    subject = f"{_part_name(ray)} {ray.pid} on {title}"
    full = facts.is_over_mark(files / limit, FULL_SHARE, FULL_CLEAR_SHARE, "open-files-full", subject)
    if not full and not facts.is_over_mark(files / limit, on, on - CLEAR_STEP_SHARE, "open-files", subject):
        return
    least = max(limit * 2, facts.limits.open_files_least)
    yield Finding(
        code="open-files-full" if full else "open-files",
        level="critical" if full else "warning",
        subject=subject,
        text=f"{_part_name(ray).replace('raylet', 'Raylet')} (pid {ray.pid}) on {title} has {files} of {limit} files open: "
        "at the limit no more workers can register",
        evidence=(f"ls /proc/{ray.pid}/fd | wc -l: {files}", f"/proc/{ray.pid}/limits: Max open files {limit}"),
        remedy=Remedy(f"now, as root: `prlimit --pid {ray.pid} --nofile={least}`; permanently: `ulimit -n {least}` before `ray start`"),
        seen=facts.stale_since(host.name),
    )


def _limit_finding(facts: Facts, few: list[tuple[Host, RayProcess, int]]) -> Finding:
    names = list(dict.fromkeys(facts.host_title(host) for host, _, _ in few))
    return facts.cluster_finding(
        (),
        "open-files-limit",
        "info",
        f"Ray may open as few as {min(limit for _, _, limit in few)} files on {join_first(names, MAX_HOSTS_NAMED)}; "
        f"Ray's documentation asks for {facts.limits.open_files_least}",
        (
            f"/proc/{ray.pid}/limits on {facts.host_title(host)} ({_part_name(ray)}): Max open files {limit}"
            for host, ray, limit in few[:MAX_HOSTS_NAMED]
        ),
        f"`ulimit -n {facts.limits.open_files_least}` before `ray start`",
        seen=min((old for name in names if (old := facts.stale_since(name)) is not None), default=None),
    )


def _part_name(ray: RayProcess) -> str:
    return "GCS" if ray.role == "gcs_server" else "raylet"
