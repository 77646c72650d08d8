"""Clean-up: dead and live sessions, their protected files, and the pointers to them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from cockpit.demo import cluster as demo
from tests.probe.actions.cleaning import NAME, OTHER, Cleaner, age, files_in, listening, names_of, program, session, write
from tests.probe.probe_copy import copy_probe
from tests.pythons import installed_pythons, version_of

pytestmark = pytest.mark.process

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
NOBODY = 65534


def reason(answer, name):
    return next(one["reason"] for one in answer["refused"] if os.path.basename(one["path"]) == name)


# Dead or alive


def test_a_dead_session_is_removed_completely(cleaner):
    path = session(cleaner.temp)
    planned = cleaner.plan()
    (target,) = planned["targets"]
    assert target["path"] == str(path)
    assert (target["live"], target["files"], target["keeps"], target["uid"]) == (False, 3, [], os.getuid())
    assert target["size"] == sum(file.stat().st_blocks * 512 for file in files_in(path))
    answer = cleaner.do(planned["targets"])
    assert (names_of(answer["done"]), answer["notes"]) == ([NAME], [])
    assert not path.exists()
    assert answer["freed"] == {"disk": target["size"], "shm": 0}
    assert any(" counted, " in text for text in cleaner.progress)


def test_the_dead_session_of_the_demo_can_be_cleaned_and_its_checkpoint_stays(cleaner):
    demo.write_dead_session(cleaner.temp)
    planned = cleaner.plan()
    (target,) = planned["targets"]
    assert (target["live"], planned["refused"]) == (False, [])
    assert [os.path.basename(kept) for kept in target["keeps"]] == ["ckpt"]
    answer = cleaner.do(planned["targets"])
    assert answer["freed"]["disk"] == target["size"], "what stays is not counted"
    assert answer["done"][0]["outcome"].startswith(f"{target['files']} files removed")
    again = cleaner.plan()
    assert again["targets"] == []
    assert any("nothing to remove, all that is left in it is protected" in note for note in again["notes"])


def test_a_plan_changes_nothing(cleaner):
    path = session(cleaner.temp)
    before = sorted((file, file.lstat().st_mtime_ns) for file in path.rglob("*"))
    cleaner.plan()
    assert sorted((file, file.lstat().st_mtime_ns) for file in path.rglob("*")) == before


@pytest.mark.parametrize(
    ("program_name", "words"),
    [
        ("/env/ray/core/src/ray/raylet/raylet", ["--raylet_socket_name={path}/sockets/raylet", "--session_dir={path}"]),
        ("/env/ray/core/src/ray/gcs/gcs_server", ["--log_dir={path}/logs", "--gcs_server_port=1"]),
        ("ray-dashboard-NodeHead-0", ["--session-dir={path}"]),
    ],
)
def test_a_session_that_a_process_of_ray_names_stays(cleaner, program_name, words):
    path = session(cleaner.temp)
    with program(program_name, *(word.format(path=path) for word in words)) as pid:
        planned = cleaner.plan()
    assert planned["targets"] == []
    assert reason(planned, NAME).startswith("it is alive: ")
    assert str(pid) in reason(planned, NAME)


def test_a_session_with_another_path_stays_if_its_raylet_runs(cleaner):
    session(cleaner.temp)
    with program("/env/raylet", f"--raylet_socket_name=/elsewhere/{NAME}/sockets/raylet", f"--session_dir=/elsewhere/{NAME}"):
        assert cleaner.plan()["targets"] == []


def test_a_session_whose_socket_cannot_be_asked_stays(cleaner):
    path = session(cleaner.temp)
    (path / "sockets").rename(path / "moved")
    os.symlink(path / "moved", path / "sockets")
    age(path)
    assert reason(cleaner.plan(), NAME).startswith("unknown whether it is alive")


def test_the_latest_session_may_be_dead(cleaner):
    session(cleaner.temp)
    os.symlink(cleaner.temp / NAME, cleaner.temp / "session_latest")
    planned = cleaner.plan()
    assert names_of(planned["targets"]) == [NAME, "session_latest"]
    assert names_of(cleaner.do(planned["targets"])["done"]) == [NAME, "session_latest"]
    assert os.listdir(cleaner.temp) == []


def test_a_session_whose_socket_answers_stays_beside_a_dead_one_also_if_it_is_named_or_was_planned_while_dead(cleaner):
    dead, lives = session(cleaner.temp), session(cleaner.temp, OTHER)
    planned = cleaner.plan(sessions=[OTHER])
    with listening(lives / "sockets" / "raylet.1"):
        for answer in (cleaner.plan(), cleaner.plan(sessions=[OTHER]), cleaner.do(planned["targets"])):
            assert OTHER not in names_of(answer.get("targets") or answer.get("done") or [])
            assert reason(answer, OTHER) == "it is alive: a raylet listens on its socket"
        assert cleaner.plan()["refused"][0]["live"] is True
        assert names_of(cleaner.clean()["done"]) == [NAME]
        assert len(list(lives.rglob("*"))) == 9
    assert not dead.exists()


def test_a_session_that_is_just_being_created_is_awaited(cleaner, monkeypatch):
    monkeypatch.setattr("cockpit.probe.actions.clean.dead_sessions.MIN_QUIET_S", 1.0)
    path = session(cleaner.temp)
    os.utime(path)
    began = time.monotonic()
    assert names_of(cleaner.plan()["targets"]) == [NAME]
    assert time.monotonic() - began > 0.5
    assert cleaner.progress[0] == f"{NAME} was changed just now: waiting to see whether it starts"


def test_a_session_that_we_just_ended_is_not_awaited_but_stays_if_it_is_alive(cleaner, monkeypatch):
    path = session(cleaner.temp)
    os.utime(path)
    monkeypatch.setattr("cockpit.probe.actions.clean.dead_sessions.MIN_QUIET_S", 10_000)
    answer = cleaner.clean(ended=[NAME])
    assert names_of(answer["done"]) == [NAME]
    lives = session(cleaner.temp)
    os.utime(lives)
    with listening(lives / "sockets" / "raylet"):
        assert reason(cleaner.plan(ended=[NAME]), NAME) == "it is alive: a raylet listens on its socket"


# Named sessions


def test_only_named_sessions_are_removed(cleaner):
    session(cleaner.temp)
    other = session(cleaner.temp, OTHER)
    os.symlink(NAME, cleaner.temp / "session_latest")
    write(cleaner.temp / "ray_current_cluster").write_text("127.0.0.1:1")
    assert names_of(cleaner.plan(sessions=[OTHER])["targets"]) == [OTHER]
    assert names_of(cleaner.plan(sessions=[NAME])["targets"]) == [NAME, "session_latest"]
    assert names_of(cleaner.clean(sessions=[str(other) + "/"])["done"]) == [OTHER]


def test_a_session_in_any_place_is_found_by_its_path(cleaner, tmp_path):
    link = tmp_path / "ray"
    link.symlink_to(cleaner.temp)
    session(cleaner.temp)
    unknowing = Cleaner(tmp_path)
    unknowing.scanner().add_temp_dir(str(tmp_path))
    planned = unknowing.plan(sessions=[f"{link}/{NAME}"])
    assert names_of(planned["targets"]) == [NAME]
    assert names_of(unknowing.do(planned["targets"], sessions=[f"{link}/{NAME}"])["done"]) == [NAME]
    assert os.listdir(cleaner.temp) == []


def test_a_named_session_that_does_not_exist_is_reported(cleaner):
    os.symlink("/etc", cleaner.temp / NAME)
    assert cleaner.plan(sessions=[OTHER])["notes"] == [f"there is no session {OTHER} here"]
    assert cleaner.plan(sessions=[f"{cleaner.temp}/{NAME}"])["notes"] == [f"{cleaner.temp}/{NAME} is a link, not a session folder"]


def test_only_sessions_older_than_the_limit_are_removed_also_if_they_were_written_to_after_the_plan(cleaner):
    path = session(cleaner.temp)
    for file in (path, *path.rglob("*")):
        age(file, 7200)
    assert cleaner.plan(older_than=7300)["notes"] == [f"{NAME} is kept: a file in it was written 2.0 hours ago"]
    assert reason(cleaner.plan(older_than=7300, sessions=[NAME]), NAME) == "a file in it was written 2.0 hours ago", "it was named"
    planned = cleaner.plan(older_than=7000)
    assert 7200 <= planned["targets"][0]["age"] < 7260
    os.utime(path / "logs" / "raylet.out")
    assert cleaner.plan(older_than=7000)["targets"] == []
    assert reason(cleaner.do(planned["targets"], older_than=7000), NAME) == "a file in it was written 0.0 hours ago"
    assert path.exists()


def test_a_bug_with_one_target_does_not_lose_the_outcome_of_the_others(cleaner):
    session(cleaner.temp)
    session(cleaner.temp, OTHER)
    first, second = sorted(cleaner.plan()["targets"], key=lambda one: one["name"])
    del first["inode"]
    answer = cleaner.do([first, second])
    assert (names_of(answer["failed"]), names_of(answer["done"])) == ([OTHER], [NAME])
    assert "KeyError" in answer["failed"][0]["error"]


@ROOT
def test_root_removes_another_users_session_only_if_it_is_named(cleaner):
    path = session(cleaner.temp)
    for one in (path, *path.rglob("*")):
        os.chown(one, NOBODY, NOBODY, follow_symlinks=False)
    assert reason(cleaner.plan(), NAME).endswith("to remove it, put the cursor on it, or name it by --session")
    planned = cleaner.plan(sessions=[NAME])
    assert cleaner.do(planned["targets"])["done"] == []
    assert names_of(cleaner.do(planned["targets"], sessions=[NAME])["done"]) == [NAME]


# Protected files


def test_protected_files_stay(cleaner):
    path = session(cleaner.temp)
    kept = [write(path / "runtime_resources" / "a" / "model.safetensors"), write(path / "run" / "global_step7" / "weights.bin")]
    kept += [write(path / "run" / "global_step7" / "vocab.txt"), write(path / "core.4711")]
    write(path / "run" / "global_step7.log")
    age(path)
    planned = cleaner.plan()
    (target,) = planned["targets"]
    assert sorted(target["keeps"]) == ["core.4711", "run/global_step7", "runtime_resources/a/model.safetensors"]
    (done,) = cleaner.do(planned["targets"])["done"]
    assert done["outcome"].endswith(" and 2 more")
    assert files_in(path) == sorted(kept)
    assert os.listdir(path / "sockets") == os.listdir(path / "logs") == []
    assert names_of(cleaner.clean(protected=[str(path / "run")])["done"]) == [NAME], "it is still recognizable as a session's folder"


def test_protected_files_are_removed_if_they_are_named(cleaner):
    path = session(cleaner.temp)
    kept = write(path / "a" / "one.pt")
    named = [write(path / "a" / "two.pt"), write(path / "checkpoint-3" / "optimizer.bin").parent]
    write(path / "checkpoint-3" / "vocab.txt")
    age(path)
    dear = [str(one) for one in named]
    planned = cleaner.plan(protected=dear)
    assert planned["targets"][0]["keeps"] == ["a/one.pt"]
    cleaner.do(planned["targets"], protected=dear)
    assert files_in(path) == [kept]


@pytest.mark.parametrize(("there", "words"), [(2, "1 more protected file is kept"), (3, "2 more protected files are kept")])
def test_the_number_of_unlisted_protected_files_is_reported(cleaner, monkeypatch, there: int, words: str):
    monkeypatch.setattr("cockpit.probe.actions.clean.dead_sessions.KEEPS", 1)
    path = session(cleaner.temp)
    for number in range(there):
        write(path / f"{number}.pt")
    age(path)
    assert f"{NAME}: {words} and not listed" in cleaner.plan()["notes"]


def test_a_link_stays_while_its_session_keeps_something(cleaner):
    write(session(cleaner.temp) / "model.pt")
    age(cleaner.temp / NAME)
    os.symlink(NAME, cleaner.temp / "session_latest")
    planned = cleaner.plan()
    assert names_of(planned["targets"]) == [NAME]
    cleaner.do(planned["targets"])
    assert os.readlink(cleaner.temp / "session_latest") == NAME


def test_a_named_path_that_is_not_protected_is_reported(cleaner):
    path = session(cleaner.temp)
    assert cleaner.plan(protected=[f"{path}/logs"])["notes"] == [f"{NAME}: no protected file has the path logs"]


def test_names_that_are_not_utf8_survive_plan_and_do(cleaner):
    path = session(cleaner.temp)
    odd = os.fsdecode(os.fsencode(path) + b"/a\n\xff\\x41.pt")
    other = f"{path}/a\n\\xff\\x41.pt"
    for name in (odd, other):
        with open(name, "w") as file:
            file.write("dear")
    age(path)
    planned = json.loads(json.dumps(cleaner.plan()))
    keeps = sorted(planned["targets"][0]["keeps"])
    assert keeps == ["a\n\\\\xff\\\\x41.pt", "a\n\\xff\\\\x41.pt"]
    dear = [f"{path}/{keeps[1]}"]
    cleaner.do(planned["targets"], protected=dear)
    assert sorted(os.listdir(path)) == [os.path.basename(other), "logs", "sockets"]


PACKAGE = "runtime_resources/working_dir_files/_ray_pkg_1f"
UNPACKED = 1_700_000_000.0


@pytest.mark.parametrize(
    "result",
    [
        "wandb/offline-run-1/run-1.wandb", "runs/events.out.tfevents.1", "outputs/rollout.jsonl", "model.bin", "consolidated.00.bin",
        "optimizer.bin", "data/train.parquet", "replay.pkl", "step_500/x.bin",
    ],
)  # fmt: skip
def test_a_file_that_a_job_wrote_into_its_working_dir_stays_and_a_large_one_at_any_age(cleaner, result):
    path = session(cleaner.temp)
    package = path / PACKAGE
    for name in ("train.py", "vocab.bin"):
        os.utime(write(package / name, 100), (UNPACKED, UNPACKED))
    kept = [write(package / result, 100), write(package / "weights.bin", 2 << 20)]
    for file, seconds in zip(kept, (600, 0), strict=True):
        os.utime(file, (UNPACKED + seconds, UNPACKED + seconds))
    os.utime(write(package / "__pycache__" / "train.cpython-311.pyc"), (UNPACKED + 600, UNPACKED + 600))
    age(path)
    cleaner.clean()
    assert files_in(path) == sorted(kept)


@pytest.mark.parametrize("name", ["logs/late.pt", f"{PACKAGE}/late.jsonl"])
def test_a_checkpoint_or_result_that_appears_during_the_removal_stays(cleaner, name):
    path = session(cleaner.temp)
    os.utime(write(path / PACKAGE / "train.py"), (UNPACKED, UNPACKED))
    age(path)
    planned = cleaner.plan()
    late = write(path / name, 100)
    age(path)
    cleaner.do(planned["targets"])
    assert files_in(path) == [late]


# Folders that may be no sessions


@ROOT
@pytest.mark.parametrize("part", ["logs", "sockets"])
@pytest.mark.parametrize("how", ["missing", "another user's", "a link"])
def test_a_renamed_folder_is_no_session(cleaner, part, how):
    """A user who may write to the folder above can rename root's folders in it."""
    path = session(cleaner.temp)
    if how == "another user's":
        os.chown(path / part, NOBODY, NOBODY)
    else:
        (path / part).rename(path / "moved")
    if how == "a link":
        (path / part).symlink_to("moved")
    age(path)
    planned = cleaner.plan()
    assert planned["targets"] == []
    assert "it may not be a session folder" in reason(planned, NAME) or part == "sockets"


