"""Ray's processes on the head: a GCS, dashboard or autoscaler monitor that does not answer; and tokens that are missing or rejected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from cockpit.findings.facts import Facts
from cockpit.findings.rays_here import dashboard_of, live_sessions, rays_on
from cockpit.model import Cause, Fault, Finding, Host, Job, OtherRay, Remedy
from cockpit.text import age, plural

DASHBOARD_SCRIPTS = ("/dashboard/dashboard.py",)
MONITOR_SCRIPTS = ("/autoscaler/_private/monitor.py", "/autoscaler/v2/monitor.py")
NO_RAY_REMEDY = (
    "if this is the head: `ray start --head`; if not: use `cockpit --address http://HEAD:8265`; "
    "`cockpit demo` shows a cluster with simulated GPUs"
)
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


class RayPart(NamedTuple):
    """What the process table of a host that is looked at says of one of Ray's parts."""

    host: str
    pid: int | None = None
    state: str | None = None
    """`None`: there is no such process there."""

    @property
    def stopped(self) -> bool:
        """Whether a signal holds it."""
        return self.state == "T"

    @property
    def is_down(self) -> bool:
        """Whether it can't answer."""
        return self.stopped or self.pid is None

    @property
    def words(self) -> str:
        """For the middle of a sentence."""
        if self.pid is None:
            return f"its process on {self.host} has ended"
        return f"its process on {self.host} (pid {self.pid}) " + ("is stopped by a signal" if self.stopped else "exists")

    @property
    def line(self) -> str:
        """Evidence."""
        return f"ps on {self.host}: " + ("no such process" if self.pid is None else f"pid {self.pid} is in state {self.state or 'unknown'}")

    def remedy(self, log: str, gone: str) -> Remedy:
        """`log`: where to read why it does not answer; `gone`: what to do where it has ended."""
        if self.stopped:
            return Remedy(f"find out who stopped it; `kill -CONT {self.pid}` on {self.host} resumes it")
        return Remedy(f"read {log}; {gone}" if self.pid is None else f"read {log}")


AGAIN = "run its command line again as Ray's user (Ray does not restart it)"


def silent_gcs(facts: Facts) -> Iterator[Finding]:
    """The GCS does not answer, or its own host shows why it can't."""
    fault, part = _fault(facts, "ray.gcs", "gcs"), _find_gcs(facts)
    is_down = part is not None and part.is_down
    if not is_down and (fault is None or _is_hiccup(facts)):
        return
    if facts.seconds_lasting("gcs-silent", "GCS") < facts.limits.gcs_silent:
        return
    gone = part is not None and part.pid is None
    what = "Ray ends on all nodes after a minute without a GCS" if gone else "nothing new can start, and Ray's data is old"
    yield Finding(
        code="gcs-silent",
        level="critical",
        subject="GCS",
        text=f"Ray's GCS does not answer{f': {part.words}' if part else ''}; {what}",
        evidence=_evidence(_request_line(facts, fault, "/api/gcs_healthz"), part),
        since=fault.since if fault else None,
        remedy=_remedy(
            part, "logs/gcs_server.out on the head, and check the head's load and memory", "save what you can, then restart Ray"
        ),
    )


def _evidence(line: str, part: RayPart | None) -> tuple[str, ...]:
    return tuple(filter(None, (line, part.line if part else "")))


def _remedy(part: RayPart | None, log: str, gone: str) -> Remedy:
    return part.remedy(log, gone) if part else Remedy(f"read {log}")


def silent_dashboard(facts: Facts) -> Iterator[Finding]:
    """The dashboard does not answer, though the Ray that it belongs to lives on a host that is looked at."""
    fault, gcs = _silent_fault(facts), _find_gcs(facts)
    if fault is None or (gcs and gcs.is_down) or _is_elsewhere(facts):
        return
    homes = [host for host in facts.fresh_hosts if _is_ray_alive_on(facts, host)]
    if not homes or facts.seconds_lasting("dashboard-silent", "dashboard") < facts.limits.dashboard_silent:
        return
    if facts.is_single_look and _is_young(facts, homes):
        return
    home = next((host for host in homes if _is_head(facts, host)), None)
    part = _find_part(facts, home, DASHBOARD_SCRIPTS)
    yield Finding(
        code="dashboard-silent",
        level="critical",
        subject="dashboard",
        text=f"Ray runs on {(home or homes[0]).name}, but its dashboard{_address_words(facts)} does not answer"
        f"{f': {part.words}' if part else ''}; running jobs continue, new ones can't be submitted",
        evidence=_evidence(fault.text, part),
        since=fault.since,
        remedy=_remedy(part, "logs/dashboard.log on the head", AGAIN),
    )


