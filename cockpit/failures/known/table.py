"""Lists all known errors, general rows last, and after them those that explain only a kind of error: of several rows that match the same text the first one counts."""

from __future__ import annotations

from typing import Final

from cockpit.failures.known.builds import BUILDS
from cockpit.failures.known.collectives import COLLECTIVES
from cockpit.failures.known.configuration import CONFIGURATION
from cockpit.failures.known.containers import CONTAINERS
from cockpit.failures.known.crashes import CRASHES
from cockpit.failures.known.cuda_codes import CUDA_CODES
from cockpit.failures.known.data_hub import DATA_HUB
from cockpit.failures.known.data_sets import DATA_SETS
from cockpit.failures.known.device_codes import DEVICE_CODES
from cockpit.failures.known.driver import DRIVER
from cockpit.failures.known.engine_limits import ENGINE_LIMITS
from cockpit.failures.known.engines import ENGINES
from cockpit.failures.known.errno import ERRNO
from cockpit.failures.known.error import KnownError
from cockpit.failures.known.error_kinds import ERROR_KINDS
from cockpit.failures.known.fatal_lines import FATAL_LINES
from cockpit.failures.known.files import FILES
from cockpit.failures.known.framework_checks import FRAMEWORK_CHECKS
from cockpit.failures.known.gpu_memory import GPU_MEMORY
from cockpit.failures.known.host_memory import HOST_MEMORY
from cockpit.failures.known.installation import INSTALLATION
from cockpit.failures.known.models import MODELS
from cockpit.failures.known.module_packages import MODULE_PACKAGES
from cockpit.failures.known.nccl import NCCL
from cockpit.failures.known.other_accelerators import OTHER_ACCELERATORS
from cockpit.failures.known.package_programs import PACKAGE_PROGRAMS
from cockpit.failures.known.ports import PORTS
from cockpit.failures.known.python_errors import PYTHON_ERRORS
from cockpit.failures.known.ray_checks import RAY_CHECKS
from cockpit.failures.known.ray_errors import RAY_ERRORS
from cockpit.failures.known.ray_exceptions import RAY_EXCEPTIONS
from cockpit.failures.known.ray_system import RAY_SYSTEM
from cockpit.failures.known.schedulers import SCHEDULERS
from cockpit.failures.known.services import SERVICES
from cockpit.failures.known.software import SOFTWARE
from cockpit.failures.known.statuses import STATUSES
from cockpit.failures.known.tensors import TENSORS
from cockpit.failures.known.timeouts import TIMEOUTS
from cockpit.failures.known.trainers import TRAINERS
from cockpit.failures.known.training import TRAINING

_KINDS: Final = (
    RAY_ERRORS,
    RAY_SYSTEM,
    RAY_CHECKS,
    HOST_MEMORY,
    GPU_MEMORY,
    DRIVER,
    MODULE_PACKAGES,
    SOFTWARE,
    FILES,
    DATA_HUB,
    DATA_SETS,
    CONFIGURATION,
    COLLECTIVES,
    NCCL,
    PORTS,
    ENGINES,
    TIMEOUTS,
    TRAINERS,
    FRAMEWORK_CHECKS,
    TRAINING,
    MODELS,
    TENSORS,
    CONTAINERS,
    CRASHES,
    INSTALLATION,
    OTHER_ACCELERATORS,
    PYTHON_ERRORS,
    SERVICES,
    BUILDS,
    RAY_EXCEPTIONS,
    SCHEDULERS,
    ENGINE_LIMITS,
    PACKAGE_PROGRAMS,
    ERRNO,
    STATUSES,
    CUDA_CODES,
    DEVICE_CODES,
    FATAL_LINES,
    ERROR_KINDS,
)
KNOWN_ERRORS: Final[tuple[KnownError, ...]] = tuple(
    sorted((error for kind in _KINDS for error in kind), key=lambda error: (error.explains_only_kind, error.is_general))
)
