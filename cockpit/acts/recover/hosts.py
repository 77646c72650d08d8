"""The requests to start Ray on a preset's hosts, and what their answers mean together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from cockpit.acts.plan import Plan, Target
from cockpit.config.address import DEFAULT_PORT, url_at
from cockpit.config.reach import HostEntry
from cockpit.presets import RayNode, RayStart

PORT = 6379
_LOOPBACK, _ANY = ("", "localhost", "127.0.0.1", "::1"), ("0.0.0.0", "::")  # noqa: S104 to recognize it
Requests = dict[str, dict[str, Any]]


class Unshown(dict[str, str]):
    """An environment with secrets in it: a plan holds it, and whatever prints that plan does not show it."""

    def __repr__(self) -> str:
        return "{…}"


def start_requests(start: RayStart, names: Mapping[str, str], env: Mapping[str, str], known: Mapping[str, Target], **more: Any) -> Requests:
    """By what each host is called here (`names`, by the preset's); `known` is what they have answered before."""
    head = known.get(names[start.head.host])
    facts = (head.facts if head is not None else None) or {}
    return {names[node.host]: _request(start, node, env, known.get(names[node.host]), facts, more) for node in start.nodes}


def _request(
    start: RayStart, node: RayNode, env: Mapping[str, str], known: Target | None, of_head: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    head = node is start.head
    facts = (known.facts if known is not None else None) or {}
    return {
        "role": "head" if head else "worker",
        "words": list(node.arguments),
        "env": Unshown(env),
        "python": start.python,
        "ray": facts.get("ray"),
        "user": facts.get("user"),
        "how": facts.get("how"),
        "likely": None if head else of_head.get("ray"),
        "gcs": None if head else of_head.get("gcs"),
        "name": node.address or (node.host if head else None),
        **more,
    }


def same_host(names: Mapping[str, str]) -> str | None:
    """Two of the preset's hosts that are one, in a sentence: only the last of its requests would be heard."""
    first: dict[str, str] = {}
    for host, name in names.items():
        if (other := first.setdefault(name, host)) != host:
            return f"{other} and {host} are the same host ({name}); list it once"
    return None


def address_conflicts(start: RayStart, hosts: Iterable[HostEntry]) -> Iterator[str]:
    """A sentence for each host with different addresses in config and preset; the config's is used."""
    given = {entry.name: entry.address for entry in hosts if entry.address}
    for node in start.nodes:
        at = given.get(node.host)
        if at and node.address and at != node.address:
            yield f"{node.host} has address {at} in the config and {node.address} in the preset; {at} is used"


def why_another_jobs(start: RayStart, names: Mapping[str, str], surveyed: Mapping[str, Target]) -> str | None:
    """Why a Ray where this one is to be is none of this Slurm job, whose nodes others may share; `None`: nobody knows of one."""
    mine = sessions_of(start, names, surveyed)
    for target in surveyed.values() if start.slurm else ():
        for ray in (target.facts or {}).get("rays") or ():
            if ray["session"] in mine and ray.get("slurm") not in (None, start.slurm):
                whose = f"{ray['session']} on {target.host}, with the same port {port_of(start)}, belongs to Slurm job {ray['slurm']}"
                return f"{whose}, and is not touched: set ray.head.port in the preset to another port"
    return None


def sessions_of(start: RayStart, names: Mapping[str, str], surveyed: Mapping[str, Target]) -> tuple[str, ...]:
    """The sessions that are this cluster's: those whose GCS is where the preset's head has its own, or will have it."""
    head, gcs = _head_gcs(start, names, surveyed)
    found: dict[str, None] = {}
    for target in surveyed.values():
        for ray in (target.facts or {}).get("rays") or ():
            if _is_same_gcs(str(ray["gcs"]), gcs, start, near=target.host == head and bool(ray.get("here"))):
                found[str(ray["session"])] = None
    return tuple(found)


def why_another_ray(
    start: RayStart, names: Mapping[str, str], surveyed: Mapping[str, Target], targets: Iterable[Target], addresses: Collection[str] = ()
) -> str | None:
    """Why what would be stopped is another Ray: by its own raylets, whatever else a process has said of that session; `None`: it is not.

    `addresses`: all that the head is known to have.
    """
    head, gcs = _head_gcs(start, names, surveyed)
    for target in targets:
        found = str((target.facts or {}).get("gcs") or "")
        near = target.host == head or found.rpartition(":")[0] in addresses
        if found and not _is_same_gcs(found, gcs, start, near=near):
            return (
                f"{target.part} {target.pid} of {target.session} on {target.host} has its GCS at {found}: another Ray cluster, left alone"
            )
    return None


def _head_gcs(start: RayStart, names: Mapping[str, str], surveyed: Mapping[str, Target]) -> tuple[str, str]:
    """What the head is called here, and where it says that its GCS is or will be; empty where it has said nothing."""
    head = surveyed.get(names[start.head.host])
    return names[start.head.host], str((head.facts or {}).get("gcs") or "") if head is not None else ""


def _is_same_gcs(address: str, gcs: str, start: RayStart, *, near: bool) -> bool:
    """A GCS on the head itself is known by its port alone: whatever has it would be in the way."""
    host, _, port = address.rpartition(":")
    wanted, _, at = gcs.rpartition(":")
    return port == (at or str(port_of(start))) and (near or host in (wanted, start.head.host, start.head.address))


def port_of(start: RayStart) -> int:
    """Of the head's GCS."""
    return int(start.head.flags.get("port") or PORT)


def listens_far(start: RayStart) -> bool:
    """Whether its dashboard lets anybody in who is not on the head."""
    return str(start.head.flags.get("dashboard_host") or "") not in _LOOPBACK


def dashboard_of(start: RayStart, host: str, *, near: bool) -> str:
    """Where its dashboard will answer; `near`: the head is this host. `host` is the head's address otherwise."""
    listens = str(start.head.flags.get("dashboard_host") or "")
    place = listens if listens not in (*_LOOPBACK, *_ANY) else "127.0.0.1" if near else host
    return url_at(place, int(start.head.flags.get("dashboard_port") or DEFAULT_PORT))


def why_not(start: RayStart, names: Mapping[str, str], plan: Plan) -> str | None:
    """Why Ray can't be started on all of them, in one sentence; `None`: it can."""
    silent = {one.host: one.error for one in plan.unreached}
    reasons = [of_host(host, silent[host]) for host in names.values() if host in silent]
    reasons += [of_host(target.host, target.reason) for target in plan.refused]
    said = {target.host for target in (*plan.targets, *plan.refused)}
    twice = [host for host in names.values() if host not in said and host not in silent]
    reasons += [f"{host} is the same host as another host of the preset" for host in twice]
    return "; ".join(reasons or _unlike(start, names, {target.host: target for target in plan.targets})) or None


def of_host(host: str, text: str | None) -> str:
    """A host's words, with its name before them once."""
    return text if text and text.startswith(f"{host}: ") else f"{host}: {text}"


def _unlike(start: RayStart, names: Mapping[str, str], targets: Mapping[str, Target]) -> list[str]:
    """Nodes join only with the head's own Ray and Python, to the last number."""
    head = names[start.head.host]
    return [
        f"{host} has {what} {found}, but the head {head} has {wanted}"
        for host, target in targets.items()
        for what, key in (("Ray", "ray_version"), ("Python", "python_version"))
        for found, wanted in [((target.facts or {}).get(key), (targets[head].facts or {}).get(key))]
        if found and wanted and found != wanted
    ]


def host_lines(targets: Iterable[Target]) -> Iterator[str]:
    """Each host in a line."""
    for target in targets:
        yield f"{target.host}: {'; '.join((*([f'already runs {target.session}'] if target.live else []), *target.why[1:]))}"


def expected_gpus(targets: Iterable[Target]) -> dict[str, float | None]:
    """By host, how many GPUs its node will offer; `None` where nobody can say."""
    return {target.host: _gpus(target.facts or {}) for target in targets}


def _gpus(facts: Mapping[str, Any]) -> float | None:
    if facts.get("num_gpus") is not None:
        return float(facts["num_gpus"])
    visible, found = facts.get("gpus_visible"), facts.get("gpus")
    known = [float(one) for one in (visible, found) if one is not None]
    return min(known) if known else None
