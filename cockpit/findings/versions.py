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
    raylets = [(host, ray) for host, ray in our_rays(facts, facts.snapshot.hosts.values()) if ray.role == "raylet"]
    cluster_version = facts.snapshot.cluster.ray_version
    yield from _difference(facts, "ray-versions", "Ray", "warning", [(ray.ray, host) for host, ray in raylets], cluster_version)
    yield from _difference(facts, "python-versions", "Python", "warning", [(ray.python, host) for host, ray in raylets])


@rests_on("rays", "nvml")
def differing_drivers(facts: Facts) -> Iterator[Finding]:
    """NVIDIA drivers that are not the same on every probed host of this cluster."""
    drivers = [(host.driver, host) for host, ray in our_rays(facts, facts.snapshot.hosts.values()) if ray.role == "raylet"]
    yield from _difference(facts, "driver-versions", "The NVIDIA driver", "info", drivers)


def our_rays(facts: Facts, hosts: Iterable[Host]) -> Iterator[tuple[Host, RayProcess]]:
    """Ray's processes of the followed cluster on these hosts; without a followed cluster, of the only cluster that is seen."""
    session = facts.snapshot.cluster.session
    for host in hosts:
        for ray in host.rays or ():
            if ray.node and facts.index.nodes:
                is_ours = ray.node in facts.index.nodes
            else:
                is_ours = len(facts.seen_sessions) < 2 if session is None else ray.session in (None, session)
            if is_ours:
                yield host, ray


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
    nodes = [node for node in facts.living_nodes if (host := facts.index.host_of(node)) and host.name in odd_hosts]
    text = f"{what} is {odd_words}, but {others} {usual}"
    evidence = [f"{version}: {join_first([*names], MAX_HOSTS_NAMED) or 'the dashboard'}" for version, names in sorted(found.items())]
    seen = min((old for name in odd_hosts if (old := facts.stale_since(name)) is not None), default=None)
    yield facts.cluster_finding(nodes, code, level, text, evidence, _REMEDIES[code], seen=seen)


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
    for host, ray in our_rays(facts, facts.snapshot.hosts.values()):
        files, limit = ray.files, ray.files_limit
        if limit is None or limit <= 0:
            continue
        if limit < wanted:
            few.append((host, ray, limit))
        if files is None or not (on - CLEAR_STEP_SHARE) * limit <= files <= limit:
            continue
        part, title = _part_name(ray), facts.host_title(host)
        subject = f"{part} {ray.pid} on {title}"
        full = facts.is_over_mark(files / limit, FULL_SHARE, FULL_CLEAR_SHARE, "open-files-full", subject)
        if not full and not facts.is_over_mark(files / limit, on, on - CLEAR_STEP_SHARE, "open-files", subject):
            continue
        which = f"{part.replace('raylet', 'Raylet')} (pid {ray.pid}) on {title}"
        text = f"{which} has {files} of {limit} files open: at the limit no more workers can register"
        evidence = (f"ls /proc/{ray.pid}/fd | wc -l: {files}", f"/proc/{ray.pid}/limits: Max open files {limit}")
        least = max(limit * 2, wanted)
        remedy = f"now, as root: `prlimit --pid {ray.pid} --nofile={least}`; permanently: `ulimit -n {least}` before `ray start`"
        code, seen = "open-files-full" if full else "open-files", facts.stale_since(host.name)
        yield Finding(code, "critical" if full else "warning", subject, text, evidence, remedy=Remedy(remedy), seen=seen)
    if few:
        names = join_first(list(dict.fromkeys(facts.host_title(host) for host, _, _ in few)), MAX_HOSTS_NAMED)
        least = min(limit for _, _, limit in few)
        text = f"Ray may open as few as {least} files on {names}; Ray's documentation asks for {wanted}"
        lines = [
            f"/proc/{ray.pid}/limits on {facts.host_title(host)} ({_part_name(ray)}): Max open files {limit}"
            for host, ray, limit in few[:MAX_HOSTS_NAMED]
        ]
        seen = min((old for host, _, _ in few if (old := facts.stale_since(host.name)) is not None), default=None)
        remedy = f"`ulimit -n {wanted}` before `ray start`"
        yield facts.cluster_finding((), "open-files-limit", "info", text, lines, remedy, seen=seen)


def _part_name(ray: RayProcess) -> str:
    return "GCS" if ray.role == "gcs_server" else "raylet"
