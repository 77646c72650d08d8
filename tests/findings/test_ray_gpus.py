"""The GPUs that a raylet may use, and cases in which they are unknown."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.findings.ray_gpus import find_not_given
from cockpit.model import Gpu, Host, Quantity, RayProcess
from tests.world import NOW, gpu, node


def not_given(total: float | None, visible: str | None, *, there: int = 8, rays: tuple[RayProcess, ...] | None = None, **more: Any) -> Any:
    """The indices of GPUs that the raylet was not given; `None`: unknown."""
    gpus = tuple(gpu(index, uuid=f"GPU-a{index}") for index in range(there))
    each = node(1, **{"gpus": gpus, "resources": {"CPU": Quantity(0, 8), "GPU": Quantity(0, total)}, **more})
    raylet = RayProcess("raylet", 5, node=each.id, visible=visible, files=100)
    found = find_not_given(each, each.agent.gpus, Host("node1", ("10.0.0.1",), NOW, gpus=gpus, rays=(raylet,) if rays is None else rays))
    return None if found is None else [one.index for one in found]


@pytest.mark.parametrize(
    ("total", "visible", "expected"),
    [
        (4, "1,2,4,5", [0, 3, 6, 7]),
        (2, "1,2,4,5", [0, 3, 4, 5, 6, 7]),
        (2, "GPU-a0,GPU-a5", [1, 2, 3, 4, 6, 7]),
        (0, "", [0, 1, 2, 3, 4, 5, 6, 7]),
        (6, None, [6, 7]),
        (8, None, []),
        (9, None, []),
    ],
)
def test_the_first_gpus_of_cuda_visible_devices_are_given(total: float, visible: str | None, expected: list[int]):
    assert not_given(total, visible) == expected


def test_uncertain_gpus_are_unknown():
    assert not_given(None, None) is None
    assert not_given(4, None, rays=()) is None, "no probe sees its raylet"
    assert not_given(4, None, rays=(RayProcess("raylet", 5, node=f"{1:056x}"),)) is None, "its environment can't be read"
    two = (RayProcess("raylet", 5, node=f"{1:056x}", files=1), RayProcess("raylet", 6, node=f"{2:056x}", files=1))
    assert not_given(4, None, rays=two) is None, "two raylets share the host"
    assert not_given(4, None, state="DEAD") is None
    assert not_given(4, None, id=None) is None
    assert not_given(4, None, resources={}) is None
    assert not_given(4, None, gpus=None) is None
    assert not_given(1, None, gpus=tuple(Gpu(index) for index in range(1000, 1007))) is None, "the user chooses how Ray counts MIG devices"
    for odd in (-1, float("nan"), float("inf"), 1e300):
        assert not_given(odd, None) is None
