"""Ends actors, removes placement groups, or drains nodes, by the cluster's own Python and Ray.

The request adds: `verb` ("kill_actor" | "remove_placement_group" | "drain_node"), `ids` (Ray's, in hex) and `session` (the name of the
session; `null`: the only one that lives on this host). A target is `what` it is, its `id`, and `name`, `class`, `namespace` (of a node its
address), `state`, `job`, `detached`, `node`, `pid`, `leaked` (it is there although its job is over; `null`: Ray doesn't say), `why` and
`session`.

Any host of the cluster will do: its raylet tells with which Python it was started and where the GCS is. What asks the GCS is `gcs`, a
program that lives for a few seconds there, as the raylet's user and in its environment: a token, certificates, library paths are its.
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
from ...look.kinds import SessionFolder
from ...look.origin import flag
from ...look.proc import is_in_our_namespace, user_name
from ...look.processes import ScannedProcess, lives, read_environ, read_stat
from ...trust import Account, TrustError
from ..host_state import Answer, HostScanner, HostState, OnProgress, Request, Target

PROGRAM_TIMEOUT_S = 20
"""Seconds that the program gets, the import of Ray among them."""
GONE_WITHIN = 5.0
"""Seconds until the process of a dead actor is gone."""
IDS: Mapping[str, Tuple[str, int]] = {
    "kill_actor": ("actor", 32),
    "remove_placement_group": ("placement_group", 36),
    "drain_node": ("node", 56),
}
"""What each verb ends, and how long its ids are. Of another length they must not be sent: they would end the GCS (2.60)."""
_PYTHONS = ("--python_worker_command", "--dashboard_agent_command")


class NoWayError(Exception):
    """Ray can't be asked from here; its text is one sentence."""


class ClusterPython(NamedTuple):
    """The way to a cluster: its Python and its GCS, as a raylet names them, and as whom and in what environment that is run."""

    node: str | None
    """Ray's id of the node that this host is; `None` where its pids are not those that we see."""
    session: str
    python: str
    packages: str
    """The folder that the very Ray of that raylet lies in."""
    address: str
    environ: Mapping[str, str]
    account: Account

    @property
    def command(self) -> List[str]:
        """Reads its program from stdin; nothing but what is installed with it is imported."""
        return [self.python, "-I", "-B", "-"]


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """What those actors or placement groups are now, and whether they are leaked."""
    what, length = IDS.get(str(request.get("verb")), ("", 0))
    names = request.get("ids") or [None]
    if not what or not all(_is_id(name, length) for name in names):
        article = "an" if what == "actor" else "a"
        mistake = f"The id of {article} {what.replace('_', ' ')} has {length} hex digits." if what else "The probe does not know this verb."
        return {"error": mistake}
    targets = [{"what": what, "id": name} for name in dict.fromkeys(name.lower() for name in names)]
    return _ask("plan", request.get("session"), targets, scanner, on_progress)


