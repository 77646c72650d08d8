"""What remedies about GPU counts say to type is accepted by Ray's own code that counts GPUs at `ray start`, and ends the finding."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.findings.gpus import gpu_counts
from cockpit.model import Finding, Host, Quantity, RayProcess, Snapshot
from tests.findings.detection import detect
from tests.remedies.inventory import commands_in
from tests.world import NOW, gpu, node, snapshot

pytestmark = pytest.mark.slow  # ray takes seconds to import
DEVICES = "CUDA_VISIBLE_DEVICES"
THERE = 8
"""GPUs of the node."""


def ray_counts(monkeypatch: pytest.MonkeyPatch, num_gpus: int | None, visible: str | None, override: str | None = None) -> float:
    """How many GPUs Ray offers that is started so; raises `ValueError` where it refuses to start."""
    spec = pytest.importorskip("ray._private.resource_and_label_spec").ResourceAndLabelSpec
    nvidia = pytest.importorskip("ray._private.accelerators.nvidia_gpu").NvidiaGPUAcceleratorManager
    monkeypatch.setattr(nvidia, "get_current_node_num_accelerators", staticmethod(lambda: THERE))
    for name, value in ((DEVICES, visible), ("RAY_OVERRIDE_RESOURCES", override)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    made = spec(num_cpus=1, num_gpus=num_gpus, memory=1 << 30, object_store_memory=1 << 27, resources={}, labels={})
    made.resolve(is_head=False, node_ip_address="127.0.0.1")
    return float(made.num_gpus)


def world(offered: float, visible: str | None, *, readable: bool = True) -> Snapshot:
    """A node whose Ray offers so many GPUs."""
    gpus = tuple(gpu(index, uuid=f"GPU-{index}") for index in range(THERE))
    one = node(1, gpus=gpus, resources={"CPU": Quantity(0, 8), "GPU": Quantity(0, offered)}, probed=True)
    raylet = RayProcess("raylet", 5, node=one.id, visible=visible if readable else None, files=100 if readable else None)
    host = Host("node1", (one.ip,), NOW, gpus=gpus, nodes=(one.id or "",), rays=(raylet,))
    return snapshot(nodes=(one,), hosts={"node1": host}, actors=(), placement_groups=())


def found(snapshot: Snapshot) -> tuple[Finding, ...]:
    return detect(snapshot, detectors=(gpu_counts,))


def typed(finding: Finding) -> tuple[int | None, str | None]:
    """The number of GPUs and the devices that the remedy says."""
    assert finding.remedy
    said: dict[str, Any] = {name: value for name, _, value in (command.partition("=") for command in commands_in(finding.remedy.text))}
    return int(said["--num-gpus"]) if "--num-gpus" in said else None, said.get(DEVICES)


def test_ray_refuses_more_gpus_than_cuda_visible_devices_names(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match=r"Attempting to start raylet with 8 GPU, but CUDA_VISIBLE_DEVICES contains"):
        ray_counts(monkeypatch, 8, "1,2,4,5")


@pytest.mark.parametrize(
    ("offered", "visible", "code"),
    [(2, "1,2,4,5", "gpu-unused"), (4, None, "gpu-unused"), (2, "0,9", "gpu-visible"), (12, None, "gpu-count"), (3, "0,1", "gpu-count")],
)
def test_ray_started_as_the_remedy_says_is_no_finding(monkeypatch: pytest.MonkeyPatch, offered: float, visible: str | None, code: str):
    [finding] = found(world(offered, visible))
    assert finding.code == code
    gpus, devices = typed(finding)
    assert found(world(ray_counts(monkeypatch, gpus, devices), devices)) == ()


def test_where_the_environment_is_not_known_the_shell_that_was_cleared_is_enough(monkeypatch: pytest.MonkeyPatch):
    [finding] = found(world(4, "1,2,4,5", readable=False))
    assert finding.remedy
    assert "`unset CUDA_VISIBLE_DEVICES`" in finding.remedy.text
    gpus, devices = typed(finding)
    assert (gpus, devices) == (8, None)
    assert found(world(ray_counts(monkeypatch, gpus, None), None, readable=False)) == ()