def wrong_address(facts: Facts) -> Iterator[Finding]:
    """Nothing has ever answered at the address: which other Ray of this host does, or that none runs here."""
    fault, cluster = _silent_fault(facts), facts.snapshot.cluster
    host = next((host for host in facts.fresh_hosts if host.local and host.sessions is not None), None)
    if fault is None or host is None or cluster.session is not None:
        return
    others = tuple(rays_on(host)) if cluster.others is None and facts.is_single_look else cluster.others
    if others is None or (_is_ray_alive_on(facts, host) and not _is_elsewhere(facts)):
        return
    heard = [ray for ray in others if ray.answers or (ray.answers is None and ray.owner is None)]  # there may be no time to ask our own
    found = sorted(heard, key=lambda ray: (not ray.answers, ray.owner or "", ray.url))
    here = " and ".join(map(_other_ray_words, found))
    unasked = any(ray.answers is None for ray in others)
    none = "no Ray of yours that answers" if unasked else "no Ray that answers" if others else "no Ray"
    heads = [] if found else [*_rays_on_other_hosts(facts)]
    there = f", but {heads[0].host} has one" if heads else ""
    yield Finding(
        code="address-wrong",
        level="critical",
        subject="address",
        text=f"nothing answers{_address_words(facts)}; this host has {here or none}{there}",
        evidence=(
            fault.text,
            *map(_other_ray_line, others),
            *(f"{one.session} on {one.host} has its dashboard at {one.url}" for one in heads),
        ),
        since=fault.since,
        remedy=Remedy(
            f"use `cockpit --address {found[0].url}`"
            if found
            else _way_to(facts, heads[0])
            if heads
            else f"{_others_words(others)}{_ray_remedy(facts)}"
        ),
    )


def _ray_remedy(facts: Facts) -> str:
    """Where no node of the job can be looked at, a Ray may well run there."""
    job, here = facts.snapshot.allocation, {host.name for host in facts.snapshot.hosts.values() if host.local}
    if job is None or not any(fault.source == "probe" and fault.host not in here for fault in facts.snapshot.faults):
        return NO_RAY_REMEDY
    return f"see first why the nodes of Slurm job {job.job} can't be looked at: `cockpit doctor`"


class _Head(NamedTuple):
    """Where else a Ray of root's or ours lives, with its dashboard."""

    host: str
    session: str
    url: str


def _rays_on_other_hosts(facts: Facts) -> Iterator[_Head]:
    here = {name for host in facts.snapshot.hosts.values() if host.local for name in (host.name, *host.addresses)}
    cluster = facts.snapshot.kubernetes
    for pod in (cluster.pods if cluster else None) or ():
        if cluster and pod.head and pod.phase == "Running" and here.isdisjoint((pod.name, pod.ip)):
            yield _Head(pod.name, f"RayCluster {cluster.title}", f"http://{pod.ip}:8265")
    for host in facts.fresh_hosts:
        for one in host.sessions or ():
            if not host.local and one.live and one.dashboard and one.trusted:
                yield _Head(host.name, one.name, one.dashboard)


def _way_to(facts: Facts, head: _Head) -> str:
    """By default a dashboard listens on its own host alone, and that of a pod within Kubernetes."""
    if (cluster := facts.snapshot.kubernetes) is not None:
        port = urlsplit(head.url).port or 8265
        forward = f"`kubectl port-forward -n {cluster.namespace} {head.host} {port}:{port}`"
        return f"its dashboard listens in pod {head.host}: {forward}, and `cockpit --address http://127.0.0.1:{port}` beside it"
    if urlsplit(head.url).hostname not in LOOPBACK_NAMES:
        return f"use `cockpit --address {head.url}`"
    job = facts.snapshot.allocation
    step = f": `srun --overlap --jobid={job.job} -w {head.host} --pty cockpit`" if job else ""
    return f"its dashboard listens on {head.host} alone: run cockpit there{step}"


def _others_words(others: Sequence[OtherRay]) -> str:
    """How to follow another user's, which is asked only for who names it."""
    unasked = [ray for ray in others if ray.answers is None and ray.owner]
    return "".join(f"if you mean the Ray of {ray.owner}: `cockpit --address {ray.url}`; " for ray in unasked[:1])


def _other_ray_words(ray: OtherRay) -> str:
    owner, heard = f" of {ray.owner}" if ray.owner else "", "" if ray.answers else ", which has not answered yet"
    return f"a Ray{owner} at {ray.url}{heard}"


