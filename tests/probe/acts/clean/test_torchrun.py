"""Folders that torchrun has left: only what it has made, nobody's, and used by nobody."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cockpit.probe.acts import clean
from cockpit.probe.acts.clean import torchrun
from cockpit.probe.look.processes import ScannedProcess
from tests.probe.acts.grounds import LONG_AGO, age, program, what, write

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
STRANGER = 50_000 + os.getpid() % 10_000
"""A user as whom nothing else runs here, no other test either, and no other run of this one."""
NAME = "torchelastic_ab12_xyz"
RUN = "none_q1w2e3r4"
RANK = f"{RUN}/attempt_0/0"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of /tmp; what else runs on this machine has no PyTorch that counts here."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(torchrun, "TORCHRUN_PLACE", str(place))
    monkeypatch.setattr(torchrun, "_why_outside", lambda _folder: None)
    real = torchrun._why_rank
    monkeypatch.setattr(torchrun, "_why_rank", lambda process: real(process) if process.parent == os.getpid() else None)
    return place


def aged(path: Path, seconds: float = LONG_AGO) -> Path:
    for one in sorted(path.rglob("*"), reverse=True):
        age(one, seconds)
    return age(path, seconds)


def left(place: Path, name: str = NAME, old: float = LONG_AGO) -> Path:
    """As torchrun leaves it."""
    path = place / name
    for rank in ("0", "1"):
        for file in ("stdout.log", "stderr.log", "error.json"):
            write(path / RUN / "attempt_0" / rank / file, 4096)
    path.chmod(0o700)
    return aged(path, old)


def plan(ground: Any, place: Path) -> dict[str, list[dict[str, Any]]]:
    answer = clean.plan(ground.request(), ground.watcher(), ground.tell)
    return {key: [one for one in answer[key] if one["path"].startswith(f"{place}/")] for key in ("targets", "refused")}


def reason(ground: Any, place: Path) -> str:
    """Why the one that is there stays; and it does, whatever is asked."""
    planned = plan(ground, place)
    assert planned["targets"] == []
    (refused,) = planned["refused"]
    before = sorted(place.rglob("*"))
    assert ground.do([refused])["done"] == []
    assert sorted(place.rglob("*")) == before
    return str(refused["reason"])


def test_what_torchrun_has_left_goes_whole_and_its_bytes_are_counted(ground, place):
    path = left(place)
    planned = plan(ground, place)
    (target,) = planned["targets"]
    assert (target["what"], target["size"], target["uid"], planned["refused"]) == ("torchrun", 6 * 4096, os.getuid(), [])
    answer = ground.do(planned["targets"])
    assert what(answer["done"]) == [NAME]
    assert answer["freed"] == {"disk": 6 * 4096, "shm": 0}
    assert list(place.iterdir()) == []
    assert not path.exists()


def test_newer_releases_write_more_and_an_empty_one_is_one_too(ground, place):
    path = left(place)
    write(path / RUN / "attempt_0" / "filtered_stdout.log")
    aged(path)
    (place / "torchelastic_00000000").mkdir(mode=0o700)
    age(place / "torchelastic_00000000")
    assert sorted(what(ground.do(plan(ground, place)["targets"])["done"])) == ["torchelastic_00000000", NAME]


@pytest.mark.parametrize(
    "name", ["torchelastic_logs", "torchelastic_etcd_data12345678", "mytorchelastic_ab12_xyz", "vllm-cache", "torchelastic_AB12_XYZ"]
)
def test_a_folder_of_another_name_is_nobody_s_business(ground, place, name):
    path = left(place, name)
    assert plan(ground, place) == {"targets": [], "refused": []}
    status = path.lstat()
    asked = {"what": "torchrun", "path": str(path), "device": status.st_dev, "inode": status.st_ino}
    assert what(ground.do([asked])["refused"]) == [name]
    assert (path / RANK / "stdout.log").exists()


@pytest.mark.parametrize(
    "inside",
    ["model.pt", f"{RUN}/notes.txt", f"{RUN}/attempt_0/model/stdout.log", f"{RANK}/core", "global_step_5/x", f"{RANK}/0/stdout.log"],
)
def test_what_torchrun_does_not_make_keeps_it_whole(ground, place, inside):
    path = left(place)
    write(path / inside)
    aged(path)
    assert reason(ground, place).endswith("which torchrun does not make")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/etc/passwd", path), lambda path: os.symlink("/", path)])
def test_a_link_or_a_pipe_of_a_known_name_keeps_it(ground, place, make):
    path = left(place)
    (path / RANK / "stdout.log").unlink()
    make(path / RANK / "stdout.log")
    aged(path)
    assert "which torchrun does not make" in reason(ground, place)


def test_a_socket_or_another_name_of_a_file_elsewhere_keeps_it(ground, place, tmp_path):
    path = left(place)
    with socket.socket(socket.AF_UNIX) as one:
        (path / RANK / "error.json").unlink()
        at = os.open(path / RANK, os.O_PATH)
        one.bind(f"/proc/self/fd/{at}/error.json")
        os.close(at)
        aged(path)
        assert "which torchrun does not make" in reason(ground, place)
    (path / RANK / "error.json").unlink()
    os.link(write(tmp_path / "precious"), path / RANK / "error.json")
    aged(path)
    assert "which torchrun does not make" in reason(ground, place)


def test_a_link_in_its_place_leads_nowhere(ground, place, tmp_path):
    left(tmp_path / "elsewhere")
    (place / NAME).symlink_to(tmp_path / "elsewhere" / NAME)
    assert plan(ground, place) == {"targets": [], "refused": []}
    status = (tmp_path / "elsewhere" / NAME).stat()
    answer = ground.do([{"what": "torchrun", "path": f"{place}/{NAME}", "device": status.st_dev, "inode": status.st_ino}])
    assert what(answer["refused"]) == [NAME]
    assert (tmp_path / "elsewhere" / NAME / RANK / "stdout.log").exists()


def test_one_that_was_put_in_its_place_since_the_plan_stays(ground, place):
    path = left(place)
    planned = plan(ground, place)["targets"]
    path.rename(place / "old")
    left(place)
    assert ground.do(planned)["refused"][0]["reason"] == "it is gone or was replaced"
    assert (path / RANK / "stdout.log").exists()
    assert (place / "old" / RANK / "stdout.log").exists()


def test_what_was_added_since_the_plan_keeps_all(ground, place):
    path = left(place)
    planned = plan(ground, place)["targets"]
    write(path / RANK / "checkpoint.pt")
    aged(path)
    assert "which torchrun does not make" in ground.do(planned)["refused"][0]["reason"]
    assert len(list(path.rglob("*.log"))) == 4


def test_one_that_was_written_to_lately_stays(ground, place):
    path = left(place)
    age(path / RANK / "stdout.log", 30)
    assert "torchrun may still use it" in reason(ground, place)


def test_one_that_others_may_write_to_stays(ground, place):
    left(place).chmod(0o770)
    assert reason(ground, place) == "others than its owner may write to it"


@pytest.mark.parametrize("file", ["stdout.log", "error.json"])
def test_one_of_which_a_process_has_a_file_open_stays(ground, place, file):
    path = left(place)
    with program("python", str(path / RANK / file), code="import sys; f = open(sys.argv[1]); print(flush=True); sys.stdin.read()"):
        assert reason(ground, place) == f"a process has {RANK}/{file} open or mapped"


def test_one_of_which_a_file_is_mapped_and_no_descriptor_left_stays(ground, place):
    path = left(place)
    code = "import sys, mmap; f = open(sys.argv[1], 'r+'); m = mmap.mmap(f.fileno(), 0); f.close(); print(flush=True); sys.stdin.read()"
    with program("python", str(path / RANK / "stdout.log"), code=code):
        assert reason(ground, place) == f"a process has {RANK}/stdout.log open or mapped"


def test_one_that_a_process_works_in_stays(ground, place):
    path = left(place)
    with program("python", cwd=path / RUN) as pid:
        assert reason(ground, place) == f"process {pid} works in it or has a part of it open"


def test_one_that_a_rank_was_told_to_write_to_stays(ground, place):
    path = left(place)
    with program("python", env={**os.environ, "TORCHELASTIC_ERROR_FILE": f"{path}/{RANK}/error.json"}) as pid:
        assert reason(ground, place) == f"process {pid} was told to write there"


@contextmanager
def with_torch(tmp_path: Path) -> Iterator[int]:
    """A process that has mapped what PyTorch is."""
    library = write(tmp_path / "torch" / "lib" / "libtorch_cpu.so")
    code = "import sys, mmap; f = open(sys.argv[1]); m = mmap.mmap(f.fileno(), 0, prot=1); f.close(); print(flush=True); sys.stdin.read()"
    with program("python", str(library), code=code) as pid:
        yield pid


def test_one_whose_agent_may_live_stays_though_it_has_no_file_open(ground, place, tmp_path, monkeypatch):
    left(place)
    with with_torch(tmp_path) as pid, program("python"):
        earlier = torchrun.boot_time() - LONG_AGO + 60
        monkeypatch.setattr(torchrun, "boot_time", lambda: earlier)
        assert reason(ground, place) == f"process {pid} has PyTorch loaded and was running at the last write to this folder"
    assert what(ground.do(plan(ground, place)["targets"])["done"]) == [NAME]


def test_a_process_that_was_started_long_after_is_no_reason(ground, place, tmp_path):
    left(place)
    with with_torch(tmp_path):
        assert what(ground.do(plan(ground, place)["targets"])["done"]) == [NAME]


@pytest.mark.parametrize(("name", "known"), [("sshd", True), ("python3", False), ("VLLM::Worker", False)])
def test_a_process_that_may_not_be_looked_into_is_believed_to_be_a_rank_but_for_what_never_is(monkeypatch, name, known):
    def refuse(_path: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(torchrun, "read", refuse)
    reason = torchrun._why_rank(ScannedProcess(7, name, "S", 1, 7, 7, 5, 0))
    assert reason == (None if known else "no permission to inspect process 7: not known whether it uses this folder")


def test_nothing_goes_from_a_place_where_others_may_put_something_else(ground, place):
    left(place)
    place.chmod(0o777)
    try:
        assert plan(ground, place) == {"targets": [], "refused": []}
    finally:
        place.chmod(0o1777)
    assert len(plan(ground, place)["targets"]) == 1


def test_a_container_that_does_not_see_all_processes_removes_nothing_that_others_may_share(ground, place, monkeypatch):
    left(place)
    monkeypatch.undo()
    monkeypatch.setattr(torchrun, "TORCHRUN_PLACE", str(place))
    monkeypatch.setattr(torchrun, "in_first_namespace", lambda: False)
    monkeypatch.setattr(torchrun, "mounts", lambda: iter(()))
    assert reason(ground, place).startswith("processes outside of this container may use it")


def test_very_many_are_not_all_looked_at(ground, place, monkeypatch):
    monkeypatch.setattr(torchrun, "MOST", 1)
    for name in (NAME, "torchelastic_00000000"):
        left(place, name)
    answer = clean.plan(ground.request(), ground.watcher(), ground.tell)
    assert any("1 more folders of torchrun" in note for note in answer["notes"])
    assert len(plan(ground, place)["targets"]) == 1


def test_the_entries_of_all_together_are_bounded(ground, place, monkeypatch):
    """Another user's thousand folders, each full, would take longer than the clean-up of a host may."""
    left(place, "torchelastic_aaaaaaaa")
    left(place, "torchelastic_bbbbbbbb")
    monkeypatch.setattr(torchrun, "MOST_ENTRIES_IN_ALL", 15)  # of the ten in each
    found = plan(ground, place)
    assert [Path(one["path"]).name for one in found["targets"]] == ["torchelastic_aaaaaaaa"]
    assert "too many files to check in this and the folders before it" in found["refused"][0]["reason"]


