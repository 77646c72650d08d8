"""Detects a GCS, dashboard or autoscaler monitor that does not answer, a Ray that has ended or was replaced, and rejected tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.followed_ray import (
    address_words,
    are_several_on,
    find_address_fault,
    find_fault,
    is_elsewhere,
    is_head,
    is_ray_alive_on,
    replaced_words,
    session_at_address,
)
from cockpit.findings.rays_here import live_sessions
from cockpit.findings.sources import rests_on
from cockpit.model import Fault, Finding, Host, Level, Remedy
from cockpit.text import plural

DASHBOARD_SCRIPTS = ("/dashboard/dashboard.py",)
MONITOR_SCRIPTS = ("/autoscaler/_private/monitor.py", "/autoscaler/v2/monitor.py")


class RayPart(msgspec.Struct, frozen=True):
    """One of Ray's processes on the head, as the process table of a probed host shows it."""

    host: str | None = None
    """`None`: nothing is known of it."""
    pid: int | None = None
    """`None`: there is no such process on the host."""
    state: str | None = None

    @property
    def stopped(self) -> bool:
        """Whether a signal has stopped it."""
        return self.state == "T"

    @property
    def has_ended(self) -> bool:
        """Whether it should run on the host and does not."""
        return self.host is not None and self.pid is None

    @property
    def is_down(self) -> bool:
        """Whether it can't answer."""
        return self.stopped or self.has_ended

    @property
    def words(self) -> str:
        """Its state, as a part of a sentence."""
        if self.pid is None:
            return f": its process on {self.host} has ended" if self.host else ""
        return f": its process on {self.host} (pid {self.pid}) " + ("is stopped by a signal" if self.stopped else "still exists")

    def evidence(self, line: str) -> tuple[str, ...]:
        """The line, then the process's state in the process table."""
        seen = "no such process" if self.pid is None else f"pid {self.pid} is in state {self.state or 'unknown'}"
        return tuple(filter(None, (line, f"ps on {self.host}: {seen}" if self.host else "")))

    def remedy(self, log: str, gone: str) -> Remedy:
        """`log`: the log that shows why it does not answer; `gone`: what to do if it has ended."""
        if self.stopped:
            return Remedy(f"find out who stopped the process; `kill -CONT {self.pid}` on {self.host} resumes it")
        return Remedy(f"read {log}; {gone}" if self.has_ended else f"read {log}")


RESTART = "start the {} again with its command line, as Ray's user (Ray does not restart it)"


@rests_on()
def silent_gcs(facts: Facts) -> Iterator[Finding]:
    """The GCS does not answer, or its own host shows why it can't."""
    fault, part = find_fault(facts, "ray.gcs", "gcs"), _find_gcs(facts)
    # A busy GCS misses the tenth of a second that Ray gives it. In a single sample, other answers of the GCS prove that it is only busy.
    asked = ("ray.actors", "ray.placement_groups")
    is_busy = facts.is_single_sample and all(source in facts.snapshot.as_of and not facts.has_fault(source) for source in asked)
    if not part.is_down and (fault is None or is_busy):
        return
    if facts.seconds_lasting("gcs-silent", "GCS") < facts.limits.gcs_silent:
        return
    what = "Ray ends on all nodes after a minute without a GCS" if part.has_ended else "nothing new can start, and Ray's data is old"
    text = f"Ray's GCS does not answer{part.words}; {what}"
    evidence = part.evidence(_request_line(facts, fault, "/api/gcs_healthz"))
    remedy = part.remedy("logs/gcs_server.out on the head, and check the head's load and memory", "save what you can, then restart Ray")
    yield Finding("gcs-silent", "critical", "GCS", text, evidence, fault.since if fault else None, remedy)


