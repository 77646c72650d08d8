"""Builds process tables like those of a scan of /proc."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.probe.sample.classify import classify
from cockpit.probe.sample.origin import trace
from cockpit.probe.sample.process_kinds import Driver, KindVerdict, ProcessFacts, SessionFolder, SocketListener
from cockpit.probe.sample.processes import Details, ProcessTable, ScannedProcess

SESSION = "/tmp/ray/session_2026-11-21_08-02-10_714202_8139"
OTHER = "/data/ray/session_2026-11-20_10-00-00_000001_77"
NODE = "e68c5c757d6b7642ba77ab7476e62d10a2bb2eec39866762e519a66e"
USER = 1000
RAY = "/env/lib/python3.11/site-packages/ray"


def process(
    pid: int,
    command: str = "python train.py",
    parent: int = 1,
    ticks: int | None = None,
    name: str | None = None,
    state: str = "S",
    group: int | None = None,
    leader: int | None = None,
    pids: Sequence[int] = (),
    logs: Sequence[str] = (),
    readable: bool = True,
    stuck: bool = False,
    apart: bool = False,
    uid: int | None = USER,
    terminal: int = 0,
    **environ: str,
) -> ScannedProcess:
    """`command` is split at blanks; the younger the process, the higher its pid, unless `ticks` says otherwise."""
    argv = () if state == "Z" or stuck else tuple(command.split())
    comm = name if name is not None else command.split(maxsplit=1)[0].rpartition("/")[2][:15]
    known = environ if readable and not stuck else None
    details = Details(argv, known, uid, tuple(pids) or (pid,), None, trace(argv, comm, known, logs), stuck, apart)
    return ScannedProcess(pid, comm, state, parent, group or pid, leader or pid, ticks or pid * 10, 1 << 20, terminal, details=details)


def table(*processes: ScannedProcess, init: bool = True) -> ProcessTable:
    first = [process(1, "/sbin/init", parent=0, name="systemd")] if init else []
    return {one.pid: one for one in [*first, *processes]}


def raylet(pid: int = 100, session: str = SESSION, **more: object) -> ScannedProcess:
    command = (
        f"{RAY}/core/src/ray/raylet/raylet --raylet_socket_name={session}/sockets/raylet --node_id={NODE} "
        f"--python_worker_command=python_{RAY}/_private/workers/default_worker.py --session_dir={session}"
    )
    return process(pid, command, **more)


def gcs(pid: int = 90, session: str = SESSION) -> ScannedProcess:
    """Like 2.9 and 2.44: its session is only in the folder of its logs."""
    return process(pid, f"{RAY}/core/src/ray/gcs/gcs_server --log_dir={session}/logs --gcs_server_port=6379")


def worker(pid: int, parent: int = 100, title: str = "ray::Actor", job: str = "02000000", **more: object) -> ScannedProcess:
    more.setdefault("logs", [worker_log(pid, job)])
    return process(pid, title, parent, **{"RAY_RAYLET_PID": str(parent), "RAY_JOB_ID": job, **more})


def left(pid: int, command: str = "python serve.py", raylet: int = 100, job: str = "02000000", **more: object) -> ScannedProcess:
    """A former child of a worker of this raylet, without its parent."""
    return process(pid, command, **{"RAY_RAYLET_PID": str(raylet), "RAY_JOB_ID": job, **more})


def worker_log(pid: int, job: str = "02000000", session: str = SESSION) -> str:
    return f"{session}/logs/worker-8ce8f3d9742b1f9fc3422032b656bab15adc0ac0a4378dcf401895db-{job}-{pid}.out"


def folder(
    path: str = SESSION, *raylets: int, uid: int | None = USER, listeners: Sequence[SocketListener] | None = (), inode: int = 0
) -> SessionFolder:
    """A session's folder with logs of these raylets."""
    place = (1, inode or hash(path) & 0xFFFF) if uid is not None else None
    nodes = frozenset([NODE]) if path == SESSION else frozenset()
    return SessionFolder(path, place, uid, None if listeners is None else tuple(listeners), frozenset(raylets), nodes)


FOLDERS = (folder(SESSION, 99, 100), folder(OTHER, 150, 500))
"""Facts of a host with these folders and processes."""


def judged(
    *processes: ScannedProcess,
    holders: Sequence[int] = (),
    drivers: Sequence[tuple[ScannedProcess, str]] = (),
    init: bool = True,
    folders: Sequence[SessionFolder] = FOLDERS,
    **facts: object,
) -> dict[int, KindVerdict]:
    known = {one.pid: Driver(one.ticks, SESSION, job) for one, job in drivers}
    there = {one.path: one for one in folders}
    named = {one.pid: there[one.origin.session] for one in processes if one.origin.session in there}
    made = ProcessFacts(folders=tuple(folders), folder_of=named, drivers=known, holders=frozenset(holders), **facts)
    return classify(table(*processes, init=init), made)


def kinds(*processes: ScannedProcess, **more: object) -> dict[int, str]:
    return {pid: verdict.kind for pid, verdict in judged(*processes, **more).items()}
