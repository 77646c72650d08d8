"""Xids, the errors that the NVIDIA driver reports of a GPU: its lines in the kernel's log, or where that may not be read NVML's events."""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, Iterable, Sequence, Tuple

Xid = Dict[str, Any]
Bus = Tuple[int, int, int]
"""PCI domain, bus and device."""
WINDOW_S = 86400.0
"""Seconds for which they are told: counters move days before a GPU fails, and a day is what somebody remembers."""
MAX_XIDS = 8
"""Of one GPU, the last ones."""
MARK = b"NVRM: Xid"
WAIT_MS = 1
"""For an event: 0 may be read as no limit, a millisecond is one."""
MOST_EVENTS = 64
"""In one look."""
MAX_LINE_CHARS = 300
"""Characters of a line."""
_LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{7,16})[^)]{0,20}\): (\d{1,4})\b")


def parse_line(text: str, moment: float) -> Tuple[Bus, Xid] | None:
    """The driver writes `NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name=python, GPU has fallen off the bus.`."""
    found = _LINE.search(text)
    bus = parse_bus(found[1]) if found else None
    if found is None or bus is None:
        return None
    return bus, {"code": int(found[2]), "moment": moment, "text": text.partition("\n")[0].strip()[:MAX_LINE_CHARS]}


def parse_bus(text: str) -> Bus | None:
    """`0000:1b:00` of the kernel, `00000000:1B:00.0` of NVML."""
    parts = text.partition(".")[0].split(":")
    try:
        domain, bus, device = (int(part, 16) for part in parts)
    except ValueError:
        return None
    return domain, bus, device


def newest(xids: Iterable[Xid], now: float) -> Sequence[Xid]:
    """The last ones of a day, the oldest first."""
    return sorted((xid for xid in xids if now - WINDOW_S <= xid["moment"]), key=lambda xid: float(xid["moment"]))[-MAX_XIDS:]


class XidEvents:
    """Those that come while it watches, by a GPU's index. Whatever NVML refuses, it is not asked again until it is started anew."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._events: Any = None
        self._refused = False
        self._found: Dict[int, list[Xid]] = {}
        self._indices: Dict[int | None, int] = {}
        """By the address of a handle: what is lost can't say its index any more, and just that is reported of it."""

    def read(self, nvml: Any, handles: Sequence[Any]) -> Dict[int, list[Xid]] | None:
        """`None` where NVML doesn't tell any."""
        if self._refused:
            return None
        try:
            self._events = self._events or self._register(nvml, handles)
            for _ in range(MOST_EVENTS):
                event = nvml.nvmlEventSetWait(self._events, WAIT_MS)
                xid = {"code": int(event.eventData), "moment": self._now(), "text": ""}
                index = self._index(nvml, event.device)
                self._found[index] = list(newest([*self._found.get(index, ()), xid], self._now()))
        except nvml.NVMLError as error:
            self._refused = error.value not in (nvml.NVML_ERROR_TIMEOUT, nvml.NVML_ERROR_GPU_IS_LOST)
        return None if self._refused else self._found

    def forget(self) -> None:
        """NVML is stopped, and its events with it; what they have told stays."""
        self._events, self._refused = None, False

    def _register(self, nvml: Any, handles: Sequence[Any]) -> Any:
        """Where one GPU can't tell any, none does: half of the truth would read as none."""
        events = nvml.nvmlEventSetCreate()
        for handle in handles:
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        self._indices = {_address(handle): nvml.nvmlDeviceGetIndex(handle) for handle in handles}
        return events

    def _index(self, nvml: Any, device: Any) -> int:
        try:
            return int(nvml.nvmlDeviceGetIndex(device))
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_GPU_IS_LOST or _address(device) not in self._indices:
                raise
            return self._indices[_address(device)]


def _address(handle: Any) -> int | None:
    import ctypes  # as pynvml does, once there is a driver

    return ctypes.cast(handle, ctypes.c_void_p).value
