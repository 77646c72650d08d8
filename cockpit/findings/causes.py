"""What jobs of LLM training fail of, by the words of their logs, and what helps."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Cause(NamedTuple):
    """A way to fail that has a name."""

    says: str
    """A regular expression."""
    remedy: str
    act: str | None = None


# What caused the others comes first: a rank that runs out of memory is one that the others wait for, until their watchdog ends them.
CAUSES: tuple[Cause, ...] = (
    Cause(r"uncorrectable ECC error|GPU has fallen off the bus|CUDA error: unspecified launch failure.*Xid",
        "the GPU is ill: `dmesg | grep -i xid` and `nvidia-smi -q -d ECC` on its node say how; take the node out of Ray's hands "
        "(`ray drain-node`) before the job is started again"),
    Cause(r"Free memory on device .{0,80}on startup is less than desired GPU memory utilization",
        "something else holds memory of that GPU, often what an earlier run left: end it, else ask for less (gpu_memory_utilization)",
        "kill-orphans"),
    Cause(r"CUDA out of memory|CUDA error: out of memory|No available memory for the cache blocks",
        "its own parts need more GPU memory than there is: smaller micro batches or sequences, offload, more GPUs for each model, "
        "or less for vLLM's cache (gpu_memory_utilization)"),
    Cause(r"Total available GPUs \S{1,20} is less than total desired GPUs|placement group bundle index \d+ is invalid",
        "it asks for other GPUs than it has reserved or than there are: nodes x GPUs of each model must fit those of the cluster, and "
        "models that share a group must be of its size"),
    Cause(r"Version mismatch: The cluster was started with",
        "start it with the Python and the Ray of the cluster: the third number of Python's version counts too"),
    Cause(r"RuntimeEnvSetupError|Failed to set up runtime environment|runtime_env setup failed",
        "its environment could not be made: runtime_env_setup-*.log in the logs folder of the head's Ray session says at which step"),
    Cause(r"No space left on device|OutOfDiskError|Local disk is full",
        "a disk is full: remove what dead sessions left, or let checkpoints and caches go elsewhere", "clean"),
    Cause(r"Too many open files",
        "`ulimit -n 65535` before `ray start` on that node, then start Ray anew there"),
    Cause(r"Unable to register worker with raylet|Failed to register worker to Raylet",
        "more worker processes were started at once than the node can start: give Ray the CPUs that it really has "
        "(`ray start --num-cpus`; veRL: ray_init.num_cpus), and see its open files and its load"),
    Cause(r"Watchdog caught collective operation timeout|NCCL WARN .{0,60}Timeout|DistBackendError: NCCL error",
        "one rank did not come: look for the first error among all ranks' logs (an end, out of memory); without one, the network between "
        "nodes (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, NCCL_DEBUG=INFO); while it hangs the stacks of its ranks show the odd one"),
)  # fmt: skip


@lru_cache(256)
def known(message: str | None) -> tuple[str, Cause] | None:
    """The line of a message that names its cause, and that."""
    for cause in CAUSES:
        if found := re.search(cause.says, message or ""):
            text = found.string
            end = text.find("\n", found.end())
            return text[text.rfind("\n", 0, found.start()) + 1 : end if end >= 0 else None], cause
    return None
