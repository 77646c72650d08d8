"""NCCL's RAS is asked in real processes that speak its protocol: only in those that are meant, and never an old one by itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.probe.sample import nccl
from cockpit.probe.sample.nccl import ask_nccl, find_version
from cockpit.probe.sample.processes import Identity, read_stat
from tests.nccl_ranks import Rank

pytestmark = pytest.mark.process

JSON, TEXT = '{"nccl_version": "2.29.7", "communicators": []}\n', "NCCL version 2.27.5 compiled with CUDA 12.9\n"


Start = Callable[..., Rank]


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def start(tmp_path: Path, port: int) -> Iterator[Start]:
    ranks: list[Rank] = []
    (tmp_path / "report.json").write_text(JSON)
    (tmp_path / "report.text").write_text(TEXT)

    def run(mode: str = "json", library: str = "libnccl.so.2.29.7", prefix: Sequence[str] = (), **environ: str) -> Rank:
        ranks.append(Rank(mode, port, tmp_path, library, prefix, environ))
        return ranks[-1]

    yield run
    for rank in ranks:
        rank.process.kill()
        rank.process.communicate()


def test_a_new_nccl_gives_its_report_as_json(start: Start):
    rank = start()
    assert ask_nccl([rank.identity], even_old=False) == {"pid": rank.process.pid, "version": "2.29.7", "report": JSON}
    assert rank.heard() == ["CLIENT PROTOCOL 2", "TIMEOUT 4", "SET FORMAT JSON", "VERBOSE STATUS"]


@pytest.mark.parametrize("host", ["::1", "::", "0.0.0.0"])
def test_it_is_asked_where_it_listens(start: Start, host: str):
    if ":" in host and not has_ipv6():
        pytest.skip("this host has no IPv6")
    rank = start(RAS_HOST=host)
    assert ask_nccl([rank.identity], even_old=False)["report"] == JSON


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_the_environment_of_a_job_cannot_choose_an_address_to_connect_to(start: Start, port: int):
    rank = start(NCCL_RAS_ADDR=f"169.254.169.254:{port}")
    assert ask_nccl([rank.identity], even_old=False)["report"] == JSON, "it was asked where it listens"
    with idle(port, NCCL_RAS_ADDR=f"169.254.169.254:{port}") as other:
        assert "belongs to processes of another job" in ask_nccl([other], even_old=True)["error"]


def test_the_probe_is_a_program_that_asks_and_ends(start: Start):
    rank = start()
    pid, ticks = rank.identity
    words = [sys.executable, "-m", "cockpit.probe", "--no-lifeline", "nccl", f"{pid}:{ticks}"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(ended.stdout) == {"pid": pid, "version": "2.29.7", "report": JSON}


@pytest.mark.parametrize("library", ["libnccl.so.2.28.9", "libnccl.so.2", ""])
def test_an_old_or_unknown_nccl_is_not_asked_for_its_report_unless_a_person_wants_it(start: Start, library: str):
    rank = start("old", library)
    answer = ask_nccl([rank.identity], even_old=False)
    assert answer == {"pid": rank.process.pid, "version": "2.28.9" if library.endswith("9") else None, "report": None}
    assert ask_nccl([rank.identity], even_old=True)["report"] == TEXT
    heard = rank.heard()
    assert heard[:2] == ["CLIENT PROTOCOL 2", "CLIENT PROTOCOL 2"], "the first time nothing followed the greeting"
    assert heard[-1] == "VERBOSE STATUS"


def test_the_version_of_a_wheel_is_that_of_its_metadata_and_of_several_the_oldest_counts(start: Start, tmp_path: Path):
    rank = start(library="site-packages/nvidia/nccl/lib/libnccl.so.2")
    pid = rank.process.pid
    assert find_version(pid) is None
    (tmp_path / "site-packages/nvidia_nccl_cu13-2.29.7.dist-info").mkdir()
    assert find_version(pid) == (2, 29, 7)
    (tmp_path / "site-packages/nvidia_nccl_cu12-2.27.5.dist-info").mkdir()
    assert find_version(pid) == (2, 27, 5)
    (tmp_path / "site-packages/nvidia/nccl/lib/libnccl.so.2").unlink()
    assert find_version(pid) is None, "it was replaced while the process runs: the metadata are not its own"
    assert find_version(os.getpid()) is None


def test_of_several_processes_on_the_port_only_those_that_are_meant_give_a_report(start: Start):
    """The kernel chooses who gets a connection; another job's process is greeted and left alone."""
    other, rank = start(), start()
    assert ask_nccl([rank.identity], even_old=False)["pid"] == rank.process.pid
    assert set(other.heard()) <= {"CLIENT PROTOCOL 2"}


