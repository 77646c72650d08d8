"""The thresholds of findings, each with the reason for its default."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from cockpit.model.machine import STALE_AFTER_S as STALE_AFTER_S  # noqa: PLC0414 the model asks for it too

DAY_S = 86400
Seconds = Annotated[float, Meta(ge=0, le=DAY_S)]
LongSeconds = Annotated[float, Meta(ge=0, le=30 * DAY_S)]
Share = Annotated[float, Meta(gt=0, le=1)]
Count = Annotated[float, Meta(ge=1, le=1e6)]
LARGE_CLUSTER_NODES = 100
"""Nodes from which on all of a cluster is looked at less often."""
THREAD_MIN_NODES = 30
"""Nodes from which on a look at all of a cluster is made in a thread: with 100 it kept a key waiting for up to 30 ms, and for 10 so."""


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`findings` in the config file. A finding clears at a lower mark than the one at which it starts, so that it does not flicker."""

    orphan_age: Annotated[Seconds, Meta(description="Seconds before GPU memory without an owner is reported.")] = 10.0
    """A worker that ends lets its children end after it; that takes a few seconds (seen with vLLM's engines)."""

    unexplained_memory: Annotated[
        int, Meta(ge=0, description="Bytes in use on a GPU, beyond what its processes hold, from which it is reported.")
    ] = 2 << 30
    """The driver keeps 0.6 GiB of an H100 for itself, and more of larger ones; a model that somebody has left takes tens."""
    unexplained_age: Annotated[Seconds, Meta(description="Seconds before unexplained memory is reported.")] = 60.0
    """A process that ends leaves NVML's list before its memory is free, with many GPUs by some seconds."""
    gpu_free: Annotated[Share, Meta(description="Share of a GPU's memory that others may hold; with more it counts as unusable.")] = 0.1
    """vLLM won't start with less than 0.9 of it free (its gpu_memory_utilization)."""
    gpu_held_age: Annotated[Seconds, Meta(description="Seconds before use of a GPU that is free to Ray is reported.")] = 60.0
    """Ray's figures are up to 20 s old, and a worker that ends gives its memory back after its GPU."""
    idle_worker_memory: Annotated[
        int, Meta(ge=0, description="Bytes of GPU memory held by idle Ray workers of a host, from which they are reported.")
    ] = 1 << 30
    """A worker that has only touched CUDA keeps half a GiB; more is what a task has left."""
    idle_worker_age: Annotated[Seconds, Meta(description="Seconds before GPU memory of idle Ray workers is reported.")] = 300.0
    """A worker is idle between two tasks too; one that caches a model for its next task gets that within a training step."""
    gpu_count_age: Annotated[Seconds, Meta(description="Seconds before a GPU count that differs between Ray and NVML is reported.")] = 30.0
    """Ray and probes are asked in turn; on a large cluster that takes 15 s."""
    gpu_lost_age: Annotated[Seconds, Meta(description="Seconds before a GPU that NVML can't reach is reported.")] = 10.0
    """Several looks: while a GPU is reset NVML doesn't answer for it, for a second or two."""
    source_failing: Annotated[
        Seconds, Meta(description="Seconds before a source that fails (a probe, a disk, a list of Ray) is reported.")
    ] = 30.0
    """A probe that ends is started again within seconds, and a busy dashboard misses one answer of several."""
    gpu_slow_age: Annotated[Seconds, Meta(description="Seconds before a GPU slowed by heat or power is reported.")] = 60.0
    """At the top of a step clocks are held down for moments, which costs nothing; gaps as long as this end it."""
    gpu_link_age: Annotated[Seconds, Meta(description="Seconds before NVLinks that are down are reported.")] = 120.0
    """Links are looked at once a minute, and the fabric manager trains them for half a minute after a start."""
    gpu_pcie_age: Annotated[Seconds, Meta(description="Seconds of load before a slow PCIe link is reported.")] = 300.0
    """A link is looked at once a minute, and may have been looked at while the GPU was idle: then it saves power."""
    worker_ports_age: Annotated[
        Seconds, Meta(description="Seconds before a raylet without a free worker port is reported while actors wait to start.")
    ] = 30.0
    """A worker that has ended gives its port back within seconds, and Ray's list of actors is some seconds older than the processes."""
    log_files: Annotated[Count, Meta(description="Files in a session's folder of logs, from which they are reported.")] = 50_000.0
    """Listing so many and asking each worker's log for its size takes Ray's log monitor most of its turn of 0.1 s."""
    stuck_age: Annotated[Seconds, Meta(description="Seconds in D state at every look before a process of a job is reported.")] = 180.0
    """A checkpoint of many GiB written to a slow disk keeps a process there for a minute, with pauses; NFS itself warns after one to three
    minutes without its server, the kernel's own hung_task after two."""
    rdma_down_age: Annotated[Seconds, Meta(description="Seconds before an InfiniBand or RoCE port that is down is reported.")] = 120.0
    """Ports are looked at once a minute; a driver that is loaded again, or a switch port that is reset, takes half a minute."""
    rdma_errors: Annotated[Count, Meta(description="New errors of an InfiniBand link in ten minutes, from which they are reported.")] = 10.0
    """The threshold of `ibcheckerrs` (infiniband-diags) for symbol errors, recoveries, receive, integrity and overrun errors of a port."""
    nvlink_errors: Annotated[Count, Meta(description="New NVLink errors in ten minutes, from which they are reported.")] = 10.0
    """One a minute, where NVIDIA's DCGM calls a GPU ill."""
    pcie_replays: Annotated[Count, Meta(description="New PCIe replays in ten minutes, from which they are reported.")] = 80.0
    """Eight a minute, where NVIDIA's DCGM calls a GPU ill."""
    gpu_clock_age: Annotated[Seconds, Meta(description="Seconds of load before clocks far below the others' are reported.")] = 300.0
    """What is compared is averaged over two minutes; phases in which one GPU computes and another copies are shorter."""
    xid_told: Annotated[Seconds, Meta(description="Seconds that an Xid of a faulty GPU stays reported.")] = 4 * 3600.0
    """Long enough for the morning after; what is sick then has findings of its own."""
    xid_info_told: Annotated[Seconds, Meta(description="Seconds that an Xid which is mostly a job's mistake stays reported.")] = 1800.0
    """The job that has caused it fails within minutes, and tells more in its log."""
    gpu_memory_watched: Annotated[
        float, Meta(ge=1, le=DAY_S, description="Seconds of growth needed to predict when GPU memory is full.")
    ] = 3600.0
    """Its peaks in nine parts are compared, six of which must be known: 40 minutes, longer than the largest models take to load; and a part
    is longer than most training steps, in which engines sleep and wake."""
    gpu_memory_grown: Annotated[
        float, Meta(ge=0, le=1, description="Least growth of GPU memory that is reported, as a share of the GPU's memory.")
    ] = 0.02
    """Libraries that are used for the first time, and graphs that are captured late, take some hundred megabytes."""
    gpu_memory_forecast: Annotated[
        Seconds, Meta(description="Growing GPU memory is reported if it will be full within this many seconds.")
    ] = 3600.0
    """As far ahead as was watched; enough to save a checkpoint at the end of a step, and to start again with other settings."""
    idle_for: Annotated[
        Seconds, Meta(description="Seconds before a job whose GPUs are all at 0 % and whose log is silent is reported.")
    ] = 600.0
    """NCCL's watchdog, at torch's default, has ended after ten minutes what hangs in a collective. Loading a model and saving a checkpoint
    keep GPUs at 0 % for minutes too; half of it is told as an info."""
    idle_unheard: Annotated[
        Seconds, Meta(description="Seconds before a job with idle GPUs is reported if its log is unknown or still grows.")
    ] = 1800.0
    """torch's timeout for what isn't NCCL; longer than the loading of the largest models, which are read at about 1 GB/s."""
    spin_for: Annotated[Seconds, Meta(description="Seconds before a job whose GPUs are at 100 % but draw little power is reported.")] = (
        300.0
    )
    """One rank that saves a checkpoint while the others wait in a barrier looks like this, for some minutes; at twice of this NCCL's
    watchdog has struck. Three times as long where the log is written to, or one GPU alone is busy: the last answers of a small model."""
    gpu_lags_for: Annotated[
        Seconds, Meta(description="Seconds before a GPU that does far less than the others of its group is reported.")
    ] = 600.0
    """An engine that has its answers early is idle until the next step, and a rank that saves a checkpoint differs for some minutes; a rank
    on a sick host lags in every step."""
    spin_power: Annotated[Share, Meta(description="Share of its power limit below which a busy GPU is only waiting.")] = 0.3
    """Kernels that wait draw 70-150 W of 400-700 W (NCCL's issues 968 and 1550, horovod's 3611), about 0.2; work draws over 0.4."""

    waiting_told: Annotated[Seconds, Meta(description="Seconds before pending work is reported.")] = 10.0
    """Whatever starts waits for a few seconds, and Ray's lists are up to 5 s old."""
    waiting_hopeless: Annotated[Seconds, Meta(description="Seconds before pending work that can't fit is critical.")] = 30.0
    """Nodes that are started together with a job have joined by then; while nodes still join, they may be what it waits for."""
    waiting_long: Annotated[Seconds, Meta(description="Seconds before waiting for resources is a warning.")] = 120.0
    """A job that is started again waits for what the last one lets go: half a minute. More is a queue, which somebody should know of."""
    starting_long: Annotated[Seconds, Meta(description="Seconds before an actor that is still starting is a warning.")] = 1800.0
    """Environments are installed and weights are loaded meanwhile: the largest models take twenty minutes and more."""
    job_start: Annotated[Seconds, Meta(description="Seconds before a job that has not started is a warning.")] = 300.0
    """Setting up an environment with pip takes minutes; Ray itself gives up after 15."""
    job_failed: Annotated[LongSeconds, Meta(description="Seconds that a failed job stays reported.")] = 4 * 3600.0
    """Long enough for the morning after a failure in the small hours, short enough not to be there for ever."""
    leak_age: Annotated[Seconds, Meta(description="Seconds before what an ended job still holds is reported.")] = 60.0
    """Ray takes away within seconds what isn't detached, and lists of living actors are up to half a minute old."""
    restarts: Annotated[float, Meta(ge=1, le=1000, description="Restarts of an actor that count as a loop.")] = 3.0
    """One restart is what restarts are for, and a second may follow from it; three are a pattern."""
    restarts_within: Annotated[float, Meta(gt=0, le=DAY_S, description="Seconds in which these restarts are counted.")] = 600.0
    """A vLLM engine that ends as soon as it has started takes two to three minutes for each round."""

    memory_near: Annotated[Share, Meta(description="Share of Ray's kill line at which host memory in use is reported.")] = 0.9
    """By default that is 0.855 of all, where people begin to look (incidents with OpenRLHF, EasyR1); a checkpoint takes some percent."""
    memory_critical: Annotated[Share, Meta(description="Share of Ray's kill line at which host memory in use is critical.")] = 0.97
    """What is left, 28 GiB of 1 TiB, one worker takes within a second when it loads a model; Ray's monitor looks every 250 ms."""
    memory_ahead: Annotated[Share, Meta(description="Share of Ray's kill line at which growth towards it is reported.")] = 0.7
    """Below, loading a model or filling a buffer looks the same, and ends by itself."""
    memory_forecast: Annotated[Seconds, Meta(description="Growth is reported if it reaches the kill line within this many seconds.")] = (
        300.0
    )
    """Enough to stop a job or end a process; further ahead two minutes of growth say little. In half of it, or near the line, it is
    critical: till then it may be a model that is loaded."""
    oom_told: Annotated[Seconds, Meta(description="Seconds that an out-of-memory kill stays reported.")] = 3600.0
    """Probes and Ray's records are read an hour back; what has run for an hour since will not end of it."""
    oom_fresh: Annotated[Seconds, Meta(description="Seconds that an out-of-memory kill is critical.")] = 600.0
    """Ray retries; if that fails too, it does so within minutes, and begins these anew."""

    slurm_ends: Annotated[LongSeconds, Meta(description="A Slurm job that ends within this many seconds is reported.")] = 1800.0
    """A checkpoint of the largest models takes up to ten minutes, and is often saved only after a step or two of as many."""
    rayjob_differs: Annotated[Seconds, Meta(description="Seconds before a RayJob whose status differs from Ray's is reported.")] = 60.0
    """KubeRay asks Ray every few seconds, and cockpit asks Kubernetes every 30 s."""
    agent_silent: Annotated[Seconds, Meta(description="Seconds before a node whose agent sends no report is reported.")] = 30.0
    """Ray's agents report every 5 s, and cockpit asks for the figures of a large cluster every 15 s."""
    death_news: Annotated[LongSeconds, Meta(description="Seconds after which a dead node is only an info.")] = 86400.0
    """Ray lists dead nodes for ever, also those that nobody waits for; after a day whoever needs it back has seen it."""
    node_missing: Annotated[Seconds, Meta(description="Seconds before a host of the config that is in no cluster is reported.")] = 60.0
    """Workers join while the head starts, or within a minute after it."""
    gcs_silent: Annotated[Seconds, Meta(description="Seconds before a GCS that does not answer is reported.")] = 10.0
    """Ray gives it a tenth of a second, which a busy head misses now and then; after 60 s without it Ray ends on all nodes."""
    dashboard_silent: Annotated[Seconds, Meta(description="Seconds before a dashboard that does not answer is reported.")] = 30.0
    """It listens some seconds later than its raylet lives, on a busy head up to twenty."""
    ray_replaced: Annotated[
        Seconds, Meta(description="Seconds for which it is reported that another Ray session took the place of the followed one.")
    ] = 600.0
    """Whoever looks away while Ray is started again must still find it; later it is no news."""
    monitor_silent: Annotated[Seconds, Meta(description="Seconds before an old report of the autoscaler monitor is reported.")] = 10.0
    """It has been silent for 20 s by then; after a GCS that hung it needs 5 s for its next report."""
    pointer_age: Annotated[Seconds, Meta(description="Seconds before a link or address file that points to a dead Ray is reported.")] = 60.0
    """A Ray that starts sets `session_latest` before its raylet lives: seconds, with a slow disk half a minute."""
    sessions_age: Annotated[Seconds, Meta(description="Seconds before several Ray sessions on one host are reported.")] = 30.0
    """One may end while the next begins: `ray stop` gives it 16 s."""
    disk_filling: Annotated[Share, Meta(description="Share of a disk in use that is a warning.")] = 0.9
    """The last 5 % before Ray's own mark are hours of logs, or one checkpoint."""
    disk_full: Annotated[Share, Meta(description="Share of a disk in use that is critical.")] = 0.95
    """Ray's own mark (local_fs_capacity_threshold): from there on it creates no object that would have to be spilled."""
    store_filling: Annotated[Share, Meta(description="Share of the object store in use that is reported.")] = 0.8
    """From there on Ray spills objects to disk (object_spilling_threshold)."""
    store_full: Annotated[Share, Meta(description="Share of the object store in use that is a warning.")] = 0.95
    """What doesn't fit waits until something was spilled, and then goes to disk itself."""
    store_age: Annotated[Seconds, Meta(description="Seconds before a filling or full object store, or a full /dev/shm, is reported.")] = (
        60.0
    )
    """Rollouts fill it and let it go again within a step, and Ray counts it every 5 to 15 s."""
    shm_full: Annotated[Share, Meta(description="Share of /dev/shm in use that is a warning.")] = 0.95
    """Who touches a page that isn't there ends with a bus error. Ray itself takes at most 95 % of it for its object store."""
    ray_memory: Annotated[
        int, Meta(gt=0, description="Bytes of host memory held by one of Ray's own processes, from which they are reported.")
    ] = 8 << 30
    """GCS, dashboard and agents of a hundred nodes hold some 100 MB to 2 GB each; those that were reported to grow ended at tens of GB."""
    open_files: Annotated[Share, Meta(description="Share of its open-file limit in use by a raylet or GCS that is reported.")] = 0.8
    """Each worker, actor and connection takes some; at the limit no worker can register any more."""
    tasks: Annotated[Share, Meta(description="Share of a limit on processes and threads in use that is reported.")] = 0.8
    """A worker has some 100 threads, with NCCL and OpenMP 300: of 4096, a common `ulimit -u`, what is left are three workers."""
    cpu_overcount: Annotated[
        float, Meta(ge=1, le=1000, description="Ray offering so many times the CPUs that it may use on a node is reported.")
    ] = 1.5
    """Actors that wait for a GPU most of the time need less than a CPU each, so a few too many do no harm. Labs and demos set --num-cpus to
    several times as many as there are: a number that was set is only an info, and a healthy run in a lab has nothing above that. A warning
    is only a number that Ray has counted itself."""
    locked_memory: Annotated[
        int, Meta(ge=0, description="Bytes of locked memory; a lower limit on a node with RDMA devices is reported.")
    ] = 1 << 30
    """NCCL registers some 10 MB of buffers for each channel and peer: hundreds of MB in each worker of a large group. Usual limits
    are 64 KiB and 8 MiB; NCCL's documentation asks for none at all."""
    open_files_least: Annotated[int, Meta(ge=0, description="Lowest open-file limit of a raylet or GCS that is not reported.")] = 65535
    """What Ray's documentation asks for."""


class RecordingLimits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`recording` in the config file: what all recordings together may take; the oldest goes first."""

    days: Annotated[float, Meta(gt=0, le=3650, description="Days that recordings are kept.")] = 7.0
    """On Monday somebody asks about Friday night; a week is also what its peers keep."""
    bytes: Annotated[int, Meta(ge=1 << 20, description="Bytes that all recordings together may take.")] = 1 << 30
    """A week of 100 nodes, or a day and a half of 1,000."""
    disk_share: Annotated[float, Meta(gt=0, le=0.5, description="Share of their disk that recordings may take.")] = 0.05
    """Homes are small on some hosts, and whatever fills one takes the job's own logs with it."""
