"""Ray's processes on the head: a GCS, dashboard or autoscaler monitor that does not answer; and tokens that are missing or rejected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.followed_ray import (
    address_words,
    are_several_on,
    find_fault,
    is_elsewhere,
    is_head,
    is_ray_alive_on,
    replaced_words,
    session_at_address,
    silent_fault,
)
from cockpit.findings.rays_here import live_sessions
from cockpit.findings.sources import rests_on
from cockpit.model import Fault, Finding, Host, Remedy
from cockpit.text import plural

DASHBOARD_SCRIPTS = ("/dashboard/dashboard.py",)
MONITOR_SCRIPTS = ("/autoscaler/_private/monitor.py", "/autoscaler/v2/monitor.py")


class RayPart(msgspec.Struct, frozen=True):
    """What the process table of a host that is looked at says of one of Ray's parts; without a host nothing is known of it."""

    host: str | None = None
    pid: int | None = None
    state: str | None = None
    """`None`: there is no such process there."""

    @property
    def stopped(self) -> bool:
        """Whether a signal holds it."""
        return self.state == "T"

    @property
    def has_ended(self) -> bool:
        """Whether there is no such process where it should be."""
        return self.host is not None and self.pid is None

    @property
    def is_down(self) -> bool:
        """Whether it can't answer."""
        return self.stopped or self.has_ended

    @property
    def words(self) -> str:
        """For the middle of a sentence."""
        if self.pid is None:
            return f": its process on {self.host} has ended" if self.host else ""
        return f": its process on {self.host} (pid {self.pid}) " + ("is stopped by a signal" if self.stopped else "still exists")

    def evidence(self, line: str) -> tuple[str, ...]:
        """What the process table shows, behind that line."""
        seen = "no such process" if self.pid is None else f"pid {self.pid} is in state {self.state or 'unknown'}"
        return tuple(filter(None, (line, f"ps on {self.host}: {seen}" if self.host else "")))

    def remedy(self, log: str, gone: str) -> Remedy:
        """`log`: where to read why it does not answer; `gone`: what to do where it has ended."""
        if self.stopped:
            return Remedy(f"find out who stopped the process; `kill -CONT {self.pid}` on {self.host} resumes it")
        return Remedy(f"read {log}; {gone}" if self.has_ended else f"read {log}")


RESTART = "start the {} again with its command line, as Ray's user (Ray does not restart it)"


@rests_on()
def silent_gcs(facts: Facts) -> Iterator[Finding]:
    """The GCS does not answer, or its own host shows why it can't."""
    fault, part = find_fault(facts, "ray.gcs", "gcs"), _find_gcs(facts)
    if not part.is_down and (fault is None or _is_hiccup(facts)):
        return
    if facts.seconds_lasting("gcs-silent", "GCS") < facts.limits.gcs_silent:
        return
    what = "Ray ends on all nodes after a minute without a GCS" if part.has_ended else "nothing new can start, and Ray's data is old"
    yield Finding(
        code="gcs-silent",
        level="critical",
        subject="GCS",
        text=f"Ray's GCS does not answer{part.words}; {what}",
        evidence=part.evidence(_request_line(facts, fault, "/api/gcs_healthz")),
        since=fault.since if fault else None,
        remedy=part.remedy("logs/gcs_server.out on the head, and check the head's load and memory", "save what you can, then restart Ray"),
    )


@rests_on()
def silent_dashboard(facts: Facts) -> Iterator[Finding]:
    """The dashboard does not answer, though the Ray that it belongs to lives on a host that is looked at."""
    fault, gcs = silent_fault(facts), _find_gcs(facts)
    if fault is None or gcs.is_down or is_elsewhere(facts):
        return
    homes = [host for host in facts.fresh_hosts if is_ray_alive_on(facts, host)]
    if not homes or facts.seconds_lasting("dashboard-silent", "dashboard") < facts.limits.dashboard_silent:
        return
    if facts.is_single_look and _is_young(facts, homes):
        return
    home = next((host for host in homes if is_head(facts, host)), None)
    part = _find_part(facts, home, DASHBOARD_SCRIPTS)
    session = session_at_address(facts, home) if home is not None and are_several_on(home) else None
    yield Finding(
        code="dashboard-silent",
        level="critical",
        subject="dashboard",
        text=f"Ray{f' session {session}' if session else ''} runs on {facts.host_title(home or homes[0])}, "
        f"but its dashboard{address_words(facts)} "
        f"does not answer{part.words}; "
        "running jobs continue, new ones can't be submitted",
        evidence=part.evidence(fault.text),
        since=fault.since,
        remedy=part.remedy("logs/dashboard.log on the head", RESTART.format("dashboard")),
    )