@contextmanager
def idle(port: int, **environ: str) -> Iterator[Identity]:
    """A process of the job that has no communicator."""
    environ = {**os.environ, "NCCL_RAS_ADDR": f"localhost:{port}", **environ}
    with subprocess.Popen(["sh", "-c", "echo; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdout.readline()
        yield process.pid, read_stat(process.pid).ticks
        process.kill()


def test_a_port_of_another_job_is_not_asked_at_all(start: Start, port: int):
    other = start()
    with idle(port) as mine:
        assert "belongs to processes of another job or user" in ask_nccl([mine], even_old=True)["error"]
    assert other.heard() == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({}, "no process of the job listens on port"), ({"NCCL_RAS_ENABLE": "0"}, "switched off there (NCCL_RAS_ENABLE=0)")],
)
def test_nobody_listens_or_the_service_is_off(port: int, environ: dict[str, str], expected: str):
    with idle(port, **environ) as rank:
        assert expected in ask_nccl([rank], even_old=True)["error"]


def test_an_nccl_without_the_service_is_named(port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nccl, "find_version", lambda pid: (2, 21, 5))
    with idle(port) as rank:
        assert ask_nccl([rank], even_old=True) == {"error": "NCCL 2.21.5 there has no RAS: it came with 2.24.3"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes a network and becomes another user")
def test_a_rank_in_a_container_is_asked_on_the_loopback_of_its_own_network(start: Start, port: int):
    rank = start(prefix=("unshare", "--net", "sh", "-c", 'ip link set lo up 2>/dev/null; exec "$@"', "sh"))
    assert os.readlink(f"/proc/{rank.process.pid}/ns/net") != os.readlink("/proc/self/ns/net")
    words = [sys.executable, "-m", "cockpit.probe", "--no-lifeline", "nccl", ":".join(map(str, rank.identity))]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(ended.stdout) == {"pid": rank.process.pid, "version": "2.29.7", "report": JSON}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it becomes another user")
def test_another_users_job_is_not_asked(start: Start):
    rank = start()
    os.seteuid(65534)
    try:
        answer = ask_nccl([rank.identity], even_old=True)
    finally:
        os.seteuid(0)
    assert answer == {"error": f"process {rank.process.pid} belongs to another user: run cockpit as root or as its user"}
    assert rank.heard() == []


def test_a_hung_thread_is_given_up_and_another_rank_answers(start: Start, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nccl, "LINE_TIMEOUT_S", 0.5)
    hung, rank = start("hang"), start()
    answer = ask_nccl([hung.identity, rank.identity], even_old=False)
    assert answer["pid"] == rank.process.pid


def test_if_all_hang_it_is_said(start: Start, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nccl, "LINE_TIMEOUT_S", 0.05)
    assert "the RAS thread of NCCL may hang" in ask_nccl([start("hang").identity], even_old=False)["error"]


def test_a_report_that_never_comes_and_one_that_never_ends_are_given_up(start: Start, monkeypatch: pytest.MonkeyPatch):
    endless = start("endless")
    assert ask_nccl([endless.identity], even_old=False)["error"] == "its report is longer than 4 MB"
    endless.heard()
    monkeypatch.setattr(nccl, "TIMEOUT_S", 4.0)
    monkeypatch.setattr(nccl, "LINE_TIMEOUT_S", 1.0)
    assert "has not finished its report within 4 s" in ask_nccl([start("mute").identity], even_old=False)["error"]


def test_another_program_on_the_port_is_asked_nothing_more(start: Start):
    rank = start("other")
    assert "is not NCCL's RAS" in ask_nccl([rank.identity], even_old=True)["error"]
    assert rank.heard() == ["CLIENT PROTOCOL 2"]


def test_a_process_that_has_ended_is_not_another_one_with_its_pid(start: Start):
    pid, ticks = start().identity
    assert "have ended" in ask_nccl([(pid, ticks + 1)], even_old=True)["error"]
    assert ask_nccl([(pid, 0)], even_old=False)["pid"] == pid, "Ray alone reports it, without a start time"
