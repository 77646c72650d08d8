"""The most that a GPU draws, by its name: for nodes that no probe looks at, where Ray's agent tells of power and of no limit."""

from __future__ import annotations

import re
from functools import lru_cache

# What NVIDIA's data sheets and product briefs call maximum or thermal design power, under the names that NVML gives: briefs PB-11133-001
# (H100 PCIe), PB-10137-001 and PB-10577-001 (A100 PCIe), PB-08744-001 (V100 PCIe); data sheets of the others; B200 as in HGX servers.
# A limit that was set lower makes a GPU that works look no idler than it is: it still draws most of that.
_WATTS: tuple[tuple[frozenset[str], float], ...] = tuple(
    (frozenset(words.split()), watts)
    for words, watts in (
        ("B200", 1000), ("H200 NVL", 600), ("H200", 700), ("H100 PCIE", 350), ("H100 NVL", 400), ("H100 HBM3", 700), ("A100 SXM4", 400),
        ("A100 PCIE 80GB", 300), ("A100 PCIE 40GB", 250), ("L40S", 350), ("L40", 300), ("V100 SXM2", 300), ("V100 PCIE", 250),
    )
)  # fmt: skip


@lru_cache(maxsize=64)
def most_watts(name: str | None) -> float | None:
    """The first line all of whose words are in the name; `None` for others, and for parts of a GPU."""
    words = frozenset(re.split(r"[\s-]+", (name or "").upper()))
    return None if "MIG" in words else next((watts for all_, watts in _WATTS if all_ <= words), None)
