"""Finds known causes of failed LLM training jobs by patterns in their logs."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from cockpit.times.ttl_cache import TtlCache

_IN_USE = r"EADDRINUSE|\[Errno 98\]|errno: 98\b|(?:Address|address) already in use"
_PORT: Final = r"(?:\d|\]|\*|localhost|'):([1-9]\d{3,4})(?=[^\d.:]|$)|(?:\bport[ =:]{1,3}|', )([1-9]\d{3,4})\b"
"""`[::]:29500`, `127.0.0.1:5557`, `('0.0.0.0', 8265)`, `port: 29500`."""


class Cause(msgspec.Struct, frozen=True):
    """A pattern in a log, and the remedy if it matches."""

    pattern: str
    remedy: str
    action: str | None = None


# Root causes come first: if one rank runs out of memory, the others wait for it until their watchdog ends them.
CAUSES: tuple[Cause, ...] = (
    Cause(r"uncorrectable ECC error|GPU has fallen off the bus|CUDA error: unspecified launch failure.{0,200}Xid",
        "the GPU failed: see `dmesg | grep -i xid` and `nvidia-smi -q -d ECC` on its node, and drain that node "
        "(`cockpit drain-node NODE`)"),
    Cause(r"Free memory on device .{0,80}on startup is less than desired GPU memory utilization",
        "another process uses memory of that GPU, often an orphan of an earlier run: kill it, or ask for less (gpu_memory_utilization)",
        "kill-orphans"),
    Cause(r"CUDA out of memory|CUDA error: out of memory|No available memory for the cache blocks",
        "the job needs more memory than the GPU has: use smaller micro batches or sequences, offload, more GPUs per model, "
        "or a smaller vLLM cache (gpu_memory_utilization)"),
    Cause(r"due to the node running low on memory|NODE_OUT_OF_MEMORY",
        "Ray killed it because its node ran out of host memory: run fewer workers there at once, reduce what each holds (batch, offload), "
        "or give the node more memory"),
    Cause(r"Detected \d{1,9} oom[-_]kill event",
        "the job reached its Slurm memory limit on that node, and the kernel killed a process of the step: ask for more "
        "(`--mem`, `--mem=0` for all of a node), run fewer workers there at once, or reduce what each holds; Ray's own kill line is "
        "below that limit only if Ray was started inside the job"),
    Cause(r"Total available GPUs \S{1,20} is less than total desired GPUs|placement group bundle index \d+ is invalid",
        "the job asks for more GPUs than the cluster has, or for other bundles than it reserved: nodes x GPUs of each model must fit "
        "the cluster, and models that share a placement group must have its size"),
    Cause(r"Version mismatch: The cluster was started with",
        "use the same versions of Ray and Python as the cluster (Python down to the patch version)"),
    Cause(r"RuntimeEnvSetupError|Failed to set up runtime environment|runtime_env setup failed",
        "its runtime environment could not be set up: runtime_env_setup-*.log in the logs of the Ray session on the head shows the step"),
    Cause(r"No space left on device|OutOfDiskError|Local disk is full",
        "a disk is full: remove the files of dead sessions, or move checkpoints and caches to another disk", "clean"),
    Cause(r"Too many open files",
        "the limit on open files is too low: run `ulimit -n 65535` on that node, then restart Ray from the same shell"),
    Cause(r"pthread_create\b.{0,80}Resource temporarily unavailable|Thread creation failed: Resource temporarily unavailable|"
        r"thread: Resource temporarily unavailable|can't start new thread|fork: (?:retry: )?Resource temporarily unavailable",
        "a limit on processes and threads was reached on its node: `ulimit -u` (raise it before `ray start`), `pids.max` of the cgroup "
        "(TasksMax, --pids-limit), kernel.threads-max or kernel.pid_max; or start fewer threads (OMP_NUM_THREADS, "
        "`--num-cpus` of `ray start`)"),
    Cause(_IN_USE,
        "a port that it needs was in use on its node: `ss -ltnp` there shows the process; kill it if it is left over from an earlier run, "
        "or give each job and engine a port of its own (MASTER_PORT, --port), outside of Ray's range of worker ports (10002 to 19999)"),
    Cause(r"No available agent to submit job",
        "no Ray agent accepted the job: read logs/dashboard_agent.log of the session on each node: another process or another Ray session "
        "has its port (52365; `--dashboard-agent-listen-port` of `ray start`), or a limit on processes was reached (`ulimit -u`)"),
    Cause(r"Unable to register worker with raylet|Failed to register worker to Raylet",
        "more worker processes were started at once than the node can start: give Ray the real number of CPUs "
        "(`--num-cpus` of `ray start`; veRL: ray_init.num_cpus), and check the node's open files and load"),
    Cause(r"Watchdog caught collective operation timeout|NCCL WARN .{0,60}Timeout|DistBackendError: NCCL error",
        "one rank did not reach the collective: find the first error in the logs of all ranks (a crash, out of memory); if there is none, "
        "check the network between nodes (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, NCCL_DEBUG=INFO); while it hangs, compare the ranks' "
        "stacks"),
)  # fmt: skip


def _find_cause(message: str | None) -> tuple[str, Cause] | None:
    """The line of the message that shows the cause, and the cause."""
    for cause in CAUSES:
        if found := re.search(cause.pattern, message or ""):
            text = found.string
            end = text.find("\n", found.end())
            return text[text.rfind("\n", 0, found.start()) + 1 : end if end >= 0 else None], cause
    return None


find_cause = TtlCache(_find_cause, 256)


def find_port_in_use(line: str) -> int | None:
    """The port that is in use according to this line: after an address, or after the word port."""
    in_use = re.search(_IN_USE, line)
    found = re.search(_PORT, line) if in_use else None
    port = int(found[1] or found[2]) if found else 0
    return port if 0 < port < 1 << 16 else None
