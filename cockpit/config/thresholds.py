"""Defines the thresholds of findings, each with the reason for its default."""

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
"""From this size on, findings about the whole cluster run less often."""
THREAD_MIN_NODES = 30
"""From this size on, findings run in a thread: at 100 nodes they delayed a key by up to 30 ms, at this size by 10 ms."""


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`findings` in the config file. A finding clears at a lower mark than the one at which it starts, so that it does not flicker."""

    orphan_age: Annotated[Seconds, Meta(description="Seconds before GPU memory without an owner is reported.")] = 10.0
    """When a worker ends, its children end a few seconds later (seen with vLLM's engines)."""

    unexplained_memory: Annotated[
        int, Meta(ge=0, description="Bytes in use on a GPU, beyond what its processes hold, from which it is reported.")
    ] = 2 << 30
    """The driver uses 0.6 GiB of an H100, and more of larger GPUs; a model that was left behind uses tens of GiB."""
    unexplained_age: Annotated[Seconds, Meta(description="Seconds before unexplained memory is reported.")] = 60.0
    """A process that ends leaves NVML's list before its memory is free; with many GPUs this takes some seconds."""
    gpu_free: Annotated[Share, Meta(description="Share of a GPU's memory that others may hold; with more it counts as unusable.")] = 0.1
    """vLLM won't start with less than 0.9 of it free (its gpu_memory_utilization)."""
    gpu_held_age: Annotated[Seconds, Meta(description="Seconds before use of a GPU that is free to Ray is reported.")] = 60.0
    """Ray's figures are up to 20 s old, and a worker that ends first releases its GPU and then its memory."""
    idle_worker_memory: Annotated[
        int, Meta(ge=0, description="Bytes of GPU memory held by idle Ray workers of a host, from which they are reported.")
    ] = 1 << 30
    """A worker that has only initialized CUDA keeps half a GiB; a task has left behind the rest."""
    idle_worker_age: Annotated[Seconds, Meta(description="Seconds before GPU memory of idle Ray workers is reported.")] = 300.0
    """A worker is idle between two tasks, too. If it caches a model for its next task, that task comes within a training step."""
    gpu_count_age: Annotated[Seconds, Meta(description="Seconds before a GPU count that differs between Ray and NVML is reported.")] = 30.0
    """Ray and probes are asked in turn; on a large cluster that takes 15 s."""
    gpu_lost_age: Annotated[Seconds, Meta(description="Seconds before a GPU that NVML can't reach is reported.")] = 10.0
    """Several samples: NVML does not answer for a GPU during a reset, which takes a second or two."""
    source_failing: Annotated[
        Seconds, Meta(description="Seconds before a source that fails (a probe, a disk, a list of Ray) is reported.")
    ] = 30.0
    """A probe that ends is restarted within seconds, and a busy dashboard misses one answer of several."""
    gpu_slow_age: Annotated[Seconds, Meta(description="Seconds before a GPU slowed by heat or power is reported.")] = 60.0
    """At the peak of a training step clocks are lowered for moments, which costs nothing; a gap of this length clears the finding."""
    gpu_link_age: Annotated[Seconds, Meta(description="Seconds before NVLinks that are down are reported.")] = 120.0
    """Links are sampled once a minute, and the fabric manager trains them for half a minute after a start."""
    gpu_pcie_age: Annotated[Seconds, Meta(description="Seconds of load before a slow PCIe link is reported.")] = 300.0
    """A link is sampled once a minute. The sample may be from an idle moment, in which the link saves power."""
    worker_ports_age: Annotated[
        Seconds, Meta(description="Seconds before a raylet without a free worker port is reported while actors wait to start.")
    ] = 30.0
    """A worker that has ended releases its port within seconds, and Ray's list of actors is some seconds older than the process list."""
    log_files: Annotated[Count, Meta(description="Files in a session's folder of logs, from which they are reported.")] = 50_000.0
    """Ray's log monitor lists the files and reads the size of each worker's log; with this number that takes most of its interval of
    0.1 s."""
    stuck_age: Annotated[Seconds, Meta(description="Seconds in D state in every sample before a process of a job is reported.")] = 180.0
    """Writing a checkpoint of many GiB to a slow disk keeps a process in D state for a minute, with pauses. NFS itself warns after one to
    three minutes without its server, the kernel's hung_task after two."""
    rdma_down_age: Annotated[Seconds, Meta(description="Seconds before an InfiniBand or RoCE port that is down is reported.")] = 120.0
    """Ports are sampled once a minute; reloading a driver, or resetting a switch port, takes half a minute."""
    rdma_errors: Annotated[Count, Meta(description="New errors of an InfiniBand link in ten minutes, from which they are reported.")] = 10.0
    """The threshold of `ibcheckerrs` (infiniband-diags) for symbol errors, recoveries, receive, integrity and overrun errors of a port."""
    nvlink_errors: Annotated[Count, Meta(description="New NVLink errors in ten minutes, from which they are reported.")] = 10.0
    """One a minute: NVIDIA's DCGM reports a GPU as unhealthy from there on."""
    pcie_replays: Annotated[Count, Meta(description="New PCIe replays in ten minutes, from which they are reported.")] = 80.0
    """Eight a minute: NVIDIA's DCGM reports a GPU as unhealthy from there on."""
    gpu_clock_age: Annotated[Seconds, Meta(description="Seconds of load before clocks far below the others' are reported.")] = 300.0
    """The compared figures are averages over two minutes; phases in which one GPU computes and another copies are shorter."""
    xid_told: Annotated[Seconds, Meta(description="Seconds that an Xid of a faulty GPU stays reported.")] = 4 * 3600.0
    """Long enough to be seen the next morning; a GPU that is still faulty then has other findings."""
    xid_info_told: Annotated[Seconds, Meta(description="Seconds that an Xid which is mostly a job's mistake stays reported.")] = 1800.0
    """The job that has caused it fails within minutes, and its log has more details."""
    gpu_memory_watched: Annotated[
        float, Meta(ge=1, le=DAY_S, description="Seconds of growth needed to predict when GPU memory is full.")
    ] = 3600.0
    """The peaks of nine parts are compared, and six must be known: 40 minutes, longer than the largest models take to load. A part is
    longer than most training steps, in which engines sleep and wake."""
    gpu_memory_grown: Annotated[
        float, Meta(ge=0, le=1, description="Least growth of GPU memory that is reported, as a share of the GPU's memory.")
    ] = 0.02
    """The first use of a library, and a CUDA graph that is captured late, take some hundred megabytes."""
    gpu_memory_forecast: Annotated[
        Seconds, Meta(description="Growing GPU memory is reported if it will be full within this many seconds.")
    ] = 3600.0
    """As long as the watched time; enough to save a checkpoint at the end of a step, and to restart with other settings."""
    idle_for: Annotated[
        Seconds, Meta(description="Seconds before a job whose GPUs are all at 0 % and whose log is silent is reported.")
    ] = 600.0
    """With torch's default, NCCL's watchdog ends a hanging collective after ten minutes. Loading a model and saving a checkpoint
    keep GPUs at 0 % for minutes, too; after half of this time the finding is an info."""
    idle_unheard: Annotated[
        Seconds, Meta(description="Seconds before a job with idle GPUs is reported if its log is unknown or still grows.")
    ] = 1800.0
    """torch's timeout for backends other than NCCL; longer than loading the largest models, which are read at about 1 GB/s."""
    spin_for: Annotated[Seconds, Meta(description="Seconds before a job whose GPUs are at 100 % but draw little power is reported.")] = (
        300.0
    )
    """When one rank saves a checkpoint and the others wait in a barrier, it looks like this for some minutes; after twice this time NCCL's
    watchdog has ended the job. The time is tripled if the log still grows, or only one GPU is busy: the last answers of a small model."""
    gpu_lags_for: Annotated[
        Seconds, Meta(description="Seconds before a GPU that does far less than the others of its group is reported.")
    ] = 600.0
    """An engine that finishes early is idle until the next step, and a rank that saves a checkpoint differs for some minutes; a rank on a
    faulty host lags in every step."""
    phase_factor: Annotated[
        float, Meta(ge=1, le=1000, description="Times as long as ever before that a job must be in one phase to be reported.")
    ] = 2.0
    """Ten phases of steps whose times differ by a factor of three show nearly all of that; of fewer than ten it is half as much again.
    A validation on more samples than a step has is longer than a rollout, but its GPUs work: then the whole limit is tripled."""
    phase_more: Annotated[Seconds, Meta(description="Seconds beyond that before a job that stays in one phase is reported.")] = 20.0
    """Phases of a second or two vary by more than their length: a slow disk, a library that is loaded late."""
    slower_share: Annotated[
        float, Meta(gt=0, le=1000, description="Share of their usual time by which steps must be longer to be reported.")
    ] = 0.33
    """Less is within what lengths of answers do over a run; a GPU that is throttled to its base clock costs a third and more."""
    slower_by: Annotated[Seconds, Meta(description="Seconds by which steps must be longer to be reported.")] = 5.0
    """Below that nobody would act."""
    spin_power: Annotated[Share, Meta(description="Share of its power limit below which a busy GPU is only waiting.")] = 0.3
    """Waiting kernels draw 70-150 W of 400-700 W (NCCL's issues 968 and 1550, horovod's 3611), about 0.2; computing ones draw over 0.4."""

    engine_dead_age: Annotated[Seconds, Meta(description="Seconds before an inference engine that has died is reported.")] = 30.0
    """A framework that starts a dead engine again, or a job that ends and stops its engines first, takes some seconds."""
    engine_silent_age: Annotated[Seconds, Meta(description="Seconds before the server of an engine that does not answer is reported.")] = (
        60.0
    )
    """Several readings. A server answers late while it loads weights, and all its answers wait while its event loop is busy."""
    engine_stuck_age: Annotated[
        Seconds, Meta(description="Seconds without a token before an engine with running requests is reported.")
    ] = 300.0
    """Weights are updated, and long prompts computed, for a minute or two without a token; then requests keep running."""
    engine_idle_age: Annotated[
        Seconds, Meta(description="Seconds before an engine without work is reported while requests wait at others.")
    ] = 180.0
    """Requests are handed out in groups, so that an engine may be without work for moments."""
    engine_idle_queue: Annotated[Count, Meta(description="Requests that wait at other engines, from which an idle one is reported.")] = 8.0
    """A few requests wait at every engine that is well used."""
    engine_cache: Annotated[Share, Meta(description="Share of an engine's KV cache in use that counts as full.")] = 0.95
    """vLLM preempts a request when no block is free; a request that ends frees some percent of a cache."""
    engine_cache_age: Annotated[Seconds, Meta(description="Seconds before a full KV cache with preemptions is reported.")] = 180.0
    """The end of a rollout, when all answers are long, preempts some requests for a moment."""

    waiting_told: Annotated[Seconds, Meta(description="Seconds before pending work is reported.")] = 10.0
    """Everything that starts waits for a few seconds, and Ray's lists are up to 5 s old."""
    waiting_hopeless: Annotated[Seconds, Meta(description="Seconds before pending work that can't fit is critical.")] = 30.0
    """Nodes that are started together with a job have joined by then; until then the job may be waiting for them."""
    waiting_long: Annotated[Seconds, Meta(description="Seconds before waiting for resources is a warning.")] = 120.0
    """A restarted job waits half a minute until the last one has released its resources. A longer wait is a queue, which operators should
    know about."""
    starting_long: Annotated[Seconds, Meta(description="Seconds before an actor that is still starting is a warning.")] = 1800.0
    """The actor installs its environment and loads weights: the largest models take twenty minutes and more."""
    job_start: Annotated[Seconds, Meta(description="Seconds before a job that has not started is a warning.")] = 300.0
    """Setting up an environment with pip takes minutes; Ray itself gives up after 15."""
    job_failed: Annotated[LongSeconds, Meta(description="Seconds that a failed job stays reported.")] = 4 * 3600.0
    """Long enough to be seen in the morning after a failure at night, short enough not to stay for ever."""
    leak_age: Annotated[Seconds, Meta(description="Seconds before what an ended job still holds is reported.")] = 60.0
    """Ray removes within seconds everything that is not detached, and lists of living actors are up to half a minute old."""
    restarts: Annotated[float, Meta(ge=1, le=1000, description="Restarts of an actor that count as a loop.")] = 3.0
    """One restart is normal, and a second may be its consequence; three are a pattern."""
    restarts_within: Annotated[float, Meta(gt=0, le=DAY_S, description="Seconds in which these restarts are counted.")] = 600.0
    """A vLLM engine that ends as soon as it has started takes two to three minutes for each round."""

    memory_near: Annotated[Share, Meta(description="Share of Ray's kill line at which host memory in use is reported.")] = 0.9
    """By default that is 0.855 of all memory, where people begin to look (incidents with OpenRLHF, EasyR1); a checkpoint takes a few
    percent."""
    memory_critical: Annotated[Share, Meta(description="Share of Ray's kill line at which host memory in use is critical.")] = 0.97
    """One worker that loads a model takes the rest, 28 GiB of 1 TiB, within a second; Ray's monitor checks every 250 ms."""
    memory_ahead: Annotated[Share, Meta(description="Share of Ray's kill line at which growth towards it is reported.")] = 0.7
    """Below this share, loading a model or filling a buffer looks the same, and ends by itself."""
    memory_forecast: Annotated[Seconds, Meta(description="Growth is reported if it reaches the kill line within this many seconds.")] = (
        300.0
    )
    """Enough to stop a job or end a process; two minutes of growth predict no longer time. Within half of it, or near the line, it is
    critical: before that the growth may be a model that is loaded."""
    oom_told: Annotated[Seconds, Meta(description="Seconds that an out-of-memory kill stays reported.")] = 3600.0
    """Probes and Ray's records are read an hour back; a job that has run for an hour since the kill will not fail because of it."""
    oom_fresh: Annotated[Seconds, Meta(description="Seconds that an out-of-memory kill is critical.")] = 600.0
    """Ray retries; if the retry fails too, it does so within minutes, and this time begins again."""

    slurm_ends: Annotated[LongSeconds, Meta(description="A Slurm job that ends within this many seconds is reported.")] = 1800.0
    """A checkpoint of the largest models takes up to ten minutes, and is often saved only after one or two steps of ten minutes each."""
    rayjob_differs: Annotated[Seconds, Meta(description="Seconds before a RayJob whose status differs from Ray's is reported.")] = 60.0
    """KubeRay asks Ray every few seconds, and cockpit asks Kubernetes every 30 s."""
    agent_silent: Annotated[Seconds, Meta(description="Seconds before a node whose agent sends no report is reported.")] = 30.0
    """Ray's agents report every 5 s, and cockpit asks for the figures of a large cluster every 15 s."""
    death_news: Annotated[LongSeconds, Meta(description="Seconds after which a dead node is only an info.")] = 86400.0
    """Ray lists dead nodes for ever, also those that nobody misses; after a day everybody who needs the node has seen it."""
    node_missing: Annotated[Seconds, Meta(description="Seconds before a host of the config that is in no cluster is reported.")] = 60.0
    """Workers join while the head starts, or within a minute after it."""
    gcs_silent: Annotated[Seconds, Meta(description="Seconds before a GCS that does not answer is reported.")] = 10.0
    """Ray waits for its answer for 0.1 s, which a busy head misses now and then; after 60 s without it Ray ends on all nodes."""
    dashboard_silent: Annotated[Seconds, Meta(description="Seconds before a dashboard that does not answer is reported.")] = 30.0
    """It begins to listen some seconds after its raylet has started, on a busy head up to twenty."""
    ray_replaced: Annotated[
        Seconds, Meta(description="Seconds for which it is reported that another Ray session took the place of the followed one.")
    ] = 600.0
    """An operator who looks away while Ray is restarted must still see it; later it is no news."""
    monitor_silent: Annotated[Seconds, Meta(description="Seconds before an old report of the autoscaler monitor is reported.")] = 10.0
    """By then it has been silent for 20 s; after a hang of the GCS it needs 5 s for its next report."""
    pointer_age: Annotated[Seconds, Meta(description="Seconds before a link or address file that points to a dead Ray is reported.")] = 60.0
    """A starting Ray sets `session_latest` seconds before its raylet lives, on a slow disk half a minute."""
    sessions_age: Annotated[Seconds, Meta(description="Seconds before several Ray sessions on one host are reported.")] = 30.0
    """One may end while the next begins: `ray stop` gives it 16 s."""
    disk_filling: Annotated[Share, Meta(description="Share of a disk in use that is a warning.")] = 0.9
    """The last 5 % below Ray's own threshold are filled by hours of logs, or one checkpoint."""
    disk_full: Annotated[Share, Meta(description="Share of a disk in use that is critical.")] = 0.95
    """Ray's own threshold (local_fs_capacity_threshold): above it Ray creates no object that would have to be spilled."""
    store_filling: Annotated[Share, Meta(description="Share of the object store in use that is reported.")] = 0.8
    """Above this share Ray spills objects to disk (object_spilling_threshold)."""
    store_full: Annotated[Share, Meta(description="Share of the object store in use that is a warning.")] = 0.95
    """An object that doesn't fit waits until others are spilled, and is then written to disk itself."""
    store_age: Annotated[Seconds, Meta(description="Seconds before a filling or full object store, or a full /dev/shm, is reported.")] = (
        60.0
    )
    """Rollouts fill and release it within a step, and Ray counts it every 5 to 15 s."""
    shm_full: Annotated[Share, Meta(description="Share of /dev/shm in use that is a warning.")] = 0.95
    """When it is full, a process that touches a new page ends with a bus error. Ray uses at most 95 % of it for its object store."""
    ray_memory: Annotated[
        int, Meta(gt=0, description="Bytes of host memory held by one of Ray's own processes, from which they are reported.")
    ] = 8 << 30
    """With a hundred nodes, GCS, dashboard and agents hold 100 MB to 2 GB each; leaks that users have reported ended at tens of GB."""
    open_files: Annotated[Share, Meta(description="Share of its open-file limit in use by a raylet or GCS that is reported.")] = 0.8
    """Each worker, actor and connection opens some files; at the limit no worker can register any more."""
    tasks: Annotated[Share, Meta(description="Share of a limit on processes and threads in use that is reported.")] = 0.8
    """A worker has some 100 threads, with NCCL and OpenMP 300: of 4096, a common `ulimit -u`, the rest is enough for three workers."""
    cpu_overcount: Annotated[
        float, Meta(ge=1, le=1000, description="Ray offering so many times the CPUs that it may use on a node is reported.")
    ] = 1.5
    """Actors that wait for a GPU most of the time need less than a CPU each, so a few CPUs too many do no harm. Labs and demos set
    --num-cpus to several times the real number, so a number that a user has set is only an info: a healthy lab run must cause no warning.
    A number that Ray has counted itself is a warning."""
    locked_memory: Annotated[
        int, Meta(ge=0, description="Bytes of locked memory; a lower limit on a node with RDMA devices is reported.")
    ] = 1 << 30
    """NCCL registers some 10 MB of buffers for each channel and peer: hundreds of MB in each worker of a large group. Usual limits
    are 64 KiB and 8 MiB; NCCL's documentation recommends to set no limit."""
    open_files_least: Annotated[int, Meta(ge=0, description="Lowest open-file limit of a raylet or GCS that is not reported.")] = 65535
    """The limit that Ray's documentation recommends."""


class RecordingLimits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`recording` in the config file: what all recordings together may take; the oldest goes first."""

    days: Annotated[float, Meta(gt=0, le=3650, description="Days that recordings are kept.")] = 7.0
    """On Monday people ask about Friday night; similar tools keep a week, too."""
    bytes: Annotated[int, Meta(ge=1 << 20, description="Bytes that all recordings together may take.")] = 1 << 30
    """A week of 100 nodes, or a day and a half of 1,000."""
    disk_share: Annotated[float, Meta(gt=0, le=0.5, description="Share of their disk that recordings may take.")] = 0.05
    """Home folders are small on some hosts, and a full one stops the job's own logs, too."""
