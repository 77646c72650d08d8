"""Asks the servers of inference engines (vLLM, SGLang) that Ray's workers run on this host for their metrics.

Only processes that serve engines are asked: parents of an engine's processes, and processes with the title of a server. Other processes of
a job listen too (torch's stores, NCCL). They are never asked.
"""

from __future__ import annotations

import re
import socket
import time
from itertools import count
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from .. import trust
from ..engine_metrics import MAX_BYTES, MAX_ENGINES, EngineReading, read_engines
from .network import ListeningSocket, listening_sockets
from .proc import is_in_our_namespace, open_files
from .processes import Identity, ProcessTable, ScannedProcess

TITLES = ("VLLM::", "vllm::", "sglang::")
SERVER_TITLES = ("VLLM::APIServer", "sglang::server", "sglang::http_server")
MAX_SERVERS, MAX_PORTS, AT_ONCE = 64, 4, 8
"""Limits: processes that are asked, ports of each, and questions at the same time. Processes of root and our user come first, because any
user can start a process with such a title."""
ASK_TIMEOUT_S = 3.0
"""Seconds for one whole answer."""
SILENT_AGAIN_S, OTHER_AGAIN_S = 60.0, 600.0
"""Seconds until a port is asked again: after no answer (an engine that loads), and after another answer (a worker's own port for Ray)."""
MAX_HEAD = 1 << 16
REQUEST = b"GET /metrics HTTP/1.0\r\nHost: localhost\r\nUser-Agent: ray-cockpit\r\nConnection: close\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,12})\r\n", re.IGNORECASE)
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 what others bind

Ask = Callable[[str, int], bytes]
"""Returns the body of an answer. Raises `AskError`."""
Port = Tuple[Identity, int]


class AskError(Exception):
    """A port has not answered with metrics; the message says why."""

    def __init__(self, text: str, is_silent: bool = False) -> None:
        super().__init__(text)
        self.is_silent = is_silent


class _Server(NamedTuple):
    """What a port has answered."""

    asked: float
    engines: Tuple[EngineReading, ...] = ()
    """The engines in its last answer that had any."""
    error: str | None = None
    is_silent: bool = False

    def is_due(self, now: float) -> bool:
        return bool(self.engines) or now - self.asked >= (SILENT_AGAIN_S if self.is_silent else OTHER_AGAIN_S)


