"""Servers of engines on this host: real sockets of this process, in a made-up process table."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from cockpit.probe.engine_metrics import MAX_BYTES, MAX_ENGINES
from cockpit.probe.sample import engines
from cockpit.probe.sample.engines import MAX_PORTS, OTHER_AGAIN_S, SILENT_AGAIN_S, AskError, EngineServers, ask_port, find_servers
from cockpit.probe.sample.processes import ProcessTable
from tests.probe.process_tables import process, raylet, table

ME = os.getpid()
METRICS = b'vllm:num_requests_running{engine="0",model_name="tiny"} 4.0\nvllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.5\n'
Talk = Callable[[socket.socket], None]


def whole(body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n") -> Talk:
    return lambda client: client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


@contextmanager
def serving(talk: Talk, address: str = "127.0.0.1") -> Iterator[tuple[int, list[bytes]]]:
    """A server whose connections stay open until the end, as a server's that keeps them alive."""
    requests: list[bytes] = []
    clients: list[socket.socket] = []
    server = socket.create_server((address, 0))

    def run() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                clients.append(client)
                requests.append(client.recv(4096))
                with suppress(OSError):
                    talk(client)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1], requests
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for client in clients:
            client.close()
        thread.join()


def here(title: str = "ray::vLLMHttpServer", below: str = "VLLM::EngineCore") -> ProcessTable:
    """The process of the test as a worker of Ray, with an engine's process below it."""
    child = process(4_000_001, below, parent=ME, RAY_RAYLET_PID="100")
    return table(raylet(), process(ME, title, parent=100, RAY_RAYLET_PID="100"), child)


def test_the_server_above_an_engines_process_is_asked_at_its_port():
    with serving(whole(METRICS), "0.0.0.0") as (port, requests):
        (found,) = EngineServers().read(here())
    assert (found["pid"], found["port"], found["error"]) == (ME, port, None)
    assert (found["software"], found["running"], found["kv_cache"], found["model"]) == ("vllm", 4, 0.5, "tiny")
    assert len(requests) == 1
    assert requests[0].startswith(b"GET /metrics HTTP/1.0\r\n")
    assert b"authorization" not in requests[0].lower()


@pytest.mark.parametrize(
    "nobody",
    [
        table(raylet(), process(7, "ray::WorkerDict", parent=100, RAY_RAYLET_PID="100")),
        table(process(7, "python serve.py"), process(8, "VLLM::EngineCore", parent=7)),
        here(below="python helper.py"),
    ],
    ids=["no engine below it", "not Ray's", "another child"],
)
def test_nobody_else_is_asked(nobody: ProcessTable):
    assert find_servers(nobody) == []


def test_processes_in_which_engines_compute_are_never_asked():
    core, rank = (
        process(8, "VLLM::EngineCore", parent=7, RAY_RAYLET_PID="100"),
        process(9, "VLLM::Worker_TP0", parent=8, RAY_RAYLET_PID="100"),
    )
    server = process(7, "ray::vLLMHttpServer", parent=100, RAY_RAYLET_PID="100")
    api = process(10, "VLLM::APIServer_1", parent=7, RAY_RAYLET_PID="100")
    assert [each.pid for each in find_servers(table(raylet(), server, core, rank, api))] == [7, 10]


def test_a_port_that_is_no_engines_is_hardly_asked_again():
    now = [1000.0]
    servers = EngineServers(clock=lambda: now[0])
    with serving(lambda client: client.sendall(b"\x00\x00\x12\x04\x00" * 8) or client.close()) as (_, requests):
        for _ in range(20):
            assert servers.read(here()) == []
            now[0] += OTHER_AGAIN_S / 10
    assert len(requests) == 2


def test_an_engine_that_still_loads_is_asked_each_minute(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engines, "ASK_TIMEOUT_S", 0.05)
    now, talks = [1000.0], [lambda client: None]
    servers = EngineServers(clock=lambda: now[0])
    with serving(lambda client: talks[0](client)) as (_, requests):
        assert servers.read(here()) == []
        now[0] += SILENT_AGAIN_S / 2
        assert servers.read(here()) == []
        assert len(requests) == 1
        talks[0] = whole(METRICS)
        now[0] += SILENT_AGAIN_S / 2
        assert len(servers.read(here())) == 1


