"""Left-over files in /dev/shm: only known, unused files are removed, also if processes in other containers could use them."""

from __future__ import annotations

import mmap
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from cockpit.probe.actions import clean, holders
from cockpit.probe.actions.clean import shm
from cockpit.probe.actions.host_state import HostScanner
from cockpit.probe.sample.processes import ProcessScanner
from cockpit.probe.trust import FOLDER
from tests.probe.actions.cleaning import LONG_AGO, Cleaner, age, names_of, program
from tests.probe.orphans import ended_pid

pytestmark = pytest.mark.process

SHM = Path("/dev/shm")
ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
NOBODY = 65534
KINDS = {
    "plasma": lambda: f"plasma{secrets.token_hex(3)}",
    "python": lambda: f"psm_{secrets.token_hex(4)}",
    "semaphore": lambda: f"sem.mp-{secrets.token_hex(4)}",
    "torch": lambda: f"torch_{ended_pid()}_{secrets.randbelow(1 << 31)}_0",
    "nccl": lambda: f"nccl-{secrets.token_hex(3)}",
    "vllm": lambda: f"VLLM_OBJECT_STORAGE_SHM_BUFFER_{secrets.token_hex(8)}",
}


class Leftovers:
    """Files in /dev/shm that only this test uses."""

    def __init__(self, cleaner: Cleaner) -> None:
        self.cleaner = cleaner
        self.made: list[Path] = []

    def make(self, kind: str = "python", size: int = 8192, old: float = LONG_AGO, name: str | None = None) -> Path:
        path = SHM / (name or KINDS[kind]())
        path.write_bytes(b"x" * size)
        self.made.append(age(path, old))
        return path

    def plan(self) -> dict[str, list]:
        """A plan with these files only."""
        answer = clean.plan(self.cleaner.request(), self.cleaner.scanner(), self.cleaner.tell)
        mine = {str(path) for path in self.made}
        return {key: [one for one in answer[key] if one["path"] in mine] for key in ("targets", "refused")}

    def do(self, targets) -> dict[str, list]:
        return self.cleaner.do(targets)


def once_it_is_done(leftovers: Leftovers, within: float = 60) -> list:
    """Another process on this machine may have the file open for a moment; then the refusal is right."""
    deadline = time.monotonic() + within
    while True:
        answer = leftovers.do(leftovers.plan()["targets"])
        if answer["done"] or time.monotonic() > deadline:
            assert answer["done"], answer
            return answer["done"]


@pytest.fixture
def leftovers(cleaner) -> Iterator[Leftovers]:
    found = Leftovers(cleaner)
    yield found
    for path in found.made:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unused_file_of_a_known_kind_is_removed_and_its_bytes_are_counted(leftovers, kind):
    path = leftovers.make(kind, size=1 << 20)
    planned = leftovers.plan()
    (target,) = planned["targets"]
    assert (target["what"], target["size"], target["why"][0].endswith("that no process has open or mapped")) == ("shm", 1 << 20, True)
    answer = leftovers.do(planned["targets"])
    assert names_of(answer["done"]) == [path.name]
    assert answer["freed"] == {"disk": 0, "shm": 1 << 20}
    assert not path.exists()


@pytest.mark.parametrize("name", ["mydata", "psm_model", "sem.lock", "sem.mp-", "torch_compile", "nccl.conf", "plasma", "notpsm_01234567"])
def test_a_file_with_an_unknown_name_stays(leftovers, name):
    path = leftovers.make(name=f"{name}" if name != "mydata" else f"mydata{os.getpid()}")
    assert leftovers.plan() == {"targets": [], "refused": []}
    status = path.lstat()
    asked = {"what": "shm", "path": str(path), "device": status.st_dev, "inode": status.st_ino}
    assert names_of(leftovers.do([asked])["refused"]) == [path.name]
    assert path.exists()


