"""Reads the GPUs of this host through NVML: their state, the processes that hold their memory, their PCIe and NVLink links."""

from __future__ import annotations

import glob
import os
import time
from contextlib import suppress
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Sequence, Tuple

from .collector import CollectError
from .proc import in_first_namespace, read_link
from .xids import Bus, Xid, XidEvents, parse_bus

Gpu = Dict[str, Any]
Holders = Dict[int, Dict[int, "int | None"]]
"""By pid: the bytes that the process holds of each GPU, by its index; `None` where NVML does not say how many."""
RETRY_EVERY_READINGS = 15
"""Readings between two tries to start NVML after it has failed: loading it takes time, and a driver seldom comes back."""
HEALTH_INTERVAL_S = 10.0
"""Seconds between two readings of facts that hardly change."""
LINKS_INTERVAL_S, LINKS_SPACING_S = 60.0, 2.0
"""Seconds between two readings of a GPU's links (some seventy numbers), and between the first readings of one GPU and the next."""
RECOVERY_ACTIONS = {
    1: "reset", 2: "reboot", 3: "drain P2P", 4: "drain and reset", 5: "recover IMEX domain", 6: "bus reset", 7: "system reboot",
}  # fmt: skip
"""nvmlDeviceGpuRecoveryAction_t without 0, which means that no action is needed."""
HARDWARE, SOFTWARE_THERMAL, HARDWARE_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
"""Bits of nvmlClocksEventReasons. The others, such as a power cap, idleness and clocks that a user has set, are no bad signs."""
NOBODY = 0
"""Stands for a pid of NVML's that is no process of this PID namespace."""

Links = Dict[str, Any]
Field = Tuple[str, int]
"""The end of an NVLink field's name in NVML, and the number of the link."""
STATE, REPLAYS, RECOVERIES, RECOVERIES_NEW = "GET_STATE", "ERROR_DL_REPLAY", "ERROR_DL_RECOVERY", "COUNT_LINK_RECOVERY_EVENTS"
"""Blackwell has RECOVERIES_NEW, and neither REPLAYS nor RECOVERIES."""
MAX_LINKS = 36
"""NVML_NVLINK_MAX_LINKS."""
INACTIVE = 0
"""NVML_NVLINK_STATE_INACTIVE. A link that sleeps has another state: it is not down."""
_VALUE_FIELDS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
"""By nvmlValueType_t: the part of the union that holds the number."""
_PCIE = {
    "pcie_generation": "nvmlDeviceGetCurrPcieLinkGeneration",
    "pcie_generation_max": "nvmlDeviceGetMaxPcieLinkGeneration",
    "pcie_width": "nvmlDeviceGetCurrPcieLinkWidth",
    "pcie_width_max": "nvmlDeviceGetMaxPcieLinkWidth",
    "pcie_replays": "nvmlDeviceGetPcieReplayCounter",
}
"""The maximum is what GPU and slot support together."""


class GpuReading(NamedTuple):
    """One reading of all GPUs."""

    gpus: list[Gpu] | None = None
    """`None`: this host has no NVIDIA driver."""
    holders: Mapping[int, Dict[int, int | None]] = {}
    driver: str | None = None
    """The version of the driver."""
    buses: Mapping[int, Bus] = {}
    """By a GPU's index: its PCI bus, also of a lost GPU."""
    xids: Mapping[int, Sequence[Xid]] | None = None
    """By a GPU's index: the Xids that NVML has reported as events; `None`: it reports none."""


