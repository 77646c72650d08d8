"""Detects an address at which no Ray answers, and names the Ray that this host or another host has instead."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.followed_ray import address_words, find_address_fault, is_elsewhere, is_ray_alive_on
from cockpit.findings.rays_here import LOOPBACK_NAMES, head_elsewhere, other_slurm_job, rays_on
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Host, Remedy, Session

NO_RAY_REMEDY = (
    "if this is the head: `ray start --head`; if not: use `cockpit --address http://HEAD:8265`; "
    "`cockpit demo` shows a cluster with simulated GPUs (needs Ray beside cockpit)"
)


@rests_on()
def wrong_address(facts: Facts) -> Iterator[Finding]:
    """Nothing has ever answered at the address, or something other than Ray answers."""
    not_ray, cluster = find_address_fault(facts, "not ray"), facts.snapshot.cluster
    fault = not_ray or find_address_fault(facts, "silent")
    host = next((host for host in facts.fresh_hosts if host.local and host.sessions is not None), None)

    # Ray answered there before, or the Rays of this host are unknown: there is nothing else to propose.
    if not_ray is not None and (host is None or cluster.session is not None):
        remedy = "find out what listens there now, such as a gateway or a login page; `cockpit --address URL` asks another address"
        yield Finding("address-wrong", "critical", "address", not_ray.text, (not_ray.text,), not_ray.since, Remedy(remedy))
        return
    if fault is None or host is None or cluster.session is not None:
        return
    others = tuple(rays_on(host)) if cluster.others is None and facts.is_single_sample else cluster.others
    if others is None or (not_ray is None and is_ray_alive_on(facts, host) and not is_elsewhere(facts)):
        return

    # Other Rays of this host that answer, and our own ones that there was no time to ask.
    usable = [ray for ray in others if ray.answers or (ray.answers is None and ray.owner is None)]
    found = sorted(usable, key=lambda ray: (not ray.answers, ray.owner or "", ray.url))
    here = " and ".join(f"a Ray cluster{f' of {ray.owner}' if ray.owner else ''} at {ray.url}" for ray in found)

    # If there is none: the head that this host is a worker of, or heads on other hosts.
    heads = [] if found else list(_rays_on_other_hosts(facts))
    worker: _Head | None = None
    for session in (host.sessions or ()) if not found else ():
        head_address = head_elsewhere(host, session.name)
        if head_address is not None and _is_meant(facts, host, session):
            worker = next((head for head in heads if head.session == session.name), _Head(head_address, session.name, None))
            break
    if not here:
        is_any_unasked = any(ray.answers is None for ray in others)
        here = "no Ray cluster of yours that answers" if is_any_unasked else "no Ray cluster that answers" if others else "no Ray"
        here += f", but {heads[0].host} has one" if heads else ""

    if found:
        remedy = f"use `cockpit --address {found[0].url}`"
    elif worker or heads:
        remedy = _way_to(facts, worker or heads[0])
    else:
        # If nodes of the Slurm job can't be probed, a Ray may run there.
        job, local = facts.snapshot.allocation, {each.name for each in facts.snapshot.hosts.values() if each.local}
        remedy = NO_RAY_REMEDY
        if job is not None and any(each.source == "probe" and each.host not in local for each in facts.snapshot.faults):
            remedy = f"first find out why the nodes of Slurm job {job.job} can't be probed: `cockpit doctor`"
        # The Ray of another user is not asked by itself: a person must name it.
        if named := [ray for ray in others if ray.answers is None and ray.owner]:
            remedy = f"if you mean the Ray cluster of {named[0].owner}: `cockpit --address {named[0].url}`; {remedy}"

    evidence = [fault.text]
    for ray in others:
        place = f"has its dashboard at {ray.url}"
        if ray.answers:
            evidence.append(f"{ray.session} answers at {ray.url}")
        elif ray.answers is None:
            evidence.append(f"{ray.session}{f' of {ray.owner}' if ray.owner else ''} {place}; whether it answers was not checked")
        else:
            evidence.append(f"{ray.session} {place}, which does not answer from here: it may be in a container")
    for head in [worker] if worker else heads:
        if head.url is None:
            evidence.append(f"--gcs-address of the raylet of {head.session}: {head.host}")
        else:
            evidence.append(f"{head.session} on {head.host} has its dashboard at {head.url}")
    is_or_has = f"is a worker of {worker.session}, whose head is {_name_of(facts, worker) or worker.host}" if worker else f"has {here}"
    text = f"{not_ray.text if not_ray else f'Nothing answers{address_words(facts)}'}; this host {is_or_has}"
    since = None if facts.is_single_sample else fault.since  # a single sample knows only for how long it has waited itself
    yield Finding("address-wrong", "critical", "address", text, tuple(evidence), since, Remedy(remedy))


class _Head(msgspec.Struct, frozen=True):
    """The head of a Ray of root or of our own user, on another host."""

    host: str
    session: str
    url: str | None
    """Its dashboard; `None`: that host was not probed."""


def _rays_on_other_hosts(facts: Facts) -> Iterator[_Head]:
    here = {name for host in facts.snapshot.hosts.values() if host.local for name in (host.name, *host.addresses)}
    cluster = facts.snapshot.kubernetes
    for pod in (cluster.pods if cluster else None) or ():
        if cluster and pod.head and pod.phase == "Running" and here.isdisjoint((pod.name, pod.ip)):
            yield _Head(pod.name, f"RayCluster {cluster.title}", f"http://{pod.ip}:8265")
    for host in facts.fresh_hosts:
        for one in host.sessions or ():
            if not host.local and one.dashboard and _is_meant(facts, host, one):
                yield _Head(host.name, one.name, one.dashboard)


def _is_meant(facts: Facts, host: Host, session: Session) -> bool:
    """Whether the session is live, belongs to root or to us, and runs in no other Slurm job than the followed one."""
    return bool(session.live) and session.trusted and other_slurm_job(facts.snapshot.slurm_ids, host, session.name) is None


def _name_of(facts: Facts, head: _Head) -> str | None:
    """Slurm's name of the head's node, else the name under which it was probed; `None`: it is no known node of the Slurm job."""
    job = facts.snapshot.allocation
    known = (node.name for node in (job.nodes if job else ()) if head.host in (node.name, *node.others))
    return next(known, head.host if head.url is not None else None)


def _way_to(facts: Facts, head: _Head) -> str:
    """How to reach a head: by default a dashboard listens only on its own host, and in a pod only within Kubernetes."""
    job, node, is_whole = facts.snapshot.allocation, _name_of(facts, head), len(facts.snapshot.slurm_ids) < 2
    step = f": `srun --overlap --jobid={job.job} -w {node} --pty cockpit`" if job and node and is_whole else ""
    if head.url is None:
        host = f"[{head.host}]" if ":" in head.host else head.host
        return f"run cockpit there{step}, or use `cockpit --address http://{host}:8265` if its dashboard listens on all interfaces"
    if (cluster := facts.snapshot.kubernetes) is not None:
        port = urlsplit(head.url).port or 8265
        forward = f"`kubectl port-forward -n {cluster.namespace} {head.host} {port}:{port}`"
        return f"its dashboard listens in pod {head.host}: {forward}, and in another terminal `cockpit --address http://127.0.0.1:{port}`"
    if urlsplit(head.url).hostname not in LOOPBACK_NAMES:
        return f"use `cockpit --address {head.url}`"
    return f"its dashboard listens only on {head.host}: run cockpit there{step}"
