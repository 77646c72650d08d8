"""Ends actors, or removes placement groups, by the cluster's own Python and Ray.

The request adds: `verb` ("kill_actor" | "remove_placement_group"), `ids` (Ray's, in hex) and `session` (the name of the session; `null`:
the only one that lives on this host). A target is `what` it is, its `id`, and `name`, `class`, `namespace`, `state`, `job`, `detached`,
`node`, `pid`, `leaked` (it is there although its job is over; `null`: Ray doesn't say), `why` and `session`.

Any host of the cluster will do: its raylet tells with which Python it was started and where the GCS is. What asks the GCS is `gcs`, a
program that lives for a few seconds there, as the raylet's user and in its environment: a token, certificates, library paths are its.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from ..origin import flag
from ..proc import Forest, Process, lives, read, read_environ, read_stat, user_name
from .look import Request, Target, Tell, Watcher

LIMIT = 20
"""Seconds that the program gets, the import of Ray among them."""
GONE_WITHIN = 5.0
"""Seconds until the process of a dead actor is gone."""
IDS: Mapping[str, Tuple[str, int]] = {"kill_actor": ("actor", 32), "remove_placement_group": ("placement_group", 36)}
"""What each verb ends, and how long its ids are. Of another length they must not be sent: they would end the GCS (2.60)."""
MISLEADING = frozenset(("RAY_ADDRESS", "RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_NODE_ID", "RAY_JOB_CONFIG_JSON_ENV_VAR", "PYTHONINSPECT"))
"""Variables that a raylet may have inherited from another Ray, or that would keep the program from ending."""
_PYTHONS = ("--python_worker_command", "--dashboard_agent_command")
Answer = Dict[str, Any]


class NoWayError(Exception):
    """Ray can't be asked from here; its text is one sentence."""


class Gate(NamedTuple):
    """The way to a cluster: its Python and its GCS, as a raylet names them, and as whom and in what environment it does that."""

    node: str | None
    """Ray's id of the node that this host is; `None` where its pids are not those that we see."""
    session: str
    python: str
    address: str
    environ: Mapping[str, str]
    uid: int
    gid: int
    groups: Tuple[int, ...]

    def become(self) -> None:
        """From now on this process is of that user, for good."""
        if self.uid != os.geteuid():
            os.setgroups(self.groups)
            os.setgid(self.gid)
            os.setuid(self.uid)


def plan(request: Request, watcher: Watcher, tell: Tell) -> Answer:
    """What those actors or placement groups are now, and whether they are leaked."""
    what, length = IDS.get(str(request.get("verb")), ("", 0))
    names = request.get("ids") or [None]
    if not what or not all(_is_id(name, length) for name in names):
        return {"error": f"An id of {what.replace('_', ' ')} has {length} hex digits." if what else "This probe doesn't know that verb."}
    targets = [{"what": what, "id": name} for name in dict.fromkeys(name.lower() for name in names)]
    return _ask("plan", request.get("session"), targets, watcher, tell)


def do(request: Request, watcher: Watcher, tell: Tell) -> Answer:
    """Ends the planned ones that are still what they were."""
    targets, lengths = request["targets"], dict(IDS.values())
    sessions = {target.get("session") for target in targets}
    if (
        len(sessions) != 1
        or None in sessions
        or not all(_is_id(target.get("id"), lengths.get(target.get("what"), 0)) for target in targets)
    ):
        return {"error": "These are no targets that this act has planned."}
    return _ask("do", sessions.pop(), targets, watcher, tell)


def _is_id(text: Any, length: int) -> bool:
    return isinstance(text, str) and len(text) == length > 0 and re.match(r"[0-9a-fA-F]+\Z", text) is not None


def _ask(stage: str, session: str | None, targets: List[Target], watcher: Watcher, tell: Tell) -> Answer:
    forest = watcher.look(0).forest
    try:
        gate = find(forest, session)
        tell(f"asking Ray by {gate.python}", 0, len(targets))
        meant = [{**target, "session": gate.session} for target in targets]
        answer = run(gate, {"stage": stage, "targets": meant, "session": gate.session, "address": gate.address, "limit": LIMIT})
    except NoWayError as error:
        return {"error": str(error)}
    here = {target["pid"]: target for target in answer.get("done", ()) if gate.node and target["node"] == gate.node}
    _await_end([forest[pid] for pid in here if pid in forest], here, answer.get("notes", []))
    return answer


def _await_end(processes: List[Process], actors: Mapping[int, Target], notes: List[str]) -> None:
    """Ray calls an actor dead before its process is; what hangs in a driver stays, and holds its GPU memory."""
    until = time.monotonic() + GONE_WITHIN
    while any(lives(*process.identity) for process in processes) and time.monotonic() < until:
        time.sleep(0.05)
    for process in processes:
        if lives(*process.identity):
            notes.append(f"process {process.pid} of that actor is still there {GONE_WITHIN:g} s after Ray has called it dead")
        else:
            actors[process.pid]["outcome"] += f", and its process {process.pid} has ended"


