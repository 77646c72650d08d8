"""Tests what fills a disk, with real files and real processes that have them open."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.probe.sample import fillers as module
from cockpit.probe.sample.fillers import Filler, Fillers, count_disk, describe_disk
from cockpit.probe.sample.origin import ProcessOrigin
from cockpit.probe.sample.process_kinds import SessionFolder
from cockpit.probe.sample.processes import Details, ProcessScanner, ScannedProcess
from tests.probe.waiting import until

NAME = "session_2026-11-27_10-00-00_123456_789"
MIB = 1 << 20
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts file systems")
pytestmark = needs_root


def never_pause(_seconds: float) -> None:
    """Replaces `time.sleep`."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def write(path: Path, mib: float = 8) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * int(mib * MIB))
    return path


def fillers_of(disk: Path, *, temps: tuple[str, ...] = (), scan: bool = False) -> dict[str, Filler]:
    """The fillers of `disk`, by their path in it."""
    table = ProcessScanner().scan() if scan else {}
    found = count_disk(str(disk), temps or (f"{disk}/ray",), table, never_pause, (SessionFolder(f"{disk}/ray/{NAME}", uid=0),))
    return {filler.files.path.removeprefix(f"{disk}/"): filler for filler in found.fillers}


def test_files_that_belong_together_are_summed_and_the_largest_comes_first(disk):
    log = write(disk / "ray" / NAME / "logs" / "job-driver-train1.log", 20)
    write(disk / "run" / "one" / "global_step_1" / "a.pt")
    write(disk / "run" / "one" / "global_step_2" / "a.pt", 4)
    write(disk / "home" / ".cache" / "vllm" / "x", 2)
    found = fillers_of(disk)
    listed = [(path, one.files.kind, one.size // MIB, one.number) for path, one in found.items()]
    assert listed == [
        (str(log.relative_to(disk)), "driver_log", 20, 1),
        ("run/one", "checkpoints", 12, 2),
        ("home/.cache/vllm", "cache", 2, 1),
    ]
    assert found[str(log.relative_to(disk))].files.job == "train1"


def test_unknown_files_are_named_by_the_narrowest_folder_that_holds_nearly_all_of_them(disk):
    for number in range(5):
        write(disk / "data" / "alice" / "deep" / "er" / f"{number}.bin", 2)
    write(disk / "data" / "bob" / "x.bin", 0.1)
    large = write(disk / "dump.sql", 8)
    assert [(path, one.files.kind) for path, one in fillers_of(disk).items()] == [("data/alice/deep/er", "folder"), ("dump.sql", "file")]
    assert large.exists()


def test_links_are_not_followed_other_disks_not_entered_and_hard_links_counted_once(disk, tmp_path):
    write(tmp_path / "outside" / "global_step_1" / "large.pt", 30)
    (disk / "link").symlink_to(tmp_path / "outside")
    (disk / "inner").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", disk / "inner"], check=True)
    write(disk / "inner" / "x.bin", 16)
    os.link(write(disk / "a" / "one.bin"), disk / "a" / "two.bin")
    found = fillers_of(disk)
    subprocess.run(["umount", disk / "inner"], check=True)
    assert [(path, one.size // MIB) for path, one in found.items()] == [("a/one.bin", 8)] or list(found) == ["a/two.bin"]


@contextmanager
def living(*words: str) -> Iterator[int]:
    """A Python with these words that has printed a line and waits."""
    with subprocess.Popen([sys.executable, "-c", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def test_a_process_that_writes_a_file_is_named_and_a_file_without_a_name_is_found(disk):
    log, gone = disk / "out.log", disk / "gone.bin"
    code = f"a = open({str(log)!r}, 'wb'); a.write(b'x' * (8 << 20)); b = open({str(gone)!r}, 'wb'); b.write(b'x' * (16 << 20))"
    code += f"; a.flush(); b.flush(); import os, sys; os.unlink({str(gone)!r}); print(flush=True); sys.stdin.read()"
    with living(code) as pid:
        found = fillers_of(disk, scan=True)
    assert [(path, one.files.kind, one.holder) for path, one in found.items()] == [("gone.bin", "deleted", pid), ("out.log", "file", pid)]


def test_the_run_of_checkpoints_is_known_by_the_process_that_was_started_with_their_folder(disk):
    write(disk / "ckpt" / "run1" / "global_step_5" / "a.pt")
    write(disk / "ckpt" / "run10" / "global_step_5" / "a.pt")
    with living("import sys; print(flush=True); sys.stdin.read()", f"trainer.default_local_dir={disk}/ckpt/run1") as pid:
        found = fillers_of(disk, scan=True)
    assert found["ckpt/run1"].holder == pid
    assert found["ckpt/run10"].holder is None


def test_a_count_that_reaches_a_limit_is_not_whole(disk, monkeypatch):
    for number in range(20):
        write(disk / "a" / f"{number}" / "x.bin", 1)
    assert count_disk(str(disk), (), {}, never_pause).is_whole
    monkeypatch.setattr(module, "MAX_ENTRIES", 10)
    found = count_disk(str(disk), (), {}, never_pause)
    assert not found.is_whole
    assert sum(one.size for one in found.fillers) < 12 * MIB


def test_a_name_that_is_no_utf_8_can_be_sent(disk):
    write(disk / "a" / os.fsdecode(b"\xff\x1b.bin"), 20)
    found = count_disk(str(disk), (), {}, never_pause)
    (filler,) = describe_disk(str(disk), found, {}, str)["fillers"]
    assert filler["path"] == f"{disk}/a/\\xff\x1b.bin"


def test_a_log_is_known_only_in_a_session_s_folder_and_with_its_owner(disk):
    write(disk / "else" / NAME / "logs" / "job-driver-train1.log", 20)
    planted = write(disk / "ray" / NAME / "logs" / "job-driver-train2.log")
    os.chown(planted, 1001, 1001)
    assert {(path, one.files.kind, one.files.job, one.files.session) for path, one in fillers_of(disk).items()} == {
        (f"else/{NAME}/logs/job-driver-train1.log", "file", "", ""),
        (f"ray/{NAME}/logs/job-driver-train2.log", "file", "", ""),
    }


def test_a_session_s_folder_may_be_reached_by_a_link(disk):
    log = write(disk / "big" / NAME / "logs" / "job-driver-train1.log")
    (disk / "ray").symlink_to(disk / "big")
    assert fillers_of(disk)[str(log.relative_to(disk))].files.job == "train1"


def test_a_huge_folder_leaves_time_for_those_after_it(disk, monkeypatch):
    for number in range(30):
        write(disk / "ray" / "many" / f"{number}.bin", 0.01)
    write(disk / "x" / "y" / "large.bin", 20)
    monkeypatch.setattr(module, "MAX_ENTRIES", 40)
    found = count_disk(str(disk), (f"{disk}/ray",), {}, never_pause)
    assert [filler.files.path for filler in found.fillers] == [f"{disk}/x/y/large.bin"]
    assert not found.is_whole


@pytest.mark.parametrize(("uid", "is_root"), [(0, True), (1001, False)])
def test_only_working_directories_of_root_s_and_our_own_processes_are_counted(uid, is_root):
    details = Details(uid=uid, origin=ProcessOrigin(role="raylet"))
    working = ScannedProcess(os.getpid(), "python", "S", 1, 1, 1, 1, 0, details=details)
    assert (os.getcwd() in module._roots("/", (), {os.getpid(): working})) is is_root


def test_only_a_disk_above_the_mark_is_counted_and_its_answer_is_dropped_below_it(disk):
    fillers = Fillers(dict, never_pause)
    fillers.start()
    write(disk / "ray" / "x.bin", 56)
    full = {"path": str(disk), "used": 56 * MIB, "total": 64 * MIB}
    fillers.want([{"path": str(disk.parent), "used": 10, "total": 100}, full], (f"{disk}/ray",))
    until(lambda: fillers.known())
    assert list(fillers.known()) == [str(disk)]
    fillers.want([{**full, "used": 10 * MIB}], ())
    until(lambda: not fillers.known())


def test_a_disk_that_is_gone_does_not_stop_the_others(disk):
    fillers = Fillers(dict, never_pause)
    fillers.start()
    write(disk / "x.bin", 56)
    fillers.want(
        [
            {"path": f"{disk}/absent", "used": 9, "total": 10},
            {"path": str(disk), "used": 9, "total": 10},
            {"path": "x", "used": None, "total": 1},
        ],
        (),
    )
    until(lambda: fillers.known())
    assert list(fillers.known()) == [str(disk)]


def test_an_answer_has_its_age_and_is_dropped_after_three_intervals_or_when_the_disk_can_not_be_read(disk, monkeypatch):
    fillers = Fillers(dict, never_pause)
    write(disk / "x.bin", 56)
    fillers.want([{"path": str(disk), "used": 56, "total": 64}], ())
    fillers._count(str(disk), 0.9)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2.9 * module.RECOUNT_INTERVAL_S)
    (found,) = fillers.known().values()
    assert time.time() - describe_disk(str(disk), found, {}, str)["seen"] == pytest.approx(2.9 * module.RECOUNT_INTERVAL_S, abs=20)
    monkeypatch.setattr(time, "monotonic", lambda: now + 3.1 * module.RECOUNT_INTERVAL_S)
    assert not fillers.known()
    fillers._count(str(disk), 0.9)
    assert list(fillers.known()) == [str(disk)]

    def fail(*_anything: object) -> None:
        raise OSError

    monkeypatch.setattr(module, "count_disk", fail)
    fillers._count(str(disk), 0.9)
    assert not fillers.known()