@ROOT
@pytest.mark.parametrize("above", [False, True])
def test_root_does_not_trust_another_users_temp_dir_unless_its_path_is_named(cleaner, above):
    path = session(cleaner.temp / "ray")
    os.chown(cleaner.temp if above else cleaner.temp / "ray", NOBODY, NOBODY)
    cleaner = Cleaner(cleaner.temp / "ray")
    planned = cleaner.plan()
    assert planned["targets"] == []
    assert "so files there may have been replaced: to remove this session, put the cursor on it, or name its path by --session" in reason(
        planned, NAME
    )
    assert cleaner.plan(sessions=[NAME])["targets"] == []
    assert names_of(cleaner.clean(sessions=[str(path)])["done"]) == [NAME]


@ROOT
def test_another_user_can_not_prevent_the_removal_of_a_session(cleaner):
    """By a raylet of no session, or by a listener in the folder."""
    path = session(cleaner.temp)
    (path / "sockets").chmod(0o777)
    cleaner.temp.chmod(0o755)
    (path / "sockets" / "raylet").unlink()
    be = f"import os, socket, sys; os.setuid({NOBODY})"
    listen = f"s = socket.socket(1); s.bind('{path}/sockets/raylet'); s.listen()"
    stay = "print(flush=True); sys.stdin.read()"
    gcs = program("gcs_server", "--log_dir=x", code=f"{be}; {stay}")
    claims = program("raylet", f"--raylet_socket_name={path}/sockets/raylet", f"--session_dir={path}", code=f"{be}; {stay}")
    with gcs, claims, program(code=f"{be}; {listen}; {stay}"):
        age(path)
        assert names_of(cleaner.clean()["done"]) == [NAME]


