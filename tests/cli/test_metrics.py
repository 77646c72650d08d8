"""`cockpit metrics --listen`, beside `test_status_metrics.py`, which prints once."""

from __future__ import annotations

import re
import signal
import socket
import sys
from pathlib import Path

import click
import httpx
import pytest
from click.testing import CliRunner

from cockpit.cli.main import main
from cockpit.cli.metrics import parse_listen
from cockpit.report.metrics import AGE
from tests.cli.programs import started

COCKPIT = str(Path(sys.executable).with_name("cockpit"))


def run(*words):
    return CliRunner().invoke(main, ["metrics", *words])


def test_an_address_and_a_port_are_read():
    assert parse_listen("127.0.0.1:9265") == ("127.0.0.1", 9265)
    assert parse_listen("[::1]:9265") == ("::1", 9265)
    assert parse_listen("head.example:0") == ("head.example", 0)


@pytest.mark.parametrize(
    "text", ["", "9265", ":9265", "127.0.0.1", "127.0.0.1:", "a:b", "h:70000", "::1:9265", "u@h:1", "h:1/metrics", "http://h:1"]
)
def test_anything_else_is_refused_above_all_a_missing_address(text):
    with pytest.raises(click.UsageError, match="expected an address and a port"):
        parse_listen(text)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--unit",), "need --listen"),
        (("--tls-cert", __file__, "--tls-key", __file__), "need --listen"),
        (("--listen", "127.0.0.1:0", "--tls-cert", __file__), "need each other"),
        (("--listen", "127.0.0.1:0", "--client-ca", __file__), "needs both"),
        (("--listen", "127.0.0.1:0", "--textfile", "x"), "use one of them"),
        (("--listen", "127.0.0.1:0", "--tls-cert", "/nowhere", "--tls-key", __file__), "does not exist"),
    ],
)
def test_options_that_contradict_each_other_are_refused(words, reason):
    answer = run(*words)
    assert answer.exit_code == 3
    assert reason in answer.output


def test_the_unit_listens_with_the_same_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("cert", "key", "ca"):
        (tmp_path / name).touch()
    text = run(
        "--listen", "10.0.0.5:9265", "--tls-cert", "cert", "--tls-key", "key", "--client-ca", "ca", "--unit", "--interval", "5"
    ).stdout
    files = f"--tls-cert {tmp_path}/cert --tls-key {tmp_path}/key --client-ca {tmp_path}/ca"
    assert re.search(rf"^ExecStart=/\S+ metrics --listen 10\.0\.0\.5:9265 {files} --interval 5$", text, re.MULTILINE)
    assert "enable --now cockpit-metrics" in text


def test_a_port_that_is_taken_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = run("--listen", f"127.0.0.1:{port}", "--address", "http://127.0.0.1:9")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr == f"cockpit: metrics: 127.0.0.1 port {port}: address already in use\n"


def test_a_file_that_is_no_certificate_is_one_sentence():
    answer = run("--listen", "127.0.0.1:0", "--tls-cert", __file__, "--tls-key", __file__, "--address", "http://127.0.0.1:9")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert re.match(rf"cockpit: metrics: 127\.0\.0\.1 port 0: Cannot load .*{re.escape(__file__)}.*\n", answer.stderr)


@pytest.mark.process
def test_it_answers_with_the_newest_snapshot_until_it_is_ended():
    with started([sys.executable, "-m", "tests.fakes.dashboard", "--nodes", "2"]) as dashboard:
        address = dashboard.stdout.readline().strip().removeprefix("address=")
        with started([COCKPIT, "metrics", "--listen", "127.0.0.1:0", "--address", address]) as child:
            url = child.stderr.readline().strip().removeprefix("cockpit: metrics: ")
            before = httpx.get(url, trust_env=False)
            assert (before.status_code, before.text) == (200, ""), "nothing is claimed before the sources have answered"
            first = last = ""
            while not last or taken(first) == taken(last):
                last = httpx.get(url, trust_env=False).text
                first = first or last
            assert "\ncockpit_ray_reachable 1.0\n" in first
            assert 'cockpit_nodes{state="ALIVE"} 2.0\n' in first
            assert float(re.search(rf"^{AGE} (.*)$", last, re.MULTILINE)[1]) < 20
            child.send_signal(signal.SIGTERM)
            assert child.wait(timeout=20) == 128 + signal.SIGTERM
            assert child.stderr.read() == ""


def taken(text):
    found = re.search(r"^cockpit_look_timestamp_seconds (.*)$", text, re.MULTILINE)
    return found and float(found[1])
