"""Ray's temp dirs and the targets of their pointers, with real folders, links and sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.probe.sample import network, temp_dirs
from cockpit.probe.sample.processes import ProcessTable
from cockpit.probe.sample.sessions import SessionScanner
from tests.probe.process_tables import gcs, process, raylet, table

NAME = "session_2026-11-21_08-02-10_714202_8139"
LATEST, CURRENT = "session_latest", "ray_current_cluster"


@pytest.fixture(autouse=True)
def here(monkeypatch) -> None:
    monkeypatch.setattr(network, "addresses", lambda: ["10.0.0.1"])


def old(path: Path) -> Path:
    """Makes a file look old."""
    os.utime(path, (1e9, 1e9), follow_symlinks=False)
    return path


def session(temp: Path, name: str = NAME) -> Path:
    (temp / name / "sockets").mkdir(parents=True)
    return old(temp / name)


def look(temp: Path, found: ProcessTable | None = None) -> tuple[list[dict], list[dict]]:
    found = table() if found is None else found
    return temp_dirs.read_temp_dirs([str(temp)], found, SessionScanner([str(temp)]).read(found), str)


def pointer(temp: Path, name: str, found: ProcessTable | None = None) -> tuple[str, bool | None]:
    """Its target, and whether that Ray is alive."""
    (fact,) = [fact for fact in look(temp, found)[1] if fact["path"] == f"{temp}/{name}"]
    return fact["target"], fact["alive"]


@contextmanager
def stranger() -> Iterator[None]:
    """Makes us the user nobody for a moment: access checks use the real user."""
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


# Temp dirs


def test_a_temp_dir_has_its_owner_and_is_one_under_all_its_names(temp, tmp_path):
    (tmp_path / "link").symlink_to(temp)
    names = [str(temp), str(tmp_path / "link"), str(tmp_path / "absent")]
    found = temp_dirs.read_temp_dirs(names, table(), SessionScanner().read(table()), str)
    assert found[0] == [{"path": str(temp), "owner": str(os.getuid()), "writable": True}]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.parametrize(
    ("mode", "file", "writable"), [(0o755, None, False), (0o777, None, True), (0o777, 0o644, False), (0o777, 0o666, True)]
)
def test_a_temp_dir_is_writable_only_if_all_of_it_is(temp, mode, file, writable):
    if file is not None:
        cluster(temp, "10.9.9.9:6379")
        (temp / CURRENT).chmod(file)
    temp.chmod(mode)
    with stranger():
        found = look(temp)[0]
    assert found[0]["writable"] is writable


# session_latest


def test_without_pointers_nothing_is_reported(temp):
    session(temp)
    assert look(temp)[1] == []


def test_the_latest_session_lives_while_its_raylet_or_gcs_does(temp):
    path = session(temp)
    (temp / LATEST).symlink_to(path)
    assert pointer(temp, LATEST, table(raylet(session=str(path)))) == (str(path), True)
    assert pointer(temp, LATEST, table(gcs(session=str(path)))) == (str(path), True)
    assert pointer(temp, LATEST) == (str(path), False)


def test_a_session_lives_if_its_raylets_socket_answers(temp):
    (temp / LATEST).symlink_to(NAME)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(session(temp) / "sockets" / "raylet"))
        sock.listen()
        assert pointer(temp, LATEST) == (NAME, True)


def test_a_session_that_is_gone_does_not_live_unless_it_may_just_be_starting(temp):
    (temp / LATEST).symlink_to(NAME)
    assert pointer(temp, LATEST) == (NAME, None)
    old(temp / LATEST)
    assert pointer(temp, LATEST) == (NAME, False)
    os.utime(session(temp))
    assert pointer(temp, LATEST) == (NAME, None)


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_a_file_in_the_place_of_the_link_leads_nowhere(temp, make):
    make(temp / LATEST)
    assert pointer(temp, LATEST) == ("", False)


def test_on_a_shared_file_system_the_session_may_live_elsewhere(temp, monkeypatch):
    monkeypatch.setattr(temp_dirs, "why_shared", lambda _: "it lies on a file system that other hosts share (nfs4)")
    (temp / LATEST).symlink_to(session(temp))
    cluster(temp, "127.0.0.1:1")
    assert [fact["alive"] for fact in look(temp)[1]] == [None, None]


# ray_current_cluster


def cluster(temp: Path, address: str) -> None:
    (temp / CURRENT).write_text(address + "\n")
    old(temp / CURRENT)


def head(address: str, port: int = 6379) -> ProcessTable:
    return table(process(90, f"/e/ray/core/src/ray/gcs/gcs_server --log_dir=/l --gcs_server_port={port} --node-ip-address={address}"))


def test_the_current_cluster_lives_while_a_process_here_belongs_to_it(temp):
    cluster(temp, "10.0.0.1:6379")
    assert pointer(temp, CURRENT, head("10.0.0.1")) == ("10.0.0.1:6379", True)
    joined = table(process(100, "/e/ray/core/src/ray/raylet/raylet --raylet_socket_name=s --gcs-address=10.0.0.1:6379"))
    assert pointer(temp, CURRENT, joined) == ("10.0.0.1:6379", True)


def test_an_address_of_this_host_without_a_listener_is_dead_unless_it_was_just_written(temp):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        cluster(temp, address)
        assert pointer(temp, CURRENT, head("10.0.0.1")) == (address, False)
        sock.listen()
        assert pointer(temp, CURRENT) == (address, True)
    os.utime(temp / CURRENT)
    assert pointer(temp, CURRENT) == (address, None)


@pytest.mark.parametrize("address", ["10.9.9.9:6379", "[fd00::9]:6379", "head.example:6379"])
def test_an_address_of_another_host_cannot_be_judged_from_here(temp, address):
    cluster(temp, address)
    assert pointer(temp, CURRENT, head("10.0.0.1")) == (address, None)


def test_nothing_is_called_dead_while_other_users_processes_are_hidden(temp):
    (temp / LATEST).symlink_to(NAME)
    old(temp / LATEST)
    cluster(temp, "127.0.0.1:1")
    assert [fact["alive"] for fact in look(temp, table(init=False))[1]] == [None, None]


@pytest.mark.parametrize("text", ["", "nonsense", "10.0.0.1:99999999", "\x00\xff:1"])
def test_an_invalid_address_leads_nowhere(temp, text):
    cluster(temp, text)
    assert pointer(temp, CURRENT)[1] in (False, None)
    assert pointer(temp, CURRENT)[1] is False or ":1" in text


def test_a_link_in_the_place_of_the_file_leads_nowhere(temp):
    (temp / CURRENT).symlink_to("/etc/hostname")
    assert pointer(temp, CURRENT) == ("", False)
