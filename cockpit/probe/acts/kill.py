"""Ends processes: those that Ray has left over, or any that a person has named.

The request adds: `named` ([[pid, ticks | null], …], or `null` for every left-over one), `any` (true: a named one may be of any kind; a
person has seen what it is), `pids` (true: they were named by pid, so that root may end another user's), `force` (SIGKILL at once),
`only` ("TERM": no SIGKILL follows), `grace` (seconds between the two). The answer to `plan` without `named` adds
`unknown`: why there may be more that is left over, in sentences.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Container, Dict, Iterable, Mapping, Tuple

from .. import trust
from ..look.gpus import GpuReading
from ..look.kinds import LEFT_OVER_KINDS
from ..look.processes import Identity, ScannedProcess, lives
from .host_state import HostScanner, HostState, Request, Target, Tell, grace_of
from .signals import Ending, ProcessHandle, ProtectedError, end, find_own_ancestry, open_handle

GRACE_S = 10.0
FREED_TIMEOUT_S = 3.0
"""Seconds that a driver may take to give back the memory of a process that has ended."""
MOST_REFUSED = 1000
"""Listed one by one; the sentence on what can't be classified counts all."""
NOTABLE_BYTES = 512 << 20
"""Bytes in use on a GPU without any process that count as a finding: a driver keeps some for itself."""


def plan(request: Request, scanner: HostScanner, tell: Tell) -> Dict[str, Any]:  # noqa: ARG001 a stage is called so
    """Every left-over process, or those that were named; and what looks like one but can't be proven to be."""
    look = scanner.look()
    targets: list[Target] = []
    refused: list[Target] = []
    for target in _candidates(look, request):
        why_not = target.pop("reason", None) or refusal(look, request, target)
        (refused if why_not else targets).append({**target, "reason": why_not} if why_not else target)
    if request.get("named") is None:
        return {"targets": targets, "refused": refused[:MOST_REFUSED], "unknown": _unknown(look, refused)}
    return {"targets": targets, "refused": refused, "notes": look.doubts}


def _unknown(look: HostState, refused: Iterable[Target]) -> list[str]:
    """Why there may be more that is left over than what was found."""
    unknown = [target for target in refused if target["kind"] == "unknown"]
    unjudged = [int(target["pid"]) for target in unknown]
    hidden = [pid for pid in unjudged if pid not in look.table or not look.table[pid].origin.readable]
    holders = all(target["gpus"] for target in unknown)
    what = ("process holds GPU memory and", "processes hold GPU memory and") if holders else ("process", "processes")
    number = f"{len(unjudged)} {what[len(unjudged) != 1]} can't be classified"
    how = " without root: run `sudo cockpit kill-orphans` there" if hidden and os.geteuid() != trust.ROOT else ": the reasons are below"
    return [*look.doubts, *([number + how] if unjudged else [])]


def _candidates(look: HostState, request: Request) -> Iterable[Target]:
    if request.get("named") is None:
        for pid in look.sort_deepest_first(pid for pid in look.verdicts if pid in look.table):
            if look.verdicts[pid].kind in LEFT_OVER_KINDS or _doubtful(look, pid):
                yield look.target(pid)
        for pid in sorted(look.reading.holders.keys() - look.table.keys()):
            yield look.target(pid, reason="; ".join(look.verdicts[pid].why))
        return
    wanted: Dict[int, Target] = {}
    for pid, ticks in request["named"]:
        wanted.update(_collect_targets(look, int(pid), ticks))
    for pid in look.sort_deepest_first(wanted):
        yield wanted[pid]


def _collect_targets(look: HostState, pid: int, ticks: int | None) -> Dict[int, Target]:
    """That process and what hangs from it, as far as that is left over too."""
    process = look.table.get(pid)
    if process is None or not process.alive or ticks not in (None, process.ticks):
        gone = {"what": "process", "pid": pid, "ticks": ticks, "reason": f"process {pid} has ended" + ("" if process is None else " since")}
        return {pid: gone}
    below = [child for child in look.find_descendants(pid) if child in look.verdicts and look.verdicts[child].kind in LEFT_OVER_KINDS]
    return {one: look.target(one) for one in (pid, *below)}


def _doubtful(look: HostState, pid: int) -> bool:
    """It may be left over and nobody can say whether; worth a word, and no more."""
    verdict, process = look.verdicts[pid], look.table[pid]
    elsewhere = verdict.from_ray and len(process.details.pids) > 1
    suspect = pid in look.reading.holders or verdict.undecided is not None or not process.origin.readable or elsewhere
    return verdict.kind == "unknown" and suspect and process.alive


