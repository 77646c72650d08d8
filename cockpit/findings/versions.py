"""Detects versions of Ray, Python and drivers that differ between hosts, and limits of open files that are low or nearly reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, Level, RayProcess, Remedy
from cockpit.text import join_first, plural

MAX_HOSTS_NAMED = 8
CLEAR_STEP_SHARE = 0.1
FULL_SHARE, FULL_CLEAR_SHARE = 0.95, 0.9
"""Share of the limit from which on it is critical, and below which it is no longer critical."""


@rests_on("rays")
def differing_versions(facts: Facts) -> Iterator[Finding]:
    """Versions of Ray and Python that are not the same on every probed host."""
    same = facts.snapshot.cluster.ray_version
    raylets = [(host, ray) for host in facts.snapshot.hosts.values() for ray in host.rays or () if ray.role == "raylet"]
    seen = {(same or ray.ray, ray.ray, ray.python) for _, ray in raylets}
    if all(cluster == version for cluster, version, _ in seen) and len(seen) < 2:
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
    """Whether the process belongs to the followed cluster; without one, to the only cluster that is seen."""
    session = facts.snapshot.cluster.session
    if ray.node and facts.nodes:
        return ray.node in facts.nodes
    return len(facts.seen_sessions) < 2 if session is None else ray.session in (None, session)


def _difference(
    facts: Facts, code: str, what: str, level: Level, versions: Iterable[tuple[str | None, Host]], same: str | None = None
) -> Iterator[Finding]:
    """`same`: the version of the cluster itself."""
    found: dict[str, dict[str, None]] = {}  # by version: names of hosts, in their order
    for version, on in versions:
        if version:
            found.setdefault(version, {})[on.name] = None
    if found and same:
        found.setdefault(same, {})
    if len(found) < 2:
        return
    usual = same if same in found else max(found, key=lambda version: (len(found[version]), version))
    odd = {version: names for version, names in found.items() if version != usual}
    others = "the cluster has" if usual == same else plural(len(found[usual]), "other host has", "other hosts have")
    odd_words = " and ".join(f"{version} on {join_first([*names], MAX_HOSTS_NAMED)}" for version, names in sorted(odd.items()))
    odd_hosts = {name for names in odd.values() for name in names}
    yield facts.cluster_finding(
        (node for node in facts.living_nodes if (host := facts.index.host_of(node)) and host.name in odd_hosts),
        code,
        level,
        f"{what} is {odd_words}, but {others} {usual}",
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
    """Raylets and GCS of this cluster that have nearly reached their limit of open files, or whose limit is too low."""
    on, wanted = facts.limits.open_files, facts.limits.open_files_least
    few: list[tuple[Host, RayProcess, int]] = []
    for host in facts.snapshot.hosts.values():
        for ray in host.rays or ():
            files, limit = ray.files, ray.files_limit
            if limit is None or limit <= 0 or not is_ours(facts, ray):
                continue
            if limit < wanted:
                few.append((host, ray, limit))
            if files is None or not (on - CLEAR_STEP_SHARE) * limit <= files <= limit:
                continue
            title = facts.host_title(host)
            subject = f"{_part_name(ray)} {ray.pid} on {title}"
            full = facts.is_over_mark(files / limit, FULL_SHARE, FULL_CLEAR_SHARE, "open-files-full", subject)
            if not full and not facts.is_over_mark(files / limit, on, on - CLEAR_STEP_SHARE, "open-files", subject):
                continue
            name, most = _part_name(ray).replace("raylet", "Raylet"), "at the limit no more workers can register"
            text = f"{name} (pid {ray.pid}) on {title} has {files} of {limit} files open: {most}"
            evidence = (f"ls /proc/{ray.pid}/fd | wc -l: {files}", f"/proc/{ray.pid}/limits: Max open files {limit}")
            least = max(limit * 2, wanted)
            remedy = f"now, as root: `prlimit --pid {ray.pid} --nofile={least}`; permanently: `ulimit -n {least}` before `ray start`"
            code, seen = "open-files-full" if full else "open-files", facts.stale_since(host.name)
            yield Finding(code, "critical" if full else "warning", subject, text, evidence, remedy=Remedy(remedy), seen=seen)
    if not few:
        return
    names = list(dict.fromkeys(facts.host_title(host) for host, _, _ in few))
    fewest = f"Ray may open as few as {min(limit for _, _, limit in few)} files on {join_first(names, MAX_HOSTS_NAMED)}"
    yield facts.cluster_finding(
        (),
        "open-files-limit",
        "info",
        f"{fewest}; Ray's documentation asks for {wanted}",
        (
            f"/proc/{ray.pid}/limits on {facts.host_title(host)} ({_part_name(ray)}): Max open files {limit}"
            for host, ray, limit in few[:MAX_HOSTS_NAMED]
        ),
        f"`ulimit -n {wanted}` before `ray start`",
        seen=min((old for host, _, _ in few if (old := facts.stale_since(host.name)) is not None), default=None),
    )


def _part_name(ray: RayProcess) -> str:
    return "GCS" if ray.role == "gcs_server" else "raylet"
