"""What is wrong, why, and which act would mend it: pure detectors over snapshots, and the judge that asks them."""

from cockpit.findings.actors import leaked_actors, leaked_groups, restart_loops
from cockpit.findings.control import ended_ray, refused, silent_dashboard, silent_gcs, silent_monitor
from cockpit.findings.disks import full_disks, full_stores, small_shm
from cockpit.findings.facts import Facts
from cockpit.findings.gpu_memory import free_but_held, unexplained_memory
from cockpit.findings.gpus import gpu_counts, gpu_trouble
from cockpit.findings.jobs import failed_jobs, pending_jobs
from cockpit.findings.judge import Detector, Judge
from cockpit.findings.memory import cgroup_limit, near_kill, oom_kills
from cockpit.findings.nodes import dead_nodes, silent_agents
from cockpit.findings.orphans import orphaned_memory
from cockpit.findings.sessions import dead_pointers, foreign_temps, several_sessions
from cockpit.findings.stalls import stalled_jobs
from cockpit.findings.versions import differing_versions, open_files
from cockpit.findings.waiting import deadlocks, waiting_actors, waiting_groups
from cockpit.limits import Limits

__all__ = ["DETECTORS", "Detector", "Facts", "Judge", "Limits"]

DETECTORS: tuple[Detector, ...] = (
    orphaned_memory,
    unexplained_memory,
    free_but_held,
    gpu_trouble,
    gpu_counts,
    stalled_jobs,
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
    dead_nodes,
    silent_agents,
    silent_gcs,
    silent_dashboard,
    ended_ray,
    silent_monitor,
    refused,
    several_sessions,
    dead_pointers,
    foreign_temps,
    full_disks,
    full_stores,
    small_shm,
    differing_versions,
    open_files,
)
