"""GPUs, who holds their memory, and what connects them, PCIe and NVLink, with the errors of both, as NVML tells it."""

from __future__ import annotations

import glob
import os
import time
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Sequence, Tuple

from .collector import CollectError
from .proc import in_first_namespace, read_link
from .xids import Bus, Xid, XidEvents, parse_bus

Gpu = Dict[str, Any]
Holders = Dict[int, Dict[int, "int | None"]]
"""For each pid, how many bytes of which GPU; `None` where NVML won't say."""
RETRY_EVERY_READINGS = 15
"""Readings between two tries to start NVML after it has failed: loading it is not free, and a driver seldom comes back."""
HEALTH_INTERVAL_S = 10.0
"""Seconds between two questions for what hardly changes."""
LINKS_INTERVAL_S, LINKS_SPACING_S = 60.0, 2.0
"""Seconds between two questions for the links of a GPU, some seventy numbers; and by how much GPUs are asked after each other."""
RECOVERY = {
    1: "reset", 2: "reboot", 3: "drain P2P", 4: "drain and reset", 5: "recover IMEX domain", 6: "bus reset", 7: "system reboot",
}  # fmt: skip
"""nvmlDeviceGpuRecoveryAction_t, without 0, which asks for nothing."""
HARDWARE, SOFTWARE_THERMAL, HARDWARE_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
"""Of nvmlClocksEventReasons. A power cap, idleness and clocks that somebody has set are no bad signs."""
NOBODY = 0
"""In place of a pid that is no process's of this PID namespace."""

Links = Dict[str, Any]
Field = Tuple[str, int]
"""The end of a field's name, and the link that is asked for."""
STATE, REPLAYS, RECOVERIES, RECOVERIES_NEW = "GET_STATE", "ERROR_DL_REPLAY", "ERROR_DL_RECOVERY", "COUNT_LINK_RECOVERY_EVENTS"
"""Blackwell knows the last and not the two before it."""
MOST_LINKS = 36
"""NVML_NVLINK_MAX_LINKS."""
INACTIVE = 0
"""NVML_NVLINK_STATE_INACTIVE; a link that sleeps is none that is down."""
_NUMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
"""nvmlValueType_t, and the part of the union that holds it."""
_PCIE = {
    "pcie_generation": "nvmlDeviceGetCurrPcieLinkGeneration",
    "pcie_generation_max": "nvmlDeviceGetMaxPcieLinkGeneration",
    "pcie_width": "nvmlDeviceGetCurrPcieLinkWidth",
    "pcie_width_max": "nvmlDeviceGetMaxPcieLinkWidth",
    "pcie_replays": "nvmlDeviceGetPcieReplayCounter",
}
"""The most is what GPU and slot can do together."""


class GpuReading(NamedTuple):
    """`gpus` is `None` when there is no NVIDIA driver on this host."""

    gpus: list[Gpu] | None = None
    holders: Mapping[int, Dict[int, int | None]] = {}
    driver: str | None = None
    buses: Mapping[int, Bus] = {}
    """By a GPU's index: where it is, also of one that is lost."""
    xids: Mapping[int, Sequence[Xid]] | None = None
    """By a GPU's index, as events have told; `None` where they don't."""