def _other_ray_line(ray: OtherRay) -> str:
    if ray.answers:
        return f"{ray.session} answers at {ray.url}"
    if ray.answers is None:
        return f"{ray.session}{f' of {ray.owner}' if ray.owner else ''} has its dashboard at {ray.url}; it was not asked whether it answers"
    return f"{ray.session} has its dashboard at {ray.url}, which does not answer from here: it may be in a container"


def ended_ray(facts: Facts) -> Iterator[Finding]:
    """The Ray that was watched is no more, its dashboard with it."""
    fault, session = _silent_fault(facts), facts.snapshot.cluster.session
    if fault is None or session is None or any(_is_ray_alive_on(facts, host) for host in facts.fresh_hosts):
        return
    known = {host.name: [one for one in host.sessions or () if one.name == session] for host in facts.fresh_hosts if _is_head(facts, host)}
    dead = [host for host, sessions in known.items() if any(one.live is False for one in sessions)]
    if not dead or facts.seconds_lasting("ray-ended", session) < facts.limits.gcs_silent:
        return
    running = [job for job in facts.snapshot.jobs or () if job.running]
    stopped = any(one.stopped for host in dead for one in known[host])
    yield Finding(
        code="ray-ended",
        level="info" if not running else "warning" if stopped else "critical",
        subject=session,
        text=f"Ray {'was stopped' if stopped else 'has ended'} on its head {dead[0]}{_ended_jobs_words(running, stopped=stopped)}",
        evidence=(fault.text, f"ps on {dead[0]}: no raylet of {session} runs there"),
        since=fault.since,
        remedy=Remedy(
            "read the end of logs/gcs_server.out and logs/raylet.out of that session; end orphan processes, then start Ray again"
        ),
        about=tuple(job.key for job in running),
        seen=facts.last_heard_before_fault("ray.jobs") if running else None,
    )


def _ended_jobs_words(running: Sequence[Job], *, stopped: bool) -> str:
    """Jobs were listed up to ten seconds before: whoever stops a Ray may have waited for its jobs first."""
    names = ", ".join(job.id for job in running[:5])
    if not running:
        return ""
    jobs = plural(len(running), "job")
    return (
        f"; shortly before, {jobs} {'was' if len(running) == 1 else 'were'} running: {names}"
        if stopped
        else f", and {jobs} ended with it: {names}"
    )


def silent_monitor(facts: Facts) -> Iterator[Finding]:
    """The autoscaler monitor has stopped reporting: used and pending resources are unknown from then on."""
    fault, gcs = _fault(facts, "ray.status", "monitor"), _find_gcs(facts)
    if fault is None or facts.has_fault("ray.gcs") or facts.snapshot.cluster.reachable is False or (gcs and gcs.is_down):
        return
    if facts.seconds_lasting("monitor-silent", "monitor") < facts.limits.monitor_silent:
        return
    part = _find_part(facts, next((host for host in facts.fresh_hosts if _is_head(facts, host)), None), MONITOR_SCRIPTS)
    yield Finding(
        code="monitor-silent",
        level="warning",
        subject="monitor",
        text=f"the autoscaler monitor has reported nothing for more than {age(facts.now - fault.since)}"
        f"{f': {part.words}' if part else ''}; used and pending resources are that old, and no node is added",
        evidence=_evidence(_request_line(facts, fault, "/api/cluster_status"), part),
        since=fault.since,
        remedy=_remedy(part, "logs/monitor.log on the head", AGAIN),
    )


def refused(facts: Facts) -> Iterator[Finding]:
    """The cluster asks for a token, and cockpit has none or another one."""
    told = [fault for fault in facts.snapshot.faults if fault.cause in ("no token", "wrong token")]
    if not told:
        return
    fault = next((fault for fault in told if fault.source == "ray.identity"), told[0])
    place = facts.snapshot.cluster.address or "the dashboard"
    none = fault.cause == "no token"
    lacks = "requires a token, and cockpit found none on this host"
    other = "rejects the token that cockpit found on this host: it belongs to another cluster, or the head has a new one"
    yield Finding(
        code="token-missing" if none else "token-refused",
        level="warning",
        subject=place,
        text=f"{place} {lacks if none else other}",
        evidence=(fault.text, f"{place}/api/authentication_mode answers `token`"),
        since=min(one.since for one in told),
        remedy=Remedy(
            "copy the head's token: run `ray get-auth-token` there as Ray's user, put its output into ~/.ray/auth_token here (mode 600), "
            f"or into RAY_AUTH_TOKEN{'' if none else ', which overrides that file'}; drivers and nodes need it too"
        ),
    )


