"""Stops every Ray on this host by Ray's own `ray stop`, and knows beforehand what that will hit.

`ray stop` compares parts of words with the name or the command line of every process on the host: it ends the Rays of all users that it may
signal, SkyPilot's own Ray, and an editor that has a `monitor.py` open. Each target has `hit` (the pattern that it matches; `null`: it only
ends with its session), `beyond` (it is not of the session that is meant) and, where it is a part of a session, `part`. The command comes
from beside the Python of a running raylet, and runs as that raylet's user, who owns that code; else from our own PATH, and runs as we do.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Tuple

from ... import programs, trust
from ...look.proc import user_name
from ...look.processes import Identity, ScannedProcess
from ...trust import TrustError
from ..host_state import Answer, HostScanner, HostState, OnProgress, Request, Target, grace_of
from ..ray import ClusterPython, NoWayError, find_cluster_python
from ..signals import find_own_ancestry, make_parent_death_hook
from .parts import ORDER, ROOTS, SessionError, choose_session, find_affected, members, sessions
from .steps import GRACE_S, Stopping, add_freed, free_shared

RAY_PROCESSES: Tuple[Tuple[str, bool], ...] = (
    ("raylet", True),
    ("plasma_store", True),
    ("monitor.py", False),
    ("ray.util.client.server", False),
    ("default_worker.py", False),
    ("setup_worker.py", False),
    ("ray::", True),
    ("io.ray.runtime.runner.worker.DefaultWorker", False),
    ("log_monitor.py", False),
    ("reporter.py", False),
    ("dashboard/agent.py", False),
    ("ray::DashboardAgent", False),
    ("dashboard/dashboard.py", False),
    ("runtime_env/agent/main.py", False),
    ("ray::RuntimeEnvAgent", False),
    ("ray_process_reaper.py", False),
    ("gcs_server", True),
)
"""A word, and whether it is looked for in the name (else in the command line): `ray/autoscaler/_private/constants.py` of 2.44.1 and 2.60.0.
`reporter.py` and the two agents' files are 2.44.1's alone, the two `ray::…Agent` 2.60.0's: there may be less, but never more than this."""
SUMMARY = "Stopped"
"""How the line begins that is worth keeping; advice may follow it."""
COMM_CHARS = 15
"""As much of a name as the kernel keeps."""
SLACK_S = 15.0
"""Seconds that the command gets beyond its grace: the import of Ray, and three times two seconds after each SIGKILL.

Whoever has asked gives up after twice as many."""
QUIET_S = 5.0
"""Seconds without a word of it after which it is said that it is still at work."""


class RayCommand(NamedTuple):
    """A `ray` to be run, and how."""

    path: str
    cluster: ClusterPython | None
    """Where it comes from a raylet; `None`: from PATH."""

    @property
    def uid(self) -> int:
        """As whom it runs."""
        return self.cluster.account.uid if self.cluster else os.geteuid()


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:  # noqa: ARG001 a stage is called so
    """What `ray stop` would hit now, and what ends with it."""
    look = scanner.look()
    try:
        command = find_ray(look, request.get("session"))
        meant = _choose_session(look, request.get("session"))
        found = _targets(look, meant)
    except (NoWayError, SessionError) as error:
        return {"error": str(error)}
    targets, refused = _split(look, command, found)
    names = {target["session"] for target in targets if target.get("part")}
    live = {pid: part for name in sorted(names) for pid, part in members(look, name).items()}
    notes = look.doubts
    notes.append(f"{command.path} stop, as {user_name(command.uid)}, will be run")
    notes.append("`ray stop` searches again 1 to 5 s after this check, and ends whatever matches then")
    return {"targets": targets, "refused": refused, "notes": notes, "weight": find_affected(look, live)}


def _choose_session(look: HostState, name: str | None) -> str | None:
    """Of several sessions none is meant more than the others."""
    alive, dead = sessions(look)
    return choose_session(look, name) if name or len(alive or dead) == 1 else None


def find_matching_word(process: ScannedProcess) -> str | None:
    """The word by which `ray stop` finds this process; it looks at names as psutil knows them."""
    if not process.alive:
        return None
    name, words = _full_name(process), process.details.argv
    return next((word for word, by_name in RAY_PROCESSES if (word in name if by_name else any(word in one for one in words))), None)


