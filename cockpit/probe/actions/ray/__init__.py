"""Ends actors, removes placement groups, or drains nodes, through the cluster's own Python and Ray.

The request adds: `verb` ("kill_actor" | "remove_placement_group" | "drain_node"), `ids` (Ray's, in hex) and `session` (the name of the
session; `null`: the only live one on this host). A target has its type in `what`, its `id`, and `name`, `class`, `namespace` (of a node its
address), `state`, `job`, `detached`, `node`, `pid`, `leaked` (it exists although its job is over; `null`: Ray does not report that), `why`
and `session`.

Any host of the cluster can do this: its raylet shows its Python and the address of the GCS. The module `gcs` runs there as a program for a
few seconds, as the raylet's user and in the raylet's environment, because the program needs its token, certificates and library paths.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from ... import programs, trust
from ...sample.origin import flag
from ...sample.proc import is_in_our_namespace, user_name
from ...sample.process_kinds import SessionFolder
from ...sample.processes import ScannedProcess, lives, read_environ, read_stat
from ...trust import Account, TrustError
from ..host_state import Answer, HostScanner, HostState, OnProgress, Request, Target

PROGRAM_TIMEOUT_S = 20
"""Seconds for the program, including the import of Ray."""
GONE_WITHIN = 5.0
"""Seconds to wait for the end of a dead actor's process."""
IDS: Mapping[str, Tuple[str, int]] = {
    "kill_actor": ("actor", 32),
    "remove_placement_group": ("placement_group", 36),
    "drain_node": ("node", 56),
}
"""The type of thing that each verb ends, and the length of its ids. Ids of another length must not be sent: they crash the GCS (2.60)."""
_PYTHONS = ("--python_worker_command", "--dashboard_agent_command")


class NoWayError(Exception):
    """Ray can't be reached or started from here; the text is one sentence."""


class ClusterPython(NamedTuple):
    """The Python and the GCS of a cluster, from the command of a raylet, and the account and environment for that Python."""

    node: str | None
    """Ray's id of this host's node; `None` if its pids are not the pids that we see."""
    session: str
    python: str
    packages: str
    """The folder with the Ray that this raylet runs."""
    address: str
    environ: Mapping[str, str]
    account: Account

    @property
    def command(self) -> List[str]:
        """The command of a Python that reads its program from stdin and imports only its installed packages."""
        return [self.python, "-I", "-B", "-"]


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """The state of these actors, placement groups or nodes now, and whether they are leaked."""
    what, length = IDS.get(str(request.get("verb")), ("", 0))
    names = request.get("ids") or [None]
    if not what or not all(_is_id(name, length) for name in names):
        article = "an" if what == "actor" else "a"
        mistake = f"The id of {article} {what.replace('_', ' ')} has {length} hex digits." if what else "The probe does not know this verb."
        return {"error": mistake}
    targets = [{"what": what, "id": name} for name in dict.fromkeys(name.lower() for name in names)]
    return _ask("plan", request.get("session"), targets, scanner, on_progress)


