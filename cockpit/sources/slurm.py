"""Reads the time left of one Slurm job and the state of its nodes from squeue and sinfo."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.config.slurm import NodeNames
from cockpit.model import Allocation, SlurmNode
from cockpit.sources.probes.process import ask_program
from cockpit.sources.source import SourceError, run_in_thread, wait_within

_JOB_FIELDS: Final = "%A|%i|%T|%L|%N"
"""The id, name, state, time left and nodes of a job (squeue(1)). The time left depends on no clock and no time zone."""
NO_SUCH_JOB: Final = "Invalid job id"
"""ESLURM_INVALID_JOB_ID (slurm_errno.c)."""
_NODE_FIELDS: Final = "%N|%n|%o|%T|%E"
"""The name, host name, address, state and reason of a node (sinfo(1))."""
ADDRESSES_TIMEOUT_S: Final = 2.0
"""The timeout for Slurm, and then for the resolver. The start of cockpit waits for both, and either may have failed."""
_TIME_LEFT: Final = r"(?:(\d{1,6})-)?(?:(\d{1,3}):)?(\d{1,3}):(\d{1,2})"
_NODE_LIST: Final = r"[A-Za-z0-9_.,\[\]-]+"


class SlurmJob(msgspec.Struct, frozen=True):
    """A job, a task of a job array, or a component of a heterogeneous job; each has its own id."""

    id: str
    name: str
    """The name that squeue shows: the id, `42_1` for a task of array 42, `42+1` for a component of heterogeneous job 42."""
    state: str
    left: float | None
    """The seconds until its time limit; `None`: it has none, or it is unknown."""
    nodes: str
    """The list of its nodes in Slurm's notation, such as `n[1-4]`; may be empty."""


async def read_job(job: str) -> SlurmJob:
    """The job with that id; the last task of an array has the id of the array. Raises `SourceError`."""
    found = [one for one in await _list_jobs(job) if one.id == job]
    if not found:
        raise SourceError(f"Slurm job {job} has ended, or there is none")
    return found[0]


async def find_parts(name: str) -> list[SlurmJob]:
    """The job with that name; if it is a component of a heterogeneous job, the other components follow.

    Raises `SourceError`, also if several jobs have that name, or if the job has no nodes.
    """
    listed = await _list_jobs(name)
    matches = [job for job in listed if job.name == name] or listed
    if not matches:
        raise SourceError(f"Slurm job {name} has ended, or there is none")
    if len(matches) > 1:
        named = ", ".join(f"{job.name} ({job.state})" for job in matches if job.nodes) or "none of them has nodes"
        raise SourceError(f"{name} matches several Slurm jobs; name one: {named}")
    job = matches[0]
    if not job.nodes:
        raise SourceError(f"Slurm job {name} has no nodes: it is {job.state}")
    leader, is_component, _ = job.name.partition("+")
    return [job] + [other for other in (await _list_jobs(leader) if is_component else ()) if other.name != job.name]


async def _list_jobs(name: str) -> list[SlurmJob]:
    """The jobs that squeue lists for a name; empty for a job that ended some minutes ago, for which squeue exits with an error.

    `--local` saves a request to slurmctld about its federation. `srun` reaches no job of another cluster either.
    """
    try:
        lines = await _ask("squeue", "--local", f"--jobs={name}", "--noheader", f"--format={_JOB_FIELDS}")
    except SourceError as error:
        if NO_SUCH_JOB in str(error):
            return []
        raise
    rows = [line.split("|") for line in lines]
    return [
        SlurmJob(row[0], row[1], row[2], _parse_duration(row[3]), row[4]) for row in rows if len(row) == len(SlurmJob.__struct_fields__)
    ]


async def read_allocation(job: str, now: float, names_of: Callable[[str], Sequence[str]] = lambda _: ()) -> Allocation:
    """The job and its nodes; without nodes at sites where only operators may list them. Raises `SourceError`.

    `names_of` gives other known names of a node, such as its IP address.
    """
    found, lacks = await read_job(job), None
    nodes: list[SlurmNode] = []
    if re.fullmatch(_NODE_LIST, found.nodes):
        try:
            for node in await _read_nodes(found.nodes):
                names = dict.fromkeys((*node.others, *names_of(node.name)))
                nodes.append(replace(node, others=tuple(names)))
        except SourceError as error:
            lacks = f"Slurm does not report the state of its nodes: {error}"
    return Allocation(job, found.state, None if found.left is None else now + found.left, tuple(nodes), lacks)


async def read_names(nodes: str) -> tuple[NodeNames, ...]:
    """The names of these nodes, with the IP addresses that are resolved in time. Raises `SourceError`."""
    try:
        listed = await wait_within(ADDRESSES_TIMEOUT_S, _read_nodes(nodes))
    except asyncio.TimeoutError:
        raise SourceError(f"Slurm did not list its nodes within {ADDRESSES_TIMEOUT_S:g} s") from None
    resolved: dict[str, str] = {}

    def resolve() -> None:
        # One after the other, since most are IP addresses already. When the time is over, the addresses found so far are used.
        for node in listed:
            if node.others:
                with suppress(OSError, UnicodeError):
                    resolved[node.name] = str(socket.getaddrinfo(node.others[-1], None, type=socket.SOCK_STREAM)[0][4][0])

    with suppress(SourceError):
        await run_in_thread(resolve, "DNS", ADDRESSES_TIMEOUT_S)
    return tuple(NodeNames(node.name, node.others, resolved.get(node.name, "")) for node in listed)


async def _read_nodes(nodes: str) -> Collection[SlurmNode]:
    """The nodes, each once: sinfo lists a node for each of its partitions, with `--all` for hidden partitions too."""
    rows = await _ask("sinfo", "--all", f"--nodes={nodes}", "--Node", "--noheader", f"--format={_NODE_FIELDS}")
    found: dict[str, SlurmNode] = {}
    for row in rows:
        name, host, address, state, reason = (*row.split("|", 4), "", "", "", "")[:5]
        if name and state:
            why = None if reason.strip() in ("", "none") else reason.strip()
            found[name] = SlurmNode(name, state, why, tuple(other for other in (host, address) if other))
    return found.values()


def _parse_duration(text: str) -> float | None:
    """The seconds in `1-02:03:04` or `03:04`; `None` for UNLIMITED, NOT_SET and INVALID."""
    match = re.fullmatch(_TIME_LEFT, text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds


async def _ask(program: str, *words: str) -> list[str]:
    """The lines that a program of Slurm prints. Raises `SourceError`."""
    return [line.decode("utf-8", "replace").strip() for line in await ask_program("Slurm", program, *words)]
