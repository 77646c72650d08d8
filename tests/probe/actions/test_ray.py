"""The cluster's own Python: found through its raylet, run as the raylet's user, and ended afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.probe.actions import ray
from cockpit.probe.actions.host_state import HostScanner
from cockpit.probe.actions.ray import gcs
from cockpit.sources.probes import payload
from tests.probe.actions.cleaning import program

pytestmark = pytest.mark.process

SESSION, OTHER = (f"session_2026-11-{day}_01-17-58_164160_{os.getpid()}" for day in (21, 20))
"""No other test creates processes with these names."""
NODE = "ab" * 28
ACTOR, GROUP = "0a" * 16, "0b" * 18
TARGET = {"what": "actor", "id": ACTOR, "session": SESSION}
ANSWER = '{"targets": [], "refused": [], "notes": ["it was asked"]}'
STAYS = "print(flush=True); sys.stdin.read()"
RAYLET = "site-packages/ray/core/src/ray/raylet/raylet"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
Raylet = Callable[..., AbstractContextManager[int]]


@pytest.fixture
def seen() -> Iterator[Path]:
    """The files that the stand-in writes. Any user may write there."""
    with folder() as path:
        path.chmod(0o777)
        yield path


@contextmanager
def folder() -> Iterator[Path]:
    """A Python that every user may run, and only we may change."""
    path = Path(tempfile.mkdtemp(prefix="python", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def installed() -> Iterator[Path]:
    """The folder of that Ray: its raylet is a Python, so that tests decide what it does."""
    with folder() as path:
        program = path / RAYLET
        program.parent.mkdir(parents=True)
        shutil.copy(os.path.realpath(sys.executable), program)
        yield path


@pytest.fixture
def python(installed: Path, seen: Path) -> Path:
    """A stand-in for the cluster's Python: it writes how it was started, and answers."""
    return stand_in(installed / "python", seen, f"echo noise of an import; echo '{ANSWER}'")


def stand_in(path: Path, seen: Path, script: str) -> Path:
    notes = {"pid": "echo $$", "argv": 'echo "$@"', "env": "env", "user": "id -u; id -G", "cwd": "pwd", "stdin": "cat"}
    lines = [f"({command}) >{seen}/{name}" for name, command in notes.items()]
    path.write_text("\n".join(("#!/bin/sh", *lines, script, "")))
    path.chmod(0o755)
    return path


@pytest.fixture
def raylet(installed: Path, python: Path) -> Raylet:
    """A process with a raylet's command line."""

    def started(
        session: str = SESSION, code: str = STAYS, command: str = "", at: object = "/nowhere", **env: str
    ) -> AbstractContextManager[int]:
        folder = f"{at}/{session}"
        flags = (
            f"--raylet_socket_name={folder}/sockets/raylet",
            f"--session_dir={folder}",
            "--gcs-address=127.0.0.1:1",
            f"--node_id={NODE}",
        )
        worker = f"--python_worker_command={command or f'{python} setup_worker.py default_worker.py --gcs-address=127.0.0.1:2'}"
        environ = {**os.environ, "PYTHONHOME": sys.base_prefix, **env}
        return program("raylet", *flags, worker, code=f"import os, sys; {code}", env=environ, executable=installed / RAYLET)

    return started


def ask(**more: Any) -> dict[str, Any]:
    request = {"act": "ray", "verb": "kill_actor", "ids": [more.pop("id", ACTOR)], "session": SESSION, "stage": "plan", **more}
    return (ray.do if request["stage"] == "do" else ray.plan)(request, HostScanner(request), lambda *_: None)


def refusal(seen: Path, **more: Any) -> str:
    """The error; the cluster's Python was not started."""
    error: str = ask(**more)["error"]
    assert not (seen / "argv").exists()
    return error


def test_python_gcs_and_environment_come_from_the_raylet(raylet: Raylet, installed: Path, seen: Path):
    loads = {"LD_PRELOAD": "", "PYTHONPATH": "/evil", "PYTHONINSPECT": "1", "BASH_ENV": "/evil", "RAY_ADDRESS": "elsewhere:1"}
    with raylet(RAY_AUTH_TOKEN="s3cret", AWS_SECRET_ACCESS_KEY="s3cret", RAY_JOB_ID="07000000", **loads):
        assert ask()["notes"] == ["it was asked"]
    env = (seen / "env").read_text()
    assert "RAY_AUTH_TOKEN=s3cret\n" in env
    assert not any(name in env for name in ("AWS_", "RAY_JOB_ID", *loads))
    assert (seen / "argv").read_text() == "-I -B -\n"
    assert (seen / "cwd").read_text() == "/\n"
    call = (seen / "stdin").read_text().splitlines()[-1]
    assert ACTOR in call
    assert "127.0.0.1:1" in call
    assert f"sys.path.append('{installed}/site-packages')" in (seen / "stdin").read_text(), "the raylet's own Ray is imported"


