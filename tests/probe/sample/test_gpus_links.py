"""Tests that a GPU's links are counted, and that values which a device or pynvml lacks stay unknown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.probe.sample.gpus import MAX_LINKS, read_links


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Nvml:
    """A GPU with two links, the second of them down."""

    NVMLError, NVML_SUCCESS = NvmlError, 0
    NVML_FI_DEV_NVLINK_LINK_COUNT, NVML_FI_DEV_NVLINK_GET_STATE = 91, 165
    NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS = 161, 162, 215

    def __init__(self, **values: Any) -> None:
        counts = {"count": 2, "states": [1, 0], "replays": [5, 0], "recoveries": [1, 0], "events": [None, None], **values}
        numbers = {165: "states", 161: "replays", 162: "recoveries", 215: "events"}
        self.fields = {91: [counts["count"]], **{number: counts[name] for number, name in numbers.items()}}

    def nvmlDeviceGetFieldValues(self, _: object, fields: list[tuple[int, int]]) -> list[SimpleNamespace]:  # noqa: N802 NVML's name
        values = [self.fields[number][link] if link < len(self.fields[number]) else None for number, link in fields]
        return [SimpleNamespace(nvmlReturn=3 * (one is None), valueType=3, value=SimpleNamespace(ullVal=one or 0)) for one in values]

    def nvmlDeviceGetCurrPcieLinkWidth(self, _: object) -> int:  # noqa: N802 NVML's name
        return 16

    def nvmlDeviceGetPcieReplayCounter(self, _: object) -> int:  # noqa: N802 NVML's name
        raise NvmlError(3)


def nvlinks(nvml: Any) -> tuple[int | None, ...]:
    links = read_links(nvml, None)
    return links["nvlinks"], links["nvlinks_active"], links["nvlink_errors"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (2, 1, 6)),
        ({"count": 0}, (0, 0, None)),
        ({"count": None}, (None, None, None)),
        ({"states": [1, None]}, (2, None, 6)),
        ({"states": [2, 1]}, (2, 2, 6)),
        ({"replays": [None, None], "recoveries": [None, None]}, (2, 1, None)),
        ({"replays": [None, None], "recoveries": [None, None], "events": [4, 5]}, (2, 1, 9)),
        ({"events": [4, 5]}, (2, 1, 6)),
        ({"count": 10**6}, (10**6, None, 6)),
    ],
)
def test_links_and_their_errors_are_counted_and_a_field_that_a_generation_lacks_is_unknown_and_never_0(values, expected):
    assert nvlinks(Nvml(**values)) == expected


def test_an_older_driver_is_asked_link_by_link():
    nvml = Nvml(states=[None, None])
    nvml.nvmlDeviceGetNvLinkState = lambda _, link: 1 - link
    assert nvlinks(nvml) == (2, 1, 6)


def test_at_most_the_possible_number_of_links_is_read():
    nvml = Nvml(count=10**6, states=[1] * 100)
    assert nvlinks(nvml)[1] == MAX_LINKS


def test_functions_and_fields_that_an_old_pynvml_lacks_are_unknown():
    links = read_links(SimpleNamespace(NVMLError=NvmlError), None)
    assert set(links.values()) == {None}


def test_one_unknown_number_of_pcie_leaves_the_others():
    links = read_links(Nvml(), None)
    assert (links["pcie_width"], links["pcie_replays"], links["pcie_generation"]) == (16, None, None)
