"""Defines a GPU as NVML and its driver report it."""

from __future__ import annotations

from cockpit.model.value import Value


class GpuLinks(Value, frozen=True):
    """The links from a GPU to its host and to other GPUs; read once a minute."""

    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    """The most that GPU and slot support together; an idle GPU uses less, to save power."""
    pcie_width: int | None = None
    """Lanes."""
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    """Packets that were sent again since the driver was loaded."""
    nvlinks: int | None = None
    """0: this model has no NVLinks."""
    nvlinks_active: int | None = None
    nvlink_errors: int | None = None
    """Replays and recoveries of all NVLinks, since the driver was loaded."""


class Xid(Value, frozen=True):
    """An error of a GPU, reported by the NVIDIA driver."""

    code: int
    moment: float | None = None
    text: str = ""
    """The driver's line in the kernel's log; empty if NVML reported it."""


class Gpu(Value, frozen=True):
    """One GPU or one MIG device, as NVML sees it."""

    index: int
    """NVML's index; for a MIG device 1000 × its GPU's index + its own (Ray's convention, gpu_providers.py)."""
    uuid: str = ""
    name: str | None = None
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    power_default: float | None = None
    """The power limit unless a user changes it."""
    temperature: float | None = None
    ecc: int | None = None
    """Uncorrected ECC errors since the driver was loaded."""
    fault: str | None = None
    """Why NVML can't report more: lost, fallen off the bus."""
    recovery: str | None = None
    """The recovery that NVML asks for (nvmlDeviceGpuRecoveryAction_t): `reset`, `reboot`, `drain and reset`; `None`: none."""
    remap: bool | None = None
    """Whether the replacement of bad memory rows waits for a reset."""
    slowed: tuple[str, ...] | None = None
    """Bad reasons why its clocks are low now: `thermal`, `power brake`, `hardware`."""
    clock: int | None = None
    """Megahertz (SM)."""
    clock_reasons: int | None = None
    """All reasons why its clocks are low now: bits of nvmlClocksEventReasons."""
    links: GpuLinks | None = None
    xids: tuple[Xid, ...] | None = None
    """Of the last day, the oldest first. If the kernel's log can't be read: since the probe started."""

    @property
    def label(self) -> str:
        """The name that people use: `3`, or `3.1` for MIG device 1 of GPU 3."""
        return f"{self.index // 1000}.{self.index % 1000}" if self.is_mig else str(self.index)

    @property
    def is_mig(self) -> bool:
        """Whether it is a MIG device, a part of a GPU."""
        return self.index >= 1000
