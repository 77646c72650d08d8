"""What Slurm says of one job: how long it still has, and how its nodes are; asked of its own programs, by name, as its user would."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from cockpit.config.slurm import NodeNames
from cockpit.model import Allocation, SlurmNode
from cockpit.sources.probes.process import ask_program
from cockpit.sources.source import SourceError, in_time, within

_FIELDS: Final = "%T|%L|%N"
"""State, time left and nodes of a job (squeue(1)); the time left depends on no clock and no time zone."""
NO_SUCH_JOB: Final = "Invalid job id"
"""ESLURM_INVALID_JOB_ID (slurm_errno.c)."""
_NODE_FIELDS: Final = "%N|%n|%o|%T|%E"
"""Name, host name, address, state and reason of a node (sinfo(1))."""
ADDRESSES_TIMEOUT_S: Final = 2.0
"""For which Slurm is waited for, and then for the resolver: whoever opens cockpit waits for both, and they may be what has failed."""
_LEFT = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,3}):)?(\d{1,3}):(\d{1,2})")
_LIST = re.compile(r"[A-Za-z0-9_.,\[\]-]+")


async def read_job(job: str) -> tuple[str, float | None, str]:
    """Its state, the seconds that it still has (`None`: no limit), and the list of its nodes. Raises `SourceError`."""
    rows = [line.split("|") for line in await _list_job(job)]
    found = [row for row in rows if len(row) == len(_FIELDS.split("|"))]
    if not found:
        raise SourceError(f"Slurm job {job} has ended, or there is none")
    if len(found) > 1:
        raise SourceError(f"{job} is {len(found)} Slurm jobs, an array: name one by its own id (squeue -r -o '%A %i' -j {job})")
    state, left, nodes = found[0]
    return state, _parse_left(left), nodes


async def _list_job(job: str) -> list[str]:
    """Nothing of one that ended some minutes ago, which squeue calls a mistake.

    `--local` spares slurmctld the question which federation it is in: `srun` reaches no job of another cluster either.
    """
    try:
        return await _ask("squeue", "--local", f"--jobs={job}", "--noheader", f"--format={_FIELDS}")
    except SourceError as error:
        if NO_SUCH_JOB in str(error):
            return []
        raise


async def read_allocation(job: str, now: float) -> Allocation:
    """The job and its nodes. Raises `SourceError`."""
    state, left, nodes = await read_job(job)
    known = await _read_nodes(nodes) if _LIST.fullmatch(nodes) else ()
    return Allocation(job, state, None if left is None else now + left, tuple(known))


async def list_nodes(job: str) -> str:
    """The nodes of a job that runs, as Slurm writes them: `gpu[001-004]`. Raises `SourceError`."""
    state, _, nodes = await read_job(job)
    if not nodes:
        raise SourceError(f"Slurm job {job} has no nodes: it is {state}")
    return nodes


async def read_names(nodes: str) -> tuple[NodeNames, ...]:
    """What these nodes are called, with their IP addresses where they are known in time. Raises `SourceError`."""
    try:
        listed = await within(ADDRESSES_TIMEOUT_S, _read_nodes(nodes))
    except asyncio.TimeoutError:
        raise SourceError(f"Slurm did not list its nodes within {ADDRESSES_TIMEOUT_S:g} s") from None
    found: dict[str, str] = {}
    with suppress(SourceError):
        await in_time(
            partial(_resolve, [(node.name, node.others[-1]) for node in listed if node.others], found), "DNS", ADDRESSES_TIMEOUT_S
        )
    return tuple(NodeNames(node.name, node.others, found.get(node.name, "")) for node in listed)


def _resolve(named: Iterable[tuple[str, str]], found: dict[str, str]) -> None:
    """Into `found`, one after the other: most are addresses already, and of the others what is there when the time is over counts."""
    for name, address in named:
        with suppress(OSError, UnicodeError):
            found[name] = str(socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][4][0])


async def _read_nodes(nodes: str) -> Collection[SlurmNode]:
    """Each once: a node is listed for each of its partitions."""
    rows = await _ask("sinfo", f"--nodes={nodes}", "--Node", "--noheader", f"--format={_NODE_FIELDS}")
    return {node.name: node for node in _parse_nodes(rows)}.values()


def _parse_nodes(rows: Iterable[str]) -> Iterator[SlurmNode]:
    for row in rows:
        name, host, address, state, reason = (*row.split("|", 4), "", "", "", "")[:5]
        if name and state:
            known = None if reason.strip() in ("", "none") else reason.strip()
            yield SlurmNode(name, state, known, tuple(other for other in (host, address) if other))


def _parse_left(text: str) -> float | None:
    """`1-02:03:04`, `03:04`; UNLIMITED, NOT_SET and INVALID are no time."""
    match = _LEFT.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds


async def _ask(program: str, *words: str) -> list[str]:
    """The lines that it prints. Raises `SourceError`."""
    return [line.decode("utf-8", "replace").strip() for line in await ask_program("Slurm", program, *words)]