def test_one_that_nobody_may_look_at_keeps_no_other(ground, place, monkeypatch):
    """A mount of another user's (FUSE) refuses root too."""
    left(place)
    (place / "torchelastic_fuse0000").mkdir()
    real = os.stat

    def refusing(path: Any, *words: Any, **more: Any) -> os.stat_result:
        if path == "torchelastic_fuse0000":
            raise PermissionError(13, "Permission denied")
        return real(path, *words, **more)

    monkeypatch.setattr(os, "stat", refusing)
    assert len(plan(ground, place)["targets"]) == 1


def test_where_a_session_is_named_nothing_of_torchrun_s_goes(ground, place):
    left(place)
    answer = clean.plan(ground.request(sessions=["session_2026-01-01_00-00-00_000000_1"]), ground.watcher(), ground.tell)
    assert [one for one in answer["targets"] if one["what"] == "torchrun"] == []


# Other users


def owned(path: Path, uid: int) -> Path:
    for one in (path, *path.rglob("*")):
        os.chown(one, uid, uid, follow_symlinks=False)
    return aged(path)


@ROOT
def test_another_user_s_goes_only_once_he_runs_nothing_here(ground, place):
    path = owned(left(place), STRANGER)
    with subprocess.Popen(["/bin/sleep", "600"], user=STRANGER, cwd="/") as one:
        assert "who still has processes here" in reason(ground, place)
        one.kill()
    assert what(ground.do(plan(ground, place)["targets"])["done"]) == [NAME]
    assert not path.exists()


