"""The `ray` section of a preset, made of what the command lines of a living Ray show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cockpit.config.document import InputError
from cockpit.model import Node, RayProcess, Snapshot
from cockpit.presets.ray_flags import FLAGS, OF_ONE_HOST, flag_name, flag_value
from cockpit.text import clean, join_first, plural

UNSHOWN: Final = (
    "variables of Ray's environment (ray.env), memory, ports that Ray chose itself, and whether a number was given or found by Ray"
)
"""What no command line shows."""


class SavedRay:
    """How the followed Ray was started: the section as keys with values, and what is unknown of it, in sentences."""

    def __init__(self, snapshot: Snapshot, env: Mapping[str, str] = {}) -> None:
        """`env`: its variables, where somebody knows them."""
        self.section: dict[str, Any] | None = None
        """`None`: not even the head's flags are known."""
        self.notes: list[str] = []
        if snapshot.kubernetes is not None:
            self.notes.append("KubeRay starts this Ray: the RayCluster says how, and no preset can")
            return
        living = [node for node in snapshot.nodes or () if node.state == "ALIVE" and node.id is not None]
        nodes = sorted(living, key=lambda node: not node.head)
        found = {node.id: known for node in nodes if (known := _find_raylet(node, snapshot)) is not None}
        if not nodes or not nodes[0].head or nodes[0].id not in found:
            self.notes.append("How Ray was started is not saved: no probe on the head's host has told")
            return
        self.section = self._describe(nodes, found, snapshot) | ({"env": dict(env)} if env else {})

    def _describe(self, nodes: list[Node], found: Mapping[str | None, tuple[str, RayProcess]], snapshot: Snapshot) -> dict[str, Any]:
        head, *others = nodes
        workers = self._one_per_host(found[head.id][0], [node for node in others if node.id in found], found)
        if silent := [clean(node.title) for node in others if node.id not in found]:
            self.notes.append(f"Left out, as no probe has told how its Ray was started: {join_first(silent, 8)}")
        of_head = {**_flags(found[head.id][1]), **_gcs_flags(found[head.id][0], snapshot)}
        of_workers = [_flags(found[node.id][1]) for node in workers]
        hosts = [found[node.id][0] for node in (head, *workers)]
        slurm = {found[node.id][1].slurm for node in (head, *workers)}
        if slurm == {None}:
            listed = [{"host": host, **flags} for host, flags in zip(hosts, [of_head, *of_workers], strict=True)]
            section: dict[str, Any] = {"head": listed[0], **({"workers": listed[1:]} if workers else {})}
        else:
            section = {"head": _without_host(of_head), **({"workers": _in_all(of_workers)} if workers else {})}
            self.notes.append("It ran in a Slurm job, so that no hosts are named: recover takes the nodes of the job that it runs in")
        python = self._find_python([found[node.id][1] for node in (head, *workers)])
        self.notes.append(f"Not saved, as no command line shows it: {UNSHOWN}")
        return section | ({"python": python} if python else {})

    def _one_per_host(self, head: str, nodes: list[Node], found: Mapping[str | None, tuple[str, RayProcess]]) -> list[Node]:
        """A preset starts one Ray on a host."""
        taken, kept = {head}, []
        for node in nodes:
            host = found[node.id][0]
            if host in taken:
                self.notes.append(f"Left out: {clean(node.title)}, which runs on the same host as another node ({clean(host)})")
            else:
                taken.add(host)
                kept.append(node)
        return kept

    def _find_python(self, rays: Iterable[RayProcess]) -> str | None:
        pythons = {(ray.start or {}).get("python") for ray in rays}
        if len(pythons) == 1:
            return pythons.pop()
        self.notes.append(f"Not saved: ray.python, as the hosts have {plural(len(pythons), 'different path')} of it")
        return None


def _find_raylet(node: Node, snapshot: Snapshot) -> tuple[str, RayProcess] | None:
    """The name of its host, and its raylet, where a probe has told its flags."""
    rays = ((host.name, ray) for host in snapshot.hosts.values() for ray in host.rays or ())
    return next(((name, ray) for name, ray in rays if ray.role == "raylet" and ray.node == node.id and ray.start is not None), None)


def _gcs_flags(host: str, snapshot: Snapshot) -> dict[str, Any]:
    """The head's own: where its GCS and its dashboard listen."""
    rays = snapshot.hosts[host].rays or ()
    gcs = next((ray for ray in rays if ray.role == "gcs_server" and ray.session == snapshot.cluster.session), None)
    flags = {} if gcs is None else _flags(gcs)
    address = next((ray.gcs for ray in rays if ray.gcs and ray.session == snapshot.cluster.session), None)
    if "port" not in flags and address is not None and (port := address.rpartition(":")[2]).isdigit():
        flags["port"] = int(port)
    return flags


def _flags(ray: RayProcess) -> dict[str, Any]:
    return dict(_sound_flags(ray.start or {}))


def _sound_flags(told: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """As a preset takes them. A command line may hold anything: what is no value of that flag is left out."""
    for name, text in told.items():
        if name == "python" or name not in FLAGS:
            continue
        number = FLAGS[name].kind in ("port", "count", "number", "bytes")
        try:
            value = flag_value(flag_name(name), (int(text) if text.isdigit() else float(text)) if number else text)
        except (InputError, ValueError):
            continue
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None:
            yield name, value


def _without_host(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if name not in OF_ONE_HOST}


def _in_all(flags: list[dict[str, Any]]) -> dict[str, Any]:
    """Those that all workers have alike."""
    return {name: value for name, value in _without_host(flags[0]).items() if all(each.get(name) == value for each in flags)}