def test_files_that_a_live_ray_uses_stay(cleaner):
    """A renamed session still belongs to its Ray: the kernel reports its open files."""
    path, lives = session(cleaner.temp), session(cleaner.temp, OTHER)
    write(path / "runtime_resources" / "data.txt")
    age(path)
    flags = f"--raylet_socket_name={lives}/sockets/raylet", f"--session_dir={lives}"
    holds = f"import sys; file = open('{path}/runtime_resources/data.txt'); print(flush=True); sys.stdin.read()"
    with program("/env/raylet", *flags, code=holds) as pid:
        planned = cleaner.plan()
        assert reason(planned, NAME) == f"it is in use: ray {pid} of a live Ray has runtime_resources/data.txt open"
        assert planned["targets"] == []


# Files in use


def test_a_process_with_an_open_file_is_named_and_does_not_stop_the_removal(cleaner):
    path = session(cleaner.temp)
    log = write(path / "logs" / "left.log", 100_000)
    blocks = log.stat().st_blocks * 512
    size = sum(file.stat().st_blocks * 512 for file in files_in(path))
    age(path)
    with (
        log.open() as stdin,
        program(
            "sleeper", code="import os; os.write(2, b''); print(flush=True); import time; time.sleep(600)", pass_fds=[stdin.fileno()]
        ) as pid,
    ):
        planned = cleaner.plan()
        (note,) = [one for one in planned["notes"] if str(pid) in one]
        assert note == f"{NAME}: logs/left.log is held open by sleeper -c (pid {pid}): its space is freed when that process ends"
        stdin.close()
        answer = cleaner.do(planned["targets"])
    assert not path.exists()
    assert answer["freed"]["disk"] == size - blocks


