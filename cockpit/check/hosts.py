"""Whether the hosts that a job would run on have what it needs beside GPUs: memory, /dev/shm, disk, open files, versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cockpit.budget import Budget, Line
from cockpit.check.groups import PlacedGroups
from cockpit.check.nodes import Site
from cockpit.check.result import share_of
from cockpit.config.thresholds import Limits
from cockpit.findings.memory_trend import kill_line, plausible_bytes
from cockpit.model import UNKNOWN_MACHINE, Disk, HostMemory, Machine
from cockpit.presets import Preset
from cockpit.text import join_first, plural, size

SHM = "/dev/shm"  # noqa: S108 where plasma lies, and what NCCL shares
MIN_SHM_BYTES = 1 << 30
"""Less of /dev/shm than this is docker's default (64 MiB), or near it; NCCL and data loaders fail with it."""
OFFLOADS = ("adam_offload", "enable_sleep", "param_offload", "optimizer_offload", "offload_policy")
"""Settings with which weights or an optimizer wait in host memory."""
OFF = ("false", "0", "none", "null")
THRESHOLD = "RAY_memory_usage_threshold"


class FreeAmount(msgspec.Struct, frozen=True):
    """How much of something a host has free, and how much it could ever have; `None` where that is not known."""

    name: str
    free: float | None
    most: float | None


def host_lines(placed: PlacedGroups, site: Site, preset: Preset, budget: Budget, limits: Limits) -> Iterator[Line]:
    """Everything beside GPUs, of the nodes that it would run on; of all there are, where that isn't known."""
    homes = [place.id for place in site.places if place.id in placed.homes] or [place.id for place in site.places]
    machines = [(site.title(home), site.machines.get(home, UNKNOWN_MACHINE)) for home in homes]
    yield from _memory(machines, placed, site, preset, budget, limits)
    yield from _shm(machines, preset)
    yield from _disk(machines, preset, limits)


def _memory(
    machines: Sequence[tuple[str, Machine]], placed: PlacedGroups, site: Site, preset: Preset, budget: Budget, limits: Limits
) -> Iterator[Line]:
    """Below the line at which Ray kills workers."""
    env = preset.ray.env if preset.ray and site.planned else {}
    rooms = [_below(name, machine.memory, env.get(THRESHOLD)) for name, machine in machines]
    need = preset.needs.host_memory_free
    if need is not None:
        yield _judge_need("host memory below Ray's kill line", "needs.host_memory_free", need, rooms, "stop what holds it")
        return
    near = [room for room in rooms if room.free is not None and room.most and room.free < (1 - limits.memory_near) * room.most]
    if near:
        yield Line("doubt", f"host memory is close to Ray's kill line: {_each(near)}", "stop what holds it")
    elif offload := next((key for key, value in budget.settings.items() if key.endswith(OFFLOADS) and value.lower() not in OFF), None):
        yield from _offload(offload, rooms, placed, site)


def _below(name: str, memory: HostMemory, threshold: str | None) -> FreeAmount:
    """`threshold`: that of a Ray that does not run yet."""
    line, used = kill_line(memory), plausible_bytes(memory.used)
    if line is None or used is None:
        return FreeAmount(name, None, None)
    share = share_of(threshold) if line.assumed else None
    most = line.at if share is None else share * (memory.total or 0)
    return FreeAmount(name, max(0.0, most - used), most)


def _offload(key: str, rooms: Sequence[FreeAmount], placed: PlacedGroups, site: Site) -> Iterator[Line]:
    """What leaves the GPUs needs as much of host memory."""
    tight = []
    for place in site.places:
        room = next((each for each in rooms if each.name == place.name), None)
        gpus = site.machines.get(place.id, UNKNOWN_MACHINE).gpus
        sizes = [gpu.memory_total for gpu in gpus or () if gpu.memory_total]
        most = placed.on(place.id, "GPU") * max(sizes, default=0)
        if room is not None and room.free is not None and room.free < most:
            tight.append(
                f"{place.name} has {size(room.free)} free below Ray's kill line, but this job's GPUs there have {size(most)} of memory"
            )
    if tight:
        yield Line("doubt", f"{key} moves GPU memory to host memory: {join_first(tight)}", f"turn {key} off, or use fewer GPUs per node")


