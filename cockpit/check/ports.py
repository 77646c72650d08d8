"""Checks whether another process already listens on a port that a preset gives to Ray.

Ray itself reports ports of a preset that clash with each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress

from cockpit.budget import Line
from cockpit.presets import Preset, RayNode, RayStart
from cockpit.sources.source import wait_within

OF_HEAD: Mapping[str, int] = {"port": 6379, "dashboard_port": 8265, "ray_client_server_port": 10001}
OF_ALL: Mapping[str, int] = {
    "dashboard_agent_listen_port": 52365,
    "node_manager_port": 0,
    "object_manager_port": 0,
    "dashboard_agent_grpc_port": 0,
    "runtime_env_agent_port": 0,
    "metrics_export_port": 0,
}
"""Flags of `ray start` with Ray's own defaults (2.60, `scripts.py`); 0 is any free port."""
Taken = frozenset[tuple[str, int]]
"""The preset's name of a host, and a port."""
CONNECT_TIMEOUT_S = 1.0
MAX_CONNECTIONS = 200
"""At a time; a preset may name a thousand hosts."""


def port_lines(start: RayStart, taken: Taken) -> Iterator[Line]:
    """One line for each port of the preset that is in use."""
    for node in start.nodes:
        ports = ports_of(node, head=node is start.head)
        for flag, port in ports.items():
            if (node.host, port) in taken:
                text = f"port {port} ({flag}) on {node.host} is already in use"
                change = f"`ss -ltnp 'sport = :{port}'` on {node.host} shows its process; stop that, or set another {flag}"
                yield Line("later", text, change)


def ports_of(node: RayNode, *, head: bool) -> dict[str, int]:
    """Return the fixed ports of a node by their flags; a port that Ray chooses itself is left out."""
    own = {**(OF_HEAD if head else {}), **OF_ALL}
    ports = {flag: node.flags.get(flag, usual) for flag, usual in own.items()}
    return {flag: port for flag, port in ports.items() if isinstance(port, int) and port > 0}


async def find_listeners(preset: Preset) -> Taken:
    """Connect to every fixed port of the preset's hosts. Return the ports that accept a connection.

    A process that listens only on the loopback address of another host is not found. A running Ray's own ports are found too.
    """
    semaphore = asyncio.Semaphore(MAX_CONNECTIONS)

    async def is_open(host: str, port: int) -> bool:
        async with semaphore:
            with suppress(OSError, UnicodeError, asyncio.TimeoutError):  # UnicodeError: the name can't be a host's
                _, writer = await wait_within(CONNECT_TIMEOUT_S, asyncio.open_connection(host, port))
                writer.close()
                return True
        return False

    ports = [(node, port) for node in preset.nodes for port in ports_of(node, head=node is preset.nodes[0]).values()]
    answers = await asyncio.gather(*(is_open(node.address or node.host, port) for node, port in ports))
    return frozenset((node.host, port) for (node, port), answered in zip(ports, answers, strict=True) if answered)