def test_a_process_that_works_in_the_folder_is_named(cleaner):
    path = session(cleaner.temp)
    with program("train", cwd=path / "runtime_resources") as pid:
        assert [one for one in cleaner.plan()["notes"] if str(pid) in one] == [
            f"{NAME}: runtime_resources is used as working directory by train -c (pid {pid}): its space is freed when that process ends"
        ]


# Pointers to sessions and clusters


def test_a_link_to_nothing_is_removed(cleaner):
    os.symlink(f"/gone/{NAME}", cleaner.temp / "session_latest")
    answer = cleaner.clean()
    assert [done["outcome"] for done in answer["done"]] == [f"removed: it points at {NAME}, which is gone"]
    assert os.listdir(cleaner.temp) == []


def test_a_link_to_a_session_by_another_path_stays(cleaner):
    path = session(cleaner.temp)
    os.symlink(f"/elsewhere/{NAME}", cleaner.temp / "session_latest")
    with listening(path / "sockets" / "raylet"):
        assert cleaner.plan()["targets"] == []


def test_a_link_stays_if_its_session_lives_without_a_folder(cleaner):
    os.symlink(NAME, cleaner.temp / "session_latest")
    with program("/env/raylet", f"--raylet_socket_name={cleaner.temp}/{NAME}/sockets/raylet", f"--session_dir={cleaner.temp}/{NAME}"):
        planned = cleaner.plan()
    assert planned["targets"] == []
    assert reason(planned, "session_latest").startswith("it is alive: raylet ")