def refusal(look: HostState, request: Request, target: Target) -> str | None:
    """Why this process is not ended, or `None`."""
    pid, kind = int(target["pid"]), target["kind"]
    if not look.table[pid].alive:
        return "it is a zombie: it has ended, and its parent has not collected it"
    if pid in find_own_ancestry():
        return "cockpit itself runs in it"
    if kind not in LEFT_OVER_KINDS and not request.get("any"):
        return f"it is {_describe(kind)}; kill-orphans kills only orphan and stale processes: {'; '.join(target['why'])}"
    if pid in look.carriers and not request.get("any"):
        part = look.carriers[pid]
        return f"a part of a live Ray runs below it: {look.verdicts[part].kind} {part}"
    return _not_mine(look, request, target)


def _not_mine(look: HostState, request: Request, target: Target) -> str | None:
    uid, me = look.table[int(target["pid"])].details.uid, os.geteuid()
    if uid == me:
        return None
    whose = "its owner is unknown" if uid is None else f"it belongs to {target['user']}"
    if me != 0:
        return f"{whose}: only root may kill another user's process"
    if not (request.get("pids") or request.get("any")):
        return f"{whose}: to kill it, put the cursor on it, or name it by --pid"
    return None


def _describe(kind: str) -> str:
    words = {"ray": "a part of a live Ray", "unknown": "of unknown kind", "foreign": "a foreign process"}
    return words.get(kind, f"a {kind} of a live Ray")


def do(request: Request, scanner: HostScanner, tell: Tell) -> Dict[str, Any]:
    """Ends exactly the planned processes that are still what they were."""
    look = scanner.look()
    answer: Dict[str, Any] = {"done": [], "refused": [], "failed": [], "notes": look.doubts}
    meant: Dict[Identity, Target] = {(int(target["pid"]), int(target["ticks"])): target for target in request["targets"]}
    turns = {pid: turn for turn, pid in enumerate(look.sort_deepest_first({pid for pid, _ in meant}))}
    kept: Dict[Identity, Tuple[Target, ProcessHandle]] = {}
    for identity in sorted(meant, key=lambda one: turns[one[0]]):
        held = hold_target(look, request, meant[identity], answer)
        if held is not None:
            kept[identity] = look.target(held.pid), held
    endings = end_held(request, [held for _, held in kept.values()], tell)
    for identity, (target, held) in kept.items():
        record(answer, target, endings[identity])
        held.release()
    answer["freed"] = measure_freed(look, scanner, [target for target, _ in kept.values()], answer["notes"])
    answer["notes"] += _newcomers(look, {pid for pid, _ in meant}, kept)
    answer["failed"] += _find_respawned(look, scanner.look(0.0), kept) if kept else []
    return answer


def _find_respawned(before: HostState, after: HostState, kept: Iterable[Identity]) -> list[Target]:
    """What the ended ones have started while they were being ended: a supervisor starts its child anew until it is gone itself."""
    ended = [before.table[pid] for pid, _ in kept]
    led = {process.leader for process in ended} | {process.group for process in ended}
    pasts = {_past(process) for process in ended if process.origin.from_ray}
    old = {process.identity for process in before.table.values()}
    left = (after.table[pid] for pid, verdict in after.verdicts.items() if verdict.kind in LEFT_OVER_KINDS and pid in after.table)
    new = [one for one in left if one.alive and one.identity not in old]
    came = [one.pid for one in new if one.leader in led or one.group in led or _past(one) in pasts]
    return [after.target(pid, error="it started while the others were being killed: repeat the action") for pid in came]


def _past(process: ScannedProcess) -> Tuple[Any, ...]:
    """What it has inherited of Ray, which it keeps in a session of its own too."""
    return process.origin.raylet, process.origin.worker, process.origin.submission


def _newcomers(look: HostState, meant: Container[int], kept: Iterable[Identity]) -> list[str]:
    """What the ended ones had started since the plan."""
    ended = {pid for pid, _ in kept}
    left = (pid for pid, verdict in look.verdicts.items() if verdict.kind in LEFT_OVER_KINDS and pid in look.table and pid not in meant)
    found = sorted(pid for pid in left if look.table[pid].parent in ended)
    pids = ", ".join(map(str, found))
    return [f"the killed processes started pid {pids} after the plan was made; not touched: repeat the action"] if found else []


