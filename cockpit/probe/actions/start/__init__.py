"""Starts one Ray on this host by Ray's own `ray start`, if the host is fit for it and no Ray of that cluster runs here already.

The request adds:
`role` ("head" | "worker"); `words` (the other arguments of `ray start`, such as `--num-gpus=8`); `env` (the environment of the preset; it
has secrets, so it is never part of an answer); `python` (of the preset; `null`: of the Ray that runs or ran here, or of a login);
`ray`, `user` and `how` (found by an earlier answer, while Ray still ran); `likely` (the path of `ray` on the head); `gcs` (for a worker:
the address of the head's GCS, `host:port`); `name` (by which the other hosts find this host); `session` (of the head, if it has one
already); `job` (true: a job will be submitted to the head); `slurm` (the id of the Slurm job whose nodes the hosts are); `survey` (true:
only asks which Rays are here, while another Ray may have the ports).

The only target is a `host`. Its `part` is its role, and its `id` is a hash of the command. `why` has the command and the host's numbers.
`live` is true if it already runs (in `failed` and `refused`: if a part of it runs). `facts` has `ray`, `user`, `how` (it was found),
`ray_version`, `python_version`, `address`, `gcs`, `rays` (of each live session here: its name, its GCS, whether the GCS is on this host,
and the Slurm job of the process, if known), and the facts of `fitness`.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import nullcontext
from typing import Any, ContextManager, Dict, List, Tuple

from ...sample.network import is_here, split_address
from ...sample.origin import flag
from ...sample.proc import is_in_our_namespace
from ...sample.processes import ScannedProcess, read_environ
from ...sample.raylets import gcs_address, read_slurm_job
from ...trust import TrustError, own_uids
from ..host_state import Answer, HostScanner, HostState, OnProgress, Request, Target
from ..ray import NoWayError
from . import ray_start
from .fitness import GIB, PORTS, Fitness, judge, own_address
from .installation import Installation, install, versions
from .slurm_step import find_step


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Finds the Ray that would be started, and whether this host is fit for it."""
    try:
        with _take_turn(request, on_progress):
            target, _ = _consider_target(request, scanner.scan(), on_progress, measured=True)
    except NoWayError as error:
        return {"error": str(error)}
    refused = "reason" in target
    return {"targets": [] if refused else [target], "refused": [target] if refused else [], "notes": target.pop("notes")}