class EngineServers:
    """Remembers which ports belong to engines, so that other ports are seldom asked."""

    def __init__(self, ask: Ask | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._clock = ask or ask_port, clock
        self._servers: Dict[Port, _Server] = {}

    def read(self, table: ProcessTable) -> List[Dict[str, Any]]:
        """The engines of all servers. If a server does not answer now, its last engines count, with the reason."""
        now = self._clock()
        listening = {process.identity: dict(_ports(process)) for process in find_servers(table)}
        self._forget(listening)
        due = []
        for identity, ports in listening.items():
            for number, address in ports.items():
                server = self._servers.get((identity, number))
                if server is None or server.is_due(now):
                    due.append(((identity, number), address))
        if due:
            from concurrent.futures import ThreadPoolExecutor  # imports `logging`; most hosts have no such server

            with ThreadPoolExecutor(AT_ONCE) as pool:
                for (port, _), server in zip(due, pool.map(lambda one: self._ask_one(*one), due)):  # noqa: B905 Python 3.8
                    self._servers[port] = server
        for port, server in self._servers.items():
            if server.engines and port[1] not in listening[port[0]]:
                self._servers[port] = server._replace(error=f"nothing listens at port {port[1]} any more")
        rows = [
            (table[identity[0]].details.uid not in trust.own_uids(), place, identity[0], number, engine, server.error)
            for (identity, number), server in self._servers.items()
            for place, engine in enumerate(server.engines)
        ]
        rows.sort(key=lambda row: row[:2])  # any server may report very many engines, so the first engine of each server comes first
        return [{"pid": pid, "port": number, "error": error, **engine._asdict()} for _, _, pid, number, engine, error in rows[:MAX_ENGINES]]

    def _forget(self, listening: Mapping[Identity, Mapping[int, str]]) -> None:
        """Forget the ports at which nothing listens any more. Of each process that runs, keep the last ones that had engines."""
        kept: Dict[Port, _Server] = {}
        gone: Dict[Identity, int] = {}
        for port, server in reversed(list(self._servers.items())):
            identity, number = port
            if identity not in listening:
                continue
            if number not in listening[identity]:
                if not server.engines or gone.get(identity, 0) == MAX_PORTS:
                    continue
                gone[identity] = gone.get(identity, 0) + 1
            kept[port] = server
        self._servers = dict(reversed(list(kept.items())))

    def _ask_one(self, port: Port, address: str) -> _Server:
        before = self._servers.get(port)
        now = self._clock()
        known = before.engines if before else ()
        try:
            engines = tuple(read_engines(self._ask(address, port[1])))
        except AskError as error:
            return _Server(now, known, str(error), error.is_silent)
        if not engines:
            return _Server(now, known, "its answer has no numbers of an engine")
        return _Server(now, engines)


def find_servers(table: ProcessTable) -> List[ScannedProcess]:
    """Processes of Ray that serve engines. Those of root and our user come first, then one of each other user in turn."""
    parents = {process.parent for process in table.values() if process.alive and _title(process).startswith(TITLES)}
    found = [
        process
        for process in table.values()
        if process.alive
        and not process.details.stuck
        and (process.origin.from_ray or process.origin.role == "worker")
        and (_title(process).startswith(SERVER_TITLES) or (process.pid in parents and not _title(process).startswith(TITLES)))
    ]
    numbers: Dict[Optional[int], Iterator[int]] = {}
    places = {one.pid: next(numbers.setdefault(one.details.uid, count())) for one in found}
    found.sort(key=lambda process: (process.details.uid not in trust.own_uids(), places[process.pid]))
    return found[:MAX_SERVERS]


def _title(process: ScannedProcess) -> str:
    return process.details.argv[0] if process.details.argv else process.name


def _ports(process: ScannedProcess) -> Iterator[Tuple[int, str]]:
    """The ports on which the process listens in our network namespace, each with the address to connect to."""
    if is_in_our_namespace(process.pid, "net") is not True:
        return
    sockets: Dict[str, ListeningSocket] = {found.link: found for found in listening_sockets()}
    try:
        held = sorted({sockets[link].port: sockets[link].host for link in open_files(process.pid) if link in sockets}.items())
    except OSError:
        return  # the process has ended, or we may not read it
    for port, host in held[:MAX_PORTS]:
        yield port, _ANY.get(host, host)


def ask_port(address: str, port: int) -> bytes:
    """Asks a port for `/metrics` and returns the body. Raises `AskError`. Only the request is sent; redirects are not followed."""
    try:
        with socket.create_connection((address, port), ASK_TIMEOUT_S) as connection:
            connection.sendall(REQUEST)
            answer = _receive(connection, time.monotonic() + ASK_TIMEOUT_S)
    except socket.timeout:
        raise AskError(f"no whole answer at port {port} within {ASK_TIMEOUT_S:.0f} s", is_silent=True) from None
    except OSError as error:
        raise AskError(f"port {port}: {(error.strerror or str(error)).lower()}", is_silent=True) from None
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head[:100].split(b" ", 2)
    if not head.startswith(b"HTTP/1.") or len(words) < 2 or not words[1][:3].isdigit():
        raise AskError(f"port {port} does not speak HTTP")
    if words[1][:3] != b"200":
        raise AskError(f"port {port}: HTTP {words[1][:3].decode()}")
    if len(body) > MAX_BYTES:
        raise AskError(f"port {port}: the answer has more than {MAX_BYTES >> 20} MB")
    return body


def _receive(connection: socket.socket, until: float) -> bytes:
    answer = bytearray()
    while len(answer) <= MAX_HEAD + MAX_BYTES and not _is_whole(answer):
        left = until - time.monotonic()
        if left <= 0:
            raise socket.timeout
        connection.settimeout(left)
        part = connection.recv(1 << 16)
        if not part:
            break
        answer += part
    return bytes(answer)


def _is_whole(answer: bytearray) -> bool:
    """Whether the answer has as many bytes as its head announces. Without a length, it ends with the connection."""
    end = answer.find(b"\r\n\r\n", 0, MAX_HEAD)
    length = _LENGTH.search(answer, 0, end + 2) if end >= 0 else None
    return length is not None and len(answer) >= end + 4 + int(length[1])