def _shm(machines: Sequence[tuple[str, Machine]], preset: Preset) -> Iterator[Line]:
    rooms = [_space(name, machine.shm.used, machine.shm.total) for name, machine in machines]
    bigger = "give it a larger /dev/shm (docker: --shm-size, Kubernetes: an emptyDir with medium Memory)"
    need = preset.needs.shm_free
    if need is not None:
        yield _judge_need(SHM, "needs.shm_free", need, rooms, bigger)
        return
    if small := [room for room in rooms if room.most is not None and 0 < room.most < MIN_SHM_BYTES]:
        yield Line("doubt", f"{SHM} is too small for NCCL and data loaders: {_each(small)}", bigger)


def _disk(machines: Sequence[tuple[str, Machine]], preset: Preset, limits: Limits) -> Iterator[Line]:
    """Below the mark at which Ray makes no more objects that would have to be spilled."""
    rooms = [_of_disk(name, machine.disks, limits) for name, machine in machines]
    need = preset.needs.disk_free
    if need is not None:
        what = f"disk under Ray's temp dir below {limits.disk_full:.0%}"
        yield _judge_need(what, "needs.disk_free", need, rooms, "run `cockpit clean` to remove dead sessions")
        return
    least = 1 - limits.disk_filling / limits.disk_full
    if full := [room for room in rooms if room.free is not None and room.most and room.free < least * room.most]:
        mark = f"{limits.disk_full:.0%}, where Ray stops creating objects that may need to be spilled"
        yield Line(
            "doubt", f"the disk under Ray's temp dir is close to {mark}: {_each(full)}", "run `cockpit clean` to remove dead sessions"
        )


def _of_disk(name: str, disks: Sequence[Disk], limits: Limits) -> FreeAmount:
    """The fullest of the disks that Ray writes to: `/` only where nothing else is told."""
    listed = [disk for disk in disks if disk.path != "/"] or disks
    rooms = [_space(name, disk.used, disk.total, limits.disk_full) for disk in listed]
    return min(rooms, key=_least, default=FreeAmount(name, None, None))


def _space(name: str, used: float | None, total: float | None, mark: float = 1.0) -> FreeAmount:
    has = plausible_bytes(total)
    taken = plausible_bytes(used)
    most = mark * has if has else None
    return FreeAmount(name, None if most is None or taken is None else max(0.0, most - taken), most)


def _judge_need(what: str, key: str, need: int, rooms: Sequence[FreeAmount], help_: str) -> Line:
    """Against what the preset asks for: never, where no host could have it."""
    asked = f"{key} asks for {size(need)}"
    if rooms and all(room.most is not None and room.most < need for room in rooms):
        return Line("never", f"{what}: {asked}, but no host has that much: {_each(rooms)}", f"lower {key}, or {help_}")
    if short := [room for room in rooms if room.free is not None and room.free < need]:
        return Line("later", f"{what}: {asked}; {_each(short)}", help_)
    if blind := [room.name for room in rooms if room.free is None]:
        return Line("unknown", f"{what}: {asked}; free amount unknown on {join_first(blind)}")
    least = min((room.free for room in rooms if room.free is not None), default=None)
    return Line("fine", f"{what}: {asked}; at least {size(least)} free on {plural(len(rooms), 'host')}")


def _each(rooms: Sequence[FreeAmount]) -> str:
    return join_first([f"{room.name} has {size(room.free)} of {size(room.most)} free" for room in sorted(rooms, key=_least)])


def _least(room: FreeAmount) -> float:
    return float("inf") if room.free is None else room.free
