"""Checks whether this host is fit for a Ray that is to be started: GPUs, ports, shared memory, disk, open files, each with its numbers."""

from __future__ import annotations

import os
import re
import resource
import socket
from contextlib import suppress
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from ...sample.host import free_space, memory
from ...sample.network import addresses, listening_sockets
from ...sample.origin import flag, to_number
from ...sample.ports import port_listeners
from ...sample.proc import read_or_nothing, read_pid_range
from ...sample.process_kinds import OWNED_KINDS
from ...socket_paths import PidRange, dashboard_socket, find_fault, node_socket, temp_dir
from ..host_state import HostState, Request
from .slurm_step import find_step

PORTS = {"--port": 6379, "--dashboard-port": 8265, "--ray-client-server-port": 10001}
"""Default ports of a head."""
AGENT = {"--dashboard-agent-listen-port": 52365}
"""Default port of each node. If it is taken, Ray runs, but no job can be submitted to that node."""
FULL = 0.95
"""Used share of a disk from which on Ray writes no objects there (RAY_local_fs_capacity_threshold)."""
FILES = 65536
"""Open files that Ray needs."""
LARGE_STORE_BYTES = 10**10
"""Ray refuses a larger object store that does not fit into /dev/shm (REQUIRE_SHM_SIZE_THRESHOLD in ray_constants.py, 2.9 to 2.60)."""
ALLOW_SLOW_STORE = "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE"
GIB = 1 << 30
_STEP = re.compile(r"/job_(\d+)/step_(\d+)(?:/|$)", re.MULTILINE)


class Fitness(NamedTuple):
    """The result of all checks."""

    against: List[str]
    """Reasons for not starting Ray."""
    doubts: List[str]
    """Warnings for a person."""
    facts: Dict[str, Any]
    """The numbers of the host."""


def judge(state: HostState, request: Request, environ: Mapping[str, str], version: str | None) -> Fitness:
    """Checks the host now for the `ray start` of the request in this environment. `version`: of the installed Ray, `None` if unknown."""
    fit, words = Fitness([], [], {}), request["words"]
    _judge_gpus(fit, state, words, environ)
    if not request.get("survey"):  # in a survey another Ray still runs here, and taken ports do not count yet
        _judge_ports(fit, state, request)
    _judge_shared_memory(fit, words, environ)
    _judge_disk(fit, words, environ)
    _judge_sockets(fit, request, environ, version)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fit.facts["open_files"] = None if soft == resource.RLIM_INFINITY else soft
    if soft != resource.RLIM_INFINITY and soft < FILES:
        fit.doubts.append(f"open files are limited to {soft} (hard limit {hard}), but Ray asks for {FILES}")
    _judge_slurm_step(fit)
    return fit


