"""Ray's own processes that hold much host memory for themselves: they grow until the head has none left."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.findings.facts import Facts
from cockpit.findings.memory_trend import plausible_bytes
from cockpit.findings.sources import rests_on
from cockpit.model import Finding, Process, Remedy
from cockpit.text import size

CLEAR_SHARE = 0.9
"""Of its mark, below which it must fall."""
PROGRAMS = {"gcs_server": "GCS", "raylet": "raylet"}
"""By the name of what runs: a raylet's command holds those of its agents."""
SCRIPTS = (
    ("dashboard", ("dashboard/dashboard.py", "ray-dashboard-", "ray::DashboardHead")),
    ("agent", ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "dashboard/agent.py", "runtime_env/agent/main.py")),
    ("log monitor", ("log_monitor.py",)),
    ("autoscaler monitor", ("_private/monitor.py", "autoscaler/v2/monitor.py")),
)
"""What of a command names which part."""
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
    """Each process of this cluster's Ray above its mark; what it shares with others, as the object store, is not its own.

    Where it is not known how much that is, a raylet seems to hold all of the store.
    """
    least = CLEAR_SHARE * facts.limits.ray_memory
    for host in facts.snapshot.hosts.values():
        for process in facts.index.processes_by_host.get(host.name, ()):
            if process.kind != "ray" or process.ours is False or process.shared is None or (plausible_bytes(process.private) or 0) < least:
                continue
            title = facts.host_title(host)
            part, held, total = _part(process.command), process.private or 0, plausible_bytes(host.memory.total)
            subject = f"{part} {process.pid} on {title}"
            if not facts.is_over_mark(held, facts.limits.ray_memory, least, "ray-memory", subject):
                continue
            of_all = f" (the host has {size(total)})" if total else ""
            yield Finding(
                code="ray-memory",
                level="warning",
                subject=subject,
                text=f"{part[:1].upper()}{part[1:]} (pid {process.pid}) on {title} holds {size(held)} of host memory{of_all}"
                f"{_growth_words(facts, process)}; stopping jobs does not free it",
                evidence=(f"ps -o rss,cmd -p {process.pid} on {title}: {size(process.rss)} resident, {size(process.shared)} of it shared",),
                remedy=Remedy(REMEDIES.get(part, OTHER_REMEDY)),
                about=(process.key,),
                seen=facts.stale_since(host.name),
            )


def _part(command: str | None) -> str:
    text = command or ""
    program = text.partition(" ")[0].rpartition("/")[2]
    return PROGRAMS.get(program) or next((part for part, words in SCRIPTS if any(word in text for word in words)), "Ray process")


def _growth_words(facts: Facts, process: Process) -> str:
    """Of all of Ray's own processes there: one part grows, the others hardly change."""
    held = facts.memory.holdings(process.host) or ()
    trend = next((one.trend for one in held if any(each.key == process.key for each in one.processes)), None)
    return f", and Ray's own processes there grow by {size(60 * trend.slope)}/min" if trend and trend.steady and trend.slope > 0 else ""
