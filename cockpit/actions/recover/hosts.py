"""Builds the requests that start Ray on a preset's hosts, and judges the answers of all hosts together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from cockpit.actions.plan import Plan, Target
from cockpit.config.address import DEFAULT_PORT, url_at
from cockpit.config.reach import HostEntry
from cockpit.presets import RayStart

DEFAULT_GCS_PORT = 6379
_LOOPBACK, _ANY = ("", "localhost", "127.0.0.1", "::1"), ("0.0.0.0", "::")  # noqa: S104 to recognize it
Requests = dict[str, dict[str, Any]]


class HiddenEnv(dict[str, str]):
    """Environment variables with secrets: a plan that holds them can be printed without showing them."""

    def __repr__(self) -> str:
        return "{…}"


def start_requests(start: RayStart, names: Mapping[str, str], env: Mapping[str, str], known: Mapping[str, Target], **more: Any) -> Requests:
    """Return one request for each host, by the name that cockpit uses for it.

    `names` maps the preset's host names to cockpit's. `known` has the earlier answers of these hosts. `more` is added to each request.
    """
    requests = {}
    facts_of_head = _facts_of(known.get(names[start.head.host]))
    for node in start.nodes:
        is_head = node is start.head
        facts = _facts_of(known.get(names[node.host]))
        requests[names[node.host]] = {
            "role": "head" if is_head else "worker",
            "words": list(node.arguments),
            "env": HiddenEnv(env),
            "python": start.python,
            "ray": facts.get("ray"),
            "user": facts.get("user"),
            "how": facts.get("how"),
            "likely": None if is_head else facts_of_head.get("ray"),
            "gcs": None if is_head else facts_of_head.get("gcs"),
            "name": node.address or (node.host if is_head else None),
            **more,
        }
    return requests


def _facts_of(target: Target | None) -> Mapping[str, Any]:
    return (target.facts if target is not None else None) or {}


def same_host(names: Mapping[str, str]) -> str | None:
    """Return a sentence about two of the preset's names that mean one host: it could get only one of their two requests."""
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
    """Return why a Ray cluster at this preset's place belongs to another Slurm job, or `None` if none is known.

    Slurm jobs may share a node.
    """
    mine = sessions_of(start, names, surveyed)
    for target in surveyed.values() if start.slurm else ():
        for ray in _facts_of(target).get("rays") or ():
            if ray["session"] in mine and ray.get("slurm") not in (None, start.slurm):
                whose = f"{ray['session']} on {target.host}, with the same port {port_of(start)}, belongs to Slurm job {ray['slurm']}"
                return f"{whose}, and is not touched: set ray.head.port in the preset to another port"
    return None


def sessions_of(start: RayStart, names: Mapping[str, str], surveyed: Mapping[str, Target]) -> tuple[str, ...]:
    """Return the sessions of this cluster: their GCS has the address that the preset's head has or will have."""
    head, gcs = names[start.head.host], _head_gcs(start, names, surveyed)
    found: dict[str, None] = {}
    for target in surveyed.values():
        for ray in _facts_of(target).get("rays") or ():
            if _is_same_gcs(str(ray["gcs"]), gcs, start, on_head=target.host == head and bool(ray.get("here"))):
                found[str(ray["session"])] = None
    return tuple(found)


def why_another_ray(
    start: RayStart, names: Mapping[str, str], surveyed: Mapping[str, Target], targets: Iterable[Target], addresses: Collection[str] = ()
) -> str | None:
    """Return why one of the targets that would be stopped belongs to another Ray cluster, or `None`.

    Only the session's own raylet proves its GCS: any process can name any session. `addresses` are all known addresses of the head.
    """
    head, gcs = names[start.head.host], _head_gcs(start, names, surveyed)
    for target in targets:
        found = str(_facts_of(target).get("gcs") or "")
        on_head = target.host == head or found.rpartition(":")[0] in addresses
        if found and not _is_same_gcs(found, gcs, start, on_head=on_head):
            return (
                f"{target.part} {target.pid} of {target.session} on {target.host} has its GCS at {found}: another Ray cluster, left alone"
            )
    return None


