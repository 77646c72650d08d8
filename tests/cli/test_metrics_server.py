"""The server for Prometheus, asked by a real client over HTTP and HTTPS with certificates that openssl made."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack

import httpx
import pytest

from cockpit.cli import metrics_server
from cockpit.cli.metrics_server import Tls, open_metrics_server
from cockpit.report.metrics import NewestMetrics
from tests.cli.certificates import make_certificates
from tests.world import NOW, snapshot


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("pems"))


@pytest.fixture
def newest():
    collector = NewestMetrics(clock=lambda: NOW)
    collector.on_snapshot(snapshot())
    return collector


@pytest.fixture
def serve(newest):
    """Opens servers on the loopback, and closes them at the end."""
    opened = []

    def serve_on(address="127.0.0.1", tls=None):
        opened.append(open_metrics_server(newest, address, 0, tls))
        return opened[-1]

    yield serve_on
    for server in opened:
        server.close()


def scrape(server, pems=None, client=None):
    """The text that a client gets; it knows the server's certificate, and shows that of `client`."""
    context = ssl.create_default_context(cafile=pems / "server.pem") if pems else False
    if client is not None:
        context.load_cert_chain(pems / f"{client}.pem", pems / f"{client}.key")
    return httpx.get(server.url, verify=context, trust_env=False, timeout=20).text


def test_it_answers_in_plain_text_on_the_loopback_and_warns_of_nothing(serve):
    server = serve()
    assert "\ncockpit_status " in scrape(server)
    assert server.exposure is None


@pytest.mark.process
def test_with_an_authority_only_clients_with_its_certificate_are_answered(serve, pems):
    server = serve(tls=Tls(str(pems / "server.pem"), str(pems / "server.key"), str(pems / "ca.pem")))
    assert server.url.startswith("https://127.0.0.1:")
    assert "\ncockpit_status " in scrape(server, pems, "client")
    for stranger in (None, "stranger"):
        with pytest.raises(httpx.TransportError):
            scrape(server, pems, stranger)
    assert "\ncockpit_status " in scrape(server, pems, "client"), "it still answers"


@pytest.mark.process
def test_with_a_certificate_alone_every_client_is_answered_and_only_by_https(serve, pems):
    server = serve(tls=Tls(str(pems / "server.pem"), str(pems / "server.key")))
    assert "\ncockpit_status " in scrape(server, pems)
    with pytest.raises(httpx.TransportError):
        httpx.get(server.url.replace("https", "http"), trust_env=False, timeout=20)


@pytest.mark.process
def test_clients_that_connect_and_say_nothing_delay_nobody_and_are_dropped(serve, pems, monkeypatch, capfd):
    monkeypatch.setattr(metrics_server._ScrapeHandler, "timeout", 0.5)
    server = serve(tls=Tls(str(pems / "server.pem"), str(pems / "server.key")))
    with socket.create_connection(server.server.server_address) as silent:
        assert "\ncockpit_status " in scrape(server, pems)
        silent.settimeout(20)
        assert silent.recv(1) == b"", "dropped"
    assert capfd.readouterr() == ("", "")


@pytest.mark.process
@pytest.mark.parametrize("with_tls", [False, True])
def test_clients_that_hold_many_connections_and_say_a_bit_now_and_then_take_a_few_of_them_only(serve, pems, monkeypatch, capfd, with_tls):
    monkeypatch.setattr(metrics_server, "MAX_CONNECTIONS", 4)
    server = serve(tls=Tls(str(pems / "server.pem"), str(pems / "server.key")) if with_tls else None)
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(server.server.server_address)) for _ in range(12)]
        assert "\ncockpit_status " in scrape(server, pems if with_tls else None)
        for oldest in held[:8]:
            oldest.settimeout(5)
            assert oldest.recv(1) == b"", "ended"
        held[-1].settimeout(0.1)
        with pytest.raises(TimeoutError):
            held[-1].recv(1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.process
@pytest.mark.parametrize("with_tls", [False, True])
def test_who_listens_for_others_is_told_what_they_can_read(serve, pems, with_tls):
    server = serve("0.0.0.0", Tls(str(pems / "server.pem"), str(pems / "server.key")) if with_tls else None)
    assert "everybody who reaches this address can read" in server.exposure
    assert ("without encryption" in server.exposure) is not with_tls


@pytest.mark.process
def test_who_admits_only_known_clients_is_told_nothing(serve, pems):
    assert serve("0.0.0.0", Tls(str(pems / "server.pem"), str(pems / "server.key"), str(pems / "ca.pem"))).exposure is None


def test_an_ipv6_address_has_brackets(serve):
    try:
        assert serve("::1").url.startswith("http://[::1]:")
    except OSError:
        pytest.skip("this host has no IPv6")
