"""Whether somebody listens already on the ports that a preset gives to Ray; on those that clash with each other Ray tells itself."""

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
"""Flags of `ray start` with Ray's own choice (2.60, `scripts.py`); 0 is any that is free."""
Taken = frozenset[tuple[str, int]]
"""Host and port, as the preset calls the host."""
CONNECT_TIMEOUT_S = 1.0
MAX_CONNECTIONS = 200
"""At a time; a preset may name a thousand hosts."""


def port_lines(start: RayStart, taken: Taken) -> Iterator[Line]:
    """What is in Ray's way now."""
    for node in start.nodes:
        ports = ports_of(node, head=node is start.head)
        for flag, port in ports.items():
            if (node.host, port) in taken:
                text = f"port {port} ({flag}) on {node.host} is already in use"
                yield Line(
                    "later", text, f"`ss -ltnp 'sport = :{port}'` on {node.host} shows its process; stop that, or set another {flag}"
                )


def ports_of(node: RayNode, *, head: bool) -> dict[str, int]:
    """Those that are fixed, by their flags."""
    own = {**(OF_HEAD if head else {}), **OF_ALL}
    ports = {flag: node.flags.get(flag, usual) for flag, usual in own.items()}
    return {flag: port for flag, port in ports.items() if isinstance(port, int) and port > 0}


async def find_listeners(preset: Preset) -> Taken:
    """Which of the hosts' ports somebody listens on, as seen from here: what listens on loopback alone over there is not found.

    Only who knows that no Ray runs there learns from it that they are in the way.
    """
    room = asyncio.Semaphore(MAX_CONNECTIONS)
    asked = [(node, port) for node in preset.nodes for port in ports_of(node, head=node is preset.nodes[0]).values()]
    answers = await asyncio.gather(*(_answers(node.address or node.host, port, room) for node, port in asked))
    return frozenset((node.host, port) for (node, port), answered in zip(asked, answers, strict=True) if answered)


async def _answers(host: str, port: int, room: asyncio.Semaphore) -> bool:
    async with room:
        with suppress(OSError, UnicodeError, asyncio.TimeoutError):  # the second: a name that can be no host's
            _, writer = await wait_within(CONNECT_TIMEOUT_S, asyncio.open_connection(host, port))
            writer.close()
            return True
    return False
