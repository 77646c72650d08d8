"""What connects a GPU with its host and its fellows, PCIe and NVLink, with the errors of both, as NVML tells it."""

from __future__ import annotations

from typing import Any, Dict, Tuple

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


def read_links(nvml: Any, handle: Any) -> Links:
    """All of it in some seven calls; what device, driver or pynvml don't know is `None`."""
    return {**{name: call(nvml, function, handle) for name, function in _PCIE.items()}, **_read_nvlinks(nvml, handle)}


def call(nvml: Any, function: str, *words: Any) -> Any:
    """`None` where the device, the driver or this pynvml doesn't know it."""
    try:
        return getattr(nvml, function)(*words)
    except (nvml.NVMLError, AttributeError, TypeError):
        return None


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
