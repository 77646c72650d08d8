"""What is wrong, why, and which act would mend it: pure detectors over snapshots, and the judge that asks them."""

from cockpit.findings import checks
from cockpit.findings.actors import leaked_actors, leaked_groups, restart_loops
from cockpit.findings.checks import Check
from cockpit.findings.control import ended_ray, refused, silent_dashboard, silent_gcs, silent_monitor
from cockpit.findings.disks import full_disks, full_stores, small_shm
from cockpit.findings.facts import Facts
from cockpit.findings.gpu_memory import free_but_held, free_but_in_use, unexplained_memory
from cockpit.findings.gpus import gpu_counts, gpu_trouble
from cockpit.findings.jobs import failed_jobs, pending_jobs
from cockpit.findings.judge import Detector, Judge
from cockpit.findings.memory import cgroup_limit, near_kill, oom_kills
from cockpit.findings.missing import missing_hosts
from cockpit.findings.nodes import dead_nodes, silent_agents
from cockpit.findings.orphans import orphaned_memory
from cockpit.findings.sessions import dead_pointers, foreign_temps, lone_gcs, several_sessions
from cockpit.findings.stalls import stalled_jobs
from cockpit.findings.versions import differing_versions, open_files
from cockpit.findings.waiting import deadlocks, waiting_actors, waiting_groups
from cockpit.limits import Limits

__all__ = ["CHECKS", "DETECTORS", "Check", "Detector", "Facts", "Judge", "Limits"]

ACTORS, GPUS, GROUPS, HOSTS = (checks.actors,), (checks.gpus,), (checks.groups,), (checks.hosts,)
JOBS, NODES, RAY = (checks.jobs,), (checks.nodes,), (checks.dashboard,)

CHECKS: tuple[Check, ...] = (
    Check("GPU memory that no live Ray owns", (orphaned_memory,), HOSTS),
    Check("GPU memory that no process explains", (unexplained_memory,), HOSTS + GPUS),
    Check("GPUs that Ray counts as free are free", (free_but_held, free_but_in_use), HOSTS + GPUS + (checks.resources,)),
    Check("GPUs: lost, ECC errors, rows to be remapped, slowed by heat or power", (gpu_trouble,), GPUS),
    Check("Ray counts the GPUs that there are", (gpu_counts,), NODES + GPUS),
    Check("Jobs that stall", (stalled_jobs,), JOBS + HOSTS, "GPUs at 0 %, or at 100 % with idle power, for many minutes"),
    Check("Host memory below Ray's kill line", (near_kill,), NODES + HOSTS, "how fast it grows, and when Ray would begin to kill"),
    Check("Workers ended for lack of memory", (oom_kills,), RAY + HOSTS),
    Check("A cgroup gives all of the host's memory", (cgroup_limit,), HOSTS),
    Check("Placement groups have their place", (waiting_groups,), GROUPS),
    Check("Actors have their place", (waiting_actors,), ACTORS),
    Check("Jobs that wait for each other", (deadlocks,), GROUPS + ACTORS),
    Check("Jobs start, and don't fail", (pending_jobs, failed_jobs), JOBS),
    Check("Nothing is held for jobs that are over", (leaked_groups, leaked_actors), JOBS + GROUPS + ACTORS),
    Check("Actors that are restarted again and again", (restart_loops,), ACTORS, "restarts within ten minutes"),
    Check("Nodes are alive and report", (dead_nodes, missing_hosts, silent_agents), NODES),
    Check("GCS, dashboard and monitor answer", (silent_gcs, silent_dashboard, ended_ray, silent_monitor), HOSTS),
    Check("Authentication", (refused,)),
    Check("One Ray a host, and what points at it", (several_sessions, lone_gcs, dead_pointers, foreign_temps), HOSTS),
    Check("Disks under Ray's temp dirs", (full_disks,), NODES + HOSTS),
    Check("Object store and /dev/shm", (full_stores, small_shm), NODES + HOSTS),
    Check("The same versions everywhere", (differing_versions,), HOSTS),
    Check("Open files", (open_files,), HOSTS),
)

DETECTORS: tuple[Detector, ...] = tuple(detector for check in CHECKS for detector in check.detectors)
