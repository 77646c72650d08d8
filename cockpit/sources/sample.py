"""What a probe says, in the words of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

import msgspec

from cockpit.model import (
    Amount,
    Disk,
    Fault,
    Gpu,
    Hold,
    Host,
    HostMemory,
    Kind,
    MemoryUser,
    OomKill,
    Past,
    Pointer,
    Process,
    RayProcess,
    Session,
    TempDir,
)
from cockpit.sources.source import SourceError
from cockpit.text import redact

T = TypeVar("T")
STEADY: Final = 2.0
"""Seconds by which two clocks may differ before times are converted."""


class Hello(msgspec.Struct):
    """Who speaks."""

    hello: int
    host: str = ""
    addresses: tuple[str, ...] = ()
    pid: int | None = None
    user: str | None = None
    python: str | None = None


# The model's values but for their host: what a host is called is for whoever asks it to say, and no probe can speak for another one.


class _Process(msgspec.Struct):
    pid: int
    started: float | None = None
    ticks: int | None = None
    parent: int | None = None
    user: str | None = None
    command: str | None = None
    name: str | None = None
    state: str | None = None
    rss: int | None = None
    gpus: tuple[Hold, ...] = ()
    kind: Kind = "unknown"
    why: tuple[str, ...] = ()
    job: str | None = None
    actor: str | None = None
    session: str | None = None
    node: str | None = None
    undecided: str | None = None
    ns_pid: int | None = None
    past: Past | None = None


class _Session(msgspec.Struct):
    name: str
    path: str
    live: bool | None = None
    owner: str | None = None
    size: int | None = None
    keeps: tuple[str, ...] = ()
    dashboard: str | None = None
    latest: bool = False
    started: float | None = None
    stopped: bool | None = None


class _OomKill(msgspec.Struct):
    by: Literal["ray", "kernel"]
    moment: float | None = None
    pid: int | None = None
    name: str | None = None
    actor: str | None = None
    job: str | None = None
    node: str | None = None
    held: int | None = None
    text: str = ""
    rays: bool | None = None


class _Fault(msgspec.Struct):
    source: str
    text: str
    since: float


class Sample(msgspec.Struct):
    """One look, by the host's own clock."""

    taken: float
    cpu: float | None = None
    cpus: int | None = None
    memory: HostMemory | None = None
    shm: Amount | None = None
    disks: tuple[Disk, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    processes: tuple[_Process, ...] | None = None
    memory_users: tuple[MemoryUser, ...] | None = None
    sessions: tuple[_Session, ...] | None = None
    nodes: tuple[str, ...] = ()
    rays: tuple[RayProcess, ...] | None = None
    pointers: tuple[Pointer, ...] | None = None
    temps: tuple[TempDir, ...] | None = None
    driver: str | None = None
    oom_kills: tuple[_OomKill, ...] | None = None
    wrote: Mapping[str, float] = {}
    faults: tuple[_Fault, ...] = ()


class Environ(msgspec.Struct):
    """The answer to `environ`, secrets included."""

    environ: Mapping[str, str]


class Call(msgspec.Struct):
    """A frame of a stack."""

    name: str
    file: str
    line: int


class Thread(msgspec.Struct):
    """The innermost call first."""

    frames: tuple[Call, ...]


class Stacks(msgspec.Struct):
    """The answer to `stack`."""

    threads: tuple[Thread, ...]


_hello = msgspec.json.Decoder(Hello)
_sample = msgspec.json.Decoder(Sample)


def is_hello(line: bytes) -> bool:
    """Whether a line introduces the one who speaks."""
    return b'"hello"' in line[:16]


def read_hello(line: bytes) -> Hello:
    """Raises `SourceError`."""
    return _decoded(_hello, line)


def read_sample(line: bytes) -> Sample:
    """Raises `SourceError`."""
    return _decoded(_sample, line)


def _decoded(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError:
        try:  # half a surrogate in a process title, a NaN: Python's json writes them, no other reads them
            kinder = json.dumps(json.loads(line, parse_constant=lambda _: None), ensure_ascii=False)
            return decoder.decode(kinder.encode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
            raise SourceError(str(error)) from error


def answered(answer: Mapping[str, Any], shape: type[T], host: str) -> T:
    """What a probe was asked for. Raises `SourceError`: over there anything may have answered."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise SourceError(f"what the probe of {host} says can't be read: {error}") from error


def host_of(sample: Sample, name: str, addresses: Sequence[str], taken: float, skew: float, *, local: bool) -> Host:
    """The model's value; `taken` is by our clock, and `skew` is what this host's clock is ahead of that one's, in seconds."""
    shift = skew if abs(skew) > STEADY else 0.0
    return Host(
        name=name,
        addresses=tuple(addresses),
        taken=taken,
        cpu=sample.cpu,
        cpus=sample.cpus,
        memory=sample.memory or HostMemory(),
        shm=sample.shm or Amount(),
        disks=sample.disks or (),
        gpus=sample.gpus,
        processes=None if sample.processes is None else tuple(_process(process, name, shift) for process in sample.processes),
        memory_users=tuple(
            MemoryUser(user.pid, user.rss, user.user, _safe(user.command)) for user in sample.memory_users or ()
        ),
        sessions=None if sample.sessions is None else tuple(_session(session, name, shift) for session in sample.sessions),
        nodes=sample.nodes,
        rays=sample.rays,
        pointers=sample.pointers,
        temps=sample.temps,
        driver=sample.driver,
        oom_kills=None if sample.oom_kills is None else tuple(_oom_kill(kill, name, shift) for kill in sample.oom_kills),
        wrote={job: moment + shift for job, moment in sample.wrote.items()},
        faults=tuple(Fault(fault.source, _redact(fault.text), fault.since + shift, name) for fault in sample.faults),
        local=local,
    )  # fmt: skip


def _process(process: _Process, host: str, shift: float) -> Process:
    fields = {name: getattr(process, name) for name in _Process.__struct_fields__}
    fields.update(
        command=_safe(process.command),
        name=_safe(process.name),
        why=tuple(map(_redact, process.why)),
        started=_shifted(process.started, shift),
    )
    return Process(host=host, **fields)


def _session(session: _Session, host: str, shift: float) -> Session:
    fields = {name: getattr(session, name) for name in _Session.__struct_fields__}
    return Session(host=host, **{**fields, "started": _shifted(session.started, shift)})


def _oom_kill(kill: _OomKill, host: str, shift: float) -> OomKill:
    fields = {name: getattr(kill, name) for name in _OomKill.__struct_fields__}
    return OomKill(host=host, **{**fields, "moment": _shifted(kill.moment, shift), "name": _safe(kill.name), "text": _redact(kill.text)})


def _safe(text: str | None) -> str | None:
    return None if text is None else _redact(text)


def _redact(text: str) -> str:
    return _remembered(text) if len(text) <= 4096 else redact(text)


_remembered = lru_cache(8192)(redact)
"""Commands hardly change from sample to sample."""


def _shifted(moment: float | None, shift: float) -> float | None:
    return None if moment is None else moment + shift