def test_the_sent_program_ends_with_its_call(raylet: Raylet, seen: Path):
    with raylet():
        ask(verb="remove_placement_group", id=GROUP.upper())
    text = (seen / "stdin").read_text()
    compile(text, "sent", "exec")
    question = eval(text.splitlines()[-1], {"main": lambda question: question, "json": json})
    assert (question["stage"], question["session"], question["limit"]) == ("plan", SESSION, ray.PROGRAM_TIMEOUT_S)
    assert question["targets"] == [{"what": "placement_group", "id": GROUP, "session": SESSION}]


def test_the_payload_contains_the_program(raylet: Raylet, seen: Path):
    request = json.dumps({"act": "ray", "stage": "plan", "verb": "kill_actor", "ids": [ACTOR], "session": SESSION})
    text = payload.program(["--no-lifeline", "act", request], acting=True)
    with raylet():
        output = subprocess.run([sys.executable, "-"], input=text, capture_output=True, check=True, cwd="/").stdout
    assert json.loads(output.splitlines()[-1])["notes"] == ["it was asked"]
    assert "class Gcs" in (seen / "stdin").read_text()


@pytest.mark.parametrize(
    "more",
    [
        {"id": ACTOR[:-1]}, {"id": ACTOR + "0"}, {"id": GROUP}, {"id": "g" * 32}, {"id": None}, {"id": f"{ACTOR[:-1]}\n"},
        {"verb": "remove_placement_group"}, {"verb": "kill"}, {"ids": [ACTOR, GROUP]}, {"ids": []},
        {"stage": "do", "targets": [{**TARGET, "id": GROUP}]}, {"stage": "do", "targets": [{**TARGET, "what": "job"}]},
        {"stage": "do", "targets": [{**TARGET, "session": None}]}, {"stage": "do", "targets": []},
        {"stage": "do", "targets": [TARGET, {**TARGET, "session": OTHER}]},
    ],
)  # fmt: skip
def test_an_invalid_id_is_never_sent(raylet: Raylet, seen: Path, more: dict[str, Any]):
    with raylet():
        assert refusal(seen, **more)


def test_a_session_that_does_not_live_here_is_not_asked(raylet: Raylet, seen: Path):
    with raylet():
        assert refusal(seen, session=OTHER) == f"no raylet of {OTHER} runs on this host"


def test_if_there_are_several_sessions_one_must_be_named(raylet: Raylet, seen: Path):
    with raylet(), raylet(OTHER):
        error = refusal(seen, session=None)
    assert "choose one by its address" in error
    assert SESSION in error
    assert OTHER in error


def test_do_acts_in_the_session_of_its_plan(raylet: Raylet, seen: Path):
    with raylet(), raylet(OTHER):
        ask(stage="do", session=OTHER, targets=[TARGET])
    assert SESSION in (seen / "stdin").read_text().splitlines()[-1]


def test_a_program_that_hangs_is_ended(raylet: Raylet, python: Path, seen: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ray, "PROGRAM_TIMEOUT_S", 0.5)
    stand_in(python, seen, "sleep 1000")
    with raylet():
        error = ask(stage="do", targets=[TARGET])["error"]
    assert error.endswith("within 0.5 s: whether anything has ended is unknown")
    assert not Path(f"/proc/{(seen / 'pid').read_text().strip()}").exists()


@pytest.mark.parametrize(("script", "ends"), [("kill {pid}; sleep 0.2", True), ("", False)])
def test_a_dead_actors_process_is_awaited(
    raylet: Raylet, python: Path, seen: Path, monkeypatch: pytest.MonkeyPatch, script: str, ends: bool
):
    monkeypatch.setattr(ray, "GONE_WITHIN", 0.5)
    with raylet(), program("ray::Critic") as pid:
        done = {**TARGET, "node": NODE, "pid": pid, "outcome": "Ray reported DEAD 0.2 s after the request"}
        answer = json.dumps({"done": [done], "refused": [], "failed": [], "notes": []})
        stand_in(python, seen, f"{script.format(pid=pid)}\necho '{answer}'")
        answer = ask(stage="do", targets=[TARGET])
    assert answer["done"][0]["outcome"] == (
        "Ray reported DEAD 0.2 s after the request" + (f", and its process {pid} has ended" if ends else "")
    )
    assert answer["notes"] == ([] if ends else [f"process {pid} of that actor still runs 0.5 s after Ray reported it dead"])


def test_pids_of_another_node_are_not_searched_here(raylet: Raylet, python: Path, seen: Path):
    done = {**TARGET, "node": "cd" * 28, "pid": os.getpid(), "outcome": "Ray reported DEAD 0.2 s after the request"}
    stand_in(python, seen, f"echo '{json.dumps({'done': [done], 'refused': [], 'failed': [], 'notes': []})}'")
    with raylet():
        answer = ask(stage="do", targets=[TARGET])
    assert (answer["done"][0]["outcome"], answer["notes"]) == ("Ray reported DEAD 0.2 s after the request", [])


def test_a_python_that_fails_is_quoted_and_one_that_is_gone_is_named(raylet: Raylet, python: Path, seen: Path):
    stand_in(python, seen, "echo ModuleNotFoundError: no ray >&2; exit 1")
    with raylet():
        assert ask()["error"] == f"the cluster's Python {python} failed: ModuleNotFoundError: no ray"
        python.unlink()
        assert f"the cluster's Python {python} can't be started" in ask()["error"]


