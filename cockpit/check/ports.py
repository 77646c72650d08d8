"""Whether the ports that a preset gives to Ray clash: with each other, or with what listens already."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress

from cockpit.budget import Line
from cockpit.presets import Preset, RayNode, RayStart

OF_HEAD: Mapping[str, int] = {"port": 6379, "dashboard_port": 8265, "ray_client_server_port": 10001}
OF_ALL: Mapping[str, int] = {
    "dashboard_agent_listen_port": 52365,
    "node_manager_port": 0,
    "object_manager_port": 0,
    "dashboard_agent_grpc_port": 0,
    "runtime_env_agent_port": 0,
    "metrics_export_port": 0,
}
"""Flags of `ray start` with Ray's own choice (2.60, `scripts.py`); 0 is any that is free."""
WORKERS = ("min_worker_port", 10002), ("max_worker_port", 19999)
Taken = frozenset[tuple[str, int]]
"""Host and port, as the preset calls the host."""
SOON = 1.0


def port_lines(start: RayStart, taken: Taken) -> Iterator[Line]:
    """What Ray would refuse to start with (`update_pre_selected_port` in its parameter.py), and what is in its way now."""
    for node in start.nodes:
        ports = ports_of(node, head=node is start.head)
        yield from _among_each_other(node, ports)
        for flag, port in ports.items():
            if (node.host, port) in taken:
                text = f"port {port} ({flag}) of {node.host} is taken by something that listens there"
                yield Line("later", text, f"`ss -ltnp 'sport = :{port}'` on {node.host} tells by what; end it, or {flag}: another")


def ports_of(node: RayNode, *, head: bool) -> dict[str, int]:
    """Those that are fixed, by their flags."""
    own = {**(OF_HEAD if head else {}), **OF_ALL}
    ports = {flag: node.flags.get(flag, usual) for flag, usual in own.items()}
    return {flag: port for flag, port in ports.items() if isinstance(port, int) and port > 0}


def _among_each_other(node: RayNode, ports: Mapping[str, int]) -> Iterator[Line]:
    first: dict[int, str] = {}
    (low_flag, low), (high_flag, high) = ((flag, node.flags.get(flag, usual)) for flag, usual in WORKERS)
    listed = node.flags.get("worker_port_list")
    for flag, port in ports.items():
        if (other := first.setdefault(port, flag)) != flag:
            yield Line("never", f"{node.host}: {other} and {flag} are both {port}: Ray refuses to start", f"{flag}: another port")
        if listed is None and isinstance(low, int) and isinstance(high, int) and 0 < low <= port <= high:
            text = f"{node.host}: {flag} {port} lies among the ports of workers ({low} to {high}): Ray refuses to start"
            yield Line("never", text, f"{flag}: another port, or {low_flag} and {high_flag}")


async def listening(preset: Preset) -> Taken:
    """Which of the head's ports somebody listens on. Only who knows that no Ray runs there learns from it that they are in the way."""
    if preset.ray is None:
        return frozenset()
    head = preset.ray.head
    ports = tuple(ports_of(head, head=True).values())
    answers = await asyncio.gather(*(_answers(head.address or head.host, port) for port in ports))
    return frozenset((head.host, port) for port, answered in zip(ports, answers, strict=True) if answered)


async def _answers(host: str, port: int) -> bool:
    with suppress(OSError, asyncio.TimeoutError):
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), SOON)
        writer.close()
        return True
    return False