def test_a_link_that_was_replaced_after_the_plan_stays(cleaner):
    link = cleaner.temp / "session_latest"
    os.symlink("gone", link)
    planned = cleaner.plan()
    os.symlink("gone too", cleaner.temp / "new")
    os.replace(cleaner.temp / "new", link)
    assert names_of(cleaner.do(planned["targets"])["refused"]) == ["session_latest"]
    assert os.readlink(link) == "gone too"


def address_file(cleaner, text) -> Path:
    path = cleaner.temp / "ray_current_cluster"
    path.write_text(text)
    return path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def test_an_address_stays_while_something_listens_there_also_if_that_began_after_the_plan(cleaner):
    port = free_port()
    path = address_file(cleaner, f"127.0.0.1:{port}")
    planned = cleaner.plan()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", port))
        sock.listen()
        assert cleaner.plan() | {"notes": []} == {"targets": [], "refused": [], "notes": []}
        assert names_of(cleaner.do(planned["targets"])["refused"]) == ["ray_current_cluster"]
        assert path.exists()
    assert names_of(cleaner.clean()["done"]) == ["ray_current_cluster"]
    assert not path.exists()


def test_another_hosts_address_stays_while_a_raylet_of_its_cluster_runs_here(cleaner):
    address_file(cleaner, "192.0.2.7:63790")
    with program(
        "/env/raylet", f"--raylet_socket_name=/x/{NAME}/sockets/raylet", "--gcs-address=192.0.2.7:63790", f"--session_dir=/x/{NAME}"
    ):
        assert cleaner.plan()["targets"] == []
    assert names_of(cleaner.plan()["targets"]) == ["ray_current_cluster"]


