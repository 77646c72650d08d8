"""What is wrong, why, and which act would mend it: pure detectors over snapshots, and the judge that asks them."""

from cockpit.findings.actors import leaked_actors, leaked_groups, restart_loops
from cockpit.findings.facts import Facts
from cockpit.findings.jobs import failed_jobs, pending_jobs
from cockpit.findings.judge import Detector, Judge
from cockpit.findings.memory import cgroup_limit, near_kill, oom_kills
from cockpit.findings.orphans import orphaned_memory
from cockpit.findings.waiting import deadlocks, waiting_actors, waiting_groups
from cockpit.limits import Limits

__all__ = ["DETECTORS", "Detector", "Facts", "Judge", "Limits"]

DETECTORS: tuple[Detector, ...] = (
    orphaned_memory,
    near_kill,
    oom_kills,
    cgroup_limit,
    waiting_groups,
    waiting_actors,
    deadlocks,
    pending_jobs,
    failed_jobs,
    leaked_groups,
    leaked_actors,
    restart_loops,
)
