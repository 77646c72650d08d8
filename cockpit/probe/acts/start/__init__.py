"""Starts one Ray on this host by its own `ray start`, if the host is fit for it and no Ray of that cluster runs here already.

The request adds `role` ("head" | "worker"), `words` (what `ray start` is given besides its role, such as `--num-gpus=8`), `env` (the
preset's; secrets are in it, so that it is never answered), `python` (of the preset; `null`: that of the Ray that runs or ran here, or of
a login), `ray`, `user` and `how` (what an earlier answer has found, while Ray still ran), `likely` (where the head has its `ray`), `gcs`
(of a worker: where the head's GCS is, as `host:port`), `name` (under which the others find this host), `session` (that the head has by
now, if it has one), `job` (true: one is to be submitted to the head), `slurm` (the id of the Slurm job whose nodes the hosts are)
and `survey` (true: only who is here is asked, as long as another Ray may have the ports).

The one target is a `host`, whose `part` is its role and whose `id` stands for the command. `why` says it with its numbers, `live` that it
already runs (of one that failed or was refused: that a part of it does), and `facts` holds `ray`, `user`, `how` (it was found),
`ray_version`, `python_version`, `address`, `gcs`, `rays` (of each session that lives here its name, its GCS, whether that is `here`
too, and the Slurm job in which that process is, if it is known) and what `fitness` says.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import nullcontext
from functools import partial
from typing import Any, Callable, ContextManager, Dict, List, Tuple

from ...look.network import is_here, split_address
from ...look.origin import flag
from ...look.proc import is_in_our_namespace
from ...look.processes import ScannedProcess, read_environ
from ...look.raylets import gcs_address, read_slurm_job
from ...trust import TrustError, own_uids
from ..host_state import Answer, HostScanner, HostState, OnProgress, Request, Target
from ..ray import NoWayError
from . import ray_start
from .fitness import GIB, PORTS, Fitness, judge, own_address
from .installation import Installation, install, versions
from .slurm_step import find_step


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Which Ray would be started, and whether this host is fit for it."""
    try:
        with _turn(request, on_progress):
            target, _ = _consider_target(request, scanner.look(), on_progress, measured=True)
    except NoWayError as error:
        return {"error": str(error)}
    refused = "reason" in target
    return {"targets": [] if refused else [target], "refused": [target] if refused else [], "notes": target.pop("notes")}


