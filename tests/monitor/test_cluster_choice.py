"""Other Rays on a host are asked whether they answer; a hostile one gains nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cockpit.model import OtherRay
from cockpit.monitor.cluster_choice import MAX_ASKED, ask_rays

SESSION = "session_2026-11-20_08-02-10_714202_8100"
VERSION = {"version": "4", "ray_version": "2.60.0", "session_name": SESSION, "authentication_mode": "disabled"}


@asynccontextmanager
async def listener(body: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers every request with this body; yields its address and the requests."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def answers(*rays: OtherRay, strangers: bool = False) -> list[bool | None]:
    return [ray.answers for ray in await ask_rays(rays, lambda: 0.0, strangers=strangers)]


async def test_a_ray_that_reports_its_session_answers_and_gets_no_token(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret-s3cret")
    async with listener(json.dumps(VERSION).encode()) as (url, asked):
        assert await answers(OtherRay(url, SESSION)) == [True]
        assert await answers(OtherRay(url, "session_of_another")) == [False]
        assert asked
        assert not any(b"s3cret" in request for request in asked)
    assert await answers(OtherRay(url, SESSION)) == [False], "nothing listens there any more"


async def test_another_users_ray_is_asked_only_if_a_person_wants_it():
    async with listener(json.dumps(VERSION).encode()) as (url, asked):
        hers = OtherRay(url, SESSION, "alice")
        assert await answers(hers) == [None]
        assert asked == []
        assert await answers(hers, strangers=True) == [True]


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"session_name": 3}', b"\xff" * 100, json.dumps({**VERSION, "more": "x" * (1 << 20)}).encode()]
)
async def test_an_answer_that_is_not_rays_or_has_megabytes_counts_as_none(body):
    async with listener(body) as (url, _):
        assert await answers(OtherRay(url, SESSION)) == [False]


async def test_of_thousands_of_rays_only_some_are_asked_ours_first():
    async with listener(json.dumps(VERSION).encode()) as (url, _):
        crowd = [OtherRay(f"{url}/{number}", SESSION, "alice") for number in range(1000)]
        found = await ask_rays([*crowd, OtherRay(url, SESSION)], lambda: 0.0, strangers=True)
    assert (found[0].owner, found[0].answers) == (None, True)
    assert len([ray for ray in found if ray.answers is not None]) == MAX_ASKED
    assert len(found) == 1001
