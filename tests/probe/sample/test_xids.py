"""Xids: the driver's lines in the kernel's log, and events if that may not be read."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.probe.sample.gpus import GpuReading, bus_of_lost
from cockpit.probe.sample.host_sample import with_xids
from cockpit.probe.sample.kernel_log import Kernel, parse_xid
from cockpit.probe.sample.xids import MAX_XIDS, WINDOW_S, XidEvents, newest, parse_bus, parse_line

LOST = "NVRM: Xid (PCI:0000:b1:00): 79, pid=1234, name=python, GPU has fallen off the bus."
BUS = (0, 0xB1, 0)


@pytest.mark.parametrize(
    ("line", "bus", "code"),
    [
        (LOST, BUS, 79),
        ("NVRM: Xid (PCI:0000:1b:00): 31, pid=2, Ch 00000008, MMU Fault", (0, 0x1B, 0), 31),
        ("NVRM: Xid (PCI:0009:01:00.0): 145, RLW_REMAP Nonfatal", (9, 1, 0), 145),
        ("NVRM: Xid (PCI:00000008:01:00 GPU-I:05): 94, Contained memory error", (8, 1, 0), 94),
        ("NVRM: Xid (PCI:zzzz:01:00): 31, x", None, None),
        ("nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 20034, Fatal", None, None),
        ("NVRM: GPU at PCI:0000:b1:00: GPU-1", None, None),
    ],
)
def test_a_line_names_the_bus_and_the_code(line, bus, code):
    found = parse_line(line, 5.0)
    assert (found and (found[0], found[1]["code"])) == (bus and (bus, code))


def test_nvml_and_the_kernel_write_a_bus_differently():
    assert parse_bus("00000000:B1:00.0") == parse_bus("0000:b1:00") == BUS
    assert parse_bus("") is parse_bus("b1") is parse_bus("0:0:0:0") is None


@given(st.text(max_size=200))
def test_any_text_can_be_parsed(text):
    parse_line(text, 0.0)
    parse_bus(text)
    parse_xid(text, 0.0)


def record(line: str, moment: float, booted: float) -> str:
    return f"3,100,{int((moment - booted) * 1e6)},-;{line}\n SUBSYSTEM=pci\n"


def test_a_record_of_the_log_has_its_moment_and_must_begin_with_the_driver_s_name():
    found = parse_xid(record(LOST, 1500.0, 1000.0), 1000.0)
    assert found == (BUS, {"code": 79, "moment": 1500.0, "text": LOST})
    assert parse_xid(record("mine: " + LOST, 1500.0, 1000.0), 1000.0) is None
    assert parse_xid(LOST, 1000.0) is None


def test_the_xids_of_a_day_are_kept_by_bus_and_an_unreadable_log_reports_none(tmp_path):
    log, now = tmp_path / "kmsg", time.time()
    booted = now - time.clock_gettime(time.CLOCK_MONOTONIC)
    log.write_text(record(LOST, now - 60, booted))
    kernel = Kernel(str(log), counters=())
    assert kernel.xids is None
    assert kernel.read() == []
    assert [xid["code"] for xid in kernel.xids[BUS]] == [79]
    log.write_text("")
    kernel.read()
    assert len(kernel.xids[BUS]) == 1, "reported xids stay"
    unreadable = Kernel(str(tmp_path / "absent"), ())
    unreadable.read()
    assert (unreadable.is_readable, unreadable.xids) == (False, None)


def test_the_last_ones_of_a_day_are_kept():
    now = 1_000_000.0
    xids = [{"code": code, "moment": now - code} for code in range(20)] + [{"code": 99, "moment": now - WINDOW_S - 1}]
    assert [xid["code"] for xid in newest(xids, now)] == list(range(MAX_XIDS - 1, -1, -1))


class RefusedError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


def nvml(*told: tuple[int, int], end: int = 10, register: int = 0, lost: int | None = None) -> Any:
    """An NVML with these events, each with a GPU and a code."""
    left = list(told)

    def wait(_: object, limit: int) -> Any:
        assert limit == 1, "it must not wait"
        if not left:
            raise RefusedError(end)
        index, code = left.pop(0)
        return SimpleNamespace(device=index, eventData=code)

    def registered(*_: object) -> None:
        if register:
            raise RefusedError(register)

    def index(device: int) -> int:
        if device == lost and len(left) < len(told):
            raise RefusedError(15)
        return device

    return SimpleNamespace(
        NVMLError=RefusedError, NVML_ERROR_TIMEOUT=10, NVML_ERROR_GPU_IS_LOST=15, nvmlEventTypeXidCriticalError=8,
        nvmlEventSetCreate=object, nvmlDeviceRegisterEvents=registered, nvmlEventSetWait=wait, nvmlDeviceGetIndex=index,
    )  # fmt: skip


def test_events_are_collected_and_kept():
    events = XidEvents(lambda: 5.0)
    assert events.read(nvml(), [0, 1]) == {}
    assert events.read(nvml((1, 79), (1, 45)), [0, 1]) == {1: [{"code": code, "moment": 5.0, "text": ""} for code in (79, 45)]}
    assert [xid["code"] for xid in events.read(nvml(end=15), [0, 1])[1]] == [79, 45]
    events.forget()
    assert [xid["code"] for xid in events.read(nvml((1, 13)), [0, 1])[1]] == [79, 45, 13]


def test_a_gpu_that_is_lost_with_its_xid_has_that_xid_and_one_of_an_unknown_gpu_is_dropped():
    told = XidEvents(lambda: 5.0).read(nvml((1, 79), (0, 45), lost=1), [0, 1])
    assert {index: [xid["code"] for xid in xids] for index, xids in told.items()} == {1: [79], 0: [45]}
    assert XidEvents(lambda: 5.0).read(nvml((1, 79), lost=1), [0]) == {}


def test_a_driver_that_refuses_is_not_asked_again():
    events = XidEvents()
    assert events.read(nvml(register=3), [0]) is None
    assert events.read(nvml((0, 79)), [0]) is None
    events.forget()
    assert events.read(nvml((0, 79)), [0]) is not None


def test_a_flood_of_events_delays_nothing():
    assert len(XidEvents().read(nvml(*[(0, 13)] * 1000), [0])[0]) == MAX_XIDS


@pytest.mark.parametrize(
    ("known", "there", "found"),
    [
        ((0, 1, 3), (0, 1, 2, 3), {2: (0, 2, 0)}),
        ((0, 1), (0, 1, 2, 3), {}),
        ((0, 1, 3), (0, 1, 2, 3, 4), {}),
        ((0, 1, 2, 3), (0, 1, 2, 3, 4), {}),
        ((0, 1, 3), (), {}),
    ],
)
def test_a_single_lost_gpu_has_the_remaining_bus(known, there, found):
    buses = [(0, bus, 0) for bus in range(5)]
    assert bus_of_lost({index: buses[index] for index in known}, 4, [buses[bus] for bus in there]) == found


def test_gpus_have_the_xids_of_the_log_or_else_of_the_events():
    gpus = [{"index": 0}, {"index": 1000}, {"index": 2}]
    buses = {0: BUS, 1: (0, 2, 0)}
    told = {"code": 79, "moment": 1.0, "text": LOST}
    logged = with_xids(GpuReading(gpus, {}, None, buses, None), {BUS: [told]})
    assert [gpu["xids"] for gpu in logged] == [[told], (), None]
    events = with_xids(GpuReading(gpus, {}, None, buses, {1: [told]}), None)
    assert [gpu["xids"] for gpu in events] == [(), [told], ()]
    assert [gpu["xids"] for gpu in with_xids(GpuReading(gpus, {}, None, buses, None), None)] == [None] * 3
    assert with_xids(GpuReading(), None) is None
