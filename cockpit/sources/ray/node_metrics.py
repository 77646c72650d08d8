"""Reads the inference engines that report themselves at the metrics endpoint of a Ray node, as Prometheus would."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

from cockpit.probe.engine_metrics import MAX_BYTES, EngineReading, read_engines
from cockpit.sources.http_client import TooLargeError, open_client, read_body
from cockpit.sources.ray.error_text import why_not_http, why_unreachable
from cockpit.sources.ray.http import THREAD_MIN_BYTES, run_in_thread_if
from cockpit.sources.ray.logs import parse_version
from cockpit.sources.source import SourceError, wait_within

READ_TIMEOUT_S = 5.0
METADATA = [
    ip_network(each)
    for each in ("fd00:ec2::254/128", "fd20:ce::254/128", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "64:ff9b::a9fe:0/112")
]
"""Metadata servers of clouds whose addresses are not link-local. The last network has link-local IPv4 addresses in the form of IPv6."""
FIRST_FORGETFUL, FIRST_SPARING = (2, 51), (2, 57)
"""From the first version on, and before the second, whoever reads the endpoint takes its gauges away from the next reader until workers
report again (ray/_private/telemetry/open_telemetry_metric_recorder.py)."""


def does_reading_disturb(ray_version: str | None) -> bool:
    """Return whether each reading would leave a gap in the users' own Prometheus."""
    return FIRST_FORGETFUL <= parse_version(ray_version) < FIRST_SPARING


def _node_ip(address: str) -> IPv4Address | IPv6Address:
    """The IP address of a node. Raises `SourceError` if a node can't have it."""
    try:
        ip = ip_address(address)
    except ValueError:
        raise SourceError(f"{address} is no IP address") from None
    if isinstance(ip, IPv6Address):
        if ip.scope_id is not None:  # any text may follow the `%`, for example another host in a URL
            raise SourceError(f"{address} is no address of a node")
        ip = ip.ipv4_mapped or ip
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or any(ip in network for network in METADATA):
        raise SourceError(f"{address} is no address of a node")
    return ip


class NodeMetrics:
    """Sends one GET without a token, to the address and port that Ray reports; follows no redirect, and reads `MAX_BYTES` at most."""

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._transport = transport
        self._client: httpx.AsyncClient | None = None

    async def read(self, address: str, port: int) -> list[EngineReading]:
        """The engines that a node reports. Raises `SourceError`."""
        ip = _node_ip(address)
        place = f"http://{f'[{ip}]' if isinstance(ip, IPv6Address) else ip}:{port}/metrics"
        try:
            return await wait_within(READ_TIMEOUT_S, self._read(place))
        except asyncio.TimeoutError:
            raise SourceError(f"{place}: no whole answer within {READ_TIMEOUT_S:.0f} s", "silent") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise SourceError(f"{place}: {why_unreachable(error)}", "silent") from None
        except httpx.RemoteProtocolError as error:
            raise SourceError(f"{place}: {why_not_http(error) or 'the answer broke off'}") from None
        except httpx.TransportError:
            raise SourceError(f"{place}: the connection broke off") from None
        except TooLargeError:
            raise SourceError(f"{place}: the answer has more than {MAX_BYTES >> 20} MB") from None

    async def _read(self, place: str) -> list[EngineReading]:
        if self._client is None:
            self._client = open_client(None, transport=self._transport)
        async with self._client.stream("GET", place) as answer:
            if answer.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
                raise SourceError(f"{place}: the answer is compressed, which was not asked for")
            if answer.status_code != 200:
                raise SourceError(f"{place}: HTTP {answer.status_code}")
            body = await read_body(answer, MAX_BYTES)
        return await run_in_thread_if(len(body) >= THREAD_MIN_BYTES, read_engines, body)

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None
