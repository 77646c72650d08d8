"""What people call things: a machine, everywhere by one name; a process, by its command line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from cockpit.model.host import Host, Process
from cockpit.model.ray import Node


class MachineTitles:
    """The titles of all machines of one snapshot. A machine is a node of Ray's, a host that is looked at, or both."""

    def __init__(self, nodes: Sequence[Node], hosts: Mapping[str, Host], believed: Mapping[str, Sequence[Host]]) -> None:
        """`believed`: by Ray's id of a node, the hosts whose claim to run it is believed."""
        self._nodes, self._hosts, self._believed = nodes, hosts, believed

    def of_node(self, node: Node) -> str:
        """Its name, with the beginning of its id where another living node has that name."""
        return node.title if self._living[node.title] < 2 else f"{node.title} ({(node.id or '')[:8]})"

    def of_host(self, name: str, address: str = "") -> str:
        """A machine as its node is called, by any name or address that it has here. Of several nodes on it the head's name, else the first.

        Where nobody knows the name, by the address; where nobody knows that either, the name stays as it is.
        """
        return self._by_name.get(name) or self._by_name.get(address) or name

    def names_of(self, title: str) -> frozenset[str]:
        """The names of the hosts that have this title."""
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
            for place in (
                {node.host, node.ip, node.probe or ""} if node.probed else ()
            ):  # an address alone says nothing: private ones are alike everywhere
                by_place[place].append(node)
        for host in self._hosts.values():
            near = {node.key: node for place in (host.name, *host.addresses) for node in by_place.get(place, ())}
            here = by_host.get(host.name) or list(near.values())
            found[host.name] = self._of_nodes(sorted(here, key=_rank)) if here else host.name
        return found

    def _of_nodes(self, here: Sequence[Node]) -> str:
        """Of the nodes on one machine; an id tells it from another machine, not from itself."""
        alone = self._living[here[0].title] <= sum(node.title == here[0].title for node in here)
        return here[0].title if alone else self.of_node(here[0])


def _rank(node: Node) -> tuple[bool, bool, str, str]:
    """Living nodes first, of them the head."""
    return node.state != "ALIVE", not node.head, node.title, node.id or ""


def count_machines(nodes: Sequence[Node], hosts: Mapping[str, Host]) -> tuple[int, int]:
    """How many machines a probe has looked at, and how many there are; one with several names, or several nodes, counts once."""
    probed = [host for host in hosts.values() if host.processes is not None]
    looked_at = {host.machine or host.name for host in probed}
    names = {name for host in probed for name in (host.name, *host.addresses)}
    others: list[set[str]] = []
    for node in nodes:
        own = set(filter(None, (node.host, node.ip)))
        if node.probed or own & names or node.name in names:
            continue
        same = [group for group in others if group & own]
        others = [group for group in others if not group & own] + [own.union(*same)]
    return len(looked_at), len(looked_at) + len(others)


def shorten_command(line: str) -> str:
    """A command line without the folders of its program and of its script: what tells it apart comes early."""
    words = ((word, place == 0 or word.endswith(".py")) for place, word in enumerate(line.split(" ")))
    return " ".join(word.rpartition("/")[2] if is_short and word.startswith("/") else word for word, is_short in words)


def process_title(process: Process) -> str:
    """What runs, as its command line says; the kernel's name, which has 15 characters at most, only where that is not known."""
    return shorten_command(process.command.strip()) if process.command and process.command.strip() else process.name or ""


KERNEL_NAME_BYTES = 15
"""Of a process's name, as the kernel keeps it (TASK_COMM_LEN - 1)."""


def whole_name(process: Process) -> str:
    """The name of a process; from its command line where the kernel has cut it: `ray::JobSupervisor`, not `ray::JobSupervi`."""
    name, first = process.name or "", (process.command or "").split(maxsplit=1)[:1]
    program = first[0].rpartition("/")[2] if first else ""
    is_cut = len(name.encode()) >= KERNEL_NAME_BYTES and program.startswith(name)
    return program if is_cut or not name else name
