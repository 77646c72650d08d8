"""Finds what is wrong, why, and which action would mend it: pure detectors over snapshots, and the tracker that runs them."""

from cockpit.config.thresholds import Limits
from cockpit.findings import checks
from cockpit.findings.actors import leaks, restart_loops
from cockpit.findings.address import wrong_address
from cockpit.findings.allocation import ending_allocation, leaving_nodes, requeued_allocation
from cockpit.findings.checks import Check
from cockpit.findings.control import ended_ray, refused, replaced_ray, silent_dashboard, silent_gcs, silent_monitor
from cockpit.findings.cpus import overcounted_cpus
from cockpit.findings.disks import full_disks, full_shm, full_stores, small_shm
from cockpit.findings.engines import dead_engines, full_caches, idle_engines, silent_engines, stuck_engines
from cockpit.findings.facts import Facts
from cockpit.findings.failing_sources import failing_reads, unseen_gpus, unseen_hosts
from cockpit.findings.gpu_leftovers import idle_workers, orphaned_memory
from cockpit.findings.gpu_memory import free_but_held, unexplained_memory
from cockpit.findings.gpu_memory_growth import growing_gpu_memory
from cockpit.findings.gpu_speed import faulty_links, low_clocks, lowered_power
from cockpit.findings.gpus import gpu_counts, gpu_trouble, reported_xids
from cockpit.findings.host_names import loopback_names
from cockpit.findings.infiniband import growing_rdma_errors, rdma_ports_down
from cockpit.findings.interfaces import missing_interfaces
from cockpit.findings.jobs import failed_jobs, pending_jobs
from cockpit.findings.kubernetes import crashing_containers, killed_containers, leaving_pods, missing_pods, waiting_pods, wrong_rayjobs
from cockpit.findings.locked_memory import low_locked_memory
from cockpit.findings.log_files import many_log_files
from cockpit.findings.memory import cgroup_limit, near_kill, near_own_kill, oom_kills
from cockpit.findings.node_addresses import wrong_node_addresses
from cockpit.findings.nodes import dead_nodes, missing_hosts, silent_agents
from cockpit.findings.phases import slow_phases
from cockpit.findings.port_ranges import few_worker_ports, ports_of_connections
from cockpit.findings.proxies import proxies_of_raylets, proxy_of_shell
from cockpit.findings.ray_memory import large_parts
from cockpit.findings.sessions import dead_pointers, foreign_temps, lone_gcs, several_sessions
from cockpit.findings.shared_folders import shared_sessions
from cockpit.findings.slow_ranks import lagging_gpus
from cockpit.findings.slower_steps import slower_steps
from cockpit.findings.socket_paths import long_temp_dirs
from cockpit.findings.sources import Detector
from cockpit.findings.stalls import stalled_jobs
from cockpit.findings.stopped_workers import stopped_workers
from cockpit.findings.stuck_io import stuck_processes
from cockpit.findings.tasks import task_limits
from cockpit.findings.tracker import FindingTracker
from cockpit.findings.unreserved_gpus import unreserved_gpus
from cockpit.findings.versions import differing_drivers, differing_versions, open_files
from cockpit.findings.waiting import deadlocks, waiting_actors, waiting_groups
from cockpit.findings.waiting_tasks import waiting_tasks

__all__ = ["CHECKS", "DETECTORS", "Check", "Detector", "Facts", "FindingTracker", "Limits"]

ACTORS, GPUS, GROUPS, HOSTS = (checks.actors,), (checks.gpus,), (checks.groups,), (checks.hosts,)
JOBS, NODES, RAY = (checks.jobs,), (checks.nodes,), (checks.dashboard,)