def _full_name(process: ScannedProcess) -> str:
    """A name that the kernel has cut is lengthened by psutil where the command line begins with it."""
    program = os.path.basename(process.details.argv[0].split(" ")[0]) if process.details.argv else ""
    return program if len(process.name) >= COMM_CHARS and program.startswith(process.name) else process.name


def _targets(look: HostState, meant: str | None) -> List[Target]:
    """In the order in which they end."""
    hits = {pid: word for pid, word in ((pid, find_matching_word(process)) for pid, process in look.table.items()) if word}
    line = find_own_ancestry()
    for pid, word in hits.items():
        if pid in line:
            raise SessionError(f"`ray stop` would kill cockpit itself: process {pid}, in which it runs, matches {word!r}")
    names = {look.target(pid)["session"] for pid in hits} - {None}
    parts: Dict[int, str] = {pid: part for name in sorted(names) for pid, part in members(look, name).items()}
    found = [_target(look, pid, hits.get(pid), parts.get(pid), meant) for pid in {**parts, **hits}]
    return sorted(found, key=lambda one: (ORDER.index(one.get("part", "child")), one["pid"]))


def _target(look: HostState, pid: int, word: str | None, part: str | None, meant: str | None) -> Target:
    target = look.target(pid, hit=word, **({"part": part} if part else {}))
    how = f"`ray stop` matches {word!r}" if word else "`ray stop` does not match it, but its session ends"
    return {**target, "why": [how, *target["why"]], "beyond": meant is None or target["session"] != meant}


def _split(look: HostState, command: RayCommand, found: List[Target]) -> Tuple[List[Target], List[Target]]:
    """What the command may signal, and what it may not; what hangs from that stays as well."""
    spared = [one for one in found if one["hit"] and command.uid not in (0, look.table[one["pid"]].details.uid)]
    living = {one["session"] for one in spared if one.get("part") in ROOTS}
    targets = [one for one in found if one not in spared and (one["hit"] or one["session"] not in living)]
    reason = f"`ray stop` runs as {user_name(command.uid)} here and may not end processes of"
    return targets, [{**one, "reason": f"{reason} {one['user']}"} for one in spared]


def find_ray(look: HostState, name: str | None) -> RayCommand:
    """Beside the Python of a raylet of that session, else of one of root's or ours, else on PATH. Raises `NoWayError`."""
    reasons = []
    for session in [name] if name else sessions(look)[0]:
        try:
            cluster = find_cluster_python(look, session)
        except NoWayError as error:
            reasons.append(str(error))
            continue
        if not name and cluster.account.uid not in trust.own_uids():
            reasons.append(f"{session} belongs to {user_name(cluster.account.uid)}: to stop it, name it by --session")
            continue
        path = os.path.join(os.path.dirname(cluster.python), "ray")
        if os.access(path, os.X_OK):
            return RayCommand(path, cluster)
        reasons.append(f"there is no {path}")
    path = shutil.which("ray") or ""
    if not path:
        raise NoWayError("; ".join(["no `ray` command is on the PATH", *reasons]))
    return RayCommand(path, None)


