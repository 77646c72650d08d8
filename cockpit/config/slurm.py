"""The Slurm allocation that cockpit runs in: its nodes, what each is called, and the step that gives a pipe to a Python on one of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.config.document import InputError
from cockpit.config.reach import HostEntry, check_host

JOB: Final = "SLURM_JOB_ID"
FLAG: Final = "--slurm"
NODES: Final = "SLURM_JOB_NODELIST"
"""Such as `gpu[001-004,9],login1`: a list of names, each with any number of brackets in it (slurm.conf(5), srun(1): `--nodelist`)."""
ALL_NODES: Final = "SLURM_NODELIST"
"""The older name of the same. A step that `srun --jobid` starts from outside of its job finds only its own nodes in `NODES` (22.05)."""
PART: Final = "SLURM_JOB_ID_HET_GROUP_"
"""Before the number of a part of a heterogeneous job: the id of that part."""
OWN_NAME: Final = "SLURMD_NODENAME"
"""What Slurm calls the node on which a step runs."""
MAX_NODES: Final = 2_000
REACH: Final = "srun --jobid={job} --overlap --nodes=1 --ntasks=1 --nodelist={{name}} --quiet {{python}} -"
"""A step beside those that hold the resources (`--overlap`, since 20.11)."""
_JOB_NAME: Final = r"(?a)\d{1,12}(?:[_+]\d{1,9})?"
_NAME: Final = r"(?:[^\[\],]|\[[^\[\]]*\])+"
_PART: Final = r"\[([^\]]*)\]|[^\[\]]+"
_RANGE: Final = r"(\d{1,9})(?:-(\d{1,9}))?"


class NodeNames(msgspec.Struct, frozen=True):
    """What a node is called."""

    name: str
    """Slurm's own, by which `srun` reaches it."""
    others: tuple[str, ...] = ()
    """Its `NodeHostname` and its `NodeAddr`."""
    address: str = ""
    """The IP address at which it answers; empty where that is not known."""

    @property
    def all(self) -> tuple[str, ...]:
        """Each once, Slurm's first."""
        return tuple(dict.fromkeys(filter(None, (self.name, *self.others, self.address))))


class SlurmHosts(msgspec.Struct, frozen=True):
    """The nodes of a job, and how they are reached."""

    job: str
    reach: str
    hosts: tuple[HostEntry, ...]
    """By Slurm's names of its nodes; none where the list can't be read."""
    origins: tuple[str, str]
    """Where the job and the list of its nodes come from: the flag, or two variables."""
    parts: frozenset[str] = frozenset()
    """Ids of the other parts, where it is one of a heterogeneous job: their nodes are not among the hosts, but Ray's may be."""

    @property
    def ids(self) -> frozenset[str]:
        """Of the job and its other parts."""
        return self.parts | {self.job}

    @property
    def settings(self) -> dict[str, tuple[object, str]]:
        """What follows from it: for each field of the config its value, and where it was given."""
        job, nodes = self.origins
        hosts = {"hosts": (self.hosts, nodes)} if self.hosts else {}
        names = tuple(NodeNames(host.name) for host in self.hosts)
        return {"slurm": (self, job), "reach": (self.reach, job), **hosts, "slurm_nodes": (names, nodes)}


def find_allocation(env: Mapping[str, str]) -> SlurmHosts | None:
    """`None` outside of one, and where there is no `srun`. Slurm sets these variables for what it starts, and only its user can."""
    job = env.get(JOB, "")
    if not is_job_id(job) or not env.get(NODES) or shutil.which("srun", path=env.get("PATH")) is None:
        return None
    listed = {name: _read_nodes_of(env.get(name, "")) for name in (NODES, ALL_NODES)}
    widest = max(listed, key=lambda name: len(listed[name]))
    parts = frozenset(env[name] for name in env if name.startswith(PART))
    return SlurmHosts(job, REACH.format(job=job), listed[widest], (JOB, widest), parts)


def _read_nodes_of(nodes: str) -> tuple[HostEntry, ...]:
    """None where the list can't be read."""
    try:
        return read_nodes(nodes)
    except InputError:
        return ()


def named_allocation(job: str, nodes: str, *, name: str = "", parts: Iterable[str] = ()) -> SlurmHosts:
    """The job that a person has named, whose nodes Slurm lists so. Raises `InputError`.

    `name`: as squeue calls it. A step in a part of a heterogeneous job is asked of the job's leader (srun(1), `--het-group`).
    """
    leader, is_part, number = name.partition("+")
    step = f"{leader} --het-group={number}" if is_part else job
    return SlurmHosts(job, REACH.format(job=step), read_nodes(nodes), (FLAG, FLAG), frozenset(parts))


def names_of(name: str, nodes: Iterable[NodeNames]) -> tuple[str, ...]:
    """All that the node is called that somebody calls so, this name first; of a host that is several nodes only its name is known."""
    found = [node.all for node in nodes if name in node.all]
    return tuple(dict.fromkeys((name, *found[0]))) if len(found) == 1 else (name,)


def by_slurm_names(hosts: Iterable[HostEntry], nodes: Sequence[NodeNames]) -> tuple[HostEntry, ...]:
    """Each host once, by the name that `srun` takes, and with the address by which Ray may know it."""
    known = {node.name: node for node in nodes}
    found: dict[str, HostEntry] = {}
    for host in hosts:
        node = next((known[name] for name in names_of(host.name, nodes) if name in known), NodeNames(host.name))
        found.setdefault(node.name, replace(host, name=node.name, address=host.address or node.address))
    return tuple(found.values())


def has_other_names(reached_by: str | None, env: Mapping[str, str], hostname: str) -> bool:
    """Whether nodes reached as `reached_by` says may have other names than Slurm's for them: then their addresses tell them."""
    return reached_by == FLAG or (reached_by == JOB and env.get(OWN_NAME) != hostname)


def is_job_id(text: str) -> bool:
    """Whether it is a number."""
    return text.isascii() and text.isdigit()


def is_job_name(text: str) -> bool:
    """Whether it is an id, a task of an array (`42_1`), or a part of a heterogeneous job (`42+1`)."""
    return re.fullmatch(_JOB_NAME, text) is not None


def read_nodes(nodes: str) -> tuple[HostEntry, ...]:
    """The hosts of such a list. Raises `InputError`, also for more than `MAX_NODES`."""
    names = tuple(islice(expand_nodes(nodes), MAX_NODES + 1))
    if len(names) > MAX_NODES:
        raise InputError(f"it has more than {MAX_NODES} nodes")
    return tuple(check_host(HostEntry(name)) for name in names)


def expand_nodes(nodes: str) -> Iterator[str]:
    """`n[1-2]` is n1 and n2, `n[08-10]` n08, n09 and n10. Raises `InputError`."""
    if re.sub(_NAME, "", nodes).strip(","):
        raise InputError(f"{nodes!r} is not a list of nodes")
    for name in re.findall(_NAME, nodes):
        parts = [[part[0]] if part[1] is None else _numbers(part[1]) for part in re.finditer(_PART, name)]
        yield from map("".join, product(*parts))


def _numbers(ranges: str) -> list[str]:
    found: list[str] = []
    for text in ranges.split(","):
        match = re.fullmatch(_RANGE, text)
        if match is None or len(found) + int(match[2] or match[1]) - int(match[1]) > MAX_NODES:
            raise InputError(f"{text!r} is not a range of nodes, or has too many")
        found += [str(number).zfill(len(match[1])) for number in range(int(match[1]), int(match[2] or match[1]) + 1)]
    return found