def test_a_server_that_hangs_keeps_its_last_numbers_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engines, "ASK_TIMEOUT_S", 0.05)
    servers, talks = EngineServers(), [whole(METRICS)]
    with serving(lambda client: talks[0](client)) as (port, _):
        servers.read(here())
        talks[0] = lambda client: client.sendall(b"HTTP/1.1 200 OK\r\n")
        (found,) = servers.read(here())
        assert found["error"] == f"no whole answer at port {port} within 0 s"
        assert found["running"] == 4
        talks[0] = whole(METRICS)
        assert servers.read(here())[0]["error"] is None
    (found,) = servers.read(here())
    assert found["error"] == f"nothing listens at port {port} any more"
    assert servers.read(table()) == [], "its process has ended"


def test_a_server_with_very_many_engines_hides_no_other_one():
    many = b"".join(b'vllm:num_requests_running{engine="%d",model_name="forged"} 1\n' % number for number in range(300))
    servers = EngineServers()
    with serving(whole(many)) as (first, _):
        assert len(servers.read(here())) == MAX_ENGINES
        with serving(whole(METRICS)) as (second, _):
            found = servers.read(here())
    assert {each["port"] for each in found} == {first, second}
    assert len(found) == MAX_ENGINES


def test_very_many_servers_of_one_user_hide_no_other_users():
    forged = [process(pid, "VLLM::APIServer", parent=100, uid=54321, RAY_RAYLET_PID="100") for pid in range(200, 300)]
    real = process(900, "VLLM::APIServer", parent=100, uid=54322, RAY_RAYLET_PID="100")
    assert 900 in [each.pid for each in find_servers(table(raylet(), *forged, real))]


def refused(talk: Talk) -> str:
    with serving(talk) as (port, _), pytest.raises(AskError) as failed:
        ask_port("127.0.0.1", port)
    return str(failed.value)


def test_a_server_that_moves_from_port_to_port_does_not_fill_the_memory():
    servers = EngineServers(lambda *_: METRICS)
    for _ in range(3 * MAX_PORTS):
        with serving(whole(METRICS)) as (port, _):
            found = servers.read(here())
            assert port in [each["port"] for each in found]
    assert len(found) <= 1 + MAX_PORTS


def test_redirects_and_refusals_are_said():
    assert "HTTP 307" in refused(whole(b"", b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\n"))
    assert "HTTP 401" in refused(whole(b"", b"HTTP/1.1 401 Who\r\n"))


def test_an_endless_answer_is_left_after_its_limit():
    sent = 0

    def endless(client: socket.socket) -> None:
        nonlocal sent
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            sent += client.send(b"x" * (1 << 16))

    assert "more than 4 MB" in refused(endless)
    assert sent < 4 * MAX_BYTES


def test_a_slow_answer_is_left_after_its_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engines, "ASK_TIMEOUT_S", 0.2)
    stop = threading.Event()

    def drip(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not stop.wait(0.01):
            client.sendall(b"x")

    with serving(drip) as (port, _):
        with pytest.raises(AskError, match="no whole answer"):
            ask_port("127.0.0.1", port)
        stop.set()


@pytest.mark.parametrize(
    "answer", [b"", b"\xff" * 9000, b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 20\xb2 OK\r\n\r\n", b"HTTP/2 200\r\n\r\n" + METRICS]
)
def test_other_protocols_raise_one_error(answer: bytes):
    def talk(client: socket.socket) -> None:
        client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)

    with serving(talk) as (port, _), pytest.raises(AskError):
        ask_port("127.0.0.1", port)


def test_many_processes_that_claim_to_serve_are_cut():
    servers = [process(pid, "sglang::server", parent=100, RAY_RAYLET_PID="100") for pid in range(1000, 1500)]
    assert len(find_servers(table(raylet(), *servers))) == engines.MAX_SERVERS