def hold_target(look: HostState, request: Request, planned: Target, answer: Dict[str, Any]) -> ProcessHandle | None:
    """Hold the planned process if it is still that one and may still be ended; else say why not."""
    process = look.find_same(planned)
    try:
        held = open_handle(process.pid, process.ticks) if process is not None else None
    except ProtectedError as error:
        answer["refused"].append({**planned, "reason": str(error)})
        return None
    if process is None or held is None:
        reused = int(planned["pid"]) in look.table and look.table[int(planned["pid"])].ticks != planned["ticks"]
        answer["refused"].append(
            {**planned, "reason": "it has ended; its pid now belongs to another process" if reused else "it has ended since"}
        )
        return None
    now = look.target(process.pid)
    changed = request.get("any") and now["kind"] != planned.get("kind") and now["kind"] not in LEFT_OVER_KINDS
    why_not = f"it has changed from {planned.get('kind')} to {now['kind']}" if changed else refusal(look, request, now)
    if why_not:
        answer["refused"].append({**now, "reason": why_not})
        held.release()
        return None
    return held


def end_held(request: Request, handles: list[ProcessHandle], tell: Tell) -> Mapping[Identity, Ending]:
    """TERM, the grace, KILL; or as the request says."""
    first = signal.SIGKILL if request.get("force") else signal.SIGTERM
    last = None if request.get("only") == "TERM" else signal.SIGKILL
    return end(handles, grace_of(request, GRACE_S), first, last, tell) if handles else {}


def record(answer: Dict[str, Any], target: Target, ending: Ending) -> None:
    """Into what is done, or what has failed."""
    if ending.gone:
        answer["done"].append({**target, "outcome": ending.text})
    else:
        answer["failed"].append({**target, "error": ending.text})


def measure_freed(look: HostState, scanner: HostScanner, targets: Iterable[Target], notes: list[str]) -> Dict[str, Any]:
    """GPU memory that NVML counted for those of them that are gone and doesn't any more, and what stays in use without a holder."""
    gone = [int(target["pid"]) for target in targets if not lives(int(target["pid"]), int(target["ticks"]))]
    held = {pid: look.reading.holders[pid] for pid in gone if pid in look.reading.holders}
    if not held:
        return {"gpu": None if look.fault or look.reading.gpus is None else 0}
    until = time.monotonic() + FREED_TIMEOUT_S
    after = scanner.reading(FREED_TIMEOUT_S)
    while (
        after is not None
        and (_explain_unfreed(look.reading, after, held) or not held.keys().isdisjoint(after.holders))
        and time.monotonic() < until
    ):
        time.sleep(0.1)
        after = scanner.reading(FREED_TIMEOUT_S)
    if after is None:
        notes.append("NVML no longer answers: whether the GPU memory is free is unknown")
        return {"gpu": None}
    notes += _explain_unfreed(look.reading, after, held)
    given = [memory for pid, holds in held.items() for memory in holds.values() if pid not in after.holders]
    known = [memory for memory in given if memory is not None]
    return {"gpu": sum(known) if len(known) == len(given) else None}


def _explain_unfreed(before: GpuReading, after: GpuReading, held: Mapping[int, Mapping[int, Any]]) -> list[str]:
    """A sentence for each of these GPUs whose memory did not come back, as far as NVML says whose it is."""
    used, was = _map_used(after), _map_used(before)
    found = []
    for index in sorted({index for holds in held.values() for index in holds}):
        mine = [holds[index] for holds in held.values() if index in holds]
        others: list[Any] = [holds[index] for pid, holds in after.holders.items() if index in holds and pid not in held]
        if None in (*mine, *others, used.get(index), was.get(index)):
            continue
        lost = used[index] - sum(others)
        if sum(mine) > NOTABLE_BYTES and lost > NOTABLE_BYTES and was[index] - used[index] < sum(mine) // 2:
            found.append(
                f"GPU {index} still has {lost / (1 << 30):.1f} GiB in use that no process here holds: a process in another container does, "
                "or the driver itself, which only a reset of the GPU (nvidia-smi --gpu-reset) or a reboot fixes"
            )
    return found


def _map_used(reading: GpuReading) -> Dict[int, Any]:
    return {gpu["index"]: gpu.get("memory_used") for gpu in reading.gpus or ()}