def test_an_address_stays_if_an_unseen_raylet_may_use_it(cleaner):
    address_file(cleaner, "192.0.2.7:63790")
    with listening(session(cleaner.temp) / "sockets" / "raylet"):
        planned = cleaner.plan()
    assert planned["targets"] == []
    assert reason(planned, "ray_current_cluster") == f"{NAME} may be of that cluster, and its raylet can't be seen from here"


def test_an_address_by_name_stays(cleaner):
    address_file(cleaner, "head-node:63790")
    assert reason(cleaner.plan(), "ray_current_cluster") == "unknown whether head-node:63790 is an address of this host"


@pytest.mark.parametrize("path", ["/etc/passwd", "{temp}/precious", "{temp}/../{name}/logs"])
@pytest.mark.parametrize("kind", ["session", "link", "file", "shm", "process"])
def test_no_request_removes_anything_else(cleaner, path, kind):
    precious = write(cleaner.temp / "precious")
    session(cleaner.temp)
    asked = path.format(temp=cleaner.temp, name=NAME)
    status = os.lstat(precious)
    target = {"what": kind, "path": asked, "device": status.st_dev, "inode": status.st_ino}
    answer = cleaner.do([target])
    assert len(answer["refused"]) == 1
    assert answer["done"] == answer["failed"] == []
    assert precious.exists()


# The program


def test_the_counting_ends_with_its_reader(cleaner, start):
    path = session(cleaner.temp)
    for number in range(30_000):
        (path / "logs" / str(number)).touch()
    age(path)
    probe = start("act", json.dumps(cleaner.request(stage="plan", sessions=[str(path)])))
    while " counted, " not in probe.line()["tell"]:
        pass
    probe.process.stdout.close()
    assert probe.process.wait(60) in (0, -signal.SIGPIPE)
    assert probe.errors() == ""


def test_it_cleans_on_any_python(cleaner, start, tmp_path):
    folder = copy_probe(tmp_path / "there")
    tried = [path for path in installed_pythons() if version_of(path) != sys.version_info[:2]]
    if not any(version_of(path) == (3, 8) for path in tried):
        pytest.skip(f"there is no Python 3.8 here; found only {tried}")
    for python in tried:
        path = session(cleaner.temp)
        kept = Path(os.fsdecode(os.fsencode(path) + b"/\xff.pt"))
        write(kept)
        age(path)
        shm = age(write(Path("/dev/shm") / f"psm_{secrets.token_hex(4)}", 8192))
        there = {"python": python, "module": "probe", "cwd": tmp_path, "PYTHONPATH": str(folder), "PYTHONWARNINGS": "error"}
        plan = hear_answer(start("act", json.dumps(cleaner.request(stage="plan", sessions=[str(path)])), **there))
        assert plan["targets"][0]["keeps"] == ["\\xff.pt"], python
        status = shm.lstat()
        leftover = {"what": "shm", "path": str(shm), "device": status.st_dev, "inode": status.st_ino}
        receipt = hear_answer(start("act", json.dumps(cleaner.request(stage="do", targets=[*plan["targets"], leftover])), **there))
        assert names_of(receipt["done"]) == [NAME, shm.name], (python, receipt)
        assert receipt["freed"] == {"disk": plan["targets"][0]["size"], "shm": 8192}
        assert not shm.exists()
        assert files_in(path) == [kept]
        shutil.rmtree(path)


def hear_answer(probe):
    """The answer after its progress lines."""
    while True:
        line = probe.line()
        if "tell" not in line:
            assert probe.process.wait(60) == 0
            assert probe.errors() == ""
            return line
