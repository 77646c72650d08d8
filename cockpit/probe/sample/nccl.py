"""Asks NCCL in one process of a job for a report on communicators, through its RAS service (reliability, availability, serviceability).

Every process with a communicator has a thread that answers on a TCP port. All processes of a user on a host share that port, and the kernel
chooses which of them gets a connection. So the kernel's tables are read first: they show which process has accepted. Only then a report is
asked for.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import time
from itertools import islice
from typing import Any, Dict, List, Sequence, Set, Tuple

from .network import ListeningSocket, accepted_link, listening_sockets, split_address
from .proc import make_legible, open_files, read, read_link
from .processes import Identity, lives, read_environ

DEFAULT_PORT = 28028
WITH_RAS: "Version" = (2, 24, 3)
"""The first release of NCCL that has the service."""
SAFE: "Version" = (2, 29, 2)
"""The first release without this bug: if ranks of a communicator are missing, NCCL reads wrong memory in the process that reports."""
MAX_PROCESSES = 64
TRIES = 24
"""Connections that are tried until a wanted process accepts. One of eight processes is reached with a probability of 96 %."""
TIMEOUT_S = 15.0
"""Seconds for the whole request. cockpit waits 20 s for the probe, and ssh takes a part of that."""
LINE_TIMEOUT_S = 2.0
"""Seconds for the answer to one line of the protocol. A thread that hangs accepts connections, but does not answer."""
LEG_TIMEOUT_S = 4
"""Seconds for which NCCL waits for other processes in each of its own requests; its default is 5."""
MAX_REPORT_BYTES = 4 << 20
"""A rank takes 650 bytes of JSON for each of its communicators, so 1,000 ranks with five each take 3.3 MB."""
MAX_LINE_BYTES = 1024
MAX_MAPS_BYTES = 16 << 20
MAX_ENTRIES = 20_000
_CLONE_NEWNET = 0x40000000
_LIBRARY = b"/libnccl.so"
_FILE_VERSION = re.compile(r"/libnccl\.so\.(\d+)\.(\d+)\.(\d+)")
_WHEEL = "/nvidia/nccl/lib/libnccl.so"
_WHEEL_VERSION = re.compile(r"nvidia_nccl_cu\d+-(\d+)\.(\d+)\.(\d+)(?:\.post\d+)?\.dist-info")

Answer = Dict[str, Any]
Version = Tuple[int, int, int]


class NcclError(Exception):
    """NCCL gave no report; the message is one sentence."""


def ask_nccl(wanted: Sequence[Identity], *, even_old: bool) -> Answer:
    """Asks one of these processes for its report. Returns `{"pid", "version", "report"}`, or an error sentence.

    Without `even_old`, an NCCL that is older than `SAFE` or of unknown version is not asked, and `report` is `None`. A start time of 0
    stands for any process with the pid.
    """
    try:
        return _ask(wanted, even_old=even_old)
    except NcclError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": f"NCCL can't be asked: {(error.strerror or str(error)).lower()}"}


def _ask(wanted: Sequence[Identity], *, even_old: bool) -> Answer:
    deadline = time.monotonic() + TIMEOUT_S
    pids = [pid for pid, ticks in wanted[:MAX_PROCESSES] if (lives(pid, ticks) if ticks else os.path.exists(f"/proc/{pid}/stat"))]
    if not pids:
        raise NcclError("the processes have ended; their pids are free or other processes' now")
    first, network = pids[0], read_link(f"/proc/{pids[0]}/ns/net")
    environ = read_environ(first)
    if network is None or environ is None:
        raise NcclError(f"process {first} belongs to another user: run cockpit as root or as its user")
    pids = [pid for pid in pids if read_link(f"/proc/{pid}/ns/net") == network]
    service = _find_service(pids, environ)
    if network != read_link("/proc/self/ns/net"):
        _enter_network(first)

    strangers = silent = 0
    for _ in range(TRIES):
        if time.monotonic() > deadline - LINE_TIMEOUT_S:
            break
        with socket.socket(socket.AF_INET6 if ":" in service.host else socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(LINE_TIMEOUT_S)
            try:
                connection.connect((service.host, service.port))
                hello = _say(connection, "CLIENT PROTOCOL 2")
            except OSError:
                silent += 1
                continue
            if not hello.upper().startswith("SERVER PROTOCOL"):
                raise NcclError(f"the listener on port {service.port} is not NCCL's RAS")
            link = accepted_link(first, connection.getpeername()[:2], connection.getsockname()[:2])
            pid = next((pid for pid in pids if link and link in _links(pid)), None)
            if pid is None:
                strangers += 1
                continue
            version = find_version(pid)
            answer: Answer = {"pid": pid, "version": version and ".".join(map(str, version)), "report": None}
            if even_old or (version is not None and version >= SAFE):
                answer["report"] = _read_report(connection, deadline)
            return answer
    raise NcclError(_why_nobody(service.port, silent, strangers))


def _why_nobody(port: int, silent: int, strangers: int) -> str:
    if not strangers:
        return f"nobody answers on port {port}: the RAS thread of NCCL may hang"
    others = f"other processes have answered {strangers} times on port {port}, but no process of the job"
    return f"{others}; if several jobs share it, set another NCCL_RAS_ADDR for each" + (f"; {silent} times none did" if silent else "")


def _find_service(pids: Sequence[int], environ: Dict[str, str]) -> ListeningSocket:
    """The socket on which these processes listen for RAS clients. Only the port is taken from the environment, never a host."""
    _, port = split_address(environ.get("NCCL_RAS_ADDR", ""))
    port = port or DEFAULT_PORT
    held: Set[str] = set().union(*map(_links, pids))
    sockets = [one for one in listening_sockets(pids[0]) if one.port == port]
    service = next((one for one in sockets if one.link in held), None)
    if service is not None:
        return service._replace(host={"0.0.0.0": "127.0.0.1", "::": "::1"}.get(service.host, service.host))  # noqa: S104 nothing is bound
    if environ.get("NCCL_RAS_ENABLE", "").strip() == "0":
        raise NcclError("NCCL's RAS is switched off there (NCCL_RAS_ENABLE=0)")
    version = find_version(pids[0])
    if version is not None and version < WITH_RAS:
        raise NcclError(f"NCCL {'.'.join(map(str, version))} there has no RAS: it came with 2.24.3")
    if sockets:
        raise NcclError(f"port {port} there belongs to processes of another job or user: set another NCCL_RAS_ADDR for each job")
    raise NcclError(f"no process of the job listens on port {port}: it has no communicator yet, or its NCCL is older than 2.24.3")


def _links(pid: int) -> Set[str]:
    """The open sockets of a process. Raises `NcclError`."""
    try:
        return {link for link in open_files(pid) if link.startswith("socket:")}
    except FileNotFoundError:
        return set()
    except PermissionError:
        raise NcclError(f"process {pid} belongs to another user: run cockpit as root or as its user") from None


def _enter_network(pid: int) -> None:
    """Moves this thread into the network namespace of the process, which has its loopback. Raises `NcclError`."""
    with open(f"/proc/{pid}/ns/net", "rb") as namespace:
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno()).lower()
            raise NcclError(f"process {pid} has a network of its own, as in a container: run cockpit as root, or inside ({reason})")


def find_version(pid: int) -> "Version | None":
    """The version of NCCL in a process, from the names of mapped files; the oldest one, if there are several. `None`: unknown.

    If a wheel was replaced while the process runs, the version is unknown, because its metadata belong to the new wheel.
    """
    try:
        maps = read(f"/proc/{pid}/maps", MAX_MAPS_BYTES)
    except OSError:
        return None
    found: List[Version] = []
    lines = {line[line.index(b"/") :] for line in maps.split(b"\n") if _LIBRARY in line}
    for path in map(make_legible, map(os.fsdecode, lines)):
        named = [_FILE_VERSION.search(path)]
        if _WHEEL in path and not path.endswith(" (deleted)"):
            folder = path[: path.index(_WHEEL)]
            try:
                with os.scandir(f"/proc/{pid}/root{folder}") as entries:
                    named += [_WHEEL_VERSION.fullmatch(entry.name) for entry in islice(entries, MAX_ENTRIES)]
            except OSError:
                return None
        versions = [(int(match[1]), int(match[2]), int(match[3])) for match in named if match]
        if not versions:
            return None
        found += versions
    return min(found, default=None)


# The protocol has lines of text. Then the report follows, which ends with the connection.


def _say(connection: socket.socket, line: str) -> str:
    """Sends a line, and returns the line of the answer. Raises `OSError`, also if the connection ends."""
    connection.sendall(f"{line}\n".encode("ascii"))
    answer = bytearray()
    give_up = time.monotonic() + LINE_TIMEOUT_S
    while not answer.endswith(b"\n"):
        if len(answer) >= MAX_LINE_BYTES or time.monotonic() > give_up:
            raise OSError("no line has come")
        byte = connection.recv(1)  # byte by byte, so that nothing after the line is read
        if not byte:
            raise OSError("the connection has ended")
        answer += byte
    return answer.decode("utf-8", "replace").strip()


def _read_report(connection: socket.socket, deadline: float) -> str:
    """Reads the report: as JSON from NCCL 2.28.7 on, else as text. Raises `NcclError`."""
    try:
        _say(connection, f"TIMEOUT {LEG_TIMEOUT_S}")
        _say(connection, "SET FORMAT json")  # an older NCCL answers that it does not know the command, and sends text
        connection.sendall(b"VERBOSE STATUS\n")
        report = bytearray()
        while True:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            part = connection.recv(1 << 16)
            report += part
            if not part:
                return report.decode("utf-8", "replace")
            if len(report) > MAX_REPORT_BYTES:
                raise NcclError(f"its report is longer than {MAX_REPORT_BYTES >> 20} MB")
            if time.monotonic() > deadline:
                raise socket.timeout
    except OSError as error:
        if isinstance(error, socket.timeout):
            raise NcclError(f"NCCL has not finished its report within {TIMEOUT_S:.0f} s") from None
        raise NcclError("NCCL has ended the connection before its report") from None