def do(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Ends the planned ones that are still what they were."""
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
    look = scanner.look(0)
    try:
        cluster = find_cluster_python(look, session)
        on_progress(f"asking Ray with {cluster.python}", 0, len(targets))
        meant = [{**target, "session": cluster.session} for target in targets]
        answer = ask_gcs(
            cluster, {"stage": stage, "targets": meant, "session": cluster.session, "address": cluster.address, "limit": PROGRAM_TIMEOUT_S}
        )
    except NoWayError as error:
        return {"error": str(error)}
    done = [target for target in answer.get("done", ()) if isinstance(target, dict) and cluster.node and target.get("node") == cluster.node]
    here = {target["pid"]: target for target in done if target.get("pid") in look.table}
    _await_end([look.table[pid] for pid in here], here, answer.setdefault("notes", []))
    return answer


def _await_end(processes: List[ScannedProcess], actors: Mapping[int, Target], notes: List[str]) -> None:
    """Ray calls an actor dead before its process is; what hangs in a driver stays, and holds its GPU memory."""
    until = time.monotonic() + GONE_WITHIN
    while any(lives(*process.identity) for process in processes) and time.monotonic() < until:
        time.sleep(0.05)
    for process in processes:
        if lives(*process.identity):
            notes.append(f"process {process.pid} of that actor still runs {GONE_WITHIN:g} s after Ray reported it dead")
        else:
            actors[process.pid]["outcome"] += f", and its process {process.pid} has ended"


def find_cluster_python(look: HostState, session: str | None) -> ClusterPython:
    """The way in by a live raylet of that session, or of the only one. Raises `NoWayError`."""
    raylets: Dict[str, List[ScannedProcess]] = {}
    for process in look.table.values():
        if process.alive and process.origin.role == "raylet" and process.origin.session:
            raylets.setdefault(os.path.basename(process.origin.session), []).append(process)
    if session is None and len(raylets) > 1:
        raise NoWayError(f"{len(raylets)} Ray sessions run on this host ({', '.join(sorted(raylets))}): choose one by its address")
    name = session or next(iter(raylets), "")
    if name not in raylets:
        raise NoWayError(f"no raylet of {name} runs on this host" if name else "no Ray runs on this host")
    try:
        return _cluster_python(_true_raylet(look, name, raylets[name]), name)
    except (TrustError, OSError) as error:
        raise NoWayError(f"the raylet of {name} can't be used: {error}") from None


def _true_raylet(look: HostState, session: str, raylets: List[ScannedProcess]) -> ScannedProcess:
    """That of the session's owner: anybody can call a process raylet, and name any session."""
    folders = [look.sessions.of.get(raylet.pid, SessionFolder("")) for raylet in raylets]
    owners = {folder.uid for folder in folders} - {None}
    owners = owners.intersection(trust.own_uids()) or owners
    users = {raylet.details.uid for raylet in raylets}
    if len(owners) > 1 or (not owners and len(users) > 1):
        raise NoWayError(f"raylets of several users claim to belong to {session}: which of them is real is unknown")
    mine = [raylet for raylet in raylets if not owners or raylet.details.uid in owners]
    if not mine:
        raise NoWayError(f"the raylets that claim to belong to {session} are not run by the owner of its folder")
    return mine[0]


def _cluster_python(raylet: ScannedProcess, session: str) -> ClusterPython:
    """The last look proves that all of it was said by that very process."""
    argv, uid = raylet.details.argv, raylet.details.uid
    if os.geteuid() not in (0, uid):
        raise NoWayError(f"{session} belongs to {'another user' if uid is None else user_name(uid)}: only that user and root may act on it")
    command = next(filter(None, (flag(argv, name) for name in _PYTHONS)), None)
    address = flag(argv, "--gcs-address", "--gcs_address")
    account, program = trust.account_of(raylet.pid), os.readlink(f"/proc/{raylet.pid}/exe")
    elsewhere = not (is_in_our_namespace(raylet.pid, "mnt") and is_in_our_namespace(raylet.pid, "net"))
    environ, last = read_environ(raylet.pid), read_stat(raylet.pid)
    if not command or not address or environ is None or last is None or last.ticks != raylet.ticks:
        raise NoWayError(f"the raylet of {session}, pid {raylet.pid}, does not show its Python and its GCS address")
    if elsewhere:
        raise NoWayError(f"the raylet of {session}, pid {raylet.pid}, runs in a container, and its Python can't be started from here")
    packages = _packages(program, raylet.pid)
    _check(program, packages, account)
    node = raylet.origin.node if raylet.ns_pid is None else None
    kept = trust.kept_environment(environ, account.uid)
    return ClusterPython(node, session, _python(command, raylet.pid), packages, address, kept, account)


def _packages(program: str, pid: int) -> str:
    """The folder that Ray is installed in, by the program that the process really runs: its name and its words are its own to choose."""
    folder, found, _ = program.rpartition("/ray/core/src/ray/raylet/raylet")
    if not found or not folder:
        raise TrustError(f"process {pid} calls itself raylet but runs {program}")
    return folder


def _check(program: str, packages: str, account: Account) -> None:
    """Raises `TrustError`: as root runs only what nobody else can change."""
    reason = trust.why_not_run(program, trust.ROOT) or trust.why_changeable(packages, trust.ROOT) if account.uid == trust.ROOT else None
    if reason is not None:
        raise TrustError(f"it belongs to root, and {reason}")


def _python(command: str, raylet: int) -> str:
    """Anybody can give a process a raylet's name, and any words."""
    with suppress(ValueError):
        python = next(iter(shlex.split(command)), "")
        if os.path.isabs(python):
            return python
    raise NoWayError(f"raylet {raylet} names no valid Python: {command[:100]}")


def ask_gcs(cluster: ClusterPython, question: Mapping[str, Any]) -> Answer:
    """The program's answer; it is over when this returns. Root becomes the raylet's user before a line of that user's code runs."""
    doubt = ": whether anything has ended is unknown" if question["stage"] == "do" else ""
    try:
        ended = programs.run(cluster.command, cluster.account, cluster.environ, limit_s=PROGRAM_TIMEOUT_S, text=_text(cluster, question))
    except (TrustError, OSError) as error:
        raise NoWayError(f"the cluster's Python {cluster.python} can't be started: {error}") from None
    if ended.code is None:
        raise NoWayError(f"{cluster.python} got no answer from Ray within {PROGRAM_TIMEOUT_S} s{doubt}")
    answer = _last(ended.out)
    if answer is None:
        said = (ended.err.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1][:300]
        raise NoWayError(f"the cluster's Python {cluster.python} failed: {said}{doubt}")
    return answer


def _text(cluster: ClusterPython, question: Mapping[str, Any]) -> bytes:
    """The program, and the call that starts it: nothing of the question is on a command line."""
    return f"{program_text(f'{__package__}.gcs', cluster.packages)}\nmain(json.loads({json.dumps(question)!r}))\n".encode()


def program_text(module: str, packages: str) -> str:
    """The text of a module of the probe, by its whole name: it may have come from a file, or from memory. It finds Ray in that folder."""
    spec = find_spec(module)
    found: str | None = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    if found is None:
        raise NoWayError(f"the text of {module} is missing")
    return f"{found}\nimport sys\nsys.path.append({packages!r})\n"


def _last(out: bytes) -> Answer | None:
    """The last line: what Ray may print while it is imported comes before it."""
    with suppress(ValueError, IndexError, RecursionError):
        answer = json.loads(out.splitlines()[-1])
        return answer if isinstance(answer, dict) else None
    return None
