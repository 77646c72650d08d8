"""Whether a host is fit for the Ray that is to be started there: GPUs, ports, shared memory, disk, open files; each with its numbers."""

from __future__ import annotations

import os
import re
import resource
import socket
from contextlib import suppress
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from ...look.host import free_space, memory
from ...look.kinds import OWNED_KINDS
from ...look.network import addresses, listening_sockets
from ...look.origin import flag, to_number
from ...look.ports import port_listeners
from ...look.proc import read_or_nothing, read_pid_range
from ...socket_paths import PidRange, dashboard_socket, find_fault, node_socket, temp_dir
from ..host_state import HostState
from .slurm_step import find_step

PORTS = {"--port": 6379, "--dashboard-port": 8265, "--ray-client-server-port": 10001}
"""What a head takes when nothing is said."""
AGENT = {"--dashboard-agent-listen-port": 52365}
"""What each node takes; without it Ray runs, and no job can be submitted to that node."""
FULL = 0.95
"""Part of a disk from which on Ray writes no more objects there (RAY_local_fs_capacity_threshold)."""
FILES = 65536
"""Open files that Ray asks for."""
GIB = 1 << 30
_STEP = re.compile(r"/job_(\d+)/step_(\d+)(?:/|$)", re.MULTILINE)


class Fitness(NamedTuple):
    """What speaks against it, what a person should know, and the numbers."""

    against: List[str]
    doubts: List[str]
    facts: Dict[str, Any]


def judge(
    look: HostState,
    words: Sequence[str],
    environ: Mapping[str, str],
    *,
    head: bool,
    alone: bool,
    job: bool = False,
    version: str | None = None,
    session: str | None = None,
) -> Fitness:
    """As of now, for `ray start` with these words in this environment; not `alone`: what another Ray has is not held against it yet.

    `job`: one is to be submitted to the head. `version`: of the installed Ray, `None` where it is unknown. `session`: that of the head, if
    it has one by now.
    """
    fit = Fitness([], [], {})
    _judge_gpus(fit, look, words, environ)
    if alone:
        _judge_ports(fit, look, words, head=head, job=job)
    _judge_shared_memory(fit, words)
    _judge_disk(fit, words, environ)
    _judge_sockets(fit, words, environ, version, session, head=head)
    _judge_files(fit)
    _judge_slurm_step(fit)
    return fit


def _judge_gpus(fit: Fitness, look: HostState, words: Sequence[str], environ: Mapping[str, str]) -> None:
    """As Ray counts them: those of NVML that CUDA_VISIBLE_DEVICES lets through."""
    wanted, found, visible = to_number(flag(words, "--num-gpus")), _count(look), _visible(environ)
    held = _measure_held_memory(look)
    fit.facts.update(gpus=found, gpus_visible=visible, num_gpus=wanted, **held)
    if wanted and visible is not None and visible < wanted:
        fit.against.append(f"num_gpus is {wanted}, but CUDA_VISIBLE_DEVICES lists {visible}")
    if wanted and found is not None and found < wanted:
        fit.against.append(f"num_gpus is {wanted}, but NVML finds {found}")
    if wanted and found is None:
        fit.doubts.append(f"num_gpus is {wanted}; the number of GPUs is unknown: {look.fault or 'no NVML'}")
    if held["gpu_memory_held"]:
        who = "a process" if held["gpu_holders"] == 1 else f"{held['gpu_holders']} processes"
        fit.doubts.append(f"{held['gpu_memory_held'] / GIB:.1f} GiB of GPU memory is held by {who} that no live Ray session owns")


def _count(look: HostState) -> int | None:
    """MIG devices are counted by other rules."""
    gpus = look.reading.gpus
    if gpus is None or any(gpu["index"] >= 1000 for gpu in gpus):
        return None
    return sum(not gpu.get("fault") for gpu in gpus)


def _visible(environ: Mapping[str, str]) -> int | None:
    """`None`: all of them."""
    said = environ.get("CUDA_VISIBLE_DEVICES")
    return None if said is None else len([one for one in said.split(",") if one.strip() and one.strip() != "NoDevFiles"])


def _measure_held_memory(look: HostState) -> Dict[str, Any]:
    """What a Ray that is started now would not get, or not soon."""
    if look.reading.gpus is None:
        return {"gpu_memory_held": None, "gpu_holders": None}
    others = [
        holds for pid, holds in look.reading.holders.items() if pid not in look.verdicts or look.verdicts[pid].kind not in OWNED_KINDS
    ]
    amounts = [amount for holds in others for amount in holds.values()]
    known = None if None in amounts else sum(amount or 0 for amount in amounts)
    return {"gpu_memory_held": known, "gpu_holders": len(others)}