@rests_on()
def silent_dashboard(facts: Facts) -> Iterator[Finding]:
    """The dashboard does not answer, although its Ray runs on a probed host."""
    fault, gcs = find_address_fault(facts, "silent"), _find_gcs(facts)
    if fault is None or gcs.is_down or is_elsewhere(facts):
        return
    homes = [host for host in facts.fresh_hosts if is_ray_alive_on(facts, host)]
    if not homes or facts.seconds_lasting("dashboard-silent", "dashboard") < facts.limits.dashboard_silent:
        return
    if facts.is_single_sample:  # a Ray that has just been started: its dashboard listens later
        for host in homes:
            name = session_at_address(facts, host)
            begun = [one.started for one in host.sessions or () if one.live and one.started is not None and one.name == (name or one.name)]
            if any(0 <= facts.now - moment < facts.limits.dashboard_silent for moment in begun):
                return
    home = next((host for host in homes if is_head(facts, host)), None)
    part = _find_part(facts, home, DASHBOARD_SCRIPTS)
    session = session_at_address(facts, home) if home is not None and are_several_on(home) else None
    text = (
        f"Ray{f' session {session}' if session else ''} runs on {facts.host_title(home or homes[0])}, but its dashboard"
        f"{address_words(facts)} does not answer{part.words}; running jobs continue, new ones can't be submitted"
    )
    remedy = part.remedy("logs/dashboard.log on the head", RESTART.format("dashboard"))
    yield Finding("dashboard-silent", "critical", "dashboard", text, part.evidence(fault.text), fault.since, remedy)


@rests_on()
def ended_ray(facts: Facts) -> Iterator[Finding]:
    """The followed Ray has ended, and its dashboard with it."""
    session, other = facts.snapshot.cluster.session, find_fault(facts, "ray.identity", "other session")
    fault = find_address_fault(facts, "silent") or other
    if fault is None or session is None or any(is_ray_alive_on(facts, host) for host in facts.fresh_hosts):
        return
    known = {host.name: [one for one in host.sessions or () if one.name == session] for host in facts.fresh_hosts if is_head(facts, host)}
    dead = [host for host, sessions in known.items() if any(one.live is False for one in sessions)]
    if not dead or facts.seconds_lasting("ray-ended", session) < facts.limits.gcs_silent:
        return
    running = [job for job in facts.snapshot.jobs or () if job.running]
    stopped = any(one.stopped for host in dead for one in known[host])
    head, title = facts.snapshot.hosts[dead[0]], facts.titles.of_host(dead[0])
    text = f"Ray {'was stopped' if stopped else 'has ended'} on its head {title}"
    if running:
        # Jobs were listed up to ten seconds before: they may have ended before Ray was stopped.
        were = f"{plural(len(running), 'job')} {'was' if len(running) == 1 else 'were'} running"
        text += f"; shortly before, {were}: {', '.join(job.id for job in running[:5])}"
    text += "; another Ray session answers at its address now" if other else ""
    evidence = (fault.text, f"ps on {title}: no raylet of {session} runs there")
    remedy = "read the end of logs/gcs_server.out and logs/raylet.out of that session; kill the orphan processes, then start Ray again"
    if head.local and live_sessions(head) - {"", session}:
        remedy += "; to follow another Ray of this host, press `a` on the screen"
    level: Level = "info" if not running else "warning" if stopped else "critical"
    about, seen = tuple(job.key for job in running), facts.last_answer_before_fault("ray.jobs") if running else None
    yield Finding("ray-ended", level, session, text, evidence, fault.since, Remedy(remedy), about, seen)


@rests_on()
def replaced_ray(facts: Facts) -> Iterator[Finding]:
    """Another session answers at the address of the followed one, and nobody has chosen it."""
    cluster = facts.snapshot.cluster
    if cluster.replaced is None or not 0 <= facts.now - cluster.replaced <= facts.limits.ray_replaced:
        return
    session = cluster.session or "a session that it does not name"
    evidence = (f"{cluster.address}/api/version answers session_name {session}",)
    remedy = "if Ray was started again, there is nothing to do; another Ray: press `a` on the screen, or use `cockpit --address URL`"
    yield Finding("ray-replaced", "info", session, replaced_words(cluster), evidence, cluster.replaced, Remedy(remedy))


