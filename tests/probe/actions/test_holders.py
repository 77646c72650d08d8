"""Processes that use a session's files: no user's open or mapped files prevent the check of other users."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
from pathlib import Path

import pytest

from cockpit.probe.actions import holders
from cockpit.probe.actions.holders import find_file_uses
from cockpit.probe.sample.processes import ProcessScanner

pytestmark = pytest.mark.process

NAME = "session_2026-11-21_08-02-10_714202_8139"
HOLD = 'exec 3<"$0"; echo; read x'


def ask(tmp_path: Path, user: int | None) -> tuple[set[int], tuple[int, ...], int]:
    """The pids whose uses were found, the pids that could not be asked, and the pid with an open file there."""
    file = tmp_path / NAME / "logs" / "file"
    file.parent.mkdir(parents=True)
    file.touch()
    command = ["sh", "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user) as child:
        assert child.stdout is not None
        child.stdout.readline()
        used, hanging = find_file_uses(ProcessScanner().scan(), lambda *_: None)
        child.kill()
    return {use.pid for use in used if use.path == "logs/file"}, hanging, child.pid


def test_a_process_with_an_open_file_is_found(tmp_path: Path):
    used, hanging, pid = ask(tmp_path, None)
    assert pid in used
    assert pid not in hanging


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
def test_a_user_whose_processes_take_too_long_is_not_asked_further(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(holders, "BUDGET_S", -1.0)
    folder = Path("/tmp") / f"cockpit-holders-{os.getpid()}"
    folder.mkdir()
    try:
        used, hanging, pid = ask(folder, 65534)
    finally:
        subprocess.run(["rm", "-r", str(folder)], check=True)
    assert pid not in used
    assert pid in hanging


def test_the_open_files_of_a_process_with_too_much_mapped_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(holders, "MAX_MAPS_BYTES", 1)
    used, hanging, pid = ask(tmp_path, None)
    assert pid in used
    assert pid in hanging


def test_a_file_that_is_mapped_and_closed_meanwhile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A program that maps a file opens it first."""
    file = tmp_path / NAME / "x"
    file.parent.mkdir()
    file.write_bytes(b"x" * 4096)
    look, read, turned = holders.open_files, holders.read, []
    map_file = ctypes.CDLL(None).mmap  # Python's keeps the file open
    map_file.restype = ctypes.c_void_p
    with file.open("rb") as held:
        own = ProcessScanner().scan()[os.getpid()]
        monkeypatch.setattr(os, "getpid", lambda: 0)

        def turn() -> None:
            if not turned:
                turned.append(map_file(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_PRIVATE, held.fileno(), ctypes.c_long(0)))
                held.close()

        def open_files(pid: int) -> list[str]:
            found = list(look(pid))
            turn()
            return found

        def read_maps(path: str, most: int) -> bytes:
            found = read(path, most)
            turn()
            return found

        monkeypatch.setattr(holders, "open_files", open_files)
        monkeypatch.setattr(holders, "read", read_maps)
        used, _ = find_file_uses({own.pid: own}, lambda *_: None)
    ctypes.CDLL(None).munmap(ctypes.c_void_p(turned[0]), ctypes.c_size_t(4096))
    assert {use.how for use in used} == {"held open", "mapped"}


def test_a_very_long_memory_map_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / NAME / "x"
    file.parent.mkdir()
    file.write_bytes(b"x" * 4096)
    with file.open("rb") as held, mmap.mmap(held.fileno(), 0, access=mmap.ACCESS_READ):
        own = ProcessScanner().scan()[os.getpid()]
        monkeypatch.setattr(os, "getpid", lambda: 0)
        for most, found in ((holders.MAX_MAPS_BYTES, {"held open", "mapped"}), (100, {"held open"})):
            monkeypatch.setattr(holders, "MAX_MAPS_BYTES", most)
            used, hanging = find_file_uses({own.pid: own}, lambda *_: None)
            assert {use.how for use in used} == found
            assert hanging == (() if "mapped" in found else (own.pid,))
