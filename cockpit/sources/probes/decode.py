"""Decodes the JSON lines of a probe and converts them into values of the model, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from cockpit.model import (
    Amount,
    Disk,
    Fault,
    FilledDisk,
    Gpu,
    Host,
    HostEngine,
    HostMemory,
    HttpProxy,
    Listener,
    MemoryUser,
    OomKill,
    Pointer,
    Process,
    RayProcess,
    RdmaPort,
    Session,
    ShmUser,
    StuckProcess,
    TempDir,
    Value,
)
from cockpit.secrets import redact
from cockpit.sources.lenient_json import mend
from cockpit.sources.source import SourceError
from cockpit.times.clock import redate
from cockpit.times.ttl_cache import TtlCache

T = TypeVar("T")
V = TypeVar("V", bound=Value)
CLOCK_TOLERANCE_S: Final = 2.0
"""Seconds by which two clocks may differ before times are converted."""
MEND_MAX_BYTES: Final = 4 << 20
"""The longest invalid JSON that is repaired. Our own probes write some (NaN), but another program may write it without end."""
MAX_TITLES: Final = 16
MAX_TITLE_CHARS: Final = 200
"""Titles of one process in one sample, and characters of each. Our own probe sends no more."""
_BEYOND_FLOAT: Final = re.compile(rb"\d{300}")
"""Finds numbers that may be too large for a float, which would raise an error at the first division."""


class Hello(msgspec.Struct):
    """The first line of a probe."""

    hello: int
    addresses: tuple[str, ...] = ()


class Sample(msgspec.Struct):
    """One sample, with times of the host's own clock. It has the model's values, but raw; `make_host` completes them."""

    taken: float
    up: float | None = None
    """The same moment by a clock that nobody sets: seconds since the boot of the host."""
    machine: str | None = None
    observed: Mapping[str, float] = {}
    """For each source, under its name in `faults`: when its facts were read, by the clock of `up`."""
    paces: Mapping[str, float] = {}
    """For each source that is read seldom, because it costs much CPU: the seconds between two reads."""
    cpu: float | None = None
    cpus: int | None = None
    memory: HostMemory | None = None
    shm: Amount | None = None
    shm_users: tuple[ShmUser, ...] | None = None
    disks: tuple[Disk, ...] | None = None
    filled: tuple[FilledDisk, ...] = ()
    gpus: tuple[Gpu, ...] | None = None
    processes: tuple[Process, ...] | None = None
    ended: tuple[Process, ...] = ()
    memory_users: tuple[MemoryUser, ...] | None = None
    sessions: tuple[Session, ...] | None = None
    nodes: tuple[str, ...] = ()
    rays: tuple[RayProcess, ...] | None = None
    pointers: tuple[Pointer, ...] | None = None
    temps: tuple[TempDir, ...] | None = None
    driver: str | None = None
    proxy: HttpProxy | None = None
    oom_kills: tuple[OomKill, ...] | None = None
    written: Mapping[str, Mapping[str, float]] = {}
    stuck: tuple[StuckProcess, ...] | None = None
    rdma_ports: tuple[RdmaPort, ...] | None = None
    engines: tuple[HostEngine, ...] | None = None
    pid_digits: int | None = None
    pid_max: int | None = None
    unanswered: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


class StackFrame(msgspec.Struct, frozen=True):
    """One call in a stack."""

    name: str
    file: str
    line: int


class StackThread(msgspec.Struct):
    """The stack of one thread; the innermost call is first."""

    frames: tuple[StackFrame, ...]


class NcclAnswer(msgspec.Struct):
    """What the probe has learned from NCCL; without a report the version was the reason not to ask."""

    version: str | None = None
    report: str | None = None


_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {kind: msgspec.json.Decoder(kind) for kind in (Hello, Sample)}


def is_hello(line: bytes) -> bool:
    """Whether a line is the first line of a probe."""
    return b'"hello"' in line[:16]


def read_line(line: bytes, kind: type[T]) -> T:
    """Decode a line as `Hello` or `Sample`. Raises `SourceError`."""
    decoder: msgspec.json.Decoder[T] = _DECODERS[kind]
    try:
        if _BEYOND_FLOAT.search(line) is None:
            return decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:  # Python's json writes half a surrogate of a process title, or NaN, which are not valid JSON
        return decoder.decode(mend(line, MEND_MAX_BYTES))
    except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
        raise SourceError(str(error)) from error


def convert_answer(answer: Mapping[str, Any], key: str, shape: type[T], host: str) -> T:
    """Decode one field of an answer. Raises `SourceError`, since another program may have answered."""
    try:
        return msgspec.convert(answer.get(key), shape)
    except msgspec.ValidationError as error:
        raise SourceError(f"the output of the probe of {host} can't be read: {error}") from error


def make_host(sample: Sample, name: str, addresses: Sequence[str], taken: float, skew: float, *, local: bool) -> Host:
    """The host of a sample. `taken` is a time of our clock; `skew` is how many seconds our clock is ahead of the host's.

    The caller gives the name: a probe can't report facts about another host.
    """
    shift = skew if abs(skew) > CLOCK_TOLERANCE_S else 0.0
    return Host(
        name=name,
        addresses=tuple(addresses),
        taken=taken,
        machine=sample.machine,
        observed={} if sample.up is None else {source: min(taken, at + taken - sample.up) for source, at in sample.observed.items()},
        paces=sample.paces,
        cpu=sample.cpu,
        cpus=sample.cpus,
        memory=sample.memory or HostMemory(),
        shm=sample.shm or Amount(),
        shm_users=sample.shm_users,
        disks=sample.disks or (),
        filled=tuple(
            replace(
                disk,
                fillers=tuple(_without_secrets(one, "path", "name", "job", "command") for one in disk.fillers),
                seen=redate(disk.seen, shift),
            )
            for disk in sample.filled
        ),
        gpus=None if sample.gpus is None else tuple(_gpu(gpu, shift) for gpu in sample.gpus),
        processes=None if sample.processes is None else tuple(_process(process, name, shift, taken) for process in sample.processes),
        ended=tuple(_process(process, name, shift, taken) for process in sample.ended),
        memory_users=tuple(_without_secrets(user, "command") for user in sample.memory_users or ()),
        sessions=None if sample.sessions is None else tuple(
            replace(session, host=name, started=redate(session.started, shift)) for session in sample.sessions
        ),
        nodes=sample.nodes,
        rays=None if sample.rays is None else tuple(map(_ray_process, sample.rays)),
        pointers=sample.pointers,
        temps=sample.temps,
        driver=sample.driver,
        proxy=_proxy(sample.proxy),
        oom_kills=None if sample.oom_kills is None else tuple(
            _without_secrets(kill, "name", "text", host=name, ours=None, moment=redate(kill.moment, shift)) for kill in sample.oom_kills
        ),
        wrote={session: {job: moment + shift for job, moment in jobs.items()} for session, jobs in sample.written.items()},
        stuck=None if sample.stuck is None else tuple(_without_secrets(one, "source") for one in sample.stuck),
        rdma_ports=sample.rdma_ports,
        engines=None if sample.engines is None else tuple(_without_secrets(one, "model", "error") for one in sample.engines),
        pid_digits=sample.pid_digits,
        pid_max=sample.pid_max,
        unanswered=sample.unanswered,
        faults=tuple(Fault(fault.source, _redact(fault.text), fault.since + shift, name) for fault in sample.faults),
        local=local,
    )  # fmt: skip


def redact_listener(listener: Listener) -> Listener:
    """The listener with a command that can be shown."""
    return _without_secrets(listener, "command")


def _process(process: Process, host: str, shift: float, taken: float) -> Process:
    sockets = process.sockets
    titles = process.titles[-MAX_TITLES:]  # a probe sends how many seconds before the sample each was new
    return _without_secrets(
        process,
        "command",
        "name",
        host=host,
        ours=None,  # only this side knows which Ray cluster is followed, and which jobs are others'
        other_job=None,
        why=tuple(map(_redact, process.why)),
        sockets=sockets and _without_secrets(sockets, "nccl", "gloo", "default", there=tuple(map(_redact, sockets.there))),
        started=redate(process.started, shift),
        titles=tuple((taken - max(0.0, ago), _redact(title[:MAX_TITLE_CHARS])) for ago, title in titles),
    )


def _gpu(gpu: Gpu, shift: float) -> Gpu:
    if not gpu.xids:
        return gpu
    return replace(gpu, xids=tuple(_without_secrets(xid, "text", moment=redate(xid.moment, shift)) for xid in gpu.xids))


def _ray_process(ray: RayProcess) -> RayProcess:
    start = ray.start and {name: _redact(value) for name, value in ray.start.items()}
    return _without_secrets(ray, "loopback_line", "gloo", start=start, proxy=_proxy(ray.proxy))


def _proxy(proxy: HttpProxy | None) -> HttpProxy | None:
    """The proxy without passwords. The probe removes them too, but an older probe or another program may have answered."""
    return proxy and _without_secrets(proxy, "variable", "proxy", "exceptions")


def _without_secrets(value: V, *names: str, **changes: object) -> V:
    """The value without secrets in the texts of these fields, and with these changes."""
    texts = {name: text and _redact(text) for name in names if (text := getattr(value, name)) is not None}
    return replace(value, **texts, **changes)


def _redact(text: str) -> str:
    return _redact_cached(text) if len(text) <= 4096 else redact(text)


_redact_cached = TtlCache(redact, 8192)
"""Most texts, such as commands, are the same in every sample, and a command takes 0.1 ms."""