def do(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Runs it if it would still hit only what was planned, and what that leaves is ended."""
    look, shared = scanner.look(), free_shared()
    planned: Dict[Identity, Target] = {(int(one["pid"]), int(one["ticks"])): one for one in request["targets"]}
    try:
        command = find_ray(look, request.get("session"))
        hits, _ = _split(look, command, _targets(look, None))
        _refuse_new(look, [one for one in hits if one["hit"]], planned)
        stoppings = _stoppings(request, scanner, on_progress, look)
    except (NoWayError, SessionError) as error:
        return {"error": str(error)}
    try:
        said = run(command, request, on_progress)
    except NoWayError as error:
        return {"error": str(error)}
    for stopping in stoppings:
        stopping.sweep()
    answer = _merge_answers([stopping.answer() for stopping in stoppings], said)
    _account(scanner.look(0), answer, planned)
    return add_freed(answer, look, scanner, shared)


def _refuse_new(look: HostState, hits: Collection[Target], planned: Mapping[Identity, Target]) -> None:
    """A planned raylet starts workers all the time; whatever else is new, nobody has agreed to."""
    agreed = [pid for pid, ticks in planned if pid in look.table and look.table[pid].ticks == ticks]
    of_planned = {
        below for pid in agreed if planned[pid, look.table[pid].ticks].get("part") == "raylet" for below in look.find_descendants(pid)
    }
    new = [one for one in hits if (one["pid"], one["ticks"]) not in planned and one["pid"] not in of_planned]
    if new:
        told = ", ".join(f"{one['name']} {one['pid']} ({one['hit']})" for one in new)
        raise SessionError(f"`ray stop` would now kill processes that are not in the plan: {told}; nothing was done")


def _stoppings(request: Request, scanner: HostScanner, on_progress: OnProgress, look: HostState) -> List[Stopping]:
    """One for each session that is hit, so that what it leaves is known to be its."""
    names = sorted({target["session"] for target in request["targets"] if target.get("part") and target.get("session")})
    found = []
    for name in names:
        mine = [target for target in request["targets"] if target.get("part") and target.get("session") == name]
        found.append(Stopping({**request, "targets": mine}, scanner, on_progress, name))
        found[-1].begin(look)
    return found


def run(command: RayCommand, request: Request, on_progress: OnProgress) -> str:
    """What it said last. Its lines are told as they come. Raises `NoWayError` when it can't be started."""
    grace = max(1, round(grace_of(request, GRACE_S)))
    words = [command.path, "stop", "--grace-period", str(grace), *(["--force"] if request.get("force") else [])]
    on_progress(" ".join(words))
    try:
        process = _start(words, command.cluster)
    except (OSError, TrustError) as error:
        raise NoWayError(f"{command.path} can't be started: {error}") from None
    try:
        return _relay_output(process, time.monotonic() + grace + SLACK_S, on_progress)
    finally:
        programs.end(process)


def _start(words: List[str], cluster: ClusterPython | None) -> subprocess.Popen[bytes]:
    """It ends with this program, also when that is killed: nobody else would know of it."""
    bind, mine, pipe = make_parent_death_hook(), os.getpid(), subprocess.PIPE
    account, environ = (cluster.account, cluster.environ) if cluster else (programs.our_account(), programs.our_environment())
    return programs.start(words, account, environ, stdout=pipe, stderr=subprocess.STDOUT, before=lambda: bind(mine))


def _relay_output(process: subprocess.Popen[bytes], until: float, on_progress: OnProgress) -> str:
    """Lines end in a carriage return where one is to replace another."""
    text, last = b"", "`ray stop` wrote nothing"
    said: Any = process.stdout  # it is a pipe
    while time.monotonic() < until:
        ready, _, _ = select.select([said], [], [], min(QUIET_S, max(0.0, until - time.monotonic())))
        if not ready:
            on_progress("`ray stop` is still running")
            continue
        more = os.read(said.fileno(), 4096)
        if not more:
            return f"{last} ({_describe_end(process, until)})"
        *lines, text = (text + more).replace(b"\r", b"\n").split(b"\n")
        for line in filter(None, (one.decode("utf-8", "replace").strip() for one in lines)):
            on_progress(line)
            last = last if last.startswith(SUMMARY) else line
    return f"{last} (`ray stop` did not end in time)"


def _describe_end(process: subprocess.Popen[bytes], until: float) -> str:
    try:
        return f"`ray stop` ended with exit code {process.wait(max(0.1, until - time.monotonic()))}"
    except subprocess.TimeoutExpired:
        return "`ray stop` did not end in time"


def _merge_answers(answers: Collection[Answer], note: str) -> Answer:
    lists = {key: [one for answer in answers for one in answer[key]] for key in ("done", "refused", "failed")}
    return {**lists, "notes": [note]}


def _account(look: HostState, answer: Answer, planned: Mapping[Identity, Target]) -> None:
    """What belongs to no session."""
    listed = {(one["pid"], one["ticks"]) for key in ("done", "refused", "failed") for one in answer[key]}
    for identity, target in planned.items():
        if identity in listed:
            continue
        if look.find_same(target) is None:
            answer["done"].append({**target, "outcome": "ended by `ray stop`"})
        else:
            answer["failed"].append({**target, "error": "`ray stop` has not ended it"})