def do(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Ends the planned targets that have not changed since the plan."""
    targets, lengths = request["targets"], dict(IDS.values())
    sessions = {target.get("session") for target in targets}
    if (
        len(sessions) != 1
        or None in sessions
        or not all(_is_id(target.get("id"), lengths.get(target.get("what"), 0)) for target in targets)
    ):
        return {"error": "These targets were not planned by this action."}
    return _ask("do", sessions.pop(), targets, scanner, on_progress)


def _is_id(text: Any, length: int) -> bool:
    return isinstance(text, str) and len(text) == length > 0 and re.match(r"[0-9a-fA-F]+\Z", text) is not None


def _ask(stage: str, session: str | None, targets: List[Target], scanner: HostScanner, on_progress: OnProgress) -> Answer:
    state = scanner.scan(0)
    try:
        cluster = find_cluster_python(state, session)
        on_progress(f"asking Ray with {cluster.python}", 0, len(targets))
        question = {
            "stage": stage,
            "targets": [{**target, "session": cluster.session} for target in targets],
            "session": cluster.session,
            "address": cluster.address,
            "limit": PROGRAM_TIMEOUT_S,
        }
        answer = ask_gcs(cluster, question)
    except NoWayError as error:
        return {"error": str(error)}

    # Ray reports an actor dead before its process has ended. A process that hangs in a driver stays, and keeps its GPU memory.
    notes = answer.setdefault("notes", [])
    done = [target for target in answer.get("done", ()) if isinstance(target, dict) and cluster.node and target.get("node") == cluster.node]
    actors = {state.table[target["pid"]].identity: target for target in done if target.get("pid") in state.table}
    until = time.monotonic() + GONE_WITHIN
    while any(lives(*identity) for identity in actors) and time.monotonic() < until:
        time.sleep(0.05)
    for identity, target in actors.items():
        if lives(*identity):
            notes.append(f"process {identity[0]} of that actor still runs {GONE_WITHIN:g} s after Ray reported it dead")
        else:
            target["outcome"] += f", and its process {identity[0]} has ended"
    return answer


def find_cluster_python(state: HostState, session: str | None) -> ClusterPython:
    """The Python of a live raylet of this session (`None`: of the only one). Raises `NoWayError`."""
    raylets: Dict[str, List[ScannedProcess]] = {}
    for process in state.table.values():
        if process.alive and process.origin.role == "raylet" and process.origin.session:
            raylets.setdefault(os.path.basename(process.origin.session), []).append(process)
    if session is None and len(raylets) > 1:
        raise NoWayError(f"{len(raylets)} Ray sessions run on this host ({', '.join(sorted(raylets))}): choose one by its address")
    name = session or next(iter(raylets), "")
    if name not in raylets:
        raise NoWayError(f"no raylet of {name} runs on this host" if name else "no Ray runs on this host")

    # A raylet of the session's owner: any user can name a process raylet, and give it any session.
    folders = [state.sessions.of.get(raylet.pid, SessionFolder("")) for raylet in raylets[name]]
    owners = {folder.uid for folder in folders} - {None}
    owners = owners.intersection(trust.own_uids()) or owners
    users = {raylet.details.uid for raylet in raylets[name]}
    if len(owners) > 1 or (not owners and len(users) > 1):
        raise NoWayError(f"raylets of several users claim to belong to {name}: which of them is real is unknown")
    genuine = [raylet for raylet in raylets[name] if not owners or raylet.details.uid in owners]
    if not genuine:
        raise NoWayError(f"the raylets that claim to belong to {name} are not run by the owner of its folder")
    try:
        return _read_cluster_python(genuine[0], name)
    except (TrustError, OSError) as error:
        raise NoWayError(f"the raylet of {name} can't be used: {error}") from None


def _read_cluster_python(raylet: ScannedProcess, session: str) -> ClusterPython:
    """Raises `NoWayError`, `TrustError`, `OSError`."""
    argv, uid = raylet.details.argv, raylet.details.uid
    if os.geteuid() not in (0, uid):
        raise NoWayError(f"{session} belongs to {'another user' if uid is None else user_name(uid)}: only that user and root may act on it")
    command = next(filter(None, (flag(argv, name) for name in _PYTHONS)), None)
    address = flag(argv, "--gcs-address", "--gcs_address")
    account, program = trust.account_of(raylet.pid), os.readlink(f"/proc/{raylet.pid}/exe")
    elsewhere = not (is_in_our_namespace(raylet.pid, "mnt") and is_in_our_namespace(raylet.pid, "net"))
    environ = read_environ(raylet.pid)
    last = read_stat(raylet.pid)  # read last: it proves that everything above came from this process
    if not command or not address or environ is None or last is None or last.ticks != raylet.ticks:
        raise NoWayError(f"the raylet of {session}, pid {raylet.pid}, does not show its Python and its GCS address")
    if elsewhere:
        raise NoWayError(f"the raylet of {session}, pid {raylet.pid}, runs in a container, and its Python can't be started from here")

    # The folder with its Ray, from the program that the process really runs: any user can choose the name and words of a process.
    packages, found, _ = program.rpartition("/ray/core/src/ray/raylet/raylet")
    if not found or not packages:
        raise TrustError(f"process {raylet.pid} calls itself raylet but runs {program}")
    if account.uid == trust.ROOT:  # root runs only files that nobody else can change
        reason = trust.why_not_run(program, trust.ROOT) or trust.why_changeable(packages, trust.ROOT)
        if reason is not None:
            raise TrustError(f"it belongs to root, and {reason}")

    python = ""
    with suppress(ValueError):
        python = next(iter(shlex.split(command)), "")
    if not os.path.isabs(python):
        raise NoWayError(f"raylet {raylet.pid} names no valid Python: {command[:100]}")
    node = raylet.origin.node if raylet.ns_pid is None else None
    return ClusterPython(node, session, python, packages, address, trust.kept_environment(environ, account.uid), account)


def ask_gcs(cluster: ClusterPython, question: Mapping[str, Any]) -> Answer:
    """Runs the program `gcs` until it ends, and returns its answer. Root becomes the raylet's user before any code of that user runs."""
    doubt = ": whether anything has ended is unknown" if question["stage"] == "do" else ""
    # The program and the call that starts it go to stdin: nothing of the question is on a command line.
    text = f"{program_text(f'{__package__}.gcs', cluster.packages)}\nmain(json.loads({json.dumps(question)!r}))\n".encode()
    try:
        ended = programs.run(cluster.command, cluster.account, cluster.environ, limit_s=PROGRAM_TIMEOUT_S, text=text)
    except (TrustError, OSError) as error:
        raise NoWayError(f"the cluster's Python {cluster.python} can't be started: {error}") from None
    if ended.code is None:
        raise NoWayError(f"{cluster.python} got no answer from Ray within {PROGRAM_TIMEOUT_S} s{doubt}")
    with suppress(ValueError, IndexError, RecursionError):
        answer = json.loads(ended.out.splitlines()[-1])  # lines before the last one may be output of the import of Ray
        if isinstance(answer, dict):
            return answer
    last_error = (ended.err.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1][:300]
    raise NoWayError(f"the cluster's Python {cluster.python} failed: {last_error}{doubt}")


def program_text(module: str, packages: str) -> str:
    """The source text of a module of the probe (by its full name), from a file or from memory, so that it finds Ray in `packages`."""
    spec = find_spec(module)
    found: str | None = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    if found is None:
        raise NoWayError(f"the text of {module} is missing")
    return f"{found}\nimport sys\nsys.path.append({packages!r})\n"
