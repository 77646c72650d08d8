"""Ends one session of Ray step by step, scans the host again after each step, and records the outcome of each of its processes."""

from __future__ import annotations

from contextlib import suppress
from typing import Collection, Dict, List, Mapping, Set

from ...sample.host import free_space
from ...sample.origin import SERVICES
from ...sample.proc import read
from ...sample.process_kinds import LEFT_OVER_KINDS
from ...sample.processes import Identity
from .. import kill
from ..host_state import Answer, HostScanner, HostState, OnProgress, Request, Target, grace_of
from ..signals import Ending, ProcessHandle, ProtectedError, open_handle
from .parts import ROOTS, SessionError, hangs_from_service, members, split_targets

GRACE_S = 16.0
"""Ray's default."""
ROUNDS = 3
"""Searches for left-over processes: some are left over only after their parent has ended."""
OTHERS = ("worker", *(part for part in SERVICES if part not in ROOTS))


class Stopping:
    """Ends one session step by step, and records the outcome of each of its processes."""

    def __init__(self, request: Request, scanner: HostScanner, on_progress: OnProgress, name: str) -> None:
        self._request, self._scanner, self._on_progress, self._name = request, scanner, on_progress, name
        self._grace = grace_of(request, GRACE_S)
        self._planned: Dict[Identity, Target] = {(int(one["pid"]), int(one["ticks"])): one for one in request["targets"]}
        self._known: Dict[Identity, Target] = {}
        self._refused: Dict[Identity, Target] = {}
        self._served: Set[Identity] = set()
        """Parts of Ray, and their children. They are held before their raylet ends, because later it is less clear where they come from:
        Ray's title of an agent overwrites its environment, and a `ray start --block` lives above a log monitor."""
        self._handles: Dict[Identity, ProcessHandle] = {}
        self._endings: Dict[Identity, Ending] = {}

    def begin(self, state: HostState) -> None:
        """Holds all processes that are to be ended. Raises `SessionError` if the session was started again after the plan."""
        found = members(state, self._name)
        targets, refused = split_targets(state, self._name, found)
        new = [one for one in targets if one["part"] in ROOTS and (one["pid"], one["ticks"]) not in self._planned]
        if new:
            started = ", ".join(f"{one['part']} {one['pid']}" for one in new)
            raise SessionError(f"{self._name} was started again after the plan was made ({started}): nothing was done")
        self._refused = {(one["pid"], one["ticks"]): one for one in refused}
        here = {state.table[pid].identity for pid in found}
        for identity, target in self._planned.items():
            if state.find_same(target) is None:
                self._known[identity] = target
                self._endings[identity] = Ending(True, "had already ended")
            elif identity not in here:
                self._refused[identity] = {**state.target(identity[0]), "reason": f"it no longer belongs to {self._name}"}
        self._hold(targets)
        served = (pid for pid, part in found.items() if part in OTHERS or (part == "child" and hangs_from_service(state, pid)))
        self._served = {state.table[pid].identity for pid in served} & self._handles.keys()

    def run(self) -> None:
        """Ends the parts in Ray's own order."""
        self._end_parts("the raylet", ("raylet",), self._grace)
        self._end_parts("the other parts", OTHERS, self._grace / 3)
        self._end_parts("the GCS", ROOTS, self._grace / 3)
        self.sweep()

    def sweep(self) -> None:
        """Ends the left-over processes of the dead session: orphans, stale parts, and children of parts of Ray."""
        self._scanner.doubt_jobs(self._name)
        for _ in range(ROUNDS):
            state = self._scanner.scan(0)
            left = [identity for identity in self._find_members(state) if state.verdicts[identity[0]].kind in LEFT_OVER_KINDS]
            left += [identity for identity in self._served if identity not in left and state.find_same(self._known[identity])]
            if not left:
                return
            self._end_processes("leftovers", left, self._grace / 3)

    def _end_parts(self, words: str, parts: Collection[str], grace: float) -> None:
        found = self._find_members(self._scanner.scan(0))
        self._end_processes(words, [identity for identity, part in found.items() if part in parts], grace)

    def _find_members(self, state: HostState) -> Mapping[Identity, str]:
        """The processes of the session that may be ended; they are held from now on."""
        raylets = [identity for identity, target in self._known.items() if target["part"] == "raylet"]
        found = members(state, self._name, self._known, raylets)

        # A raylet or GCS that was started meanwhile stays, with its descendants.
        new = [pid for pid, part in found.items() if part in ROOTS and state.table[pid].identity not in self._known]
        for pid in new:
            reason = "it was started while its session was being stopped"
            self._refused.setdefault(state.table[pid].identity, {**state.target(pid, part=found[pid]), "reason": reason})
        spared = {*new, *(below for pid in new for below in state.find_descendants(pid))}

        found = {pid: part for pid, part in found.items() if state.table[pid].identity not in self._refused and pid not in spared}
        self._hold([state.target(pid, part=part) for pid, part in found.items()])
        return {state.table[pid].identity: part for pid, part in found.items() if part != "driver"}

    def _hold(self, targets: Collection[Target]) -> None:
        for target in targets:
            identity = target["pid"], target["ticks"]
            try:
                held = open_handle(*identity) if identity not in self._handles and target["part"] != "driver" else None
            except ProtectedError as error:
                self._refused[identity] = {**target, "reason": str(error)}
                continue
            self._known.setdefault(identity, target)
            if held is not None:
                self._handles[identity] = held

    def _end_processes(self, words: str, identities: List[Identity], grace: float) -> None:
        held = [self._handles[identity] for identity in identities if identity in self._handles]
        if held:
            self._on_progress(f"stopping {words} of {self._name}: {len(held)} process{'' if len(held) == 1 else 'es'}")
            self._endings.update(kill.end_held({"force": self._request.get("force"), "grace": grace}, held, self._on_progress))

    def answer(self) -> Answer:
        """The outcome of each process, by one more scan."""
        state = self._scanner.scan(0)
        self._find_members(state)
        answer: Answer = {"done": [], "refused": list(self._refused.values()), "failed": [], "notes": []}
        for identity, target in self._known.items():
            ending = self._endings.get(identity)
            if state.find_same(target) is None:
                outcome = ending.text if ending is not None and ending.gone else "ended with its session"
                answer["done"].append({**target, "outcome": outcome})
            elif ending is not None:
                answer["failed"].append({**target, "error": ending.text})
            elif target["part"] in ("driver", "child") and state.target(identity[0])["kind"] not in LEFT_OVER_KINDS:
                now = state.target(identity[0])
                reason = f"it still runs as {now['kind']}: {'; '.join(now['why'])}"
                if target["part"] == "driver":
                    holds = ""
                    with suppress(OSError):  # a process that has read one object keeps the memory of the whole store in use
                        if now["state"] != "D" and b"/dev/shm/plasma" in read(f"/proc/{now['pid']}/maps"):
                            holds = ", and holds Ray's shared memory until it ends"
                    reason = f"it still runs without its Ray{holds}: a user started it, and it is not ended with the session"
                answer["refused"].append({**target, "reason": reason})
            else:
                answer["failed"].append({**target, "error": "it is still alive"})
        for held in self._handles.values():
            held.release()
        return answer


def add_freed(answer: Answer, before: HostState, scanner: HostScanner, shared: int | None) -> Answer:
    """The answer with the freed memory. `shared`: the result of `free_shared` before the action."""
    notes = [*before.doubts, *answer["notes"]]
    freed = kill.measure_freed(before, scanner, [*answer["done"], *answer["failed"]], notes)
    now = free_shared()
    grown = None if shared is None or now is None else max(0, now - shared)
    return {**answer, "notes": notes, "freed": {**freed, "shm": grown}}


def free_shared() -> int | None:
    """Free bytes in /dev/shm, where Ray keeps objects; `None` if unknown."""
    return free_space("/dev/shm")[0]  # noqa: S108 Ray's objects
