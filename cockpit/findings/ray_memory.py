"""Detects Ray's own processes that hold much private host memory: they may grow until the head has none left."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.memory_trend import plausible_bytes
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Remedy
from cockpit.text import size

CLEAR_SHARE = 0.9
"""Share of the mark below which a finding ends."""
PROGRAMS = {"gcs_server": "GCS", "raylet": "raylet"}
"""By program name: the command line of a raylet also contains the command lines of its agents."""
SCRIPTS = (
    ("dashboard", ("dashboard/dashboard.py", "ray-dashboard-", "ray::DashboardHead")),
    ("agent", ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "dashboard/agent.py", "runtime_env/agent/main.py")),
    ("log monitor", ("log_monitor.py",)),
    ("autoscaler monitor", ("_private/monitor.py", "autoscaler/v2/monitor.py")),
)
"""Each part with words that its command line contains."""
REMEDIES = {
    "GCS": "restart the cluster when the run allows it; what it keeps is limited by RAY_task_events_max_num_task_in_gcs and "
    "RAY_maximum_gcs_destroyed_actor_cached_count, set before `ray start --head`",
    "dashboard": "kill it between runs and start it again yourself, as Ray does not: until then no job can be "
    "submitted; running jobs continue",
    "agent": "do not kill it: its raylet and all work on the node would end with it; restart Ray on that node when the run allows it",
}
OTHER_REMEDY = "restart Ray on that node when the run allows it"


@rests_on("processes")
def large_parts(facts: Facts) -> Iterator[Finding]:
    """Each process of this cluster's Ray above the mark, without shared memory such as the object store.

    If its shared memory is unknown, it is left out: a raylet would seem to hold the whole store.
    """
    least = CLEAR_SHARE * facts.limits.ray_memory
    for host in facts.snapshot.hosts.values():
        for process in facts.index.processes_by_host.get(host.name, ()):
            if process.kind != "ray" or process.ours is False or process.shared is None or (plausible_bytes(process.private) or 0) < least:
                continue
            title, command = facts.host_title(host), process.command or ""
            held, total = process.private or 0, plausible_bytes(host.memory.total)
            part = PROGRAMS.get(command.partition(" ")[0].rpartition("/")[2])
            part = part or next((name for name, words in SCRIPTS if any(word in command for word in words)), "Ray process")
            subject = f"{part} {process.pid} on {title}"
            if not facts.is_over_mark(held, facts.limits.ray_memory, least, "ray-memory", subject):
                continue
            of_all = f" (the host has {size(total)})" if total else ""

            # The growth of all Ray processes of the host together: one of them grows, the others hardly change.
            holdings = facts.memory.holdings(process.host) or ()
            trend = next((one.trend for one in holdings if any(each.key == process.key for each in one.processes)), None)
            growth = ""
            if trend and trend.steady and trend.slope > 0:
                growth = f", and Ray's own processes there grow by {size(60 * trend.slope)}/min"
            which = f"{part[:1].upper()}{part[1:]} (pid {process.pid}) on {title}"
            text = f"{which} holds {size(held)} of host memory{of_all}{growth}; stopping jobs does not free it"
            evidence = f"ps -o rss,cmd -p {process.pid} on {title}: {size(process.rss)} resident, {size(process.shared)} of it shared"
            remedy, seen = Remedy(REMEDIES.get(part, OTHER_REMEDY)), facts.stale_since(host.name)
            yield Finding("ray-memory", "warning", subject, text, (evidence,), None, remedy, (process.key,), seen)
