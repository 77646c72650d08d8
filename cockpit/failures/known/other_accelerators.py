"""Rows for accelerators that are not NVIDIA's: AMD's ROCm and Ascend's NPU."""

from __future__ import annotations

from cockpit.failures.known.error import KnownError

OTHER_ACCELERATORS: tuple[KnownError, ...] = (
    # AMD.
    KnownError(
        name="hip-no-gpu",
        marker="No HIP GPUs are available",
        pattern=r"No HIP GPUs are available",
        cause="torch for ROCm sees no AMD GPU in that process",
        remedy="`rocminfo | grep gfx` and `ls -l /dev/kfd /dev/dri` there: a container needs `docker run --device=/dev/kfd --device=/dev/dri --group-add video`, the user the groups video and render, and HIP_VISIBLE_DEVICES must not be empty",
        source="torch c10/hip (its text); ROCm/rccl-tests issue 16",
        matches=("RuntimeError: No HIP GPUs are available",),
        differs=("RuntimeError: No CUDA GPUs are available",),
    ),
    KnownError(
        name="hip-illegal-access",
        marker="HIP error: ",
        pattern=r"HIP error: (?P<what>an illegal memory access was encountered|unspecified launch failure|invalid device pointer)",
        cause="A kernel on an AMD GPU failed: {what}; the stack may show a later call",
        remedy="`export AMD_SERIALIZE_KERNEL=3` for one run: then the stack shows the call. Try it without custom kernels (eager mode, another attention), and with the ROCm version that torch was built for",
        source="ROCm's runtime, in public reports",
        matches=("RuntimeError: HIP error: an illegal memory access was encountered",),
        differs=("RuntimeError: HIP error: invalid device function",),
    ),
    KnownError(
        name="rocm-kernel-driver",
        marker="HSA Error: ",
        pattern=r"HSA Error: Incompatible kernel and userspace",
        cause="The amdgpu driver of that host is too old for the ROCm of this environment",
        remedy="Update amdgpu-dkms on the host to the version of that ROCm, or use a container with an older ROCm; `cat /sys/module/amdgpu/version` shows the driver's",
        source="ROCR-Runtime (its text), in public logs",
        matches=("HSA Error: Incompatible kernel and userspace, Vega disabled. Upgrade amdgpu.",),
        differs=("HIP error: invalid device function",),
    ),
    # Ascend.
    KnownError(
        name="ascend-library-missing",
        marker=": cannot open shared object file",
        pattern=r"(?P<library>lib(?:ascend_hal|hccl|ascendcl|atb|c_sec|register|runtime|opapi|ge_runner|graph)\.so): cannot open shared object file",
        cause="Ascend's library {library} is not found: the environment of CANN was not set in that process, or it is not installed there",
        remedy="`source /usr/local/Ascend/ascend-toolkit/set_env.sh` (libatb.so: `source /usr/local/Ascend/nnal/atb/set_env.sh`) before `ray start` on every node; libascend_hal.so is the driver's: mount /usr/local/Ascend/driver into the container",
        source="vllm-project/vllm-ascend issues 152 and 262",
        matches=(
            "ImportError: libhccl.so: cannot open shared object file: No such file or directory",
            "ImportError: libatb.so: cannot open shared object file: No such file or directory",
        ),
        differs=("ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",),
    ),
    KnownError(
        name="ascend-hccp-not-started",
        marker="EJ0001",
        pattern=r"EJ0001: [^\n]{0,80}Failed to initialize the HCCP process",
        cause="Ascend's communication process (HCCP) did not start on an NPU, most often because an earlier process still holds that NPU",
        remedy="`npu-smi info` lists the processes of each NPU: end what is left of an earlier run, wait 10 s and start again; two jobs must not share an NPU (`ASCEND_RT_VISIBLE_DEVICES`)",
        source="hiyouga/LlamaFactory issue 3839; Ascend CANN's error codes",
        matches=(
            "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64\nEJ0001: Failed to initialize the HCCP process. Reason: Maybe the last training process is running.",
        ),
        differs=("EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time.",),
    ),
    KnownError(
        name="ascend-rank-table",
        marker="EI0004",
        pattern=r"EI0004: [^\n]{0,80}The ranktable is invalid, ?Reason:\[(?P<why>[^\]\n]{1,160})",
        cause="Ascend's HCCL found the ranks and the NPUs in disagreement: {why}",
        remedy="Give no RANK_TABLE_FILE from another cluster (`unset RANK_TABLE_FILE`), and check that each NPU has its own address on each node: `hccn_tool -i 0 -ip -g`",
        source="vllm-project/vllm-ascend issue 397; Ascend CANN's error codes",
        matches=(
            "EI0004: [PID: 2236] 2025-03-26-11:49:20.115.225 The ranktable is invalid,Reason:[The ranktable config devIp is inconsistent with the local devIp.]",
        ),
        differs=("EI0006: Getting socket times out.",),
    ),
    KnownError(
        name="ascend-device-not-opened",
        marker="error code is 507033",
        pattern=r"NPU function error: (?P<call>[^\n]{1,120}?), error code is (?P<code>507033)",
        cause="The process could not open its NPU (error {code} of {call})",
        remedy="`npu-smi info` there: is the NPU healthy and free (an NPU serves one container)? ASCEND_RT_VISIBLE_DEVICES must name NPUs that exist, a container must get /dev/davinciN and the driver, and driver and CANN versions must fit; details: ~/ascend/log",
        source="Ascend/pytorch issue 67, vllm-project/vllm-ascend issue 4284",
        matches=(
            "RuntimeError: Initialize:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:146 NPU function error: c10_npu::SetDevice(device_id_), error code is 507033\n[ERROR] 2025-06-24-11:20:49 (PID:528886, Device:-1, RankID:-1) ERR00100 PTA call acl api failed",
        ),
        differs=("NPU function error: call aclnnInplaceCopy failed, error code is 561103",),
    ),
    KnownError(
        name="ascend-call-failed",
        marker="NPU function error: ",
        pattern=r"NPU function error: (?P<call>[^\n]{1,150}?), error code is (?P<code>\d{1,9})",
        cause="A call on an Ascend NPU failed: {call}, error {code}",
        remedy="The line after this one with a code such as EZ9999 or E30006 says why, and more is in ~/ascend/log (search it for ERROR). An error of a kernel shows late: `export ASCEND_LAUNCH_BLOCKING=1` for one run. `npu-smi info` shows the NPU's health",
        source="Ascend/pytorch issue 90, vllm-project/vllm-ascend issues 116 and 1443",
        matches=(
            "RuntimeError: copy_d2d:torch_npu/csrc/aten/common/CopyKernel.cpp:274 NPU function error: c10_npu::acl::AclrtSynchronizeStreamWithTimeout(copy_stream), error code is 507001",
        ),
        differs=("HCCL function error: HcclCommInitRootInfo(numRanks, &rootInfo, rank, &(comm->hcclComm_)), error code is 7",),
        is_general=True,
    ),
    KnownError(
        name="hccl-call-failed",
        marker="HCCL function error: ",
        pattern=r"HCCL function error: (?P<call>\w{1,60})[^\n]{0,120}?, error code is (?P<code>\d{1,9})",
        cause="A call of Ascend's HCCL failed on this rank: {call}, error {code}",
        remedy="The line after it with a code such as EI0006 says why. Look for the rank that failed first; then the NPUs' network: `hccn_tool -i 0 -link -g` and `hccn_tool -i 0 -ip -g` on each node, and HCCL_SOCKET_IFNAME; details: ~/ascend/log",
        source="vllm-project/vllm-ascend issue 397",
        matches=(
            "RuntimeError: create:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:89 HCCL function error: HcclCommInitRootInfo(numRanks, &rootInfo, rank, &(comm->hcclComm_)), error code is 7",
        ),
        differs=("NPU function error: c10_npu::SetDevice(device_id_), error code is 507033",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="hccl-error-old",
        marker="HCCL error in: ",
        pattern=r"HCCL error in: (?P<place>\S{1,200})",
        cause="A call of Ascend's HCCL failed on this rank",
        remedy="The line after it with a code such as EI0006 or EJ0001 says why. Look for the rank that failed first; then the NPUs' network: `hccn_tool -i 0 -link -g` on each node, and HCCL_SOCKET_IFNAME; details: ~/ascend/log",
        source="hiyouga/LlamaFactory issue 3839",
        matches=("RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64",),
        differs=("RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:64",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="ascend-inner-error",
        marker="The Inner error is reported as above",
        pattern=r"The Inner error is reported as above\. The process exits for this inner error, and (?:the )?current working operator name is (?P<name>\w{1,80})",
        cause="An error on an Ascend NPU ended the process while the operator {name} ran; the lines before this one name it",
        remedy="Read the lines with a code (EI0006, EZ9999, E39999) above, and ~/ascend/log. `export ASCEND_LAUNCH_BLOCKING=1` for one run shows the operator that really failed",
        source="torch_npu (its text), in public logs",
        matches=(
            "RuntimeError: The Inner error is reported as above. The process exits for this inner error, and the current working operator name is HcclAllreduce.",
        ),
        differs=("RuntimeError: The server is reported as above",),
        is_consequence=True,
    ),
)
