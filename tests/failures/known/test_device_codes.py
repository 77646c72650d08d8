"""Names of errors of CUDA, NVML, ROCm and NCCL are explained where a log has nothing else."""

from __future__ import annotations

import pytest

from cockpit.failures import describe, find_root_error

NAMES = (
    "cudaErrorMemoryAllocation",
    "cudaErrorNoDevice",
    "cudaErrorInsufficientDriver",
    "cudaErrorNoKernelImageForDevice",
    "cudaErrorUnknown",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUDA_ERROR_INVALID_VALUE",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_NOT_PERMITTED",
    "CUBLAS_STATUS_LICENSE_ERROR",
    "CUDNN_STATUS_EXECUTION_FAILED",
    "CUSPARSE_STATUS_INTERNAL_ERROR",
    "NVRTC_ERROR_INVALID_OPTION",
    "hipErrorLaunchFailure",
    "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
    "ncclInvalidUsage",
    "ncclInternalError",
    "ncclUnhandledCudaError",
    "NIXL_ERR_BACKEND",
)
NVML = ("Uninitialized", "NoPermission", "DriverNotLoaded", "Timeout", "LibraryNotFound", "FunctionNotFound", "GpuIsLost", "NotSupported")


def known_in(text: str) -> str | None:
    error = find_root_error(["step 1", text])
    return describe(error).known if error else None


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_an_error_is_explained(name: str):
    assert known_in(f"RuntimeError: a call failed: {name}") is not None


@pytest.mark.parametrize("name", NVML)
def test_an_exception_of_nvml_is_explained(name: str):
    assert known_in(f"pynvml.NVMLError_{name}: x") is not None


def test_a_warning_of_nccl_gives_way_to_any_other_known_line():
    error = find_root_error(["n1:1:1 [0] NCCL WARN words that nobody knows", "srun: Force Terminated StepId=1.0"])
    assert error is not None
    assert describe(error).known == "slurm-step-aborted"