def do(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Checks the host again, and starts Ray. If it already runs as planned, that counts as done."""
    answer: Answer = {"done": [], "refused": [], "failed": [], "notes": []}
    (planned,) = request["targets"]
    try:
        with _take_turn(request, on_progress) as held:
            target, installation = _consider_target(request, scanner.scan(), on_progress, measured=False)
            target.pop("notes")
            changed = None if target["id"] == planned.get("id") else f"its command has changed since the plan was made: {target['command']}"
            if target.get("reason") or changed:
                return {**answer, "refused": [{**target, "reason": target.get("reason") or changed}]}
            if target["live"]:
                return {**answer, "done": [{**target, "outcome": f"already runs: {target['session']}"}]}
            gcs = target["facts"]["gcs"]
            unreachable = ray_start.why_unreachable(gcs) if request["role"] != "head" else None
            if unreachable:
                return {**answer, "failed": [{**target, "error": unreachable}]}
            try:
                outcome = ray_start.run(installation, _words(request, gcs), request["role"], held, on_progress, find_step(request))
            except (OSError, TrustError) as error:
                return {**answer, "failed": [{**target, "error": f"{target['facts']['ray']} can't be started: {error}"}]}
            runs = _running_sessions(scanner.scan(0), gcs)
            target = {**target, "live": bool(runs), "session": runs[0] if runs else None}
            if outcome.code == 0 and runs:
                return {**answer, "done": [{**target, "outcome": f"started: {runs[0]}"}]}
            return {**answer, "failed": [{**target, "error": outcome.sentence}]}
    except NoWayError as error:
        return {"error": str(error)}


def _take_turn(request: Request, on_progress: OnProgress) -> ContextManager[Any]:
    """The lock of this cluster's starts on this host. A survey starts nothing, and takes no lock."""
    return nullcontext() if request.get("survey") else ray_start.turn(_gcs(request, _own(request)), on_progress)


def _consider_target(request: Request, state: HostState, on_progress: OnProgress, *, measured: bool) -> Tuple[Target, Installation]:
    """The target, with a `reason` if it can't be started. Versions are read only if `measured`."""
    on_progress("looking for the installed Ray")
    installation = install(request, state)
    address = _own(request)
    gcs, survey = _gcs(request, address), bool(request.get("survey"))
    found_versions: Dict[str, str | None] = {}
    if measured:
        on_progress(f"asking {installation.ray} for its version")
        found_versions["ray_version"], found_versions["python_version"] = versions(installation)
    fitness = judge(state, request, installation.environ, found_versions.get("ray_version"))
    facts = {
        "ray": installation.ray,
        "user": installation.user,
        "how": installation.why,
        "address": address,
        "gcs": gcs,
        "rays": _live_sessions(state),
        **fitness.facts,
        **found_versions,
    }
    runs = _running_sessions(state, gcs)
    reason = "; ".join(fitness.against) if survey else _why_not_started(request, state, gcs, runs, fitness)
    command = " ".join([installation.ray, *_words(request, gcs)])

    # The command, how it will run, and the host's numbers.
    version = f"Ray {facts.get('ray_version') or '?'}, Python {facts.get('python_version') or '?'}"
    step = find_step(request)
    gpus = "an unknown number of GPUs" if facts["gpus"] is None else f"{facts['gpus']} GPU{'' if facts['gpus'] == 1 else 's'} by NVML"
    shm = ("/dev/shm", "shm_free", "shm")  # noqa: S108 Ray's objects
    amounts = (("memory", "memory_free", "memory"), shm, (facts["disk_path"], "disk_free", "disk"))
    free = [f"{what}: {facts[name] / GIB:.0f} of {facts[of] / GIB:.0f} GiB free" for what, name, of in amounts if facts[name] is not None]
    user = f"as {installation.user}, {version} ({installation.why})"
    why = [command, user, *([step.why] if step else []), ", ".join([gpus, *free])]
    target: Target = {
        "what": "host", "id": hashlib.sha256(command.encode()).hexdigest()[:12], "name": request["role"], "part": request["role"],
        "user": installation.user, "command": command,
        "live": bool(runs), "session": runs[0] if runs else None, "facts": facts, "why": why,
        "notes": [] if runs or survey else list(fitness.doubts),
    }  # fmt: skip
    return ({**target, "reason": reason} if reason else target), installation


def _own(request: Request) -> str | None:
    """The address of the new node."""
    host, _ = split_address(str(request.get("gcs") or ""))
    return flag(request["words"], "--node-ip-address") or own_address(request.get("name"), host)


def _gcs(request: Request, address: str | None) -> str:
    """The address of the cluster's GCS, for all its nodes. Raises `NoWayError`."""
    if request["role"] != "head":
        return str(request.get("gcs") or "")
    if not address:
        raise NoWayError("this host has no address that other hosts can reach")
    port = flag(request["words"], "--port") or str(PORTS["--port"])
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _words(request: Request, gcs: str) -> List[str]:
    """The words of the command line. They have no secrets, because secrets are in the environment."""
    given = list(request["words"])
    own = _own(request) if request.get("name") and not flag(given, "--node-ip-address") else None
    role = "--head" if request["role"] == "head" else f"--address={gcs}"
    return ["start", role, *([f"--node-ip-address={own}"] if own else []), *given]


def _why_not_started(request: Request, state: HostState, gcs: str, runs: List[str], fitness: Fitness) -> str | None:
    """The reason for not starting it, or `None`. If it already runs, it has taken the ports and GPUs itself, so fitness does not count."""
    if len(runs) > 1:
        return f"processes of several sessions of that cluster run here: {', '.join(runs)}"
    expected = request.get("session")
    if runs and expected and runs[0] != expected:
        return f"a raylet of {runs[0]} still runs here, but the head's session is {expected}"
    if runs:
        there = {process.origin.role for process in _find_parts(state, gcs)}
        wanted = {"raylet", "gcs_server"} if request["role"] == "head" else {"raylet"}
        missing, left = " and ".join(sorted(wanted - there)), ", ".join(sorted(filter(None, there)))
        return f"only a part of that Ray runs here: {left}, without {missing}" if missing else None
    return "; ".join(fitness.against) or None


def _running_sessions(state: HostState, gcs: str) -> List[str]:
    """The names of the cluster's sessions that have a live raylet or GCS here."""
    return sorted({os.path.basename(process.origin.session or "?") for process in _find_parts(state, gcs)})


def _find_parts(state: HostState, gcs: str) -> List[ScannedProcess]:
    """The live raylets and GCSs here of the cluster with this GCS.

    A process in another network namespace does not count: there, 127.0.0.1 is another place. If its namespace is unknown, it counts.
    """
    wanted, at = split_address(gcs)
    found: List[ScannedProcess] = []
    for process in state.table.values():
        address = gcs_address(process) if gcs and is_of_its_owner(state, process) else None
        host, port = split_address(address or "")
        is_same = port == at and (host == wanted or (is_here(host) and is_here(wanted)))
        if address and is_same and is_in_our_namespace(process.pid, "net") is not False:
            found.append(process)
    return found


def is_of_its_owner(state: HostState, process: ScannedProcess) -> bool:
    """Whether it is alive, and runs as its session's owner or as a trusted user: any user can start a process that looks like a raylet."""
    uid, folder = process.details.uid, state.sessions.of.get(process.pid)
    return process.alive and (uid in own_uids() or (folder is not None and folder.uid is not None and folder.uid == uid))


def _live_sessions(state: HostState) -> List[Dict[str, Any]]:
    """Each live session here, the address of its GCS, and whether that is on this host."""
    found = {
        (
            os.path.basename(process.origin.session or ""),
            address,
            is_here(split_address(address)[0]) and is_in_our_namespace(process.pid, "net") is True,
            read_slurm_job(process.pid, {} if process.details.stuck else read_environ(process.pid) or {}) or "",
        )
        for process in state.table.values()
        for address in [gcs_address(process) if is_of_its_owner(state, process) else None]
        if address
    }
    return [{"session": session, "gcs": gcs, "here": here, "slurm": job or None} for session, gcs, here, job in sorted(found) if session]
