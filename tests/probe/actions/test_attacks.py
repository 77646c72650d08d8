"""Attacks by another user: to make root remove files that the user cannot remove, or to prevent root from acting."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cockpit.probe.actions.clean import shm
from cockpit.probe.actions.clean.request import Cleaning
from cockpit.probe.actions.host_state import HostScanner
from cockpit.probe.actions.stop import everything
from tests.probe.actions.cleaning import NAME, OTHER, Cleaner, age, names_of, program, session, write

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users"), pytest.mark.process]

MALLORY, ALICE = 12345, 12346


def shared(path: Path, owner: int) -> Path:
    """A folder that everybody may write to, like Ray's, with a file that only its owner may remove."""
    write(path / "inner" / "work.py")
    for one in (path, *path.rglob("*")):
        os.chown(one, owner, owner)
    path.chmod(0o777)
    return path / "inner" / "work.py"


def moves(source: Path, target: Path) -> None:
    """Runs a shell command as another user."""
    script = f"import os; os.rename({str(source)!r}, {str(target)!r})"
    subprocess.run(["/usr/bin/python3", "-c", script], check=True, user=MALLORY, group=MALLORY, extra_groups=[], cwd="/")


class Moving(Cleaner):
    """A user moves a folder into the session at the moment when its removal has begun."""

    def __init__(self, temp: Path, source: Path, target: Path) -> None:
        super().__init__(temp)
        self._source, self._target = source, target

    def tell(self, text: str, done: int | None = None, of: int | None = None) -> None:
        if " removed, " in text and self._source.exists():
            moves(self._source, self._target)
        super().tell(text, done, of)


@pytest.mark.parametrize("owner", [0, ALICE])
def test_a_folder_that_is_moved_into_a_dead_session_while_it_is_removed_stays(cleaner: Cleaner, owner: int):
    cleaner.temp.chmod(0o777)
    path = session(cleaner.temp)
    dear = shared(cleaner.temp / "live", owner)
    for folder in (path, path / "logs", path / "sockets"):
        folder.chmod(0o777)
    planned = cleaner.plan()["targets"]
    answer = Moving(cleaner.temp, cleaner.temp / "live", path / "sockets" / "live").do(planned)
    assert not dear.exists()
    assert (path / "sockets" / "live" / "inner" / "work.py").exists()
    assert "it belongs to another user, or was moved there after the check" in answer["failed"][0]["error"]


def test_another_users_folder_in_a_dead_session_stays_and_is_reported(cleaner: Cleaner):
    cleaner.temp.chmod(0o777)
    path = session(cleaner.temp)
    shared(cleaner.temp / "live", ALICE)
    path.chmod(0o777)
    moves(cleaner.temp / "live", path / "live")
    age(path)
    planned = cleaner.plan()
    assert any(note.endswith(f"live is kept: it belongs to {ALICE}") for note in planned["notes"])
    cleaner.do(planned["targets"])
    assert (path / "live" / "inner" / "work.py").exists()
    assert not (path / "logs" / "raylet.out").exists()


def test_endless_files_of_one_user_in_dev_shm_do_not_protect_other_users_files(cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shm, "MAX_FILES", 10)
    mark = secrets.token_hex(3)
    made = [Path(f"/dev/shm/psm_{mark}{number:02x}") for number in range(30)]
    ours = Path(f"/dev/shm/vllm_{mark}")
    try:
        for path in (*made, ours):
            path.write_bytes(b"x")
            if path != ours:
                os.chown(path, MALLORY, MALLORY)
            age(path)
        answer: dict[str, Any] = {"targets": [], "refused": [], "notes": []}
        scanner = HostScanner({})
        shm.plan(Cleaning(cleaner.request(), scanner, cleaner.tell, answer), scanner.scan(0))
    finally:
        for path in (*made, ours):
            path.unlink(missing_ok=True)
    assert str(ours) in [one["path"] for one in answer["targets"]]
    assert len(answer["targets"]) + len(answer["refused"]) <= 10
    assert any("more such files" in note for note in answer["notes"])


def test_another_users_raylet_does_not_choose_the_ray_stop_that_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The attacker's session sorts first; root's `ray stop` would have run as the attacker and ended nothing of root's."""
    installed = Path(f"/tmp/attack{os.getpid()}") / "ray/core/src/ray/raylet"
    installed.mkdir(parents=True)
    try:
        program_path = installed / "raylet"
        program_path.write_bytes(Path(os.path.realpath("/usr/bin/python3")).read_bytes())
        program_path.chmod(0o755)
        (installed / "ray").write_text("#!/bin/sh\n")
        (installed / "ray").chmod(0o755)
        name = "session_1999-01-01_00-00-00_000000_1"
        flags = (
            "--raylet_socket_name=x", f"--session_dir=/nowhere/{name}", "--gcs-address=127.0.0.1:1",
            f"--python_worker_command={installed}/python",
        )  # fmt: skip
        whose = {"executable": str(program_path), "user": MALLORY, "group": MALLORY, "extra_groups": [], "cwd": "/"}
        monkeypatch.setenv("PATH", str(tmp_path))
        with program(str(program_path), *flags, **whose):
            look = HostScanner({}).scan(0)
            assert everything.find_ray(look, name).uid == MALLORY
            monkeypatch.setattr(everything, "sessions", lambda _: ([name], []))  # the Ray of another test may run here meanwhile
            with pytest.raises(everything.NoWayError, match=f"{name} belongs to {MALLORY}: to stop it, name it by --session"):
                everything.find_ray(look, None)
    finally:
        shutil.rmtree(f"/tmp/attack{os.getpid()}")


def test_a_second_dead_session_does_not_wait_for_the_first(cleaner: Cleaner):
    """A session that another user keeps filling stays; the others are removed."""
    first, second = session(cleaner.temp), session(cleaner.temp, OTHER)
    shared(first / "logs" / "his", MALLORY)
    age(first)
    answer = cleaner.do(cleaner.plan()["targets"])
    assert names_of(answer["done"]) == [OTHER]
    assert names_of(answer["failed"]) == [NAME]
    assert not second.exists()
