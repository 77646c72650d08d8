"""Finds the nodes of a Slurm job, their names, and the `srun` command that runs a Python on one of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, product
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.config.document import InputError
from cockpit.config.reach import HostEntry, check_host

JOB: Final = "SLURM_JOB_ID"
FLAG: Final = "--slurm"
NODES: Final = "SLURM_JOB_NODELIST"
"""The nodes of the job, such as `gpu[001-004,9],login1`. A name may have several brackets (slurm.conf(5), srun(1): `--nodelist`)."""
ALL_NODES: Final = "SLURM_NODELIST"
"""The older variable. In a step that `srun --jobid` starts from outside of its job, `NODES` has only the step's own nodes (22.05)."""
PART: Final = "SLURM_JOB_ID_HET_GROUP_"
"""With the number of a part of a heterogeneous job at its end: the id of that part."""
OWN_NAME: Final = "SLURMD_NODENAME"
"""Slurm's name of the node on which a step runs."""
MAX_NODES: Final = 2_000
REACH: Final = "srun --jobid={job} --overlap --nodes=1 --ntasks=1 --nodelist={{name}} --quiet {{python}} -"
"""The step shares the resources of other steps (`--overlap`, since 20.11)."""
_JOB_NAME: Final = r"(?a)\d{1,12}(?:[_+]\d{1,9})?"
_NAME: Final = r"(?:[^\[\],]|\[[^\[\]]*\])+"
_PART: Final = r"\[([^\]]*)\]|[^\[\]]+"
_RANGE: Final = r"(\d{1,9})(?:-(\d{1,9}))?"


class NodeNames(msgspec.Struct, frozen=True):
    """The names of a node."""

    name: str
    """Slurm's own name, which `srun` takes."""
    others: tuple[str, ...] = ()
    """Its `NodeHostname` and its `NodeAddr`."""
    address: str = ""
    """Its IP address; empty if it is unknown."""

    @property
    def all(self) -> tuple[str, ...]:
        """Each name once, Slurm's first."""
        return tuple(dict.fromkeys(filter(None, (self.name, *self.others, self.address))))


class SlurmHosts(msgspec.Struct, frozen=True):
    """The nodes of a job, and how they are reached."""

    job: str
    reach: str
    hosts: tuple[HostEntry, ...]
    """The nodes with Slurm's names; empty if the list can't be read."""
    origins: tuple[str, str]
    """The origins of the job and of the list of its nodes: the flag, or two variables."""
    parts: frozenset[str] = frozenset()
    """Ids of the other parts of a heterogeneous job. Their nodes are not among the hosts, but may belong to Ray."""

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the job and its other parts."""
        return self.parts | {self.job}

    @property
    def settings(self) -> dict[str, tuple[object, str]]:
        """The fields of the config that follow from it, each with its value and origin."""
        job, nodes = self.origins
        hosts = {"hosts": (self.hosts, nodes)} if self.hosts else {}
        names = tuple(NodeNames(host.name) for host in self.hosts)
        return {"slurm": (self, job), "reach": (self.reach, job), **hosts, "slurm_nodes": (names, nodes)}


def find_allocation(env: Mapping[str, str]) -> SlurmHosts | None:
    """Return the job that cockpit runs in; `None` outside of a job, or without `srun`.

    Slurm sets these variables for the processes of a job; otherwise only the user could have set them.
    """
    job = env.get(JOB, "")
    if not is_job_id(job) or not env.get(NODES) or shutil.which("srun", path=env.get("PATH")) is None:
        return None
    # The longer of both lists; one that can't be read is empty.
    listed: dict[str, tuple[HostEntry, ...]] = {NODES: (), ALL_NODES: ()}
    for name in listed:
        with suppress(InputError):
            listed[name] = read_nodes(env.get(name, ""))
    longest = max(listed, key=lambda name: len(listed[name]))
    parts = frozenset(env[name] for name in env if name.startswith(PART))
    return SlurmHosts(job, REACH.format(job=job), listed[longest], (JOB, longest), parts)


def named_allocation(job: str, nodes: str, *, name: str = "", parts: Iterable[str] = ()) -> SlurmHosts:
    """Return the job that the user has named, with the nodes in Slurm's list. Raises `InputError`.

    `name` is squeue's name of the job. For a part of a heterogeneous job, srun needs the leader's id and `--het-group` (srun(1)).
    """
    leader, is_part, number = name.partition("+")
    step = f"{leader} --het-group={number}" if is_part else job
    return SlurmHosts(job, REACH.format(job=step), read_nodes(nodes), (FLAG, FLAG), frozenset(parts))


def names_of(name: str, nodes: Iterable[NodeNames]) -> tuple[str, ...]:
    """Return all names of the node with this name, this name first. If several nodes have it, only the name itself is returned."""
    found = [node.all for node in nodes if name in node.all]
    return tuple(dict.fromkeys((name, *found[0]))) if len(found) == 1 else (name,)


def by_slurm_names(hosts: Iterable[HostEntry], nodes: Sequence[NodeNames]) -> tuple[HostEntry, ...]:
    """Return each host once, with the name that `srun` takes and the address that Ray may know."""
    known = {node.name: node for node in nodes}
    found: dict[str, HostEntry] = {}
    for host in hosts:
        node = next((known[name] for name in names_of(host.name, nodes) if name in known), NodeNames(host.name))
        found.setdefault(node.name, replace(host, name=node.name, address=host.address or node.address))
    return tuple(found.values())


def has_other_names(reached_by: str | None, env: Mapping[str, str], hostname: str) -> bool:
    """Return whether hosts may have other names than Slurm's; then they are matched by address. `reached_by`: the origin of `reach`."""
    return reached_by == FLAG or (reached_by == JOB and env.get(OWN_NAME) != hostname)


def is_job_id(text: str) -> bool:
    """Return whether the text is a number."""
    return text.isascii() and text.isdigit()


def is_job_name(text: str) -> bool:
    """Return whether the text is an id, a task of an array (`42_1`), or a part of a heterogeneous job (`42+1`)."""
    return re.fullmatch(_JOB_NAME, text) is not None


def read_nodes(nodes: str) -> tuple[HostEntry, ...]:
    """Return the hosts of a list of nodes. Raises `InputError`, also for more than `MAX_NODES`."""
    names = tuple(islice(expand_nodes(nodes), MAX_NODES + 1))
    if len(names) > MAX_NODES:
        raise InputError(f"it has more than {MAX_NODES} nodes")
    return tuple(check_host(HostEntry(name)) for name in names)


def expand_nodes(nodes: str) -> Iterator[str]:
    """Yield the names in a list of nodes: `n[08-10]` is n08, n09 and n10. Raises `InputError`."""
    if re.sub(_NAME, "", nodes).strip(","):
        raise InputError(f"{nodes!r} is not a list of nodes")
    for name in re.findall(_NAME, nodes):
        parts = [[part[0]] if part[1] is None else _expand_ranges(part[1]) for part in re.finditer(_PART, name)]
        yield from map("".join, product(*parts))


def _expand_ranges(ranges: str) -> list[str]:
    found: list[str] = []
    for text in ranges.split(","):
        match = re.fullmatch(_RANGE, text)
        if match is None or len(found) + int(match[2] or match[1]) - int(match[1]) > MAX_NODES:
            raise InputError(f"{text!r} is not a range of nodes, or has too many")
        found += [str(number).zfill(len(match[1])) for number in range(int(match[1]), int(match[2] or match[1]) + 1)]
    return found
