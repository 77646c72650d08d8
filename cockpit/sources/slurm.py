"""What Slurm says of one job: how long it still has, and how its nodes are; asked of its own programs, by name, as its user would."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.config.slurm import NodeNames
from cockpit.model import Allocation, SlurmNode
from cockpit.sources.probes.process import ask_program
from cockpit.sources.source import SourceError, run_in_thread, wait_within

_FIELDS: Final = "%A|%i|%T|%L|%N"
"""Id, name, state, time left and nodes of a job (squeue(1)); the time left depends on no clock and no time zone."""
NO_SUCH_JOB: Final = "Invalid job id"
"""ESLURM_INVALID_JOB_ID (slurm_errno.c)."""
_NODE_FIELDS: Final = "%N|%n|%o|%T|%E"
"""Name, host name, address, state and reason of a node (sinfo(1))."""
ADDRESSES_TIMEOUT_S: Final = 2.0
"""For which Slurm is waited for, and then for the resolver: whoever opens cockpit waits for both, and they may be what has failed."""
_LEFT: Final = r"(?:(\d{1,6})-)?(?:(\d{1,3}):)?(\d{1,3}):(\d{1,2})"
_LIST: Final = r"[A-Za-z0-9_.,\[\]-]+"


class SlurmJob(msgspec.Struct, frozen=True):
    """A job, a task of an array, or a part of a heterogeneous job: each has an id of its own."""

    id: str
    name: str
    """As people and squeue call it: its id, `42_1` for a task of array 42, `42+1` for a part of heterogeneous job 42."""
    state: str
    left: float | None
    """Seconds that it still has; `None`: it has no limit, or Slurm doesn't say."""
    nodes: str
    """Their list."""


async def read_job(job: str) -> SlurmJob:
    """The one of that id; the last task of an array has the array's own. Raises `SourceError`."""
    found = [one for one in await _list_jobs(job) if one.id == job]
    if not found:
        raise SourceError(f"Slurm job {job} has ended, or there is none")
    return found[0]


async def find_parts(name: str) -> list[SlurmJob]:
    """The job that a person means by that name; after it the other parts, where it is one of a heterogeneous job.

    Raises `SourceError`, also where that is several jobs, or the job has no nodes.
    """
    listed = await _list_jobs(name)
    meant = [one for one in listed if one.name == name] or listed
    if not meant:
        raise SourceError(f"Slurm job {name} has ended, or there is none")
    if len(meant) > 1:
        named = ", ".join(f"{one.name} ({one.state})" for one in meant if one.nodes) or "none of them has nodes"
        raise SourceError(f"{name} matches several Slurm jobs; name one: {named}")
    if not meant[0].nodes:
        raise SourceError(f"Slurm job {name} has no nodes: it is {meant[0].state}")
    leader, is_part, _ = meant[0].name.partition("+")
    return meant + [one for one in (await _list_jobs(leader) if is_part else ()) if one.name != meant[0].name]


async def _list_jobs(name: str) -> list[SlurmJob]:
    """All that are called so. Nothing of one that ended some minutes ago, which squeue calls a mistake.

    `--local` spares slurmctld the question which federation it is in: `srun` reaches no job of another cluster either.
    """
    try:
        lines = await _ask("squeue", "--local", f"--jobs={name}", "--noheader", f"--format={_FIELDS}")
    except SourceError as error:
        if NO_SUCH_JOB in str(error):
            return []
        raise
    rows = [line.split("|") for line in lines]
    return [SlurmJob(row[0], row[1], row[2], _parse_left(row[3]), row[4]) for row in rows if len(row) == len(SlurmJob.__struct_fields__)]


async def read_allocation(job: str, now: float, names_of: Callable[[str], Sequence[str]] = lambda _: ()) -> Allocation:
    """The job and its nodes; at some sites only an operator may ask for nodes. Raises `SourceError`.

    `names_of`: what else is known of how a node is called, such as its IP address.
    """
    found, lacks = await read_job(job), None
    known: Collection[SlurmNode] = ()
    if re.fullmatch(_LIST, found.nodes):
        try:
            known = [
                replace(node, others=tuple(dict.fromkeys((*node.others, *names_of(node.name))))) for node in await _read_nodes(found.nodes)
            ]
        except SourceError as error:
            lacks = f"Slurm does not report the state of its nodes: {error}"
    return Allocation(job, found.state, None if found.left is None else now + found.left, tuple(known), lacks)


async def read_names(nodes: str) -> tuple[NodeNames, ...]:
    """What these nodes are called, with their IP addresses where they are known in time. Raises `SourceError`."""
    try:
        listed = await wait_within(ADDRESSES_TIMEOUT_S, _read_nodes(nodes))
    except asyncio.TimeoutError:
        raise SourceError(f"Slurm did not list its nodes within {ADDRESSES_TIMEOUT_S:g} s") from None
    found: dict[str, str] = {}
    with suppress(SourceError):
        await run_in_thread(
            partial(_resolve, [(node.name, node.others[-1]) for node in listed if node.others], found), "DNS", ADDRESSES_TIMEOUT_S
        )
    return tuple(NodeNames(node.name, node.others, found.get(node.name, "")) for node in listed)


def _resolve(named: Iterable[tuple[str, str]], found: dict[str, str]) -> None:
    """Into `found`, one after the other: most are addresses already, and of the others what is there when the time is over counts."""
    for name, address in named:
        with suppress(OSError, UnicodeError):
            found[name] = str(socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][4][0])


async def _read_nodes(nodes: str) -> Collection[SlurmNode]:
    """Each once: a node is listed for each of its partitions, with `--all` for hidden ones too."""
    rows = await _ask("sinfo", "--all", f"--nodes={nodes}", "--Node", "--noheader", f"--format={_NODE_FIELDS}")
    found: dict[str, SlurmNode] = {}
    for row in rows:
        name, host, address, state, reason = (*row.split("|", 4), "", "", "", "")[:5]
        if name and state:
            known = None if reason.strip() in ("", "none") else reason.strip()
            found[name] = SlurmNode(name, state, known, tuple(other for other in (host, address) if other))
    return found.values()


def _parse_left(text: str) -> float | None:
    """`1-02:03:04`, `03:04`; UNLIMITED, NOT_SET and INVALID are no time."""
    match = re.fullmatch(_LEFT, text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds


async def _ask(program: str, *words: str) -> list[str]:
    """The lines that it prints. Raises `SourceError`."""
    return [line.decode("utf-8", "replace").strip() for line in await ask_program("Slurm", program, *words)]