@ROOT
def test_a_file_of_root_s_that_somebody_has_moved_into_his_keeps_it(ground, place):
    path = owned(left(place), STRANGER)
    os.chown(path / RANK / "stdout.log", 0, 0)
    aged(path)
    assert reason(ground, place) == f"it holds {RANK}/stdout.log of another user"


@ROOT
def test_a_file_that_is_swapped_while_it_is_removed_stays(ground, place, monkeypatch):
    """The owner moves it away, and a link to what is dear into its place, right after it was looked at."""
    path = left(place)
    precious = write(place / "precious")
    planned = plan(ground, place)["targets"]
    unlinked = torchrun.remove_file

    def swapped(folder: int, found: Any) -> int:
        if found.name == "stdout.log":
            os.rename(found.name, "moved.log", src_dir_fd=folder, dst_dir_fd=folder)
            os.symlink(precious, found.name, dir_fd=folder)
        return unlinked(folder, found)

    monkeypatch.setattr(torchrun, "remove_file", swapped)
    answer = ground.do(planned)
    assert (answer["done"], len(answer["failed"])) == ([], 1)
    assert precious.stat().st_size == 5000
    assert list(path.rglob("moved.log"))


def test_a_folder_that_is_moved_away_while_it_is_emptied_loses_no_more(ground, place, monkeypatch):
    path = left(place)
    planned = plan(ground, place)["targets"]
    unlinked = torchrun.remove_file
    removed: list[str] = []

    def moved(folder: int, found: Any) -> int:
        removed.append(found.name)
        if len(removed) == 1:
            path.rename(place / "mine")
        return unlinked(folder, found)

    monkeypatch.setattr(torchrun, "remove_file", moved)
    answer = ground.do(planned)
    assert (answer["done"], len(answer["failed"])) == ([], 1)
    assert len(removed) == 1, "only what was just being removed"
    assert len(list((place / "mine").rglob("*.*"))) == 5


def test_time_is_that_of_the_newest_file(ground, place):
    path = left(place, old=9000)
    age(path / RANK / "stdout.log", 5000)
    (target,) = plan(ground, place)["targets"]
    assert 4990 < target["age"] < 9000
