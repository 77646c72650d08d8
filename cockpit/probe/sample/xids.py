"""Reads Xids, the GPU errors of the NVIDIA driver, from the kernel's log or from NVML's events if the log may not be read."""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, Iterable, Sequence, Tuple

Xid = Dict[str, Any]
Bus = Tuple[int, int, int]
"""PCI domain, bus and device."""
WINDOW_S = 86400.0
"""Seconds for which an Xid is reported. Counters move days before a GPU fails, and people remember a day."""
MAX_XIDS = 8
"""Xids reported of one GPU, the last ones."""
MARK = b"NVRM: Xid"
WAIT_MS = 1
"""Milliseconds to wait for an event. NVML may take 0 for no limit."""
MAX_EVENTS = 64
"""Events read at a time."""
MAX_LINE_CHARS = 300
"""Characters kept of a line."""
_LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{7,16})[^)]{0,20}\): (\d{1,4})\b")


def parse_line(text: str, moment: float) -> Tuple[Bus, Xid] | None:
    """Parses a line such as `NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name=python, GPU has fallen off the bus.`."""
    found = _LINE.search(text)
    bus = parse_bus(found[1]) if found else None
    if found is None or bus is None:
        return None
    return bus, {"code": int(found[2]), "moment": moment, "text": text.partition("\n")[0].strip()[:MAX_LINE_CHARS]}


def parse_bus(text: str) -> Bus | None:
    """Parses `0000:1b:00` from the kernel, or `00000000:1B:00.0` from NVML."""
    parts = text.partition(".")[0].split(":")
    try:
        domain, bus, device = (int(part, 16) for part in parts)
    except ValueError:
        return None
    return domain, bus, device


def newest(xids: Iterable[Xid], now: float) -> Sequence[Xid]:
    """The last MAX_XIDS of the last day, oldest first."""
    return sorted((xid for xid in xids if now - WINDOW_S <= xid["moment"]), key=lambda xid: float(xid["moment"]))[-MAX_XIDS:]


class XidEvents:
    """Collects the events that arrive while it watches. After any refusal, NVML is not asked again until its next start."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._events: Any = None
        self._refused = False
        self._found: Dict[int, list[Xid]] = {}
        self._indices: Dict[int | None, int] = {}
        """By the address of a handle: NVML can't report the index of a lost GPU, but an Xid reports that it is lost."""

    def read(self, nvml: Any, handles: Sequence[Any]) -> Dict[int, list[Xid]] | None:
        """The Xids so far, by index of the GPU; `None` if NVML reports none."""
        if self._refused:
            return None
        try:
            if self._events is None:
                # If one GPU can't report events, none is watched: Xids of some GPUs only would look as if the others had none.
                events = nvml.nvmlEventSetCreate()
                for handle in handles:
                    nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
                self._indices = {_address(handle): nvml.nvmlDeviceGetIndex(handle) for handle in handles}
                self._events = events
            for _ in range(MAX_EVENTS):
                event = nvml.nvmlEventSetWait(self._events, WAIT_MS)
                xid = {"code": int(event.eventData), "moment": self._now(), "text": ""}
                try:
                    index = int(nvml.nvmlDeviceGetIndex(event.device))
                except nvml.NVMLError as error:
                    if error.value != nvml.NVML_ERROR_GPU_IS_LOST or _address(event.device) not in self._indices:
                        raise
                    index = self._indices[_address(event.device)]
                self._found[index] = list(newest([*self._found.get(index, ()), xid], self._now()))
        except nvml.NVMLError as error:
            self._refused = error.value not in (nvml.NVML_ERROR_TIMEOUT, nvml.NVML_ERROR_GPU_IS_LOST)
        return None if self._refused else self._found

    def forget(self) -> None:
        """Drops the event set when NVML stops; the Xids found so far stay."""
        self._events, self._refused = None, False


def _address(handle: Any) -> int | None:
    import ctypes  # pynvml imports it too, once there is a driver

    return ctypes.cast(handle, ctypes.c_void_p).value
