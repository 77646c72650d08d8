"""Checks the hosts that a job would run on for memory, /dev/shm and disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cockpit.budget import Budget, Line
from cockpit.check.groups import PlacedGroups
from cockpit.check.nodes import Site
from cockpit.check.result import share_of
from cockpit.config.thresholds import Limits
from cockpit.findings.memory_trend import charge_left, kill_line, plausible_bytes
from cockpit.model import UNKNOWN_MACHINE, Machine
from cockpit.presets import Preset
from cockpit.text import join_first, plural, size

SHM = "/dev/shm"  # noqa: S108 Ray's object store and NCCL use it
MIN_SHM_BYTES = 1 << 30
"""A smaller /dev/shm is docker's default (64 MiB), or near it; NCCL and data loaders fail with it."""
OFFLOADS = ("adam_offload", "enable_sleep", "param_offload", "optimizer_offload", "offload_policy")
"""Settings that keep weights or the optimizer in host memory for a time."""
OFF = ("false", "0", "none", "null")
THRESHOLD = "RAY_memory_usage_threshold"


class FreeAmount(msgspec.Struct, frozen=True):
    """The bytes that a host has free, and the most that it could have free; `None` is unknown."""

    name: str
    free: float | None
    most: float | None


def host_lines(placed: PlacedGroups, site: Site, preset: Preset, budget: Budget, limits: Limits) -> Iterator[Line]:
    """Lines about the nodes that the job would run on; about all nodes if the job's nodes are unknown."""
    node_ids = [node.id for node in site.placement_nodes if node.id in placed.amounts_by_node] or [node.id for node in site.placement_nodes]
    machines = [(site.title(node_id), site.machines.get(node_id, UNKNOWN_MACHINE)) for node_id in node_ids]
    yield from _memory_lines(machines, placed, site, preset, budget, limits)
    yield from _shm_lines(machines, preset)
    yield from _disk_lines(machines, preset, limits)


def _memory_lines(
    machines: Sequence[tuple[str, Machine]], placed: PlacedGroups, site: Site, preset: Preset, budget: Budget, limits: Limits
) -> Iterator[Line]:
    """Lines about the memory that is free below the usage at which Ray kills workers."""
    threshold = share_of(preset.ray.env.get(THRESHOLD)) if preset.ray and site.planned else None
    amounts = []
    for name, machine in machines:
        line, used = kill_line(machine.memory), plausible_bytes(machine.memory.used)
        if line is None or used is None:
            amounts.append(FreeAmount(name, None, None))
        else:
            # The preset's threshold holds for a Ray that does not run yet, so that its line is only assumed.
            most = threshold * (machine.memory.total or 0) if line.assumed and threshold is not None else line.at
            left, left_to_charge = most - used, charge_left(machine.memory)
            left = left if left_to_charge is None else min(left, left_to_charge)
            amounts.append(FreeAmount(name, max(0.0, left), most))
    need = preset.needs.host_memory_free
    if need is not None:
        yield _judge_need("host memory below Ray's kill line", "needs.host_memory_free", need, amounts, "stop what holds it")
        return
    near = [each for each in amounts if each.free is not None and each.most and each.free < (1 - limits.memory_near) * each.most]
    if near:
        yield Line("doubt", f"host memory is close to Ray's kill line: {_list_amounts(near)}", "stop what holds it")
        return

    # The memory of the job's GPUs may not fit into the host memory, if the job moves it there.
    switched_on = [key for key, value in budget.settings.items() if key.endswith(OFFLOADS) and value.lower() not in OFF]
    tight = []
    for node in site.placement_nodes if switched_on else ():
        amount = next((each for each in amounts if each.name == node.name), None)
        gpus = site.machines.get(node.id, UNKNOWN_MACHINE).gpus
        sizes = [gpu.memory_total for gpu in gpus or () if gpu.memory_total]
        most = placed.amount_on(node.id, "GPU") * max(sizes, default=0)
        if amount is not None and amount.free is not None and amount.free < most:
            free = size(amount.free)
            tight.append(f"{node.name} has {free} free below Ray's kill line, but this job's GPUs there have {size(most)} of memory")
    if tight:
        key = switched_on[0]
        yield Line(
            "doubt",
            f"{key} moves GPU memory to host memory: {join_first(tight)}",
            "stop what else uses host memory there, or use nodes with more of it",
        )


