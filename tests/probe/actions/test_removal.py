"""Attacks on a removal by links, other names, mounts, races and depth: each tries to lose an outside file or to break the removal."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from cockpit.probe.actions.removal import Removal, Survey
from cockpit.probe.sample.sizes import ProtectedFiles
from cockpit.probe.sample.tree import MovedError
from cockpit.probe.trust import FOLDER
from tests.probe.actions.cleaning import NAME, age, files_in, listening, names_of, session, write

pytestmark = pytest.mark.process

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder with content that must survive, and does."""
    folder = tmp_path / "outside"
    write(folder / "precious")
    write(folder / "below" / "more")
    yield folder
    assert (folder / "precious").read_bytes() == (folder / "below" / "more").read_bytes() == b"x" * 5000


@contextmanager
def meanwhile(deed: Callable[[], None]) -> Iterator[None]:
    """Repeats an action in a thread until the block is left."""
    over = threading.Event()
    rounds = [0]

    def run() -> None:
        while not over.is_set():
            deed()
            rounds[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert rounds[0] > 0


class Everything:
    """Contains every folder of every owner."""

    def __contains__(self, _: object) -> bool:
        return True


def empty(folder: Path, check: Callable[[bool], None] = lambda _fully: None) -> Removal:
    """Removes everything in a folder without checking whether it is alive."""
    removal = Removal(folder.name, ProtectedFiles(), (), (), check, lambda *_: None, Everything())
    top = os.open(folder, FOLDER)
    try:
        removal.empty(top, 0)
    finally:
        os.close(top)
    return removal


# Links and other names


def test_links_are_removed_and_never_followed(cleaner, outside):
    path = session(cleaner.temp)
    for number, target in enumerate((outside, outside / "precious", "/", "..", ".", "loop5", outside / "absent")):
        os.symlink(target, path / f"loop{number}")
        os.symlink(target, path / "logs" / f"loop{number}")
    age(path)
    assert names_of(cleaner.clean()["done"]) == [NAME]
    assert not path.exists()


def test_a_link_is_no_session_folder(cleaner, outside):
    shutil.move(session(cleaner.temp), outside / NAME)
    os.symlink(outside / NAME, cleaner.temp / NAME)
    assert cleaner.plan() | {"notes": []} == {"targets": [], "refused": [], "notes": []}
    assert cleaner.plan(sessions=[NAME])["targets"] == []


def test_a_session_folder_that_a_link_or_another_folder_replaced_after_the_plan_stays(cleaner, outside):
    path = session(cleaner.temp)
    planned = cleaner.plan()
    shutil.move(path, outside / NAME)
    os.symlink(outside / NAME, path)
    assert cleaner.do(planned["targets"])["failed"][0]["error"] == "it is no longer a folder: it was replaced"
    assert (outside / NAME / "logs" / "raylet.out").exists()
    path.unlink()
    precious = write(path / "precious")
    age(path)
    assert cleaner.do(planned["targets"])["refused"][0]["reason"] == "it was replaced after the plan was made"
    assert precious.exists()


def test_a_temp_dir_that_a_link_replaced_after_the_plan_loses_nothing_there(cleaner, outside):
    session(cleaner.temp)
    planned = cleaner.plan()
    cleaner.temp.rename(f"{cleaner.temp}.was")
    there = age(write(outside / NAME / "precious").parent)
    cleaner.temp.symlink_to(outside)
    try:
        assert cleaner.do(planned["targets"])["done"] == []
        assert (there / "precious").exists()
    finally:
        cleaner.temp.unlink()
        Path(f"{cleaner.temp}.was").rename(cleaner.temp)


def test_a_file_with_other_names_loses_only_the_one_in_the_session_and_frees_nothing(cleaner, outside):
    path = session(cleaner.temp)
    before = cleaner.plan()["targets"][0]["size"]
    other = write(cleaner.temp / "other", 1 << 20)
    os.link(other, path / "linked")
    write(path / "twice", 1 << 20)
    os.link(path / "twice", path / "logs" / "twice")
    age(path)
    planned = cleaner.plan()
    assert planned["targets"][0]["size"] == before + (2 << 20)
    assert cleaner.do(planned["targets"])["freed"]["disk"] == before + (1 << 20)
    assert other.stat().st_nlink == 1
    assert other.stat().st_size == 1 << 20


# Mounts


def mount(kind: str, outside: Path, point: Path, mounts: list[Path]) -> None:
    words = {"tmpfs": ["-t", "tmpfs", "none"], "bind": ["--bind", outside], "file": ["--bind", outside / "precious"]}[kind]
    subprocess.run(["mount", *words, point], check=True)
    mounts.append(point)


@ROOT
@pytest.mark.parametrize("kind", ["tmpfs", "bind", "file"])
def test_a_session_in_which_something_is_mounted_stays(cleaner, outside, mounts, kind):
    path = session(cleaner.temp)
    point = path / "logs" / "a b\n\\c"
    point.touch() if kind == "file" else point.mkdir()
    age(path)
    planned = cleaner.plan()
    mount(kind, outside, point, mounts)
    expected = f"something is mounted in it, at {str(point).replace(chr(92), chr(92) * 2)}: unmount that first"
    assert cleaner.plan()["refused"][0]["reason"] == expected
    assert cleaner.do(planned["targets"])["refused"][0]["reason"] == expected
    assert (path / "logs" / "raylet.out").exists()


@ROOT
@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_a_mount_that_appears_midway_is_not_entered(tmp_path, outside, mounts, kind):
    folder = tmp_path / "folder"
    write(folder / "a" / "x")
    point = folder / "mounted"
    point.mkdir()

    def mount_once(_fully: bool) -> None:
        if not mounts:
            mount(kind, outside, point, mounts)
            write(point / "in it")

    removal = empty(folder, mount_once)
    assert removal.failed.first == [("mounted", "another file system is mounted there")]
    assert (point / "in it").exists()
    assert not (folder / "a").exists()


# Races


def empty_while(folder: Path, swap: Callable[[], None], turns: list[int]) -> None:
    """Empties the folder again and again until another thread has swapped something in it a thousand times."""
    folder.mkdir(exist_ok=True)
    with meanwhile(swap):
        until = time.monotonic() + 90
        while turns[0] < 1000 and time.monotonic() < until:
            with suppress(MovedError):
                empty(folder)
    assert turns[0] >= 1000


def test_folders_swapped_for_links_all_the_time_lose_nothing_outside(tmp_path, outside):
    folder = tmp_path / "folder"
    turns = [0]

    def swap() -> None:
        """A folder and a link take turns at one name."""
        turns[0] += 1
        try:
            os.mkdir(folder / "swap")
            for number in range(3):
                (folder / "swap" / str(number)).touch()
            os.rename(folder / "swap", folder / f"aside{turns[0]}")
            os.symlink(outside, folder / "swap")
            os.unlink(folder / "swap")
        except OSError:
            shutil.rmtree(folder / "swap", ignore_errors=True)

    empty_while(folder, swap, turns)


def test_a_name_exchanged_for_a_link_all_the_time_loses_nothing_outside(tmp_path, outside):
    """At each moment, either the link or the folder is there: `rename` exchanges them in one step."""
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    turns = [0]

    def swap() -> None:
        turns[0] += 1
        below = folder / "below"
        if not below.is_symlink() and not below.exists():
            below.mkdir()
        (tmp_path / "made").mkdir(exist_ok=True)
        write(tmp_path / "made" / "more", 10)
        link.unlink(missing_ok=True)
        link.symlink_to(outside / "below")
        try:
            if turns[0] % 2:
                shutil.rmtree(below, ignore_errors=True)
                os.rename(link, below)
            else:
                below.unlink(missing_ok=True)
                os.rename(tmp_path / "made", below)
        except OSError:
            return

    empty_while(folder, swap, turns)


@pytest.mark.parametrize("moved", ["a", "a/b", "a/b/c"])
def test_a_folder_that_is_moved_out_midway_keeps_its_remaining_files(cleaner, outside, monkeypatch, moved):
    path = session(cleaner.temp)
    for number in range(50):
        write(path / "a" / "b" / "c" / f"{number}", 10)
        write(path / "a" / "b" / f"{number}", 10)
    age(path)
    planned = cleaner.plan()
    unlink = os.unlink
    left: list[int] = []

    def rescue(name, **where) -> None:
        unlink(name, **where)
        if not left and len(list((path / "a" / "b" / "c").iterdir())) == 20:
            (path / moved).rename(outside / "saved")
            left.append(sum(file.is_file() for file in (outside / "saved").rglob("*")))

    monkeypatch.setattr("cockpit.probe.actions.removal.os.unlink", rescue)
    (failed,) = cleaner.do(planned["targets"])["failed"]
    monkeypatch.undo()
    assert "was moved" in failed["error"]
    assert left[0] >= 20
    assert sum(file.is_file() for file in (outside / "saved").rglob("*")) == left[0]


def test_a_session_that_comes_alive_midway_loses_no_more(cleaner, monkeypatch):
    path = session(cleaner.temp)
    for number in range(2000):
        (path / "logs" / f"{number}.log").touch()
    age(path)
    planned = cleaner.plan()
    unlink = os.unlink
    removed: list[str] = []
    with ExitStack() as raylet, monkeypatch.context() as patched:

        def come_alive(name, **where) -> None:
            unlink(name, **where)
            removed.append(name)
            if len(removed) == 500:
                raylet.enter_context(listening(path / "sockets" / "raylet"))

        patched.setattr("cockpit.probe.actions.removal.os.unlink", come_alive)
        (failed,) = cleaner.do(planned["targets"])["failed"]
    assert failed["error"].startswith("stopped midway: it is alive: a raylet listens on its socket; before that, ")
    assert 1000 < len(os.listdir(path / "logs")) < 2000
    assert (path / "sockets" / "raylet").exists()


def test_the_sockets_are_removed_last_and_only_after_one_more_check(tmp_path):
    for name in ("a", "sockets", "z"):
        write(tmp_path / "folder" / name / "x")
    asked: list[tuple[bool, bool]] = []
    empty(
        tmp_path / "folder",
        lambda fully: asked.append((fully, (tmp_path / "folder" / "a").exists() or (tmp_path / "folder" / "z").exists())),
    )
    assert [last for fully, last in asked if fully] == [False]
    assert not list((tmp_path / "folder").iterdir())


def test_a_writer_that_never_stops_ends_in_a_sentence(cleaner):
    path = session(cleaner.temp)
    planned = cleaner.plan()

    def fill() -> None:
        try:
            (path / "logs" / str(time.monotonic_ns())).touch()
        except FileNotFoundError:
            (path / "logs").mkdir(parents=True, exist_ok=True)

    with meanwhile(fill):
        answer = cleaner.do(planned["targets"])
    assert [*answer["failed"], *answer["done"]], "it ended in either case"
    assert not (path / "runtime_resources").exists()


# Pipes, sockets, devices


@ROOT
def test_pipes_sockets_devices_and_odd_names_are_removed_without_opening(cleaner):
    path = session(cleaner.temp)
    os.mkfifo(path / "pipe")
    os.mknod(path / "zero", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    os.mknod(path / "disk", stat.S_IFBLK | 0o600, os.makedev(7, 250))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path / "logs" / "sock"))
    for name in (b"line\nbreak", b"\xff\xfe.pt", b" ", b"-rf", b"a" * 255, b"\\"):
        os.close(os.open(os.fsencode(path) + b"/logs/" + name, os.O_CREAT))
    age(path)
    assert names_of(cleaner.clean()["done"]) == [NAME]
    assert not path.exists()


