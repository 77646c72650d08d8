"""Stops every Ray on this host by Ray's own `ray stop`, after a plan that shows which processes the command will kill.

`ray stop` searches for patterns in the name or the command line of each process on the host. It ends the Rays of all users whose processes
it may signal, SkyPilot's own Ray, and an editor that has a `monitor.py` open. Each target has `hit` (the pattern that it matches; `null`:
it only ends with its session), `beyond` (it does not belong to the chosen session) and, as a part of a session, `part`. The command is the
`ray` beside the Python of a running raylet, and runs as that raylet's user, who owns this code; or else the `ray` on our own PATH, and runs
as our user.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from contextlib import suppress
from typing import Any, Dict, List, NamedTuple, Tuple

from ... import programs, trust
from ...sample.proc import user_name
from ...sample.processes import Identity, ScannedProcess
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
"""A word, and whether it is searched in the name (else in the command line): `ray/autoscaler/_private/constants.py` of 2.44.1 and 2.60.0.
`reporter.py` and the files of the two agents are only in 2.44.1, the two `ray::…Agent` only in 2.60.0: no Ray searches for more."""
SUMMARY = "Stopped"
"""The beginning of the output line that is kept; advice may follow it."""
COMM_CHARS = 15
"""Characters of a process name that the kernel keeps."""
EXTRA_TIMEOUT_S = 15.0
"""Seconds that the command gets beyond its grace: for the import of Ray, and for three times two seconds after each SIGKILL.