def do(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Looks again, and starts it. What already runs as it is meant to counts as done."""
    try:
        with _turn(request, on_progress) as held:
            return _carry_out(request, scanner, held, on_progress)
    except NoWayError as error:
        return {"error": str(error)}


def _turn(request: Request, on_progress: OnProgress) -> ContextManager[Any]:
    """A survey waits for nobody: it asks only who is here."""
    return nullcontext() if request.get("survey") else ray_start.turn(_gcs(request, _own(request)), on_progress)


def _carry_out(request: Request, scanner: HostScanner, held: int, on_progress: OnProgress) -> Answer:
    (planned,) = request["targets"]
    target, installation = _consider_target(request, scanner.look(), on_progress, measured=False)
    target.pop("notes")
    answer: Answer = {"done": [], "refused": [], "failed": [], "notes": []}
    changed = None if target["id"] == planned.get("id") else f"its command has changed since the plan was made: {target['command']}"
    if target.get("reason") or changed:
        answer["refused"].append({**target, "reason": target.get("reason") or changed})
    elif target["live"]:
        answer["done"].append({**target, "outcome": f"already runs: {target['session']}"})
    else:
        run = partial(ray_start.run, installation, held=held, on_progress=on_progress, step=find_step(request))
        outcome, target = _start_target(request, scanner, target, run)
        answer[outcome].append(target)
    return answer


def _start_target(request: Request, scanner: HostScanner, target: Target, run: Callable[..., ray_start.Outcome]) -> Tuple[str, Target]:
    gcs = target["facts"]["gcs"]
    apart = ray_start.why_apart(gcs) if request["role"] != "head" else None
    if apart:
        return "failed", {**target, "error": apart}
    try:
        outcome = run(_words(request, gcs), request["role"])
    except (OSError, TrustError) as error:
        return "failed", {**target, "error": f"{target['facts']['ray']} can't be started: {error}"}
    runs = _running_sessions(scanner.look(0), gcs)
    target = {**target, "live": bool(runs), "session": runs[0] if runs else None}
    if outcome.code == 0 and runs:
        return "done", {**target, "outcome": f"started: {runs[0]}"}
    return "failed", {**target, "error": outcome.sentence}


def _consider_target(request: Request, look: HostState, on_progress: OnProgress, *, measured: bool) -> Tuple[Target, Installation]:
    """The target, with the reason why not if there is one; the versions only when they are to be `measured`."""
    on_progress("looking for the installed Ray")
    installation = install(request, look)
    address = _own(request)
    gcs, survey = _gcs(request, address), bool(request.get("survey"))
    found_versions: Dict[str, str | None] = {}
    if measured:
        on_progress(f"asking {installation.ray} for its version")
        found_versions["ray_version"], found_versions["python_version"] = versions(installation)
    fitness = judge(
        look,
        request["words"],
        installation.environ,
        head=request["role"] == "head",
        alone=not survey,
        job=bool(request.get("job")),
        version=found_versions.get("ray_version"),
        session=request.get("session"),
    )
    facts = {
        "ray": installation.ray,
        "user": installation.user,
        "how": installation.why,
        "address": address,
        "gcs": gcs,
        "rays": _rays(look),
        **fitness.facts,
        **found_versions,
    }
    runs = _running_sessions(look, gcs)
    reason = "; ".join(fitness.against) if survey else _reason(request, look, gcs, runs, fitness)
    command = " ".join([installation.ray, *_words(request, gcs)])
    target: Target = {
        "what": "host", "id": hashlib.sha256(command.encode()).hexdigest()[:12], "name": request["role"], "part": request["role"],
        "user": installation.user, "command": command,
        "live": bool(runs), "session": runs[0] if runs else None, "facts": facts, "why": _why(request, installation, facts, command),
        "notes": [] if runs or survey else list(fitness.doubts),
    }  # fmt: skip
    return ({**target, "reason": reason} if reason else target), installation


def _own(request: Request) -> str | None:
    """The address that this node will have."""
    host, _ = split_address(str(request.get("gcs") or ""))
    return flag(request["words"], "--node-ip-address") or own_address(request.get("name"), host)


def _gcs(request: Request, address: str | None) -> str:
    """Where all nodes of the cluster find its GCS."""
    if request["role"] != "head":
        return str(request.get("gcs") or "")
    if not address:
        raise NoWayError("this host has no address that other hosts can reach")
    port = flag(request["words"], "--port") or str(PORTS["--port"])
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _words(request: Request, gcs: str) -> List[str]:
    """Of the command line, secrets apart: those are in the environment."""
    given = list(request["words"])
    own = _own(request) if request.get("name") and not flag(given, "--node-ip-address") else None
    role = "--head" if request["role"] == "head" else f"--address={gcs}"
    return ["start", role, *([f"--node-ip-address={own}"] if own else []), *given]


def _reason(request: Request, look: HostState, gcs: str, runs: List[str], fitness: Fitness) -> str | None:
    """Why it is not started, or `None`; what runs already has taken its ports and GPUs itself."""
    if len(runs) > 1:
        return f"processes of several sessions of that cluster run here: {', '.join(runs)}"
    expected = request.get("session")
    if runs and expected and runs[0] != expected:
        return f"a raylet of {runs[0]} still runs here, but the head's session is {expected}"
    if runs:
        return _half(look, request["role"], gcs)
    return "; ".join(fitness.against) or None


def _half(look: HostState, role: str, gcs: str) -> str | None:
    """Why what runs here is no whole Ray."""
    there = {process.origin.role for process in _parts(look, gcs)}
    wanted = {"raylet", "gcs_server"} if role == "head" else {"raylet"}
    missing, left = " and ".join(sorted(wanted - there)), ", ".join(sorted(filter(None, there)))
    return f"only a part of that Ray runs here: {left}, without {missing}" if missing else None


def _running_sessions(look: HostState, gcs: str) -> List[str]:
    """The names of the sessions of that cluster of which a raylet or GCS lives here."""
    return sorted({os.path.basename(process.origin.session or "?") for process in _parts(look, gcs)})


def _parts(look: HostState, gcs: str) -> List[ScannedProcess]:
    return [process for process in look.table.values() if is_of_its_owner(look, process) and _serves(process, gcs)]


def is_of_its_owner(look: HostState, process: ScannedProcess) -> bool:
    """Whether it lives, and its word on its session counts: anybody may call a process raylet, and name any session and any GCS."""
    uid, folder = process.details.uid, look.sessions.of.get(process.pid)
    return process.alive and (uid in own_uids() or (folder is not None and folder.uid is not None and folder.uid == uid))


def _serves(process: ScannedProcess, gcs: str) -> bool:
    """In a container 127.0.0.1 is another place; of another user's process it can't be told whether it is in one."""
    found = gcs_address(process)
    if not found or not gcs:
        return False
    host, port = split_address(found)
    wanted, at = split_address(gcs)
    return port == at and (host == wanted or (is_here(host) and is_here(wanted))) and is_in_our_namespace(process.pid, "net") is not False


def _rays(look: HostState) -> List[Dict[str, Any]]:
    """Each session that lives here, where its GCS is, and whether that is on this very host."""
    found = {
        (
            os.path.basename(process.origin.session or ""),
            address,
            is_here(split_address(address)[0]) and is_in_our_namespace(process.pid, "net") is True,
            read_slurm_job(process.pid, {} if process.details.stuck else read_environ(process.pid) or {}) or "",
        )
        for process in look.table.values()
        for address in [gcs_address(process) if is_of_its_owner(look, process) else None]
        if address
    }
    return [{"session": session, "gcs": gcs, "here": here, "slurm": job or None} for session, gcs, here, job in sorted(found) if session]


def _why(request: Request, installation: Installation, facts: Dict[str, Any], command: str) -> List[str]:
    """What will be run, and the host's numbers."""
    version = f"Ray {facts.get('ray_version') or '?'}, Python {facts.get('python_version') or '?'}"
    step = find_step(request)
    return [command, f"as {installation.user}, {version} ({installation.why})", *([step.why] if step else []), *_numbers(facts)]


def _numbers(facts: Dict[str, Any]) -> List[str]:
    gpus = "an unknown number of GPUs" if facts["gpus"] is None else f"{facts['gpus']} GPU{'' if facts['gpus'] == 1 else 's'} by NVML"
    shm = ("/dev/shm", "shm_free", "shm")  # noqa: S108 where Ray's objects lie
    amounts = (("memory", "memory_free", "memory"), shm, (facts["disk_path"], "disk_free", "disk"))
    free = [f"{what}: {facts[name] / GIB:.0f} of {facts[of] / GIB:.0f} GiB free" for what, name, of in amounts if facts[name] is not None]
    return [", ".join([gpus, *free])]
