"""What should be alike on all hosts and is not, and what each raylet may open."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from cockpit.findings.facts import Facts
from cockpit.model import Finding, Host, Level, RayProcess, Remedy
from cockpit.text import plural

MOST = 8
"""Hosts that are named."""
CALM = 0.1
Versions = dict[str, dict[str, None]]
"""By version the names of hosts, in their order."""
ALMOST, NO_MORE = 0.95, 0.9
"""Shares of open files from which on it is critical, and below which no more."""


def differing_versions(facts: Facts) -> Iterator[Finding]:
    """Ray, Python and NVIDIA drivers that are not the same everywhere, as far as hosts are looked at."""
    raylets = [(host, ray) for host in facts.snapshot.hosts.values() for ray in host.rays or () if ray.role == "raylet"]
    told = {(facts.snapshot.cluster.ray_version or ray.ray, ray.ray, ray.python, host.driver) for host, ray in raylets}
    if all(same == rays for same, rays, _, _ in told) and len(told) < 2:
        return
    rays: Versions = {}
    pythons: Versions = {}
    drivers: Versions = {}
    for host, ray in raylets:
        if _ours(facts, ray):
            _add(rays, ray.ray, host)
            _add(pythons, ray.python, host)
            _add(drivers, host.driver, host)
    same = facts.snapshot.cluster.ray_version
    if same and rays:
        rays.setdefault(same, {})
    yield from _differ(facts, "ray-versions", "Ray", "warning", rays, same)
    yield from _differ(facts, "python-versions", "Python", "warning", pythons, None)
    yield from _differ(facts, "driver-versions", "the NVIDIA driver", "info", drivers, None)


def _ours(facts: Facts, ray: RayProcess) -> bool:
    session = facts.snapshot.cluster.session
    return ray.node in facts.nodes if ray.node and facts.nodes else session is None or ray.session in (None, session)


def _add(versions: Versions, version: str | None, host: Host) -> None:
    if version:
        versions.setdefault(version, {})[host.name] = None


def _differ(facts: Facts, code: str, what: str, level: Level, found: Versions, same: str | None) -> Iterator[Finding]:
    if len(found) < 2:
        return
    usual = same if same in found else max(found, key=lambda version: (len(found[version]), version))
    odd = {version: names for version, names in found.items() if version != usual}
    others = (
        f"the cluster's is {usual}" if usual == same else f"{plural(len(found[usual]), 'other host')} {_have(len(found[usual]))} {usual}"
    )
    yield Finding(
        code=code,
        level=level,
        subject="cluster",
        text=f"{what} is {' and '.join(f'{version} on {_names(names)}' for version, names in sorted(odd.items()))}; {others}",
        evidence=tuple(f"{version}: {_names(names) or 'the dashboard'}" for version, names in sorted(found.items())),
        remedy=Remedy(_CURES[code]),
        about=tuple(
            node.key
            for node in facts.alive
            if (host := facts.hosts.get(node.id or "")) and any(host.name in names for names in odd.values())
        ),
        seen=min((old for names in odd.values() for name in names if (old := facts.old(name)) is not None), default=None),
    )


_CURES = {
    "ray-versions": "one environment everywhere: Ray refuses drivers of another version, and its parts may not understand each other",
    "python-versions": "one environment everywhere, the third number of Python's version too: what one pickles another may not read",
    "driver-versions": "the same driver everywhere, before NCCL or a new CUDA meets the oldest of them",
}


def _names(names: Collection[str]) -> str:
    return ", ".join(islice(names, MOST)) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def open_files(facts: Facts) -> Iterator[Finding]:
    """Raylets and GCS that are near the most they may open, or may open too few."""
    few: list[tuple[Host, RayProcess, int]] = []
    for host in facts.snapshot.hosts.values():
        for ray in host.rays or ():
            if ray.files_limit is None or ray.files_limit <= 0:
                continue
            if ray.files is not None and (facts.limits.open_files - CALM) * ray.files_limit <= ray.files <= ray.files_limit:
                yield from _near(facts, host, ray, ray.files, ray.files_limit)
            if ray.files_limit < facts.limits.open_files_least:
                few.append((host, ray, ray.files_limit))
    if few:
        yield _few(facts, few)


def _near(facts: Facts, host: Host, ray: RayProcess, files: int, limit: int) -> Iterator[Finding]:
    subject, on = f"{_part(ray)} {ray.pid} on {host.name}", facts.limits.open_files
    full = facts.over(files / limit, ALMOST, NO_MORE, "open-files-full", subject)
    if not full and not facts.over(files / limit, on, on - CALM, "open-files", subject):
        return
    yield Finding(
        code="open-files-full" if full else "open-files",
        level="critical" if full else "warning",
        subject=subject,
        text=f"{subject} has {files} of {limit} files open: at the limit no worker can register with it any more",
        evidence=(f"ls /proc/{ray.pid}/fd | wc -l: {files}", f"/proc/{ray.pid}/limits: Max open files {limit}"),
        remedy=Remedy(f"now: `prlimit --pid {ray.pid} --nofile={max(limit * 2, 65535)}`; for good: `ulimit -n 65535` before `ray start`"),
        seen=facts.old(host.name),
    )


def _few(facts: Facts, few: list[tuple[Host, RayProcess, int]]) -> Finding:
    names = list(dict.fromkeys(host.name for host, _, _ in few))
    return Finding(
        code="open-files-limit",
        level="info",
        subject="cluster",
        text=f"Ray may open only {min(limit for _, _, limit in few)} files on {_names(names)}; "
        f"{facts.limits.open_files_least} is what its documentation asks for",
        evidence=tuple(f"/proc/{ray.pid}/limits on {host.name} ({_part(ray)}): Max open files {limit}" for host, ray, limit in few[:MOST]),
        remedy=Remedy("`ulimit -n 65535` before `ray start`"),
        seen=min((old for name in names if (old := facts.old(name)) is not None), default=None),
    )


def _part(ray: RayProcess) -> str:
    return "GCS" if ray.role == "gcs_server" else "raylet"