def test_a_folder_a_link_or_a_pipe_with_a_known_name_stays(leftovers, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("x")
    folder, link, pipe = (SHM / KINDS["python"]() for _ in range(3))
    folder.mkdir()
    link.symlink_to(precious)
    os.mkfifo(pipe)
    try:
        leftovers.made += [folder, link, pipe]
        assert leftovers.plan() == {"targets": [], "refused": []}
    finally:
        folder.rmdir()
        leftovers.made.remove(folder)
    assert precious.exists()


def test_a_young_file_stays(leftovers):
    leftovers.make(old=30)
    (refused,) = leftovers.plan()["refused"]
    assert refused["reason"].startswith("it was written 3")


def test_a_file_whose_maker_runs_stays(leftovers):
    with program("train") as pid:
        leftovers.make(name=f"torch_{pid}_{secrets.randbelow(1 << 31)}_0")
        (refused,) = leftovers.plan()["refused"]
    assert refused["reason"] == f"process {pid}, whose pid is in its name, is running"


def test_an_open_or_mapped_file_stays(leftovers):
    path = leftovers.make()
    with path.open("r+b") as file:
        assert leftovers.plan() == {"targets": [], "refused": []}
        mapped = mmap.mmap(file.fileno(), 8192)
    assert leftovers.plan() == {"targets": [], "refused": []}
    mapped.close()
    assert names_of(leftovers.plan()["targets"]) == [path.name]


def test_the_shared_memory_of_a_live_python_stays(leftovers):
    memory = SharedMemory(create=True, size=4096)
    path = age(SHM / memory.name.lstrip("/"))
    leftovers.made.append(path)
    assert leftovers.plan() == {"targets": [], "refused": []}
    memory.close()
    memory.unlink()


@ROOT
def test_a_file_that_an_unseen_process_has_mapped_stays(leftovers, monkeypatch):
    """Like a process in another container that shares /dev/shm: /proc does not show it."""
    path = leftovers.make()
    code = f"import mmap; f = open('{path}', 'r+b'); m = mmap.mmap(f.fileno(), 4096); f.close(); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline()
        monkeypatch.setattr("cockpit.probe.sample.processes.find_pids", lambda: [1, os.getpid()])
        assert leftovers.plan() == {"targets": [], "refused": []}
        child.kill()


def test_a_file_that_was_opened_after_the_plan_stays(leftovers):
    path = leftovers.make()
    planned = leftovers.plan()
    with path.open("rb"):
        (refused,) = leftovers.do(planned["targets"])["refused"]
    assert refused["reason"] == "a process has it open or mapped now"
    assert path.exists()


def test_a_file_that_replaced_the_planned_one_stays(leftovers):
    path, other = leftovers.make(), leftovers.make()
    planned = leftovers.plan()
    os.replace(other, path)
    assert sorted(names_of(leftovers.do(planned["targets"])["refused"])) == sorted([path.name, other.name])
    assert path.exists()


def test_a_file_that_is_opened_at_the_last_moment_stays(leftovers):
    """The kernel makes the opener wait until the lease ends, and the lease shows that somebody waits."""
    path = leftovers.make()
    folder = os.open(SHM, FOLDER)
    found = shm.leftover(folder, path.name)
    opened: list[int] = []
    opener = threading.Thread(target=lambda: opened.append(os.open(path, os.O_RDWR)))
    with shm.take_lease(folder, found) as lease:
        opener.start()
        while shm.is_lease_held(lease):
            pass
        assert opened == []
    opener.join()
    with pytest.raises(BlockingIOError):
        shm.remove(folder, found)
    assert path.exists()
    os.close(opened[0])
    os.close(folder)


@ROOT
def test_root_removes_another_users_file_only_if_that_user_has_no_processes_here(leftovers):
    uid = 54321
    path = leftovers.make()
    os.chown(path, uid, uid)
    with subprocess.Popen(["sleep", "600"], user=uid, group=uid, extra_groups=[]) as child:
        (refused,) = leftovers.plan()["refused"]
        child.kill()
    assert refused["reason"] == f"it belongs to {uid}, who still has processes here"
    assert names_of(once_it_is_done(leftovers)) == [path.name]


@ROOT
def test_a_plain_user_cannot_remove_another_users_file(leftovers):
    path = leftovers.make()
    os.seteuid(NOBODY)
    try:
        planned = leftovers.plan()
    finally:
        os.seteuid(0)
    assert planned["targets"] == []
    assert planned["refused"][0]["reason"] == "it belongs to root: only root may remove it"
    assert path.exists()


def test_without_leases_of_the_kernel_all_files_stay(leftovers, monkeypatch):
    path = leftovers.make()
    planned = leftovers.plan()

    def no_lease(*_args: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("cockpit.probe.actions.clean.shm.fcntl.fcntl", no_lease)
    assert leftovers.plan()["refused"][0]["reason"] == "unknown here whether a process uses it"
    assert names_of(leftovers.do(planned["targets"])["failed"]) == [path.name]
    assert path.exists()


def test_named_sessions_leave_shared_memory_alone(leftovers):
    path = leftovers.make()
    request = leftovers.cleaner.request(sessions=["session_2026-01-01_00-00-00_000000_1"])
    answer = clean.plan(request, leftovers.cleaner.scanner(), leftovers.cleaner.tell)
    assert answer["targets"] == answer["refused"] == []
    assert path.exists()


def test_many_files_cost_one_scan_and_their_progress_is_reported(leftovers, monkeypatch):
    for _ in range(5):
        leftovers.make()
    planned = leftovers.plan()
    looks = []
    look = HostScanner.scan
    monkeypatch.setattr(HostScanner, "scan", lambda *words: looks.append(1) or look(*words))
    monkeypatch.setattr(HostScanner.recent, "__defaults__", (60.0,))
    monkeypatch.setattr(clean, "PROGRESS_INTERVAL_S", 0.0)
    assert len(leftovers.do(planned["targets"])["done"]) == 5
    assert len(looks) == 1
    assert [text for text in leftovers.cleaner.progress if "of 5 done" in text] == [f"{done} of 5 done" for done in range(5)]


def test_the_number_of_checked_processes_is_reported_while_one_hangs(cleaner, monkeypatch):
    monkeypatch.setattr(holders, "LOCKED_MAP_TIMEOUT_S", 0.1)
    monkeypatch.setattr(holders, "_opened_paths", lambda pid: time.sleep(5 if pid == hanging else 0) or ())
    with program() as hanging:
        table = {pid: process for pid, process in ProcessScanner().scan().items() if pid == hanging}
        assert holders.find_file_uses(table, cleaner.tell) == ((), (hanging,))
    assert cleaner.progress == ["open files of 0 of 1 processes checked"]
