"""Explains the less frequent errors of CUDA by the text that CUDA has for each of them."""

from __future__ import annotations

import re
from typing import Final

from cockpit.failures.known.error import KnownError

_EARLIER: Final = "CUDA reports errors late: run once with CUDA_LAUNCH_BLOCKING=1 to see the call that failed"
_PACKAGES: Final = (
    "compare `nvidia-smi` (its driver) and `python -m torch.utils.collect_env` with what the package that the traceback names was built for"
)


def _cuda(name: str, number: int, text: str, cause: str, remedy: str) -> KnownError:
    """A row for one error of CUDA."""
    return KnownError(
        name=f"cuda-{name}",
        marker=text,
        pattern=rf"(?:CUDA|[Cc]uda)[^\n]{{0,60}}[:'] {{0,2}}{re.escape(text)}",
        cause=f"{cause} (CUDA error {number})",
        remedy=remedy,
        source="NVIDIA CUDA runtime API, cudaError_t; CUDA driver API, CUresult",
        matches=(
            f"RuntimeError: CUDA error: {text}",
            f"RuntimeError: CUDA error ({number}): {text}",
            f"torch.AcceleratorError: CUDA error: {text}",
        ),
        differs=(f"INFO {text}",),
        is_general=True,
        explains_only_kind=True,
    )


CUDA_CODES: tuple[KnownError, ...] = (
    _cuda(
        "driver-is-stub",
        34,
        "CUDA driver is a stub library",
        "The program found the driver's stub, which is only for building",
        "Take the directory `stubs` out of LD_LIBRARY_PATH on that node; `ldconfig -p` shows where the driver's libcuda.so.1 is",
    ),
    _cuda(
        "device-function",
        98,
        "invalid device function",
        "A kernel was not built for this GPU, or the libraries do not belong together",
        f"Install a build for this GPU's architecture: {_PACKAGES}",
    ),
    _cuda(
        "context-invalid",
        201,
        "invalid device context",
        "A CUDA context is used that is not valid in this process or thread",
        "After a fork, or after another library has reset the device: start workers with spawn, and set the device (torch.cuda.set_device) in each of them first",
    ),
    _cuda(
        "peer-access",
        217,
        "peer access is not supported between these two devices",
        "Two GPUs of this node can't reach each other's memory",
        "`nvidia-smi topo -p2p r` shows which can; NCCL_P2P_DISABLE=1, and vLLM's --disable-custom-all-reduce, do without",
    ),
    _cuda(
        "jit-library",
        221,
        "PTX JIT compiler library not found",
        "The driver's library libnvidia-ptxjitcompiler is missing, mostly in a container",
        "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility; `ldconfig -p` shows whether it is there",
    ),
    _cuda(
        "file-not-found",
        301,
        "file not found",
        "A file with GPU code could not be opened",
        "Delete the caches of compiled kernels (`rm -r ~/.triton/cache`), and install the package that the traceback names again",
    ),
    _cuda(
        "symbol-missing",
        302,
        "shared object symbol not found",
        "The driver and a library of CUDA do not belong together",
        f"Use one version of CUDA in the whole environment: {_PACKAGES}",
    ),
    _cuda(
        "library-not-started",
        303,
        "shared object initialization failed",
        "A library of the driver could not be started",
        f"In a container, its driver files may be of another version than the host's; {_PACKAGES}",
    ),
    _cuda(
        "system-call",
        304,
        "OS call failed or operation not supported on this OS",
        "The operating system refused a call that the driver needs",
        "`dmesg -T | tail -50` on that node; often limits (`ulimit -l`, `ulimit -n`), CUDA IPC in a sandbox or WSL, or too little memory of the host",
    ),
    _cuda(
        "name-unknown",
        500,
        "named symbol not found",
        "The kernel that is called is not in the code that was loaded",
        f"Delete caches of compiled kernels, and {_PACKAGES}",
    ),
    _cuda(
        "launch-resources",
        701,
        "too many resources requested for launch",
        "A kernel needs more registers or threads than this GPU has",
        f"A smaller block or tile size of that kernel, or another kernel (attention backend): it was tuned for another GPU; {_PACKAGES}",
    ),
    _cuda(
        "launch-timed-out",
        702,
        "the launch timed out and was terminated",
        "A kernel ran longer than the driver allows on a GPU that also drives a screen",
        "Use a GPU without a screen, or switch the X server off on that node",
    ),
    _cuda(
        "memory-registered-twice",
        712,
        "part or all of the requested memory range is already mapped",
        "The same memory of the host was pinned twice",
        "Two parts of the program pin the same buffer (offload, pinned pool): switch one of them off",
    ),
    _cuda(
        "memory-not-registered",
        713,
        "pointer does not correspond to a registered memory region",
        "Memory of the host is released as pinned, and is not",
        "Mostly after an earlier failure of pinning: look above; `ulimit -l` and the free memory of the host",
    ),
    _cuda(
        "hardware-stack",
        714,
        "hardware stack error",
        "A kernel damaged its own stack",
        f"{_EARLIER}; if it happens only on one node, `dmesg -T | grep -i xid` there",
    ),
    _cuda(
        "program-counter",
        718,
        "invalid program counter",
        "A kernel jumped to a place without code",
        f"A fault of that kernel or the GPU: {_EARLIER}; compare with another node",
    ),
    _cuda(
        "cooperative-launch",
        720,
        "too many blocks in cooperative launch",
        "A kernel that runs on the whole GPU at once does not fit it, or another process uses a part of it",
        "No other process and no MIG or MPS share on that GPU (`nvidia-smi`); smaller grid of that kernel",
    ),
    _cuda(
        "wait-timed-out",
        909,
        "wait operation timed out",
        "A GPU waited too long for another GPU or process",
        "The other process's error is the reason; if there is none, `dmesg -T | grep -i xid` on the nodes",
    ),
)