def find(forest: Forest, session: str | None) -> Gate:
    """The way in by a live raylet of that session, or of the only one."""
    raylets: Dict[str, List[Process]] = {}
    for process in forest.values():
        if process.alive and process.origin.role == "raylet" and process.origin.session:
            raylets.setdefault(os.path.basename(process.origin.session), []).append(process)
    if session is None and len(raylets) > 1:
        raise NoWayError(f"{len(raylets)} sessions of Ray live on this host ({', '.join(sorted(raylets))}): name one")
    name = session or next(iter(raylets), "")
    if name not in raylets:
        raise NoWayError(f"no raylet of {name} runs on this host" if name else "no Ray runs on this host")
    if len({process.details.uid for process in raylets[name]}) > 1:
        raise NoWayError(f"raylets of several users claim to be of {name}: which is the true one can't be told")
    try:
        return _gate(raylets[name][0], name)
    except OSError as error:
        raise NoWayError(f"the raylet of {name} can't be looked at: {error}") from None


def _gate(raylet: Process, session: str) -> Gate:
    """The last look proves that all of it was said by that very process."""
    argv, uid = raylet.details.argv, raylet.details.uid
    if os.geteuid() not in (0, uid):
        raise NoWayError(f"{session} belongs to {'another user' if uid is None else user_name(uid)}: only that user and root may act in it")
    command = next(filter(None, (flag(argv, name) for name in _PYTHONS)), None)
    address = flag(argv, "--gcs-address", "--gcs_address")
    environ, owner, elsewhere = read_environ(raylet.pid), _owner(raylet.pid), _elsewhere(raylet.pid)
    last = read_stat(raylet.pid)
    if not command or not address or environ is None or last is None or last.ticks != raylet.ticks:
        raise NoWayError(f"the raylet of {session}, pid {raylet.pid}, doesn't tell its Python and its GCS")
    if elsewhere:
        raise NoWayError(f"the raylet of {session}, pid {raylet.pid}, runs in a container, and its Python can't be started from here")
    kept = {name: value for name, value in environ.items() if name and name not in MISLEADING}
    node = raylet.origin.node if raylet.ns_pid is None else None
    return Gate(node, session, _python(command, raylet.pid), address, kept, *owner)


def _python(command: str, raylet: int) -> str:
    """Anybody can give a process a raylet's name, and any words."""
    with suppress(ValueError):
        python = next(iter(shlex.split(command)), "")
        if os.path.isabs(python):
            return python
    raise NoWayError(f"what the raylet {raylet} names as its Python is none: {command[:100]}")


def _owner(pid: int) -> Tuple[int, int, Tuple[int, ...]]:
    """Its user and groups, without asking a database of users."""
    lines = dict(line.split(b":", 1) for line in read(f"/proc/{pid}/status").splitlines() if b":" in line)
    return int(lines[b"Uid"].split()[1]), int(lines[b"Gid"].split()[1]), tuple(map(int, lines[b"Groups"].split()))


def _elsewhere(pid: int) -> bool:
    """Whether it sees other files or another network than we do."""
    return any(os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "net"))


def run(gate: Gate, question: Mapping[str, Any]) -> Answer:
    """The program's answer. The program is over when this returns."""
    doubt = ": whether anything has ended is not known" if question["stage"] == "do" else ""
    try:
        process = _start(gate)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoWayError(f"the cluster's Python {gate.python} can't be started: {error}") from None
    try:
        out, err = process.communicate(_text(question), timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise NoWayError(f"{gate.python} has got no answer of Ray within {LIMIT} s{doubt}") from None
    finally:
        bury(process)
    answer = _last(out)
    if answer is None:
        said = (err.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"])[-1][:300]
        raise NoWayError(f"the cluster's Python {gate.python} failed: {said}{doubt}")
    return answer


def _start(gate: Gate) -> subprocess.Popen[bytes]:
    """Root becomes the raylet's user before a line of that user's code runs."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [gate.python, "-B", "-"], stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", env=dict(gate.environ), start_new_session=True,
        preexec_fn=gate.become if gate.uid != os.geteuid() else None,  # noqa: PLW1509 system calls alone; `user=` came with Python 3.9
    )  # fmt: skip


def _text(question: Mapping[str, Any]) -> bytes:
    """The program, and the call that starts it: nothing of the question is on a command line."""
    return f"{source('gcs')}\nmain(json.loads({json.dumps(question)!r}))\n".encode()


def source(module: str) -> str:
    """The text of a module beside this one, which may have come from a file, or from memory."""
    spec = find_spec(f"{__package__}.{module}")
    found: str | None = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    if found is None:
        raise NoWayError(f"the text of {module} is missing")
    return found


def bury(process: subprocess.Popen[bytes]) -> None:
    """End it with its session, and let go of it; also when it hangs and can't be waited for."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _last(out: bytes) -> Answer | None:
    """The last line: what Ray may print while it is imported comes before it."""
    with suppress(ValueError, IndexError):
        answer = json.loads(out.splitlines()[-1])
        return answer if isinstance(answer, dict) else None
    return None