def _judge_gpus(fit: Fitness, state: HostState, words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Counts GPUs as Ray does: the GPUs of NVML, as far as CUDA_VISIBLE_DEVICES allows them."""
    gpus, wanted = state.reading.gpus, to_number(flag(words, "--num-gpus"))
    found: int | None = None
    if gpus is not None and not any(gpu["index"] >= 1000 for gpu in gpus):  # MIG devices are counted by other rules
        found = sum(not gpu.get("fault") for gpu in gpus)
    devices = environ.get("CUDA_VISIBLE_DEVICES")
    visible = None if devices is None else len([one for one in devices.split(",") if one.strip() and one.strip() != "NoDevFiles"])

    # GPU memory that the new Ray would not get, or not soon.
    held: int | None = None
    holders: int | None = None
    if gpus is not None:
        others = [
            holds
            for pid, holds in state.reading.holders.items()
            if pid not in state.verdicts or state.verdicts[pid].kind not in OWNED_KINDS
        ]
        amounts = [amount for holds in others for amount in holds.values()]
        held = None if None in amounts else sum(amount or 0 for amount in amounts)
        holders = len(others)

    fit.facts.update(gpus=found, gpus_visible=visible, num_gpus=wanted, gpu_memory_held=held, gpu_holders=holders)
    if wanted and visible is not None and visible < wanted:
        fit.against.append(f"num_gpus is {wanted}, but CUDA_VISIBLE_DEVICES lists {visible}")
    if wanted and found is not None and found < wanted:
        fit.against.append(f"num_gpus is {wanted}, but NVML finds {found}")
    if wanted and found is None:
        fit.doubts.append(f"num_gpus is {wanted}; the number of GPUs is unknown: {state.fault or 'no NVML'}")
    if held:
        who = "a process" if holders == 1 else f"{holders} processes"
        fit.doubts.append(f"{held / GIB:.1f} GiB of GPU memory is held by {who} that no live Ray session owns")


def _judge_ports(fit: Fitness, state: HostState, request: Request) -> None:
    """A requested port must be free. If a default port is taken, Ray uses another one in some cases."""
    words, is_head = request["words"], request["role"] == "head"
    asked = {word.partition("=")[0] for word in words if word.startswith("--") and word.partition("=")[0].endswith("port")}
    wanted = {name: to_number(flag(words, name)) for name in asked if "worker-port" not in name}
    usual = {name: port for name, port in {**(PORTS if is_head else {}), **AGENT}.items() if name not in wanted}
    needed = {*asked, "--port", *(AGENT if is_head and request.get("job") else ())}
    taken = {one.port for one in listening_sockets()}
    for name, port in sorted({**wanted, **usual}.items()):
        if not port or port not in taken:
            continue
        by = "a process that can't be seen from here"
        for found in port_listeners(port)["listeners"]:
            if found["pid"] in state.table:
                process = state.table[found["pid"]]
                by = f"{process.origin.role or process.name} {process.pid} of {found['user']}"
                break
        text = f"port {port} ({name[2:].replace('-', '_')}) is taken by {by}"
        loss = ": no job could be submitted to this node" if name in AGENT else ""
        (fit.against if name in needed else fit.doubts).append(text + loss)


def _judge_shared_memory(fit: Fitness, words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Ray puts the object store on a disk if it does not fit into /dev/shm."""
    wanted = to_number(flag(words, "--object-store-memory"))
    free, total = free_space("/dev/shm")  # noqa: S108 Ray's objects
    held = memory()
    left = None if held.used is None or held.total is None else held.total - held.used
    fit.facts.update(shm_free=free, shm=total, memory_free=left, memory=held.total)
    if wanted and free is not None and free < wanted and not flag(words, "--plasma-directory"):
        is_allowed = wanted <= LARGE_STORE_BYTES or bool(environ.get(ALLOW_SLOW_STORE))
        then = "Ray would put it on a disk" if is_allowed else f"`ray start` would fail, unless {ALLOW_SLOW_STORE}=1 is set"
        text = f"object_store_memory is {wanted / GIB:.1f} GiB, but /dev/shm has"
        # What another Ray holds there is free once that Ray is stopped.
        if not is_allowed and total is not None and total < wanted:
            fit.against.append(f"{text} {total / GIB:.1f} GiB: {then}")
        else:
            fit.doubts.append(f"{text} {free / GIB:.1f} GiB free: {then}")


def _judge_disk(fit: Fitness, words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Checks the disk of the session's folder."""
    place = flag(words, "--temp-dir") or environ.get("RAY_TMPDIR") or "/tmp"  # noqa: S108 Ray's default
    while not os.path.isdir(place) and place != "/":
        place = os.path.dirname(place) or "/"
    free, total = free_space(place)
    fit.facts.update(disk_free=free, disk=total, disk_path=place)
    if free == 0:
        fit.against.append(f"the disk of {place} is full")
    elif free is not None and total and 1 - free / total >= FULL:
        full = f"{100 * (1 - free / total):.0f}% full, {free / GIB:.1f} GiB free"
        fit.doubts.append(f"the disk of {place} is {full}: above 95% Ray stops creating objects that may need to be spilled")


def _judge_sockets(fit: Fitness, request: Request, environ: Mapping[str, str], version: str | None) -> None:
    """A worker has the temp dir of its head, unless a flag names another one; its session has the same name as the head's."""
    words, is_head = request["words"], request["role"] == "head"
    if not is_head and flag(words, "--temp-dir") is None:
        return
    pids = read_pid_range() if is_head else PidRange(None, read_pid_range().most)
    if request.get("session"):
        digits = len(request["session"].rpartition("_")[2])
        pids = PidRange(digits, 10**digits)
    has_dashboard = is_head and flag(words, "--include-dashboard") != "false"
    fault = find_fault(temp_dir(words, environ), (node_socket(words), dashboard_socket(version) if has_dashboard else None), pids)
    if fault is None:
        return
    text = f"{fault.text}; {fault.remedy}"
    if fault.certain and (version is not None or not fault.is_dashboards):
        fit.against.append(text)
    else:
        fit.doubts.append(text)
        fit.facts["temp_dir_doubt"] = text


def _judge_slurm_step(fit: Fitness) -> None:
    """When a step with a number ends, Slurm kills everything that it has started (proctrack/cgroup); other steps end with the job.

    Without an `srun`, or without Slurm's variables, no other step can be started from here.
    """
    step = _STEP.search(read_or_nothing("/proc/self/cgroup"))
    if step is None or find_step({}) is not None:
        return
    command = f"srun --overlap --jobid={step[1]} --nodes=1 --ntasks=1 -w {socket.gethostname()} ray start ... --block"
    why = f"cockpit is in step {step[2]} of Slurm job {step[1]}: when that step ends, Slurm kills everything started in it"
    fit.against.append(f"{why}; no other step can be started without srun and SLURM_JOB_ID. Run this instead: {command}")


def own_address(name: str | None, toward: str = "") -> str | None:
    """The address by which the other hosts of a cluster find this host: the address of its name, else the one on the route to `toward`."""
    ours = addresses()
    with suppress(OSError):
        found = [entry[4][0] for entry in socket.getaddrinfo(name, None, socket.AF_UNSPEC, socket.SOCK_STREAM)] if name else []
        own = [str(address) for address in found if address in ours]
        if own:
            return own[0]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((toward or "192.0.2.1", 9))  # nothing is sent: the kernel only chooses a route
        return str(probe.getsockname()[0])
    return ours[0] if ours else None