The caller gives up after twice this time."""
STILL_RUNNING_AFTER_S = 5.0
"""Seconds without output after which a progress line says that the command is still running."""


class RayCommand(NamedTuple):
    """A `ray` command that can be run."""

    path: str
    cluster: ClusterPython | None
    """The Python of the raylet that it comes from; `None`: it is on our PATH."""

    @property
    def uid(self) -> int:
        """The user that it runs as."""
        return self.cluster.account.uid if self.cluster else os.geteuid()


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:  # noqa: ARG001 the arguments of each stage
    """The processes that `ray stop` would kill now, and the processes that end with them."""
    state = scanner.scan()
    try:
        command = find_ray(state, request.get("session"))
        alive, dead = sessions(state)
        name = request.get("session")
        if name or len(alive or dead) == 1:  # of several sessions, none is chosen
            name = choose_session(state, name)
        found = _find_targets(state, name)
    except (NoWayError, SessionError) as error:
        return {"error": str(error)}
    targets, refused = _split(state, command, found)
    names = {target["session"] for target in targets if target.get("part")}
    live = {pid: part for name in sorted(names) for pid, part in members(state, name).items()}
    notes = state.doubts
    notes.append(f"{command.path} stop, as {user_name(command.uid)}, will be run")
    notes.append("`ray stop` searches again 1 to 5 s after this check, and ends whatever matches then")
    return {"targets": targets, "refused": refused, "notes": notes, "weight": find_affected(state, live)}


def find_matching_word(process: ScannedProcess) -> str | None:
    """The word by which `ray stop` finds this process, or `None`."""
    if not process.alive:
        return None
    # `ray stop` uses psutil: it replaces a name that the kernel has cut, if the command line begins with it.
    name, words = process.name, process.details.argv
    program = os.path.basename(words[0].split(" ")[0]) if words else ""
    if len(name) >= COMM_CHARS and program.startswith(name):
        name = program
    return next((word for word, by_name in RAY_PROCESSES if (word in name if by_name else any(word in one for one in words))), None)


def _find_targets(state: HostState, session: str | None) -> List[Target]:
    """The processes in the order in which they end. `session`: the chosen one; `None` if none is chosen."""
    hits = {pid: word for pid, word in ((pid, find_matching_word(process)) for pid, process in state.table.items()) if word}
    line = find_own_ancestry()
    for pid, word in hits.items():
        if pid in line:
            raise SessionError(f"`ray stop` would kill cockpit itself: process {pid}, in which it runs, matches {word!r}")
    names = {state.target(pid)["session"] for pid in hits} - {None}
    parts: Dict[int, str] = {pid: part for name in sorted(names) for pid, part in members(state, name).items()}
    found: List[Target] = []
    for pid in {**parts, **hits}:
        target = state.target(pid, hit=hits.get(pid), **({"part": parts[pid]} if pid in parts else {}))
        how = f"`ray stop` matches {hits[pid]!r}" if pid in hits else "`ray stop` does not match it, but its session ends"
        found.append({**target, "why": [how, *target["why"]], "beyond": session is None or target["session"] != session})
    return sorted(found, key=lambda one: (ORDER.index(one.get("part", "child")), one["pid"]))


def _split(state: HostState, command: RayCommand, found: List[Target]) -> Tuple[List[Target], List[Target]]:
    """The processes that the command may signal, and those that it may not. The session of a spared raylet or GCS stays as a whole."""
    spared = [one for one in found if one["hit"] and command.uid not in (0, state.table[one["pid"]].details.uid)]
    living = {one["session"] for one in spared if one.get("part") in ROOTS}
    targets = [one for one in found if one not in spared and (one["hit"] or one["session"] not in living)]
    reason = f"`ray stop` runs as {user_name(command.uid)} here and may not end processes of"
    return targets, [{**one, "reason": f"{reason} {one['user']}"} for one in spared]


def find_ray(state: HostState, name: str | None) -> RayCommand:
    """The `ray` beside the Python of a raylet of this session (or of root or our user), else on our PATH. Raises `NoWayError`."""
    reasons = []
    for session in [name] if name else sessions(state)[0]:
        try:
            cluster = find_cluster_python(state, session)
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
    """Runs the command if it would still kill only planned processes, and ends the processes that it leaves of their sessions."""
    state, shared = scanner.scan(), free_shared()
    targets: List[Target] = request["targets"]
    planned: Dict[Identity, Target] = {(int(one["pid"]), int(one["ticks"])): one for one in targets}
    stoppings: List[Stopping] = []
    try:
        command = find_ray(state, request.get("session"))
        hits, _ = _split(state, command, _find_targets(state, None))
        # Workers of a planned raylet may be new: it starts them all the time.
        raylets = [pid for (pid, ticks), one in planned.items() if one.get("part") == "raylet" and state.find_same(one)]
        workers = {below for pid in raylets for below in state.find_descendants(pid)}
        new = [one for one in hits if one["hit"] and (one["pid"], one["ticks"]) not in planned and one["pid"] not in workers]
        if new:
            named = ", ".join(f"{one['name']} {one['pid']} ({one['hit']})" for one in new)
            return {"error": f"`ray stop` would now kill processes that are not in the plan: {named}; nothing was done"}
        # Each session is held from now on, so that its left-over processes are known afterwards.
        for name in sorted({one["session"] for one in targets if one.get("part") and one.get("session")}):
            of_session = [one for one in targets if one.get("part") and one.get("session") == name]
            stoppings.append(Stopping({**request, "targets": of_session}, scanner, on_progress, name))
            stoppings[-1].begin(state)
        outcome = run(command, request, on_progress)
    except (NoWayError, SessionError) as error:
        return {"error": str(error)}
    for stopping in stoppings:
        stopping.sweep()

    answers = [stopping.answer() for stopping in stoppings]
    answer: Answer = {key: [one for each in answers for one in each[key]] for key in ("done", "refused", "failed")}
    answer["notes"] = [outcome]
    # Processes that belong to no session.
    listed = {(one["pid"], one["ticks"]) for key in ("done", "refused", "failed") for one in answer[key]}
    after = scanner.scan(0)
    for identity, target in planned.items():
        if identity not in listed and after.find_same(target) is None:
            answer["done"].append({**target, "outcome": "ended by `ray stop`"})
        elif identity not in listed:
            answer["failed"].append({**target, "error": "`ray stop` has not ended it"})
    return add_freed(answer, state, scanner, shared)


def run(command: RayCommand, request: Request, on_progress: OnProgress) -> str:
    """Runs the command, reports its output lines as progress, and returns the last one. Raises `NoWayError` if it can't be started."""
    grace = max(1, round(grace_of(request, GRACE_S)))
    words = [command.path, "stop", "--grace-period", str(grace), *(["--force"] if request.get("force") else [])]
    on_progress(" ".join(words))
    try:
        process = _start(words, command.cluster)
    except (OSError, TrustError) as error:
        raise NoWayError(f"{command.path} can't be started: {error}") from None
    until = time.monotonic() + grace + EXTRA_TIMEOUT_S
    text, last = b"", "`ray stop` wrote nothing"
    output: Any = process.stdout  # it is a pipe
    try:
        while time.monotonic() < until:
            ready, _, _ = select.select([output], [], [], min(STILL_RUNNING_AFTER_S, max(0.0, until - time.monotonic())))
            if not ready:
                on_progress("`ray stop` is still running")
                continue
            more = os.read(output.fileno(), 4096)
            if not more:
                with suppress(subprocess.TimeoutExpired):
                    return f"{last} (`ray stop` ended with exit code {process.wait(max(0.1, until - time.monotonic()))})"
                break
            *lines, text = (text + more).replace(b"\r", b"\n").split(b"\n")  # a line that another one replaces ends in a carriage return
            for line in filter(None, (one.decode("utf-8", "replace").strip() for one in lines)):
                on_progress(line)
                last = last if last.startswith(SUMMARY) else line
        return f"{last} (`ray stop` did not end in time)"
    finally:
        programs.end(process)


def _start(words: List[str], cluster: ClusterPython | None) -> subprocess.Popen[bytes]:
    """The kernel ends the child with this program, even if this program is killed: nobody else would end it."""
    bind, our_pid, pipe = make_parent_death_hook(), os.getpid(), subprocess.PIPE
    account, environ = (cluster.account, cluster.environ) if cluster else (programs.our_account(), programs.our_environment())
    return programs.start(words, account, environ, stdout=pipe, stderr=subprocess.STDOUT, before=lambda: bind(our_pid))