def _head_gcs(start: RayStart, names: Mapping[str, str], surveyed: Mapping[str, Target]) -> str:
    """Return the address that the head has given for its GCS, now or after the start; empty if the head has not answered."""
    return str(_facts_of(surveyed.get(names[start.head.host])).get("gcs") or "")


def _is_same_gcs(address: str, gcs: str, start: RayStart, *, on_head: bool) -> bool:
    """Return whether `address` is this cluster's GCS, or takes its place. On the head the port alone decides: it can be used only once."""
    host, _, port = address.rpartition(":")
    head_host, _, head_port = gcs.rpartition(":")
    return port == (head_port or str(port_of(start))) and (on_head or host in (head_host, start.head.host, start.head.address))


def port_of(start: RayStart) -> int:
    """Return the port of the head's GCS."""
    return int(start.head.flags.get("port") or DEFAULT_GCS_PORT)


def listens_far(start: RayStart) -> bool:
    """Return whether the dashboard accepts connections from other hosts."""
    return str(start.head.flags.get("dashboard_host") or "") not in _LOOPBACK


def dashboard_of(start: RayStart, host: str, *, near: bool) -> str:
    """Return the URL at which the dashboard will answer. `near`: the head is this host; otherwise `host` is its address."""
    listens = str(start.head.flags.get("dashboard_host") or "")
    place = listens if listens not in (*_LOOPBACK, *_ANY) else "127.0.0.1" if near else host
    return url_at(place, int(start.head.flags.get("dashboard_port") or DEFAULT_PORT))


def why_not(start: RayStart, names: Mapping[str, str], plan: Plan) -> str | None:
    """Return why Ray can't be started on all hosts, in one sentence, or `None`."""
    # Each host must accept its own request.
    silent = {one.host: one.error for one in plan.unreached}
    reasons = [of_host(host, silent[host]) for host in names.values() if host in silent]
    reasons += [of_host(target.host, target.reason) for target in plan.refused]
    answered = {target.host for target in (*plan.targets, *plan.refused)}
    twice = [host for host in names.values() if host not in answered and host not in silent]
    reasons += [f"{host} is the same host as another host of the preset" for host in twice]
    if reasons:
        return "; ".join(reasons)

    # Ray lets a node join only with the head's exact versions of Ray and Python.
    head = names[start.head.host]
    facts = {target.host: _facts_of(target) for target in plan.targets}
    for host, facts_of_host in facts.items():
        for program, key in (("Ray", "ray_version"), ("Python", "python_version")):
            found, wanted = facts_of_host.get(key), facts[head].get(key)
            if found and wanted and found != wanted:
                reasons.append(f"{host} has {program} {found}, but the head {head} has {wanted}")
    return "; ".join(reasons) or None


def of_host(host: str, text: str | None) -> str:
    """Return the text with the host's name before it, once."""
    return text if text and text.startswith(f"{host}: ") else f"{host}: {text}"


def host_lines(targets: Iterable[Target]) -> Iterator[str]:
    """One line for each host: the session that already runs there, and its numbers."""
    for target in targets:
        yield f"{target.host}: {'; '.join((*([f'already runs {target.session}'] if target.live else []), *target.why[1:]))}"


def expected_gpus(targets: Iterable[Target]) -> dict[str, float | None]:
    """Return the number of GPUs that each host's node will offer; `None` if it is unknown."""
    expected: dict[str, float | None] = {}
    for target in targets:
        facts = _facts_of(target)
        counts = [facts["num_gpus"]] if facts.get("num_gpus") is not None else [facts.get("gpus_visible"), facts.get("gpus")]
        expected[target.host] = min((float(one) for one in counts if one is not None), default=None)
    return expected