@rests_on()
def ended_ray(facts: Facts) -> Iterator[Finding]:
    """The Ray that was watched is no more, its dashboard with it."""
    session, other = facts.snapshot.cluster.session, find_fault(facts, "ray.identity", "other session")
    fault = silent_fault(facts) or other
    if fault is None or session is None or any(is_ray_alive_on(facts, host) for host in facts.fresh_hosts):
        return
    known = {host.name: [one for one in host.sessions or () if one.name == session] for host in facts.fresh_hosts if is_head(facts, host)}
    dead = [host for host, sessions in known.items() if any(one.live is False for one in sessions)]
    if not dead or facts.seconds_lasting("ray-ended", session) < facts.limits.gcs_silent:
        return
    running = [job for job in facts.snapshot.jobs or () if job.running]
    stopped = any(one.stopped for host in dead for one in known[host])
    # Jobs were listed up to ten seconds before: whoever stops a Ray may have waited for its jobs first.
    were = f"{plural(len(running), 'job')} {'was' if len(running) == 1 else 'were'} running"
    before = f"; shortly before, {were}: {', '.join(job.id for job in running[:5])}" if running else ""
    yield Finding(
        code="ray-ended",
        level="info" if not running else "warning" if stopped else "critical",
        subject=session,
        text=f"Ray {'was stopped' if stopped else 'has ended'} on its head {facts.titles.of_host(dead[0])}{before}"
        + ("; another Ray session answers at its address now" if other else ""),
        evidence=(fault.text, f"ps on {facts.titles.of_host(dead[0])}: no raylet of {session} runs there"),
        since=fault.since,
        remedy=Remedy(
            "read the end of logs/gcs_server.out and logs/raylet.out of that session; kill the orphan processes, then start Ray again"
            + _other_ray_words(facts, dead[0])
        ),
        about=tuple(job.key for job in running),
        seen=facts.last_heard_before_fault("ray.jobs") if running else None,
    )


def _other_ray_words(facts: Facts, host: str) -> str:
    """How a person follows another Ray that lives on that host; empty where there is none, or it is not here."""
    here = facts.snapshot.hosts[host]
    others = live_sessions(here) - {"", facts.snapshot.cluster.session}
    return "; to follow another Ray of this host, press `a` on the screen" if here.local and others else ""


@rests_on()
def replaced_ray(facts: Facts) -> Iterator[Finding]:
    """Another session has taken the place of the one that was followed, though no person has chosen it."""
    cluster = facts.snapshot.cluster
    if cluster.replaced is None or not 0 <= facts.now - cluster.replaced <= facts.limits.ray_replaced:
        return
    session = cluster.session or "a session that it does not name"
    yield Finding(
        code="ray-replaced",
        level="info",
        subject=session,
        text=replaced_words(cluster),
        evidence=(f"{cluster.address}/api/version answers session_name {session}",),
        since=cluster.replaced,
        remedy=Remedy(
            "if Ray was started again, there is nothing to do; another Ray: press `a` on the screen, or use `cockpit --address URL`"
        ),
    )


@rests_on()
def silent_monitor(facts: Facts) -> Iterator[Finding]:
    """The autoscaler monitor has stopped reporting: used and pending resources are unknown from then on."""
    fault, gcs = find_fault(facts, "ray.status", "monitor"), _find_gcs(facts)
    if fault is None or facts.has_fault("ray.gcs") or facts.snapshot.cluster.reachable is False or gcs.is_down:
        return
    if facts.seconds_lasting("monitor-silent", "monitor") < facts.limits.monitor_silent:
        return
    part = _find_part(facts, next((host for host in facts.fresh_hosts if is_head(facts, host)), None), MONITOR_SCRIPTS)
    yield Finding(
        code="monitor-silent",
        level="warning",
        subject="monitor",
        text=f"The autoscaler monitor has stopped reporting{part.words}; used and pending resources are as old "
        "as its last report, and no node is added",
        evidence=part.evidence(_request_line(facts, fault, "/api/cluster_status")),
        since=fault.since,
        remedy=part.remedy("logs/monitor.log on the head", RESTART.format("autoscaler monitor")),
    )


@rests_on()
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
    meant = {host.name: session_at_address(facts, host) for host in homes}
    begun = (
        one.started
        for host in homes
        for one in host.sessions or ()
        if one.live and one.started is not None and one.name == (meant[host.name] or one.name)
    )
    return any(0 <= facts.now - moment < facts.limits.dashboard_silent for moment in begun)


def _request_line(facts: Facts, fault: Fault | None, path: str) -> str:
    return f"GET {facts.snapshot.cluster.address or ''}{path}: {fault.text}" if fault else ""


def _find_gcs(facts: Facts) -> RayPart:
    """Of our cluster, where its head is looked at; gone only where the head's raylet is still there."""
    for host in facts.fresh_hosts:
        if not host.rays or not is_head(facts, host):
            continue
        session = session_at_address(facts, host)
        if session is None and are_several_on(host):
            return RayPart()
        mine = [ray for ray in host.rays if ray.session in (None, session or ray.session) and ray.state not in ("Z", "X")]
        servers = [ray for ray in mine if ray.role == "gcs_server"]
        if servers:
            return RayPart(facts.host_title(host), servers[0].pid, servers[0].state)
        if any(ray.node in facts.nodes and facts.nodes[ray.node].head for ray in mine if ray.node):
            return RayPart(facts.host_title(host))
    return RayPart()


def _find_part(facts: Facts, host: Host | None, scripts: Sequence[str]) -> RayPart:
    """By the words of its command line, of the session that the address means; nothing is known where that can't be told."""
    if host is None or host.processes is None:
        return RayPart()
    session, are_several = session_at_address(facts, host), are_several_on(host)
    named = [
        process
        for process in facts.index.processes_by_host.get(host.name, ())
        if process.kind == "ray" and process.state not in ("Z", "X") and any(script in (process.command or "") for script in scripts)
    ]
    if session is None and are_several:
        return RayPart()
    found = [process for process in named if process.session == (session or process.session)]
    unknown = [process for process in named if process.session is None]
    if not found and unknown and are_several:
        return RayPart()
    part = next(iter(found or unknown), None)
    title = facts.host_title(host)
    return RayPart(title) if part is None else RayPart(title, part.pid, part.state)