def _is_hiccup(facts: Facts) -> bool:
    """Whether a single look has had other answers of the GCS meanwhile: a busy one misses the tenth of a second that Ray gives it."""
    asked = ("ray.actors", "ray.placement_groups")
    return facts.is_single_look and all(source in facts.snapshot.as_of and not facts.has_fault(source) for source in asked)


def _is_young(facts: Facts, homes: Iterable[Host]) -> bool:
    """Whether the Ray there has just been started: its dashboard listens later."""
    begun = (one.started for host in homes for one in host.sessions or () if one.live and one.started is not None)
    return any(0 <= facts.now - moment < facts.limits.dashboard_silent for moment in begun)


def _fault(facts: Facts, source: str, cause: Cause) -> Fault | None:
    return next((fault for fault in facts.snapshot.faults if fault.source == source and fault.cause == cause), None)


def _silent_fault(facts: Facts) -> Fault | None:
    """Nothing answers at the address."""
    return _fault(facts, "ray.identity", "silent") if facts.snapshot.cluster.reachable is False else None


def _address_words(facts: Facts) -> str:
    return f" at {facts.snapshot.cluster.address}" if facts.snapshot.cluster.address else ""


def _request_line(facts: Facts, fault: Fault | None, path: str) -> str:
    return f"GET {facts.snapshot.cluster.address or ''}{path}: {fault.text}" if fault else ""


def _find_gcs(facts: Facts) -> RayPart | None:
    """Of our cluster, where its head is looked at; gone only where the head's raylet is still there."""
    for host in facts.fresh_hosts:
        if not host.rays or not _is_head(facts, host):
            continue
        mine = [ray for ray in host.rays if _is_ours(facts, ray.session) and ray.state not in ("Z", "X")]
        servers = [ray for ray in mine if ray.role == "gcs_server"]
        if servers:
            return RayPart(host.name, servers[0].pid, servers[0].state)
        if any(ray.node in facts.nodes and facts.nodes[ray.node].head for ray in mine if ray.node):
            return RayPart(host.name)
    return None


def _find_part(facts: Facts, host: Host | None, scripts: Sequence[str]) -> RayPart | None:
    """By the words of its command line; `None` where the process table wasn't read."""
    if host is None or host.processes is None:
        return None
    for process in facts.processes.get(host.name, ()):
        named = process.kind == "ray" and any(script in (process.command or "") for script in scripts)
        if named and _is_ours(facts, process.session) and process.state not in ("Z", "X"):
            return RayPart(host.name, process.pid, process.state)
    return RayPart(host.name)


def _is_ours(facts: Facts, session: str | None) -> bool:
    """Of the cluster that is watched, as far as that can be told: several may live on a host."""
    return session is None or facts.snapshot.cluster.session in (None, session)


def _is_elsewhere(facts: Facts) -> bool:
    """Whether nothing has ever answered at the address, while another Ray here does: what seems to be there may be in a container."""
    cluster = facts.snapshot.cluster
    return cluster.session is None and any(ray.answers and ray.url != cluster.address for ray in cluster.others or ())


def _is_ray_alive_on(facts: Facts, host: Host) -> bool:
    """Whether the Ray of the address lives there: by its session, else as the head that the address names."""
    live = live_sessions(host)
    if facts.snapshot.cluster.session:
        return facts.snapshot.cluster.session in live
    others = {name for name in live if _listens_elsewhere(facts, host, name)}
    return bool(live - others - ({""} if others else set())) and _is_head(facts, host)


def _listens_elsewhere(facts: Facts, host: Host, name: str) -> bool:
    """Whether its dashboard can't be what the address means: it has another port, or listens on its own host alone."""
    asked, there = (
        urlsplit(url or "") for url in (facts.snapshot.cluster.address, dashboard_of(host, name, facts.processes.get(host.name, ())))
    )
    try:
        other_port = None not in (asked.port, there.port) and asked.port != there.port
    except ValueError:
        return False
    return other_port or (there.hostname in LOOPBACK_NAMES and asked.hostname not in (None, *LOOPBACK_NAMES))


def _is_head(facts: Facts, host: Host) -> bool:
    """Whether the cluster's head is this host: Ray says so, or the address that is asked."""
    if any(node in facts.nodes and facts.nodes[node].head for node in host.nodes):
        return True
    try:
        where = urlsplit(facts.snapshot.cluster.address or "").hostname
    except ValueError:
        return False
    return (where in LOOPBACK_NAMES and host.local) or (where is not None and where in (host.name, *host.addresses))