def test_another_users_ray_is_not_touched(raylet: Raylet, seen: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with raylet():
        assert "only that user and root may act on it" in refusal(seen)


@pytest.mark.parametrize("command", ["/bin/python 'unclosed", "''", "python setup_worker.py"])
def test_a_raylet_that_names_no_python_is_a_sentence(raylet: Raylet, command: str):
    with raylet(command=command) as pid:
        assert ask()["error"] == f"raylet {pid} names no valid Python: {command}"


def test_an_environment_that_is_not_utf8_stays_unchanged(raylet: Raylet, seen: Path):
    with raylet(RAY_AUTH_TOKEN_PATH=os.fsdecode(b"/\xff")):
        assert ask()["notes"] == ["it was asked"]
    assert b"RAY_AUTH_TOKEN_PATH=/\xff" in (seen / "env").read_bytes().splitlines()


# Features that an old Ray lacks


@pytest.mark.parametrize("missing", ["the modules", "the status", "the method"])
def test_a_ray_without_drain_is_not_asked_to_drain(monkeypatch: pytest.MonkeyPatch, missing: str):
    asked: list[str] = []
    methods = {"GetClusterResourceState": lambda *_, **__: asked.append("state")}
    service = {"AutoscalerStateServiceStub": lambda _: SimpleNamespace(**methods)}
    shapes = {"GetClusterResourceStateRequest": dict, "DrainNodeRequest": dict, "NodeStatus": {"RUNNING": 1}}
    names = ("ray.core.generated.autoscaler_pb2", "ray.core.generated.autoscaler_pb2_grpc")
    for name, module in zip(names, (shapes, service), strict=True):
        monkeypatch.setitem(sys.modules, name, None if missing == "the modules" else SimpleNamespace(**module))
    one = gcs.Gcs.__new__(gcs.Gcs)
    one._channel = None
    ask = partial(one.autoscaler_number, "NodeStatus", "DRAINING") if missing == "the status" else partial(one.ask_autoscaler, "DrainNode")
    with pytest.raises(gcs.NoServiceError, match="this Ray version can't drain a node"):
        ask()
    assert asked == []


# Processes that root trusts


def test_a_program_that_is_only_named_raylet_is_not_trusted(seen: Path, python: Path):
    """`exec -a raylet su`, with any words: root would run what they name."""
    flags = (f"--raylet_socket_name=/nowhere/{SESSION}/sockets/raylet", f"--session_dir=/nowhere/{SESSION}", "--gcs-address=127.0.0.1:1")
    with program("raylet", *flags, f"--python_worker_command={python}") as pid:
        assert f"process {pid} calls itself raylet but runs " in refusal(seen)


@needs_root
def test_a_program_with_the_rights_of_two_users_is_not_trusted(raylet: Raylet, seen: Path):
    with raylet(code=f"os.setresuid(65534, 0, 0); {STAYS}") as pid:
        assert f"process {pid} runs with more than one user's rights" in refusal(seen)


@needs_root
@pytest.mark.parametrize("loose", ["python", f"{RAYLET}", "site-packages", "."])
@pytest.mark.parametrize("how", ["owned", "writable"])
def test_root_runs_nothing_that_another_user_can_change(raylet: Raylet, installed: Path, seen: Path, loose: str, how: str):
    path = installed / loose
    os.chown(path, 65534, 65534) if how == "owned" else path.chmod(0o777)
    with raylet():
        assert ("belongs to" if how == "owned" else "can be written by everybody") in refusal(seen)


@needs_root
def test_root_runs_no_setuid_program(raylet: Raylet, python: Path, seen: Path):
    python.chmod(0o4755)
    with raylet():
        assert "sets the user or group that it runs as" in refusal(seen)


@needs_root
def test_root_becomes_the_raylets_user(raylet: Raylet, seen: Path):
    with raylet(code=f"os.setgroups([7]); os.setgid(65533); os.setuid(65534); {STAYS}"):
        assert ask()["notes"] == ["it was asked"]
    assert (seen / "user").read_text() == "65534\n65533 7\n"


@needs_root
def test_a_session_that_two_users_claim_belongs_to_the_owner_of_its_folder(raylet: Raylet, seen: Path, tmp_path: Path):
    """A process of another user that is named raylet is neither used nor an obstacle."""
    path = tmp_path / SESSION
    (path / "logs").mkdir(parents=True)
    forged = f"--raylet_socket_name={path}/sockets/raylet", f"--session_dir={path}", "--gcs-address=127.0.0.1:9"
    be = f"import os, sys; os.setuid(65534); {STAYS}"
    with raylet(at=tmp_path), program("raylet", *forged, "--python_worker_command=/evil", code=be):
        assert ask()["notes"] == ["it was asked"]
    assert "127.0.0.1:9" not in (seen / "stdin").read_text()


@needs_root
def test_a_session_that_two_users_claim_without_a_folder_is_refused(raylet: Raylet, seen: Path):
    with raylet(), raylet(code=f"os.setuid(65534); {STAYS}"):
        assert "which of them is real is unknown" in refusal(seen)