class Nvml:
    """NVML, started once, and started anew when the driver was changed under it."""

    def __init__(self, *, events: bool = False) -> None:
        """`events`: whether it listens for Xids."""
        self._events = XidEvents() if events else None
        self._module: Any = None
        self._waiting = 0
        self._refusal: CollectError | None = None
        self._known: Dict[int, Gpu] = {}
        self._health: Dict[int, Gpu] = {}
        self._health_due = 0.0
        self._links: Dict[int, Gpu] = {}
        self._links_due: Dict[int, float] = {}
        self._buses: Dict[int, Bus] = {}
        self._driver: str | None = None

    def read(self) -> GpuReading:
        """Any call in here may hang for ever: a broken driver does that."""
        if not self._start():
            return GpuReading()
        nvml = self._module
        try:
            return self._read(nvml, nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            self._stop()
            raise CollectError(f"NVML failed: {error}") from error

    def _start(self) -> bool:
        """False when there is no driver to ask."""
        if self._module is not None:
            return True
        if self._waiting > 0:
            self._waiting -= 1
            if self._refusal:
                raise self._refusal
            return False
        self._waiting, self._refusal = RETRY_EVERY_READINGS, None
        try:
            self._module = self._init()
        except CollectError as error:
            self._refusal = error
            raise
        return self._module is not None

    def _init(self) -> Any:
        try:
            import pynvml as nvml  # 23 ms, which the first sample doesn't wait for
        except ImportError as error:
            raise CollectError(f"NVML can't be asked: the Python module pynvml is missing ({error})") from error
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            absent = (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED)
            if error.value in absent and not _nvidia_hardware():
                return None
            raise CollectError(f"NVML can't be started: {error}") from error
        self._driver, self._health_due = _text(call(nvml, "nvmlSystemGetDriverVersion")), 0.0
        return nvml

    def _stop(self) -> None:
        nvml, self._module, self._waiting = self._module, None, 0
        if self._events:
            self._events.forget()
        try:
            nvml.nvmlShutdown()
        except nvml.NVMLError:
            return  # it was not running any more

    def _read(self, nvml: Any, count: int) -> GpuReading:
        gpus: list[Gpu] = []
        holders: Holders = {}
        handles: list[Any] = []
        now = time.monotonic()
        if now >= self._health_due:
            self._health, self._health_due = {}, now + HEALTH_INTERVAL_S
        for index in range(count):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
            except nvml.NVMLError as error:
                gpus.append(self._report_lost(nvml, index, error))
                continue
            handles.append(handle)
            parts = _mig_devices(nvml, handle)
            found = [] if parts is not None else [self._gpu(nvml, index, handle, holders)]
            found += [self._gpu(nvml, index * 1000 + part, device, holders, whole=False) for part, device in (parts or {}).items()]
            state = self._state(nvml, index, handle, now)
            gpus += [{**gpu, **state} for gpu in found]
        self._buses.update(bus_of_lost(self._buses, count, _driver_buses()) if len(self._buses) < count else {})
        return GpuReading(gpus, holders, self._driver, dict(self._buses), self._events.read(nvml, handles) if self._events else None)

    def _state(self, nvml: Any, index: int, handle: Any, now: float) -> Gpu:
        """Of a whole GPU, which each of its MIG devices shares."""
        if index not in self._health:
            rows = call(nvml, "nvmlDeviceGetRemappedRows", handle)
            self._health[index] = {"recovery": _recovery(nvml, handle), "remap": bool(rows[2]) if rows else None}
        if now >= self._links_due.get(index, 0.0):
            self._links_due[index] = now + LINKS_INTERVAL_S + (0.0 if index in self._links else LINKS_SPACING_S * index)
            self._links[index] = self._read_seldom(nvml, index, handle)
        reasons = _read_clock_reasons(nvml, handle)
        return {**self._health[index], **self._links[index], "clock_reasons": reasons, "slowed": _slowdown(reasons)}

    def _read_seldom(self, nvml: Any, index: int, handle: Any) -> Gpu:
        bus = parse_bus(_text(getattr(call(nvml, "nvmlDeviceGetPciInfo", handle), "busId", None)) or "")
        if bus:
            self._buses[index] = bus
        default = call(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", handle)
        return {"power_default": default / 1000 if default is not None else None, "links": read_links(nvml, handle)}

    def _gpu(self, nvml: Any, index: int, handle: Any, holders: Holders, whole: bool = True) -> Gpu:
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            if error.value not in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_NO_PERMISSION, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                return self._report_lost(nvml, index, error)
            memory = None
        gpu: Gpu = {"index": index, **self._identity(nvml, index, handle), "fault": None}
        gpu["memory_used"], gpu["memory_total"] = (memory.used, memory.total) if memory else (None, None)
        if whole:
            gpu.update(_measures(nvml, handle))
        for pid, amount in _holders(nvml, handle).items():
            _add(holders.setdefault(pid if is_ours(pid) else NOBODY, {}), index, amount)
        return gpu

    def _identity(self, nvml: Any, index: int, handle: Any) -> Gpu:
        """Remembered, because a GPU that is lost can't say it any more."""
        uuid = _text(call(nvml, "nvmlDeviceGetUUID", handle))
        self._known[index] = {"uuid": uuid or "", "name": _text(call(nvml, "nvmlDeviceGetName", handle))}
        return self._known[index]

    def _report_lost(self, nvml: Any, index: int, error: Exception) -> Gpu:
        known = self._known.get(index, {"uuid": "", "name": None})
        if getattr(error, "value", None) in (nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
            raise error
        return {"index": index, **known, "fault": str(error)}


def _measures(nvml: Any, handle: Any) -> Gpu:
    rates = call(nvml, "nvmlDeviceGetUtilizationRates", handle)
    power = call(nvml, "nvmlDeviceGetPowerUsage", handle)
    limit = call(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    return {
        "utilization": rates.gpu if rates else None,
        "power": power / 1000 if power is not None else None,
        "power_limit": limit / 1000 if limit is not None else None,
        "clock": call(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
        "temperature": call(nvml, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
        "ecc": call(nvml, "nvmlDeviceGetTotalEccErrors", handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
    }


def _recovery(nvml: Any, handle: Any) -> str | None:
    """`None` also where the driver doesn't know the question yet."""
    field = getattr(nvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    answers = call(nvml, "nvmlDeviceGetFieldValues", handle, [field]) if field is not None else None
    if not answers or answers[0].nvmlReturn != nvml.NVML_SUCCESS or not answers[0].value.uiVal:
        return None
    action = answers[0].value.uiVal
    return RECOVERY.get(action, f"recovery action {action}")


def _read_clock_reasons(nvml: Any, handle: Any) -> int | None:
    """Bits of nvmlClocksEventReasons; drivers before 535 call it throttling."""
    reasons: int | None = call(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    return call(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle) if reasons is None else reasons


def _slowdown(reasons: int | None) -> list[str] | None:
    """Slowed by hardware is said where that doesn't say itself what it is slowed by."""
    if reasons is None:
        return None
    hot, braked = reasons & (SOFTWARE_THERMAL | HARDWARE_THERMAL), reasons & POWER_BRAKE
    plain = reasons & HARDWARE and not (reasons & HARDWARE_THERMAL or braked)
    return [word for word, so in (("thermal", hot), ("power brake", braked), ("hardware", plain)) if so]


def _holders(nvml: Any, handle: Any) -> Dict[int, int | None]:
    """Compute and graphics processes; one that is both counts once."""
    found: Dict[int, int | None] = {}
    for kind in ("Compute", "Graphics"):
        listed = call(nvml, f"nvmlDeviceGet{kind}RunningProcesses", handle)
        if listed is None:  # a driver before 510
            listed = call(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v2", handle)
        for process in listed or ():
            amount, before = process.usedGpuMemory, found.get(process.pid)
            found[process.pid] = amount if before is None else max(before, amount or 0)
    return found


def _add(held: Dict[int, int | None], index: int, amount: int | None) -> None:
    before = held.get(index, 0)
    held[index] = None if amount is None or before is None else before + amount


def is_ours(pid: int, proc: str = "/proc", dev: str = "/dev", nested: bool | None = None) -> bool:
    """Whether NVML's pid is one of this PID namespace, as far as that can be told.

    To a container some drivers tell the machine's own pids, which in there are nobody's or somebody else's: who uses a GPU has a file of
    the driver's open. Where there are none, NVML is simulated, or of another kind.
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
    """`None` unless the GPU is cut into MIG devices."""
    mode = call(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return None
    count = call(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    devices = ((part, call(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, part)) for part in range(count))
    return {part: device for part, device in devices if device is not None}


def call(nvml: Any, function: str, *words: Any) -> Any:
    """`None` where the device, the driver or this pynvml doesn't know it."""
    try:
        return getattr(nvml, function)(*words)
    except (nvml.NVMLError, AttributeError, TypeError):
        return None


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def bus_of_lost(known: Mapping[int, Bus], count: int, there: Iterable[Bus]) -> Mapping[int, Bus]:
    """One that was lost before anybody looked can't say where it is: it is at the only place of the driver's where no other is."""
    missing = [index for index in range(count) if index not in known]
    left = set(there) - set(known.values())
    return {missing[0]: left.pop()} if len(missing) == len(left) == 1 else {}


def _driver_buses() -> list[Bus]:
    """Where the driver has GPUs, lost ones too."""
    try:
        return [bus for name in os.listdir("/proc/driver/nvidia/gpus") for bus in [parse_bus(name)] if bus]
    except OSError:
        return []


def _nvidia_hardware() -> bool:
    """Whether there is a display or 3D controller by NVIDIA, whatever the driver says."""
    if os.path.exists("/proc/driver/nvidia/version"):
        return True
    return any(_is_nvidia(folder) for folder in glob.glob("/sys/bus/pci/devices/*"))


def _is_nvidia(folder: str) -> bool:
    try:
        with open(f"{folder}/vendor") as vendor, open(f"{folder}/class") as kind:
            return vendor.read().strip() == "0x10de" and kind.read().startswith("0x03")
    except OSError:
        return False


# Links


def read_links(nvml: Any, handle: Any) -> Links:
    """All of it in some seven calls; what device, driver or pynvml don't know is `None`."""
    return {**{name: call(nvml, function, handle) for name, function in _PCIE.items()}, **_read_nvlinks(nvml, handle)}


def _read_nvlinks(nvml: Any, handle: Any) -> Links:
    """Errors are those that cost time, replays and recoveries: counted by link, for Hopper's totals always say 0."""
    count = _read_fields(nvml, handle, [("LINK_COUNT", 0)])["LINK_COUNT", 0]
    if count is None:
        return {"nvlinks": None, "nvlinks_active": None, "nvlink_errors": None}
    links = range(min(count, MOST_LINKS))
    told = _read_fields(nvml, handle, [(name, link) for name in (STATE, REPLAYS, RECOVERIES, RECOVERIES_NEW) for link in links])
    states = [_state(nvml, handle, link, told[STATE, link]) for link in links]
    recoveries = RECOVERIES if links and told[RECOVERIES, 0] is not None else RECOVERIES_NEW
    errors = [error for error in (told[name, link] for name in (REPLAYS, recoveries) for link in links) if error is not None]
    return {
        "nvlinks": count,
        "nvlinks_active": None if None in states else sum(state != INACTIVE for state in states),
        "nvlink_errors": sum(errors) if errors else None,
    }


def _state(nvml: Any, handle: Any, link: int, told: int | None) -> int | None:
    """Drivers before 525 don't know it as a field."""
    return call(nvml, "nvmlDeviceGetNvLinkState", handle, link) if told is None else told


def _read_fields(nvml: Any, handle: Any, fields: list[Field]) -> Dict[Field, int | None]:
    """By name and link, in one call; what this pynvml has no number for is not asked."""
    numbers = {field: getattr(nvml, f"NVML_FI_DEV_NVLINK_{field[0]}", None) for field in fields}
    asked = [(numbers[field], field[1]) for field in fields if numbers[field] is not None]
    answers = iter((call(nvml, "nvmlDeviceGetFieldValues", handle, asked) if asked else None) or [None] * len(asked))
    return {field: None if numbers[field] is None else _number(nvml, next(answers)) for field in fields}


def _number(nvml: Any, answer: Any) -> int | None:
    if answer is None or answer.nvmlReturn != nvml.NVML_SUCCESS or answer.valueType not in _NUMBERS:
        return None
    value: int = getattr(answer.value, _NUMBERS[answer.valueType])
    return value