@ROOT
def test_many_folders_of_another_user_are_not_entered_and_some_are_named(cleaner):
    path = session(cleaner.temp)
    for number in range(30):
        write(path / "logs" / f"theirs{number}" / "deep" / "file")
        os.chown(path / "logs" / f"theirs{number}", 65534, 65534)
    age(path)
    planned = cleaner.plan()
    notes = [note for note in planned["notes"] if "nobody" in note]
    assert len(notes) == 10
    assert any("the same applies to 20 more" in note for note in planned["notes"])
    assert planned["targets"][0]["files"] == 3, "their content is not counted"


def test_too_many_checkpoints_are_left_to_a_person(cleaner, monkeypatch):
    monkeypatch.setattr("cockpit.probe.sample.sizes.MAX_PROTECTED_CHARS", 100)
    path = session(cleaner.temp)
    for number in range(10):
        write(path / "logs" / f"model{number}.pt")
    age(path)
    planned = cleaner.plan()
    assert planned["targets"] == []
    assert "too many files in it look like checkpoints" in str(planned["refused"])


def test_a_tree_deeper_than_the_longest_path_is_removed(cleaner):
    path = session(cleaner.temp)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    here = os.open(path, FOLDER)
    for _ in range(5000):
        os.mkdir("deep", dir_fd=here)
        there = os.open("deep", FOLDER, dir_fd=here)
        os.close(here)
        here = there
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    age(path)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        planned = cleaner.plan()
        assert planned["targets"][0]["files"] == 4
        assert names_of(cleaner.do(planned["targets"])["done"]) == [NAME]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not path.exists()