CHECKS: tuple[Check, ...] = (
    Check("GPU memory held by orphan processes", (orphaned_memory,), HOSTS),
    Check("GPU memory in use without a visible process", (unexplained_memory,), HOSTS + GPUS),
    Check("Memory in use on GPUs that Ray counts as free", (free_but_held,), (*NODES, checks.resources, checks.listed_gpus), HOSTS + GPUS),
    Check(
        "GPUs that jobs use without asking Ray for them",
        (unreserved_gpus,),
        (*NODES, *ACTORS, *JOBS, checks.resources, checks.listed_gpus),
        HOSTS,
    ),
    Check("GPU memory held by idle Ray workers", (idle_workers,), HOSTS),
    Check(
        "GPU memory that grows",
        (growing_gpu_memory,),
        (*NODES, checks.listed_gpus),
        HOSTS,
        watches="growth over most of an hour that will fill a GPU",
        at_once=False,
    ),
    Check("NVML: the driver answers where Ray hands out GPUs", (unseen_gpus,), HOSTS),
    Check("Sources: probes, what they read, and the dashboard's lists", (unseen_hosts, failing_reads), helps=RAY + HOSTS),
    Check("GPU health: lost, ECC errors, pending row remaps, throttled by heat or power", (gpu_trouble,), GPUS),
    Check("Xids: errors that the NVIDIA driver has reported", (reported_xids,), (checks.xids,), GPUS),
    Check(
        "Links of GPUs: NVLink and PCIe",
        (faulty_links,),
        GPUS,
        watches="error counts that grow, and PCIe links that are slow under load",
    ),
    Check(
        "Power limits and clocks of GPUs",
        (lowered_power, low_clocks),
        GPUS,
        watches="clocks far below those of other busy GPUs of the same model",
    ),
    Check("Number of GPUs: Ray and NVML differ", (gpu_counts,), (*NODES, checks.listed_gpus), GPUS),
    Check(
        "Jobs that stay in a phase, and ranks behind the others",
        (slow_phases,),
        JOBS,
        HOSTS,
        watches="a phase that lasts far longer than it ever did in that job, and a rank that all others wait for",
        at_once=False,
    ),
    Check("Workers that a signal has stopped", (stopped_workers,), JOBS, HOSTS),
    Check(
        "Steps that take longer than before",
        (slower_steps,),
        JOBS,
        HOSTS,
        watches="steps, or one phase of them, that take a third longer than before",
        at_once=False,
    ),
    Check("Stalled jobs", (stalled_jobs,), JOBS, HOSTS, watches="GPUs at 0%, or at 100% with idle power, for many minutes", at_once=False),
    Check(
        "Processes of jobs that hang in the kernel (D state)",
        (stuck_processes,),
        HOSTS,
        watches="processes that wait for minutes for a disk or a server",
        at_once=False,
    ),
    Check(
        "GPUs that lag behind the others of their group",
        (lagging_gpus,),
        (*ACTORS, checks.listed_gpus),
        HOSTS,
        watches="a GPU that does far less than the others of its group of actors, for many minutes",
        at_once=False,
    ),
    Check(
        "Inference engines of jobs: vLLM and SGLang",
        (dead_engines, silent_engines, stuck_engines, idle_engines, full_caches),
        JOBS,
        HOSTS,
        watches="engines that die, fall silent, generate nothing, have no work while others queue, or preempt for minutes",
        at_once=False,
        concerns=checks.has_engines,
    ),
    Check(
        "Host memory near Ray's kill line",
        (near_kill, near_own_kill),
        NODES,
        HOSTS,
        watches="how fast memory grows, and when Ray starts killing workers",
    ),
    Check("Workers killed out of memory (OOM)", (oom_kills,), helps=RAY + HOSTS),
    Check("Memory limits set by a cgroup", (cgroup_limit,), NODES + HOSTS),
    Check("Network interfaces that NCCL and Gloo are set to use", (missing_interfaces,), HOSTS),
    Check("Host names that lead to loopback", (loopback_names,), NODES + HOSTS),
    Check("Addresses under which nodes are registered", (wrong_node_addresses,), NODES + HOSTS),
    Check("HTTP proxies that Ray's commands and jobs would go through", (proxy_of_shell, proxies_of_raylets), NODES, HOSTS),
    Check(
        "Ports of InfiniBand and RoCE devices",
        (rdma_ports_down, growing_rdma_errors),
        (checks.rdma,),
        watches="links that go down, and error counts that grow",
        concerns=checks.has_rdma,
    ),
    Check("Pending placement groups", (waiting_groups,), GROUPS),
    Check("Pending actors", (waiting_actors,), ACTORS),
    Check("Tasks that no node is large enough for", (waiting_tasks,), (*NODES, *ACTORS, checks.resources)),
    Check("Deadlocks between jobs", (deadlocks,), GROUPS + ACTORS),
    Check("Pending and failed jobs", (pending_jobs, failed_jobs), JOBS),
    Check("GPUs held by jobs that have ended", (leaks,), JOBS + GROUPS + ACTORS),
    Check("Actors in a restart loop", (restart_loops,), ACTORS, JOBS, watches="several restarts in the last ten minutes of a longer job"),
    Check("Dead, missing and silent nodes", (dead_nodes, missing_hosts, silent_agents), NODES),
    Check(
        "GCS, dashboard and autoscaler monitor",
        (silent_gcs, silent_dashboard, wrong_address, ended_ray, replaced_ray, silent_monitor),
        helps=RAY + HOSTS,
    ),
    Check("Memory of Ray's own processes", (large_parts,), HOSTS),
    Check("Authentication", (refused,), RAY),
    Check("Several Ray sessions on one host, links to dead sessions", (several_sessions, lone_gcs, dead_pointers, foreign_temps), HOSTS),
    Check("Number of log files of living sessions", (many_log_files,), HOSTS),
    Check("Session folders that several hosts share", (shared_sessions,), HOSTS, NODES),
    Check("Disks that hold Ray's temp dirs", (full_disks,), NODES, HOSTS),
    Check("Room for the paths of Ray's sockets below its temp dirs", (long_temp_dirs,), HOSTS),
    Check("Object store and /dev/shm", (full_stores, small_shm, full_shm), NODES, HOSTS),
    Check("Versions of Ray, Python and NVIDIA driver", (differing_versions, differing_drivers), HOSTS),
    Check("Open files of raylets and GCS", (open_files,), HOSTS),
    Check("Limits of processes and threads", (task_limits,), HOSTS),
    Check("Locked memory for NCCL over InfiniBand or RDMA", (low_locked_memory,), NODES + HOSTS),
    Check("CPUs that Ray offers, and those that it may use", (overcounted_cpus,), NODES + HOSTS),
    Check("Ports of Ray's workers and parts", (few_worker_ports, ports_of_connections), HOSTS, (*NODES, *ACTORS)),
    Check(
        "Slurm: time left, and the state of its nodes",
        (ending_allocation, requeued_allocation, leaving_nodes),
        (checks.allocation,),
        (*NODES, checks.slurm_nodes),
        concerns=checks.is_in_slurm,
    ),
    Check(
        "Kubernetes: pods that wait, were killed or are being deleted",
        (waiting_pods, killed_containers, crashing_containers, leaving_pods),
        (checks.pods,),
        NODES,
        concerns=checks.is_in_kubernetes,
    ),
    Check(
        "Kubernetes: workers of the RayCluster without a pod",
        (missing_pods,),
        (checks.raycluster, checks.pods),
        concerns=checks.is_in_kubernetes,
    ),
    Check(
        "Kubernetes: RayJobs whose status differs from Ray's", (wrong_rayjobs,), (checks.rayjobs,), JOBS, concerns=checks.is_in_kubernetes
    ),
)

DETECTORS: tuple[Detector, ...] = tuple(detector for check in CHECKS for detector in check.detectors)