def _judge_ports(fit: Fitness, look: HostState, words: Sequence[str], *, head: bool, job: bool) -> None:
    """A port that was asked for must be free; of those that Ray would choose by itself some move on."""
    asked = {word.partition("=")[0] for word in words if word.startswith("--") and word.partition("=")[0].endswith("port")}
    wanted = {name: to_number(flag(words, name)) for name in asked if "worker-port" not in name}
    usual = {name: port for name, port in {**(PORTS if head else {}), **AGENT}.items() if name not in wanted}
    needed = {*asked, "--port", *(AGENT if head and job else ())}
    taken = {one.port for one in listening_sockets()}
    for name, port in sorted({**wanted, **usual}.items()):
        if not port or port not in taken:
            continue
        text = f"port {port} ({name[2:].replace('-', '_')}) is taken by {_holder(look, port)}"
        loss = ": no job could be submitted to this node" if name in AGENT else ""
        (fit.against if name in needed else fit.doubts).append(text + loss)


def _holder(look: HostState, port: int) -> str:
    """Who listens there."""
    for found in port_listeners(port)["listeners"]:
        process = look.table.get(found["pid"])
        if process is not None:
            return f"{process.origin.role or process.name} {process.pid} of {found['user']}"
    return "a process that can't be seen from here"


def _judge_shared_memory(fit: Fitness, words: Sequence[str]) -> None:
    """Ray puts the object store elsewhere, on a disk, when it doesn't fit into /dev/shm."""
    wanted = to_number(flag(words, "--object-store-memory"))
    free, total = free_space("/dev/shm")  # noqa: S108 where Ray's objects lie
    held = memory()
    left = None if held.used is None or held.total is None else held.total - held.used
    fit.facts.update(shm_free=free, shm=total, memory_free=left, memory=held.total)
    if wanted and free is not None and free < wanted and not flag(words, "--plasma-directory"):
        has = f"{free / GIB:.1f} GiB free: Ray would put it on a disk"
        fit.doubts.append(f"object_store_memory is {wanted / GIB:.1f} GiB, but /dev/shm has {has}")


def _judge_disk(fit: Fitness, words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Where the session's folder will lie."""
    place = flag(words, "--temp-dir") or environ.get("RAY_TMPDIR") or "/tmp"  # noqa: S108 Ray's own choice
    while not os.path.isdir(place) and place != "/":
        place = os.path.dirname(place) or "/"
    free, total = free_space(place)
    fit.facts.update(disk_free=free, disk=total, disk_path=place)
    if free == 0:
        fit.against.append(f"the disk of {place} is full")
    elif free is not None and total and 1 - free / total >= FULL:
        full = f"{100 * (1 - free / total):.0f}% full, {free / GIB:.1f} GiB free"
        fit.doubts.append(f"the disk of {place} is {full}: above 95% Ray stops creating objects that may need to be spilled")


def _judge_sockets(
    fit: Fitness, words: Sequence[str], environ: Mapping[str, str], version: str | None, session: str | None, *, head: bool
) -> None:
    """A worker has the temp dir of its head, unless it is told another one; its session is called as the head's."""
    if not head and flag(words, "--temp-dir") is None:
        return
    pids = read_pid_range() if head else PidRange(None, read_pid_range().most)
    if session:
        digits = len(session.rpartition("_")[2])
        pids = PidRange(digits, 10**digits)
    has_dashboard = head and flag(words, "--include-dashboard") != "false"
    fault = find_fault(temp_dir(words, environ), (node_socket(words), dashboard_socket(version) if has_dashboard else None), pids)
    if fault is None:
        return
    text = f"{fault.text}; {fault.remedy}"
    if fault.certain and (version is not None or not fault.is_dashboards):
        fit.against.append(text)
    else:
        fit.doubts.append(text)
        fit.facts["temp_dir_doubt"] = text


def _judge_files(fit: Fitness) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fit.facts["open_files"] = None if soft == resource.RLIM_INFINITY else soft
    if soft != resource.RLIM_INFINITY and soft < FILES:
        fit.doubts.append(f"open files are limited to {soft} (hard limit {hard}), but Ray asks for {FILES}")


def _judge_slurm_step(fit: Fitness) -> None:
    """Slurm ends with a step whatever that has started (proctrack/cgroup); steps without a number end with the job.

    Without an `srun`, or without Slurm's variables, no other step can be made from here.
    """
    step = _STEP.search(read_or_nothing("/proc/self/cgroup"))
    if step is None or find_step({}) is not None:
        return
    own = f"srun --overlap --jobid={step[1]} --nodes=1 --ntasks=1 -w {socket.gethostname()} ray start ... --block"
    why = f"cockpit is in step {step[2]} of Slurm job {step[1]}: when that step ends, Slurm kills everything started in it"
    fit.against.append(f"{why}; no other step can be started without srun and SLURM_JOB_ID. Run this instead: {own}")


def own_address(name: str | None, toward: str = "") -> str | None:
    """Under which address the others of a cluster find this host: that of the name, else the one on the way to them, or to the world."""
    mine = addresses()
    with suppress(OSError):
        found = [entry[4][0] for entry in socket.getaddrinfo(name, None, socket.AF_UNSPEC, socket.SOCK_STREAM)] if name else []
        near = [str(address) for address in found if address in mine]
        if near:
            return near[0]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((toward or "192.0.2.1", 9))  # nothing is sent: the kernel only chooses a way
        return str(way.getsockname()[0])
    return mine[0] if mine else None