@ROOT
def test_an_unremovable_file_is_named_and_all_others_are_removed(cleaner):
    path = session(cleaner.temp)
    stuck = write(path / "logs" / "stuck")
    if subprocess.run(["chattr", "+i", str(stuck)], check=False, capture_output=True).returncode:
        pytest.skip("no immutable files on this file system")
    age(path)
    try:
        (failed,) = cleaner.clean()["failed"]
    finally:
        subprocess.run(["chattr", "-i", str(stuck)], check=True)
    assert failed["error"].startswith("logs/stuck could not be removed: Operation not permitted; 3 files removed, ")
    assert files_in(path) == [stuck]


@ROOT
def test_a_folder_that_may_not_be_read_leaves_the_size_unknown_and_stays(cleaner):
    """Root can read everything, so another user counts and removes here."""
    path = session(cleaner.temp)
    write(path / "closed" / "x")
    for file in (cleaner.temp, path, *path.rglob("*")):
        os.chown(file, 65534, 65534)
    (path / "closed").chmod(0)
    age(path)
    os.seteuid(65534)
    try:
        planned = cleaner.plan()
        answer = cleaner.do(planned["targets"])
    finally:
        os.seteuid(0)
    assert (planned["targets"][0]["size"], planned["targets"][0]["files"]) == (None, None)
    assert planned["notes"] == [f"{NAME}: closed can't be read and is kept: Permission denied"]
    assert answer["failed"][0]["error"].startswith("closed could not be removed: Permission denied; 3 files removed, ")
    assert (path / "closed" / "x").exists()


@ROOT
def test_a_plain_user_cannot_remove_another_users_session(cleaner):
    path = session(cleaner.temp)
    os.chmod(cleaner.temp, 0o777)
    os.seteuid(65534)
    try:
        planned = cleaner.plan(sessions=[NAME])
    finally:
        os.seteuid(0)
    assert planned["targets"] == []
    assert path.exists()


def test_progress_is_reported_a_few_times_a_second(tmp_path):
    for number in range(3000):
        write(tmp_path / "folder" / f"{number % 10}" / f"{number}", 1)
    times: list[float] = []
    top = os.open(tmp_path / "folder", FOLDER)
    began = time.monotonic()
    Survey("folder", top, lambda *_: times.append(time.monotonic()))
    Removal("folder", ProtectedFiles(), (), (), lambda _: None, lambda *_: times.append(time.monotonic()), Everything()).empty(top, 3000)
    os.close(top)
    assert 2 <= len(times) <= 2 + (time.monotonic() - began) * 5