class Nvml:
    """A connection to NVML. It is started once, and again after an error, for example when the driver was replaced."""

    def __init__(self, *, events: bool = False) -> None:
        """`events`: also read Xids from NVML's events."""
        self._events = XidEvents() if events else None
        self._module: Any = None
        """pynvml while NVML runs."""
        self._waiting = 0
        """Readings left until the next try to start NVML."""
        self._refusal: CollectError | None = None
        self._names: Dict[int, Gpu] = {}
        """By index: UUID and name, because NVML can't read them from a lost GPU any more."""
        self._health: Dict[int, Gpu] = {}
        self._health_due = 0.0
        self._links: Dict[int, Gpu] = {}
        self._links_due: Dict[int, float] = {}
        self._buses: Dict[int, Bus] = {}
        self._driver: str | None = None

    def read(self) -> GpuReading:
        """Reads all GPUs. Raises `CollectError`. Each call to NVML may hang for ever if the driver is broken."""
        if not self._start():
            return GpuReading()
        nvml = self._module
        try:
            return self._read_all(nvml)
        except nvml.NVMLError as error:
            self._module, self._waiting = None, 0
            if self._events:
                self._events.forget()
            with suppress(nvml.NVMLError):  # NVML may not run any more
                nvml.nvmlShutdown()
            raise CollectError(f"NVML failed: {error}") from error

    def _start(self) -> bool:
        """Starts NVML unless it runs. False: this host has no NVIDIA driver. Raises `CollectError`."""
        if self._module is not None:
            return True
        if self._waiting > 0:
            self._waiting -= 1
            if self._refusal:
                raise self._refusal
            return False
        self._waiting, self._refusal = RETRY_EVERY_READINGS, None
        try:
            import pynvml as nvml  # takes 23 ms, for which the first sample doesn't wait
        except ImportError as error:
            self._refusal = CollectError(f"NVML can't be asked: the Python module pynvml is missing ({error})")
            raise self._refusal from error
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED) and not _has_nvidia_hardware():
                return False
            self._refusal = CollectError(f"NVML can't be started: {error}")
            raise self._refusal from error
        self._driver, self._health_due = _text(_call(nvml, "nvmlSystemGetDriverVersion")), 0.0
        self._module = nvml
        return True

    def _read_all(self, nvml: Any) -> GpuReading:
        gpus: list[Gpu] = []
        holders: Holders = {}
        handles: list[Any] = []
        count = nvml.nvmlDeviceGetCount()
        now = time.monotonic()
        if now >= self._health_due:
            self._health, self._health_due = {}, now + HEALTH_INTERVAL_S
        for index in range(count):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
            except nvml.NVMLError as error:
                gpus.append(self._lost_gpu(nvml, index, error))
                continue
            handles.append(handle)
            parts = _mig_devices(nvml, handle)
            if parts is None:
                found = [self._read_device(nvml, index, handle, holders)]
            else:
                found = [self._read_device(nvml, index * 1000 + part, device, holders, whole=False) for part, device in parts.items()]
            shared = self._read_shared(nvml, index, handle, now)
            gpus += [{**gpu, **shared} for gpu in found]
        if len(self._buses) < count:  # a GPU was lost before its bus was read
            try:
                names = os.listdir("/proc/driver/nvidia/gpus")  # lost GPUs too
            except OSError:
                names = []
            self._buses.update(bus_of_lost(self._buses, count, filter(None, map(parse_bus, names))))
        return GpuReading(gpus, holders, self._driver, dict(self._buses), self._events.read(nvml, handles) if self._events else None)

    def _read_device(self, nvml: Any, index: int, handle: Any, holders: Holders, whole: bool = True) -> Gpu:
        """Reads a GPU or (not `whole`) a MIG device, and adds the processes that hold its memory to `holders`."""
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            if error.value not in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_NO_PERMISSION, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                return self._lost_gpu(nvml, index, error)
            memory = None
        self._names[index] = {
            "uuid": _text(_call(nvml, "nvmlDeviceGetUUID", handle)) or "",
            "name": _text(_call(nvml, "nvmlDeviceGetName", handle)),
        }
        gpu: Gpu = {"index": index, **self._names[index], "fault": None}
        gpu["memory_used"], gpu["memory_total"] = (memory.used, memory.total) if memory else (None, None)
        if whole:
            rates = _call(nvml, "nvmlDeviceGetUtilizationRates", handle)
            gpu["utilization"] = rates.gpu if rates else None
            gpu["power"] = _to_watts(_call(nvml, "nvmlDeviceGetPowerUsage", handle))
            gpu["power_limit"] = _to_watts(_call(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle))
            gpu["clock"] = _call(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM)
            gpu["temperature"] = _call(nvml, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)
            kinds = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            gpu["ecc"] = _call(nvml, "nvmlDeviceGetTotalEccErrors", handle, *kinds)
        for pid, size in _memory_by_pid(nvml, handle).items():
            held = holders.setdefault(pid if is_ours(pid) else NOBODY, {})
            before = held.get(index, 0)
            held[index] = None if size is None or before is None else before + size
        return gpu

    def _read_shared(self, nvml: Any, index: int, handle: Any, now: float) -> Gpu:
        """The facts of a whole GPU, which are the same for each of its MIG devices."""
        if index not in self._health:
            rows = _call(nvml, "nvmlDeviceGetRemappedRows", handle)
            # No action: none is needed, or the driver has no such field yet.
            field = getattr(nvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
            answers = _call(nvml, "nvmlDeviceGetFieldValues", handle, [field]) if field is not None else None
            action = answers[0].value.uiVal if answers and answers[0].nvmlReturn == nvml.NVML_SUCCESS else 0
            recovery = RECOVERY_ACTIONS.get(action, f"recovery action {action}") if action else None
            self._health[index] = {"recovery": recovery, "remap": bool(rows[2]) if rows else None}
        if now >= self._links_due.get(index, 0.0):
            self._links_due[index] = now + LINKS_INTERVAL_S + (0.0 if index in self._links else LINKS_SPACING_S * index)
            bus = parse_bus(_text(getattr(_call(nvml, "nvmlDeviceGetPciInfo", handle), "busId", None)) or "")
            if bus:
                self._buses[index] = bus
            power_default = _to_watts(_call(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", handle))
            self._links[index] = {"power_default": power_default, "links": read_links(nvml, handle)}
        reasons = _call(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:  # drivers before 535 call it throttling
            reasons = _call(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        slowed = None
        if reasons is not None:  # "hardware" is left out if the hardware names a more exact cause
            is_hot, is_braked = reasons & (SOFTWARE_THERMAL | HARDWARE_THERMAL), reasons & POWER_BRAKE
            is_other = reasons & HARDWARE and not (reasons & HARDWARE_THERMAL or is_braked)
            slowed = [cause for cause, holds in (("thermal", is_hot), ("power brake", is_braked), ("hardware", is_other)) if holds]
        return {**self._health[index], **self._links[index], "clock_reasons": reasons, "slowed": slowed}

    def _lost_gpu(self, nvml: Any, index: int, error: Exception) -> Gpu:
        """A GPU that can't be read because of `error`. Raises that error if NVML or the driver does not run any more."""
        if getattr(error, "value", None) in (nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
            raise error
        return {"index": index, **self._names.get(index, {"uuid": "", "name": None}), "fault": str(error)}


def _call(nvml: Any, function: str, *arguments: Any) -> Any:
    """The result of a function of NVML; `None` if the device, the driver or this pynvml does not support it."""
    try:
        return getattr(nvml, function)(*arguments)
    except (nvml.NVMLError, AttributeError, TypeError):
        return None


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _to_watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _memory_by_pid(nvml: Any, handle: Any) -> Dict[int, int | None]:
    """The bytes that each process holds of a device; `None`: NVML does not say. A compute and graphics process counts once."""
    found: Dict[int, int | None] = {}
    for kind in ("Compute", "Graphics"):
        listed = _call(nvml, f"nvmlDeviceGet{kind}RunningProcesses", handle)
        if listed is None:  # a driver before 510
            listed = _call(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v2", handle)
        for process in listed or ():
            size, before = process.usedGpuMemory, found.get(process.pid)
            found[process.pid] = size if before is None else max(before, size or 0)
    return found


def is_ours(pid: int, proc: str = "/proc", dev: str = "/dev", nested: bool | None = None) -> bool:
    """Whether a pid of NVML's is one of this PID namespace, as far as this can be known.

    In a container some drivers return the pids of the machine. In the container such a pid is no process, or another process. A process
    that uses a GPU has a file of the driver's open. Where /dev has no such files, NVML is simulated, or of another kind.
    """
    if not (nested if nested is not None else not in_first_namespace()) or not os.path.exists(f"{dev}/nvidiactl"):
        return True
    folder = f"{proc}/{pid}/fd"
    try:
        if not os.path.exists(f"{proc}/{pid}"):
            return True
        return any((read_link(f"{folder}/{name}") or "").startswith(f"{dev}/nvidia") for name in os.listdir(folder))
    except OSError:
        return False


def _mig_devices(nvml: Any, handle: Any) -> Dict[int, Any] | None:
    """The MIG devices of a GPU; `None`: it is not in MIG mode."""
    mode = _call(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return None
    count = _call(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    devices = ((part, _call(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, part)) for part in range(count))
    return {part: device for part, device in devices if device is not None}


def bus_of_lost(known: Mapping[int, Bus], count: int, there: Iterable[Bus]) -> Mapping[int, Bus]:
    """The bus of a lost GPU, by its index, if exactly one of `count` indices has no known bus, and one bus of the driver's no known GPU."""
    missing = [index for index in range(count) if index not in known]
    left = set(there) - set(known.values())
    return {missing[0]: left.pop()} if len(missing) == len(left) == 1 else {}


def _has_nvidia_hardware() -> bool:
    """Whether this host has the driver, or a display or 3D controller of NVIDIA's on its PCI bus."""
    if os.path.exists("/proc/driver/nvidia/version"):
        return True
    for folder in glob.glob("/sys/bus/pci/devices/*"):
        with suppress(OSError), open(f"{folder}/vendor") as vendor, open(f"{folder}/class") as kind:
            if vendor.read().strip() == "0x10de" and kind.read().startswith("0x03"):
                return True
    return False


# Links


def read_links(nvml: Any, handle: Any) -> Links:
    """The PCIe and NVLink links of a GPU, in some seven calls. `None`: the device, the driver or pynvml does not support it.

    The errors of NVLink are the ones that cost time: replays and recoveries. Hopper's totals are always 0, so each link's are added up.
    """
    found: Links = {name: _call(nvml, function, handle) for name, function in _PCIE.items()}
    count = _read_fields(nvml, handle, [("LINK_COUNT", 0)])["LINK_COUNT", 0]
    if count is None:
        return {**found, "nvlinks": None, "nvlinks_active": None, "nvlink_errors": None}
    links = range(min(count, MAX_LINKS))
    values = _read_fields(nvml, handle, [(name, link) for name in (STATE, REPLAYS, RECOVERIES, RECOVERIES_NEW) for link in links])
    states = [values[STATE, link] for link in links]
    # Drivers before 525 have no field for the state.
    states = [_call(nvml, "nvmlDeviceGetNvLinkState", handle, link) if states[link] is None else states[link] for link in links]
    recoveries = RECOVERIES if links and values[RECOVERIES, 0] is not None else RECOVERIES_NEW
    errors = [error for error in (values[name, link] for name in (REPLAYS, recoveries) for link in links) if error is not None]
    found["nvlinks"] = count
    found["nvlinks_active"] = None if None in states else sum(state != INACTIVE for state in states)
    found["nvlink_errors"] = sum(errors) if errors else None
    return found


def _read_fields(nvml: Any, handle: Any, fields: list[Field]) -> Dict[Field, int | None]:
    """The values of these NVLink fields, in one call; `None`: this pynvml or the device does not have the field."""
    found: Dict[Field, int | None] = dict.fromkeys(fields)
    numbers = {field: getattr(nvml, f"NVML_FI_DEV_NVLINK_{field[0]}", None) for field in fields}
    known = [field for field in fields if numbers[field] is not None]
    answers = _call(nvml, "nvmlDeviceGetFieldValues", handle, [(numbers[field], field[1]) for field in known]) if known else None
    for field, answer in zip(known, answers or ()):  # noqa: B905 Python 3.8
        if answer.nvmlReturn == nvml.NVML_SUCCESS and answer.valueType in _VALUE_FIELDS:
            found[field] = getattr(answer.value, _VALUE_FIELDS[answer.valueType])
    return found