def _shm_lines(machines: Sequence[tuple[str, Machine]], preset: Preset) -> Iterator[Line]:
    amounts = [_space(name, machine.shm.used, machine.shm.total) for name, machine in machines]
    bigger = "give it a larger /dev/shm (docker: --shm-size, Kubernetes: an emptyDir with medium Memory)"
    need = preset.needs.shm_free
    if need is not None:
        yield _judge_need(SHM, "needs.shm_free", need, amounts, bigger)
        return
    if small := [each for each in amounts if each.most is not None and 0 < each.most < MIN_SHM_BYTES]:
        yield Line("doubt", f"{SHM} is too small for NCCL and data loaders: {_list_amounts(small)}", bigger)


def _disk_lines(machines: Sequence[tuple[str, Machine]], preset: Preset, limits: Limits) -> Iterator[Line]:
    """Lines about the disk space that is free below the usage at which Ray no longer creates objects that it may have to spill."""
    amounts = []
    for name, machine in machines:
        # The fullest disk that Ray writes to; `/` counts only if no other disk is known.
        disks = [disk for disk in machine.disks if disk.path != "/"] or list(machine.disks)
        spaces = [_space(name, disk.used, disk.total, limits.disk_full) for disk in disks]
        amounts.append(min(spaces, key=_free_or_infinite, default=FreeAmount(name, None, None)))
    need, clean = preset.needs.disk_free, "run `cockpit clean` to remove dead sessions"
    if need is not None:
        yield _judge_need(f"disk under Ray's temp dir below {limits.disk_full:.0%}", "needs.disk_free", need, amounts, clean)
        return
    least = 1 - limits.disk_filling / limits.disk_full
    if full := [each for each in amounts if each.free is not None and each.most and each.free < least * each.most]:
        mark = f"{limits.disk_full:.0%}, where Ray stops creating objects that may need to be spilled"
        yield Line("doubt", f"the disk under Ray's temp dir is close to {mark}: {_list_amounts(full)}", clean)


def _space(name: str, used: float | None, total: float | None, mark: float = 1.0) -> FreeAmount:
    """Return the bytes that are free below `mark`, a share of the total."""
    has = plausible_bytes(total)
    taken = plausible_bytes(used)
    most = mark * has if has else None
    return FreeAmount(name, None if most is None or taken is None else max(0.0, most - taken), most)


def _judge_need(what: str, key: str, need: int, amounts: Sequence[FreeAmount], help_: str) -> Line:
    """Compare the hosts with a need of the preset. The level is never if no host could have that much."""
    asked = f"{key} asks for {size(need)}"
    if amounts and all(each.most is not None and each.most < need for each in amounts):
        return Line("never", f"{what}: {asked}, but no host has that much: {_list_amounts(amounts)}", f"lower {key}, or {help_}")
    if short := [each for each in amounts if each.free is not None and each.free < need]:
        return Line("later", f"{what}: {asked}; {_list_amounts(short)}", help_)
    if unknown := [each.name for each in amounts if each.free is None]:
        return Line("unknown", f"{what}: {asked}; free amount unknown on {join_first(unknown)}")
    least = min((each.free for each in amounts if each.free is not None), default=None)
    return Line("fine", f"{what}: {asked}; at least {size(least)} free on {plural(len(amounts), 'host')}")


def _list_amounts(amounts: Sequence[FreeAmount]) -> str:
    in_order = sorted(amounts, key=_free_or_infinite)
    return join_first([f"{each.name} has {size(each.free)} of {size(each.most)} free" for each in in_order])


def _free_or_infinite(amount: FreeAmount) -> float:
    return float("inf") if amount.free is None else amount.free
