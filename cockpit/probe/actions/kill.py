"""Ends processes: those that Ray left over, or any that a person named.

The request adds: `named` ([[pid, ticks | null], …], or `null` for all left-over processes), `any` (true: a named process may be of any
kind, because a person has seen it), `pids` (true: processes were named by pid, so root may end another user's), `force` (SIGKILL at once),
`only` ("TERM": no SIGKILL follows), `grace` (seconds between the two signals). The answer to `plan` without `named` adds `unknown`: the
reasons, as sentences, why there may be more left-over processes.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, Iterable, Mapping, Tuple

from .. import trust
from ..sample.gpus import GpuReading
from ..sample.process_kinds import LEFT_OVER_KINDS
from ..sample.processes import Identity, ScannedProcess, lives
from .host_state import HostScanner, HostState, OnProgress, Request, Target, grace_of
from .signals import Ending, ProcessHandle, ProtectedError, end, find_own_ancestry, open_handle

GRACE_S = 10.0
FREED_TIMEOUT_S = 3.0
"""Seconds in which a driver frees the memory of a process that has ended."""
MAX_REFUSED = 1000
"""Refused targets in one answer; the sentence about unclassified processes counts all of them."""
NOTABLE_BYTES = 512 << 20
"""GPU memory in use without a process is reported from this size on: a driver keeps some for itself."""


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Dict[str, Any]:  # noqa: ARG001 the arguments of each stage
    """Finds all left-over processes or the named ones. Processes that only may be left over are refused, with the reason."""
    state = scanner.scan()
    targets: list[Target] = []
    refused: list[Target] = []
    for target in _find_named(state, request["named"]) if request.get("named") is not None else _find_left_over(state):
        why_not = target.pop("reason", None) or why_refused(state, request, target)
        (refused if why_not else targets).append({**target, "reason": why_not} if why_not else target)
    if request.get("named") is None:
        return {"targets": targets, "refused": refused[:MAX_REFUSED], "unknown": _describe_unknown(state, refused)}
    return {"targets": targets, "refused": refused, "notes": state.doubts}


def _describe_unknown(state: HostState, refused: Iterable[Target]) -> list[str]:
    """The reasons why there may be more left-over processes than those found."""
    unknown = [target for target in refused if target["kind"] == "unknown"]
    pids = [int(target["pid"]) for target in unknown]
    hidden = [pid for pid in pids if pid not in state.table or not state.table[pid].origin.readable]
    holders = all(target["gpus"] for target in unknown)
    what = ("process holds GPU memory and", "processes hold GPU memory and") if holders else ("process", "processes")
    number = f"{len(pids)} {what[len(pids) != 1]} can't be classified"
    how = " without root: run `sudo cockpit kill-orphans` there" if hidden and os.geteuid() != trust.ROOT else ": the reasons are below"
    return [*state.doubts, *([number + how] if pids else [])]


def _find_left_over(state: HostState) -> Iterable[Target]:
    """The left-over processes, deepest first, and unknown ones for which there is some sign that they may be left over."""
    for pid in state.sort_deepest_first(pid for pid in state.verdicts if pid in state.table):
        verdict, process = state.verdicts[pid], state.table[pid]
        elsewhere = verdict.from_ray and len(process.details.pids) > 1
        suspect = pid in state.reading.holders or verdict.undecided is not None or not process.origin.readable or elsewhere
        if verdict.kind in LEFT_OVER_KINDS or (verdict.kind == "unknown" and suspect and process.alive):
            yield state.target(pid)
    for pid in sorted(state.reading.holders.keys() - state.table.keys()):
        yield state.target(pid, reason="; ".join(state.verdicts[pid].why))


def _find_named(state: HostState, named: Iterable[Tuple[Any, Any]]) -> Iterable[Target]:
    """The named processes and their left-over descendants, deepest first."""
    found: Dict[int, Target] = {}
    for pid, ticks in ((int(pid), ticks) for pid, ticks in named):
        process = state.table.get(pid)
        if process is None or not process.alive or ticks not in (None, process.ticks):
            reason = f"process {pid} has ended" + ("" if process is None else " since")
            found[pid] = {"what": "process", "pid": pid, "ticks": ticks, "reason": reason}
            continue
        below = [
            child for child in state.find_descendants(pid) if child in state.verdicts and state.verdicts[child].kind in LEFT_OVER_KINDS
        ]
        found.update({one: state.target(one) for one in (pid, *below)})
    for pid in state.sort_deepest_first(found):
        yield found[pid]


def why_refused(state: HostState, request: Request, target: Target) -> str | None:
    """The reason for not ending this process, or `None`."""
    pid, kind = int(target["pid"]), target["kind"]
    if not state.table[pid].alive:
        return "it is a zombie: it has ended, and its parent has not collected it"
    if pid in find_own_ancestry():
        return "cockpit itself runs in it"
    if kind not in LEFT_OVER_KINDS and not request.get("any"):
        words = {"ray": "a part of a live Ray", "unknown": "of unknown kind", "foreign": "a foreign process"}
        what = words.get(kind, f"a {kind} of a live Ray")
        return f"it is {what}; kill-orphans kills only orphan and stale processes: {'; '.join(target['why'])}"
    if pid in state.carriers and not request.get("any"):
        part = state.carriers[pid]
        return f"a part of a live Ray runs below it: {state.verdicts[part].kind} {part}"
    uid, me = state.table[pid].details.uid, os.geteuid()
    if uid == me:
        return None
    whose = "its owner is unknown" if uid is None else f"it belongs to {target['user']}"
    if me != 0:
        return f"{whose}: only root may kill another user's process"
    if not (request.get("pids") or request.get("any")):
        return f"{whose}: to kill it, put the cursor on it, or name it by --pid"
    return None


def do(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Dict[str, Any]:
    """Ends exactly the planned processes that have not changed since the plan."""
    state = scanner.scan()
    answer: Dict[str, Any] = {"done": [], "refused": [], "failed": [], "notes": state.doubts}
    planned: Dict[Identity, Target] = {(int(target["pid"]), int(target["ticks"])): target for target in request["targets"]}
    pids = {pid for pid, _ in planned}
    turns = {pid: turn for turn, pid in enumerate(state.sort_deepest_first(pids))}
    held: Dict[Identity, Tuple[Target, ProcessHandle]] = {}
    for identity in sorted(planned, key=lambda one: turns[one[0]]):
        handle = hold_target(state, request, planned[identity], answer)
        if handle is not None:
            held[identity] = state.target(handle.pid), handle
    endings = end_held(request, [handle for _, handle in held.values()], on_progress)
    for identity, (target, handle) in held.items():
        ending = endings[identity]
        answer["done" if ending.gone else "failed"].append({**target, "outcome" if ending.gone else "error": ending.text})
        handle.release()
    answer["freed"] = measure_freed(state, scanner, [target for target, _ in held.values()], answer["notes"])

    # Children that the processes started between the plan and the signals.
    ended = {pid for pid, _ in held}
    left = (pid for pid, verdict in state.verdicts.items() if verdict.kind in LEFT_OVER_KINDS and pid in state.table and pid not in pids)
    late = ", ".join(map(str, sorted(pid for pid in left if state.table[pid].parent in ended)))
    if late:
        answer["notes"].append(f"the killed processes started pid {late} after the plan was made; not touched: repeat the action")
    answer["failed"] += _find_respawned(state, scanner.scan(0.0), held) if held else []
    return answer


def _find_respawned(before: HostState, after: HostState, held: Iterable[Identity]) -> list[Target]:
    """Processes that the ended ones started during the ending: a supervisor starts its child again until it has ended itself."""
    ended = [before.table[pid] for pid, _ in held]
    led = {process.leader for process in ended} | {process.group for process in ended}
    inherited = {_inherited_signs(process) for process in ended if process.origin.from_ray}
    old = {process.identity for process in before.table.values()}
    left = (after.table[pid] for pid, verdict in after.verdicts.items() if verdict.kind in LEFT_OVER_KINDS and pid in after.table)
    new = [one for one in left if one.alive and one.identity not in old]
    respawned = [one.pid for one in new if one.leader in led or one.group in led or _inherited_signs(one) in inherited]
    return [after.target(pid, error="it started while the others were being killed: repeat the action") for pid in respawned]


def _inherited_signs(process: ScannedProcess) -> Tuple[Any, ...]:
    """The signs of Ray that children inherit, even if they start a session of their own."""
    return process.origin.raylet, process.origin.worker, process.origin.submission


def hold_target(state: HostState, request: Request, planned: Target, answer: Dict[str, Any]) -> ProcessHandle | None:
    """Holds the planned process if it is still the same and may still be ended; otherwise adds it to the refused ones."""
    process = state.find_same(planned)
    try:
        held = open_handle(process.pid, process.ticks) if process is not None else None
    except ProtectedError as error:
        answer["refused"].append({**planned, "reason": str(error)})
        return None
    if process is None or held is None:
        reused = int(planned["pid"]) in state.table and state.table[int(planned["pid"])].ticks != planned["ticks"]
        answer["refused"].append(
            {**planned, "reason": "it has ended; its pid now belongs to another process" if reused else "it has ended since"}
        )
        return None
    now = state.target(process.pid)
    changed = request.get("any") and now["kind"] != planned.get("kind") and now["kind"] not in LEFT_OVER_KINDS
    why_not = f"it has changed from {planned.get('kind')} to {now['kind']}" if changed else why_refused(state, request, now)
    if why_not:
        answer["refused"].append({**now, "reason": why_not})
        held.release()
        return None
    return held


def end_held(request: Request, handles: list[ProcessHandle], on_progress: OnProgress) -> Mapping[Identity, Ending]:
    """SIGTERM, then SIGKILL after the grace, or the signals that the request wants."""
    first = signal.SIGKILL if request.get("force") else signal.SIGTERM
    last = None if request.get("only") == "TERM" else signal.SIGKILL
    return end(handles, grace_of(request, GRACE_S), first, last, on_progress) if handles else {}


def measure_freed(state: HostState, scanner: HostScanner, targets: Iterable[Target], notes: list[str]) -> Dict[str, Any]:
    """GPU memory that NVML no longer counts for the ended targets, in bytes. Notes report memory that is in use without a process."""
    gone = [int(target["pid"]) for target in targets if not lives(int(target["pid"]), int(target["ticks"]))]
    held = {pid: state.reading.holders[pid] for pid in gone if pid in state.reading.holders}
    if not held:
        return {"gpu": None if state.fault or state.reading.gpus is None else 0}
    until = time.monotonic() + FREED_TIMEOUT_S
    while True:
        after = scanner.reading(FREED_TIMEOUT_S)
        if after is None:
            notes.append("NVML no longer answers: whether the GPU memory is free is unknown")
            return {"gpu": None}
        unfreed = _explain_unfreed(state.reading, after, held)
        if (not unfreed and held.keys().isdisjoint(after.holders)) or time.monotonic() >= until:
            break
        time.sleep(0.1)
    notes += unfreed
    freed = [memory for pid, holds in held.items() for memory in holds.values() if pid not in after.holders]
    known = [memory for memory in freed if memory is not None]
    return {"gpu": sum(known) if len(known) == len(freed) else None}


def _explain_unfreed(before: GpuReading, after: GpuReading, held: Mapping[int, Mapping[int, Any]]) -> list[str]:
    """Writes a sentence about each of these GPUs that still has memory in use, unless NVML hides some of its holders."""
    used: Dict[int, Any] = {gpu["index"]: gpu.get("memory_used") for gpu in after.gpus or ()}
    was: Dict[int, Any] = {gpu["index"]: gpu.get("memory_used") for gpu in before.gpus or ()}
    found = []
    for index in sorted({index for holds in held.values() for index in holds}):
        freed = [holds[index] for holds in held.values() if index in holds]
        others: list[Any] = [holds[index] for pid, holds in after.holders.items() if index in holds and pid not in held]
        if None in (*freed, *others, used.get(index), was.get(index)):
            continue
        lost = used[index] - sum(others)
        if sum(freed) > NOTABLE_BYTES and lost > NOTABLE_BYTES and was[index] - used[index] < sum(freed) // 2:
            found.append(
                f"GPU {index} still has {lost / (1 << 30):.1f} GiB in use that no process here holds: a process in another container does, "
                "or the driver itself, which only a reset of the GPU (nvidia-smi --gpu-reset) or a reboot fixes"
            )
    return found
