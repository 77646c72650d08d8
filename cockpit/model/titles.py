"""Chooses the names that people see: one for each machine, on every page, and a short command line for each process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from cockpit.model.host import Host, Process
from cockpit.model.ray import Node


class MachineTitles:
    """The titles of all machines in one snapshot. A machine is a node of Ray, a probed host, or both."""

    def __init__(self, nodes: Sequence[Node], hosts: Mapping[str, Host], believed: Mapping[str, Sequence[Host]]) -> None:
        """`believed` is `ClusterIndex.believed_hosts`."""
        self._nodes, self._hosts, self._believed = nodes, hosts, believed

    def of_node(self, node: Node) -> str:
        """Return the node's name, with the beginning of its id if another living node has the same name."""
        return node.title if self._living[node.title] < 2 else f"{node.title} ({(node.id or '')[:8]})"

    def of_host(self, name: str, address: str = "") -> str:
        """Return the title of a machine by any of its names or addresses, else by `address`, else the name itself.

        A machine is called as its node; with several nodes, as the head, else as the first.
        """
        return self._by_name.get(name) or self._by_name.get(address) or name

    def names_of(self, title: str) -> frozenset[str]:
        """Return the names of the hosts with this title."""
        return frozenset(name for name in self._hosts if self.of_host(name) == title)

    @cached_property
    def _living(self) -> Counter[str]:
        return Counter(node.title for node in self._nodes if node.state == "ALIVE")

    @cached_property
    def _by_name(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for node in sorted(self._nodes, key=_rank):
            for name in filter(None, (node.id, node.title, node.host, node.ip, node.name)):
                found.setdefault(name, self.of_node(node))
        by_id = {node.id: node for node in self._nodes if node.id}
        by_host: dict[str, list[Node]] = defaultdict(list)
        for node_id, hosts in self._believed.items():
            for host in hosts if node_id in by_id else ():
                by_host[host.name].append(by_id[node_id])
        by_place: dict[str, list[Node]] = defaultdict(list)
        for node in self._nodes:
            # An address alone proves nothing, because different networks use the same private addresses.
            for place in {node.host, node.ip, node.probe or ""} if node.probed else ():
                by_place[place].append(node)
        for host in self._hosts.values():
            near = {node.key: node for place in (host.name, *host.addresses) for node in by_place.get(place, ())}
            here = by_host.get(host.name) or list(near.values())
            if not here:
                found[host.name] = host.name
                continue
            # If all nodes with this name are on this machine, no id is needed.
            first = min(here, key=_rank)
            is_alone = self._living[first.title] <= sum(node.title == first.title for node in here)
            found[host.name] = first.title if is_alone else self.of_node(first)
        return found


def _rank(node: Node) -> tuple[bool, bool, str, str]:
    """Return the sort key: living nodes first, among them the head."""
    return node.state != "ALIVE", not node.head, node.title, node.id or ""


def probed_machines(hosts: Mapping[str, Host]) -> int:
    """Return the number of machines whose process table was read. A machine with several names counts once."""
    return len({host.machine or host.name for host in hosts.values() if host.processes is not None})


def count_machines(nodes: Sequence[Node], hosts: Mapping[str, Host]) -> tuple[int, int]:
    """Return the numbers of probed machines and of all machines. A machine with several names or nodes counts once."""
    names = {name for host in hosts.values() if host.processes is not None for name in (host.name, *host.addresses)}
    groups: dict[str, set[str]] = {}
    """By name and address of a node that is not probed: all names and addresses of its machine."""
    for node in nodes:
        own = set(filter(None, (node.host, node.ip))) or {node.key}
        if node.probed or own & names or node.name in names:
            continue
        whole = own.union(*(groups[name] for name in own if name in groups))
        groups.update(dict.fromkeys(whole, whole))
    others = len({id(group) for group in groups.values()})
    probed = probed_machines(hosts)
    return probed, probed + others


def shorten_command(line: str) -> str:
    """Return a command line without the folders of its program and script, so that the distinctive part comes early."""
    words = ((word, place == 0 or word.endswith(".py")) for place, word in enumerate(line.split(" ")))
    return " ".join(word.rpartition("/")[2] if is_short and word.startswith("/") else word for word, is_short in words)


def process_title(process: Process) -> str:
    """Return the short command line of a process; if it is unknown, the kernel's name, which has at most 15 characters."""
    return shorten_command(process.command.strip()) if process.command and process.command.strip() else process.name or ""


KERNEL_NAME_BYTES = 15
"""The length of a process's name in the kernel (TASK_COMM_LEN - 1)."""


def whole_name(process: Process) -> str:
    """Return the name of a process, from its command line if the kernel has cut it: `ray::JobSupervisor`, not `ray::JobSupervi`."""
    name, first = process.name or "", (process.command or "").split(maxsplit=1)[:1]
    program = first[0].rpartition("/")[2] if first else ""
    is_cut = len(name.encode()) >= KERNEL_NAME_BYTES and program.startswith(name)
    return program if is_cut or not name else name