@rests_on()
def silent_monitor(facts: Facts) -> Iterator[Finding]:
    """The autoscaler monitor has stopped reporting: used and pending resources are unknown since then."""
    fault, gcs = find_fault(facts, "ray.status", "monitor"), _find_gcs(facts)
    if fault is None or facts.has_fault("ray.gcs") or facts.snapshot.cluster.reachable is False or gcs.is_down:
        return
    if facts.seconds_lasting("monitor-silent", "monitor") < facts.limits.monitor_silent:
        return
    part = _find_part(facts, next((host for host in facts.fresh_hosts if is_head(facts, host)), None), MONITOR_SCRIPTS)
    old = "used and pending resources are as old as its last report, and no node is added"
    text = f"The autoscaler monitor has stopped reporting{part.words}; {old}"
    evidence = part.evidence(_request_line(facts, fault, "/api/cluster_status"))
    remedy = part.remedy("logs/monitor.log on the head", RESTART.format("autoscaler monitor"))
    yield Finding("monitor-silent", "warning", "monitor", text, evidence, fault.since, remedy)


@rests_on()
def refused(facts: Facts) -> Iterator[Finding]:
    """The cluster requires a token, and cockpit has none or another one."""
    refusals = [fault for fault in facts.snapshot.faults if fault.cause in ("no token", "wrong token")]
    if not refusals:
        return
    fault = next((fault for fault in refusals if fault.source == "ray.identity"), refusals[0])
    place = facts.snapshot.cluster.address or "the dashboard"
    none = fault.cause == "no token"
    lacks = "requires a token, and cockpit found none on this host"
    other = "rejects the token that cockpit found on this host: it belongs to another cluster, or the head has a new one"
    evidence = (fault.text, f"{place}/api/authentication_mode answers `token`")
    remedy = Remedy(
        "copy the head's token: run `ray get-auth-token` there as Ray's user, put its output into ~/.ray/auth_token here (mode 600), "
        f"or into RAY_AUTH_TOKEN{'' if none else ', which overrides that file'}; drivers and nodes need it too"
    )
    code, since = "token-missing" if none else "token-refused", min(one.since for one in refusals)
    yield Finding(code, "warning", place, f"{place} {lacks if none else other}", evidence, since, remedy)


def _request_line(facts: Facts, fault: Fault | None, path: str) -> str:
    return f"GET {facts.snapshot.cluster.address or ''}{path}: {fault.text}" if fault else ""


def _find_gcs(facts: Facts) -> RayPart:
    """The GCS of our cluster, if its head is probed. It counts as ended only if the head's raylet still runs."""
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
        if any(ray.node in facts.index.nodes and facts.index.nodes[ray.node].head for ray in mine if ray.node):
            return RayPart(facts.host_title(host))
    return RayPart()


def _find_part(facts: Facts, host: Host | None, scripts: Sequence[str]) -> RayPart:
    """The process with one of these scripts in its command line, of the session behind our address; unknown if its session is unclear."""
    if host is None or host.processes is None:
        return RayPart()
    session, are_several = session_at_address(facts, host), are_several_on(host)
    named = [
        process
        for process in facts.index.processes_by_host.get(host.name, ())
        if process.kind == "ray" and process.state not in ("Z", "X") and any(script in (process.command or "") for script in scripts)
    ]
    found = [process for process in named if process.session == (session or process.session)]
    unknown = [process for process in named if process.session is None]
    if are_several and (session is None or (unknown and not found)):
        return RayPart()
    part, title = next(iter(found or unknown), None), facts.host_title(host)
    return RayPart(title) if part is None else RayPart(title, part.pid, part.state)
