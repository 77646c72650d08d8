"""What a GPU is by NVML's word, and what its driver has reported of it."""

from __future__ import annotations

from cockpit.model.value import Value


class GpuLinks(Value, frozen=True):
    """What connects a GPU with its host and its fellows; read once a minute."""

    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    """What GPU and slot can do together; an idle GPU goes below it to save power."""
    pcie_width: int | None = None
    """Lanes."""
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    """What had to be sent again, since the driver was loaded."""
    nvlinks: int | None = None
    """How many NVLinks it has; 0: it is of a kind without."""
    nvlinks_active: int | None = None
    nvlink_errors: int | None = None
    """Replays and recoveries of all NVLinks, since the driver was loaded."""


class Xid(Value, frozen=True):
    """An error of a GPU that the NVIDIA driver has reported."""

    code: int
    moment: float | None = None
    text: str = ""
    """The driver's line in the kernel's log; empty where NVML has told it."""


class Gpu(Value, frozen=True):
    """One GPU or one MIG device, as NVML sees it."""

    index: int
    """NVML's index; for a MIG device 1000 x (its GPU's index) + its own (Ray's convention, gpu_providers.py)."""
    uuid: str = ""
    name: str | None = None
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    power_default: float | None = None
    """Its power limit if nobody has set one."""
    temperature: float | None = None
    ecc: int | None = None
    """Uncorrected ECC errors since the driver was loaded."""
    fault: str | None = None
    """Why NVML can't say more of it: lost, fallen off the bus."""
    recovery: str | None = None
    """What NVML asks for to make it whole again (nvmlDeviceGpuRecoveryAction_t): `reset`, `reboot`, `drain and reset`; `None`: nothing."""
    remap: bool | None = None
    """Whether bad rows of its memory wait for a reset to be replaced."""
    slowed: tuple[str, ...] | None = None
    """What holds its clocks down now, of what is no good sign: `thermal`, `power brake`, `hardware`; empty for nothing."""
    clock: int | None = None
    """Megahertz of its processors (SM)."""
    clock_reasons: int | None = None
    """All that holds its clocks down now: bits of nvmlClocksEventReasons."""
    links: GpuLinks | None = None
    xids: tuple[Xid, ...] | None = None
    """Of the last day, the oldest first; where the kernel's log may not be read, only since the probe watches."""

    @property
    def label(self) -> str:
        """`3`, or `3.1` for MIG device 1 of GPU 3."""
        return f"{self.index // 1000}.{self.index % 1000}" if self.is_mig else str(self.index)

    @property
    def is_mig(self) -> bool:
        """Whether it is a MIG device, a part of a GPU."""
        return self.index >= 1000
