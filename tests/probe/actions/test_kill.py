"""Only left-over processes are ended: the acting probe with real processes and simulated GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from cockpit.demo import nvml
from cockpit.probe.actions import kill
from cockpit.probe.actions.host_state import HostState
from cockpit.probe.sample.classify import classify
from cockpit.probe.sample.gpus import GpuReading
from cockpit.probe.sample.process_kinds import KindVerdict, ProcessFacts
from cockpit.probe.sample.processes import read_stat
from cockpit.sources.probes import payload
from tests.probe.orphans import Orphan, dead_session, ended_pid, left_variables
from tests.probe.waiting import until
from tests.pythons import python_or_skip

pytestmark = pytest.mark.process

GIB = 1 << 30
BELOW = ": the reasons are below"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
PARENT = """
import subprocess, sys, time
print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
sys.stdin.readline()
print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
time.sleep(60)
"""

RESTARTS = """
import signal, subprocess, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
print(subprocess.Popen(["sleep", "60"], start_new_session=True).pid, flush=True)
while not asked:
    time.sleep(0.01)
"""
"""On SIGTERM, it starts its child again before it ends."""


@pytest.fixture
def run():
    """Starts a process, and ends it after the test."""
    with ExitStack() as kept:

        def begin(*command: str, **more: object) -> subprocess.Popen:
            environ = {**os.environ, **more.pop("environ", {})}
            process = kept.enter_context(
                subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, **more)
            )
            kept.callback(process.kill)
            return process

        yield begin


@pytest.fixture
def orphan(tmp_path):
    """Starts a process whose raylet is dead."""
    raylet = ended_pid()
    with ExitStack() as kept:

        def begin(*command: str, user: int | None = None) -> Orphan:
            if not (tmp_path / str(user) / "ray").exists():
                dead_session(tmp_path / str(user) / "ray", raylet, user=user)
            process = Orphan(*(command or ("sleep", "60")), environ=left_variables(tmp_path / str(user), raylet), user=user)
            kept.callback(process.close)
            return process

        yield begin


@pytest.fixture
def action(start):
    """The answer of a new acting probe."""

    def ask(stage: str, *processes: subprocess.Popen | Orphan, gpus: dict[str, str] | None = None, **more: object) -> dict:
        named = {"named": [[process.pid, None] for process in processes]} if processes else {}
        return answer(start("act", json.dumps({"act": "kill", "stage": stage, "grace": 5, **named, **more}), **(gpus or {})))

    return ask


def answer(probe) -> dict:
    while "tell" in (found := probe.line(60)):
        pass
    return found


def pids(targets) -> list[int]:
    return [target["pid"] for target in targets]


def test_an_unnamed_orphan_is_found_and_ended(action, orphan):
    process = orphan()
    (mine,) = (target for target in action("plan")["targets"] if target["pid"] == process.pid)
    assert (mine["kind"], mine["ticks"], mine["job"]) == ("orphan", read_stat(process.pid).ticks, "02000000")
    assert "is dead" in mine["why"][0]
    done = action("do", targets=[mine])
    assert done["done"][0]["outcome"].startswith("ended by SIGTERM")
    assert (done["refused"], done["failed"]) == ([], [])
    process.wait(60)


def test_a_tree_is_ended_children_first(action, orphan):
    process = orphan(sys.executable, "-c", PARENT)
    child = int(process.stdout.readline())
    plan = action("plan", process)
    assert pids(plan["targets"]) == [child, process.pid]
    assert pids(action("do", targets=plan["targets"])["done"]) == [child, process.pid]


def test_a_process_that_started_after_the_plan_stays_and_is_reported(action, orphan):
    process = orphan(sys.executable, "-c", PARENT)
    process.stdout.readline()
    plan = action("plan", process)
    process.stdin.write(b"\n")
    process.stdin.flush()
    newcomer = int(process.stdout.readline())
    try:
        done = action("do", targets=plan["targets"])
        assert process.pid in pids(done["done"]), done
        assert f"the killed processes started pid {newcomer} after the plan was made" in done["notes"][-1]
        assert read_stat(newcomer).state == "S"
        (again,) = action("plan", named=[[newcomer, None]])["targets"]
        assert again["kind"] == "orphan"
    finally:
        os.kill(newcomer, 9)


def test_a_respawned_process_is_reported_even_if_it_left_the_group(action, orphan):
    process = orphan(sys.executable, "-c", RESTARTS)
    child = int(process.stdout.readline())
    done = action("do", targets=action("plan", process)["targets"], grace=60)
    again = int(process.stdout.readline())
    try:
        assert pids(done["done"]) == [child, process.pid]
        assert [(one["pid"], one["error"]) for one in done["failed"]] == [
            (again, "it started while the others were being killed: repeat the action")
        ]
    finally:
        os.kill(again, 9)


def test_a_process_that_ended_after_the_plan_is_reported(action, orphan):
    process = orphan()
    plan = action("plan", process)
    process.kill()
    process.wait()
    done = action("do", targets=plan["targets"])
    assert done["refused"][0]["reason"] == "it has ended since"
    assert done["done"] == []


def test_another_process_with_the_same_pid_is_refused_and_each_has_an_outcome(action, orphan):
    process = orphan()
    (target,) = action("plan", process)["targets"]
    other = {**target, "ticks": target["ticks"] - 1}
    done = action("do", targets=[other])
    assert done["refused"][0]["reason"] == "it has ended; its pid now belongs to another process"
    assert process.poll() is None
    done = action("do", targets=[target, other])
    assert [one["ticks"] for one in done["done"]] == [target["ticks"]]
    assert [one["ticks"] for one in done["refused"]] == [other["ticks"]]


@pytest.mark.parametrize("more", [{}, {"any": True}])
def test_a_process_that_is_no_orphan_any_more_is_refused(action, orphan, run, more):
    """A person agreed to an orphan; at the time of the signal, the process is a person's own."""
    (target,) = action("plan", orphan())["targets"]
    process = run("sleep", "60")
    stranger = {**target, "pid": process.pid, "ticks": read_stat(process.pid).ticks}
    done = action("do", targets=[stranger], **more)
    assert "foreign" in done["refused"][0]["reason"]
    assert process.poll() is None


def test_a_foreign_process_is_ended_only_if_a_person_has_seen_it(action, run):
    process = run("sleep", "60")
    (refused,) = action("plan", process)["refused"]
    assert refused["reason"].startswith("it is a foreign process; kill-orphans kills only orphan and stale processes")
    plan = action("plan", process, any=True)
    assert pids(action("do", targets=plan["targets"], any=True)["done"]) == [process.pid]


def test_an_orphan_above_a_live_raylet_is_refused(action, orphan):
    """A person who starts Ray in a left-over shell of an old job must not lose it."""
    script = "import time; time.sleep(60)"
    raylet = f"(exec -a /ray/raylet {sys.executable} -c '{script}' --raylet_socket_name=/x) & echo $!; wait"
    shell = orphan("bash", "-c", raylet)
    below = int(shell.stdout.readline())
    try:
        until(lambda: b"raylet_socket_name=/x" in Path(f"/proc/{below}/cmdline").read_bytes(), "the raylet runs")
        plan = action("plan", shell)
        assert plan["targets"] == []
        assert plan["refused"][0]["reason"] == f"a part of a live Ray runs below it: ray {below}"
    finally:
        os.kill(below, 9)


def test_the_plan_refuses_the_ancestors_of_cockpit(action):
    plan = action("plan", named=[[os.getpid(), None]], any=True)
    assert plan["refused"][0]["reason"] == "cockpit itself runs in it"
    assert plan["targets"] == []


def test_a_process_that_ignores_term_is_killed_after_the_grace_or_left(action, orphan):
    process = orphan(sys.executable, "-c", STUBBORN)
    process.stdout.readline()
    targets = action("plan", process)["targets"]
    assert "has not ended" in action("do", targets=targets, only="TERM", grace=0.2)["failed"][0]["error"]
    assert process.poll() is None
    forever = 10_000
    assert action("do", targets=targets, force=True, grace=forever)["done"][0]["outcome"].startswith("ended by SIGKILL")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to have another user's processes")


@needs_root
def test_another_users_orphan_is_ended_only_if_its_pid_is_named(action, orphan):
    process = orphan(user=65534)
    (refused,) = (one for one in action("plan")["refused"] if one["pid"] == process.pid)
    assert refused["reason"].endswith("to kill it, put the cursor on it, or name it by --pid")
    plan = action("plan", process, pids=True)
    assert pids(plan["targets"]) == [process.pid]
    assert pids(action("do", targets=plan["targets"])["refused"]) == [process.pid]
    assert pids(action("do", targets=plan["targets"], pids=True)["done"]) == [process.pid]


# Unclassified processes


def test_an_unseen_holder_of_gpu_memory_is_refused_and_counted_as_unclassified():
    """NVML lists it, but /proc hides it, or it runs in another container."""
    look = HostState({}, classify({}, ProcessFacts(holders=frozenset({77}))), GpuReading([], {77: {1: GIB}}), None)
    scanner = SimpleNamespace(scan=lambda: look)
    plan = kill.plan({"named": None}, scanner, print)
    (refused,) = plan["refused"]
    assert (refused["pid"], refused["kind"], refused["gpus"]) == (77, "unknown", [{"index": 1, "memory": GIB}])
    assert "can't be seen from here" in refused["reason"]
    assert plan["unknown"] == ["1 process holds GPU memory and can't be classified: the reasons are below"]


@pytest.mark.parametrize(
    ("user", "readable", "how"),
    [(1000, False, " without root: run `sudo cockpit kill-orphans` there"), (1000, True, BELOW), (0, False, BELOW)],
)
def test_a_process_that_only_root_can_classify_needs_root(monkeypatch, user, readable, how):
    monkeypatch.setattr("os.geteuid", lambda: user)
    process = SimpleNamespace(origin=SimpleNamespace(readable=readable))
    look = SimpleNamespace(doubts=[], table={7: process, 8: process})
    unknown = [{"pid": pid, "kind": "unknown", "gpus": [{"index": 0, "memory": GIB}]} for pid in (7, 8)]
    assert kill._describe_unknown(look, [*unknown, {"pid": 9, "kind": "worker", "gpus": [{"index": 0}]}]) == [
        f"2 processes hold GPU memory and can't be classified{how}"
    ]


def test_an_undecided_process_is_reported_also_without_gpu_memory():
    """An orphan may be among them, so `nothing on 1 host` alone would be wrong."""
    process = SimpleNamespace(alive=True, origin=SimpleNamespace(readable=True), details=SimpleNamespace(uid=0, pids=(7,)))
    verdict = KindVerdict("unknown", ("only Ray knows whether job train still runs",), undecided="job")
    for kind, expected in ((verdict, [f"1 process can't be classified{BELOW}"]), (verdict._replace(undecided=None), [])):
        look = SimpleNamespace(
            doubts=[],
            table={7: process},
            verdicts={7: kind},
            reading=GpuReading([], {}),
            carriers={},
            sort_deepest_first=list,
            target=lambda pid, kind=kind: {"what": "process", "pid": pid, "kind": kind.kind, "why": list(kind.why), "gpus": []},
        )
        plan = kill.plan({"named": None}, SimpleNamespace(scan=lambda look=look: look), print)
        assert (plan["targets"], plan["unknown"], len(plan["refused"])) == ([], expected, len(expected))


# GPU memory


def test_freed_gpu_memory_is_measured(action, orphan, gpus, state):
    process = orphan()
    nvml.hold(state, process.pid, [0, 3], 10 * GIB)
    plan = action("plan", process, gpus=gpus)
    assert plan["targets"][0]["gpus"] == [{"index": 0, "memory": 10 * GIB}, {"index": 3, "memory": 10 * GIB}]
    done = action("do", targets=plan["targets"], gpus=gpus)
    assert done["freed"] == {"gpu": 20 * GIB}
    assert done["notes"] == []


@pytest.fixture
def stubborn(orphan, state):
    """An orphan with memory of GPU 2 that ignores SIGTERM."""
    process = orphan(sys.executable, "-c", STUBBORN)
    process.stdout.readline()
    nvml.hold(state, process.pid, [2], 10 * GIB)
    return process


def test_gpu_memory_that_stays_without_a_holder_is_reported(start, action, stubborn, gpus, state):
    done = meanwhile(start, action, stubborn, gpus, lambda: nvml.edit(state, lambda lines: [kept(line) for line in lines]))
    assert done["done"]
    assert "GPU 2 still has 10.5 GiB in use that no process here holds" in done["notes"][0]
    assert "--gpu-reset" in done["notes"][0]


def kept(line: str) -> str:
    """The driver keeps what the process held."""
    words = line.split(" ")
    return " ".join([*words[:4], str(GIB // 2 + 10 * GIB), *words[5:]]) if line.startswith("gpu 2 ") else line


def meanwhile(start, action, process, gpus, change) -> dict:
    """The answer if this happens between SIGTERM and SIGKILL."""
    targets = action("plan", process, gpus=gpus)["targets"]
    probe = start("act", json.dumps({"act": "kill", "stage": "do", "targets": targets, "grace": 2}), **gpus)
    while "processes have ended" not in probe.line(30)["tell"]:
        pass
    change()
    return answer(probe)


def test_processes_are_ended_even_if_nvml_hangs_before(action, orphan, gpus, state):
    process = orphan()
    nvml.add(state, "hang forever nvmlInit")
    plan = action("plan", process, gpus=gpus)
    assert plan["targets"][0]["gpus"] == []
    assert [note for note in plan["notes"] if "NVML has not answered" in note], plan
    unnamed = action("plan", gpus=gpus)["unknown"]
    expected = "NVML has not answered for 3 s: the processes that hold GPU memory are unknown"
    assert expected in unnamed, "another Ray here may add a sentence"
    done = action("do", targets=plan["targets"], gpus=gpus)
    assert done["done"], done
    assert done["freed"] == {"gpu": None}


def test_freed_memory_is_unknown_if_nvml_hangs_afterwards(start, action, stubborn, gpus, state):
    done = meanwhile(start, action, stubborn, gpus, lambda: nvml.add(state, "hang forever *"))
    assert done["done"]
    assert done["freed"] == {"gpu": None}
    assert "NVML no longer answers" in done["notes"][-1]


# Evidence of a watching probe

RAYLET = """
import os, subprocess, sys, time
env = {**os.environ, "RAY_RAYLET_PID": str(os.getpid()), "RAY_JOB_ID": "02000000"}
subprocess.Popen(["ray::Trainer", "-c", sys.argv[1]], executable=os.environ["PYTHON"], env=env)
time.sleep(60)
"""
WORKER = """
import subprocess, time
print(subprocess.Popen(["sleep", "60"], env={}, start_new_session=True, stdout=-3).pid, flush=True)
time.sleep(60)
"""


def test_an_orphan_that_only_a_watching_probe_knows_is_ended_only_with_its_evidence(start, action, run):
    """In its own session, with nothing of Ray in its environment, its parents dead."""
    words = ["/ray/raylet", "-c", RAYLET, WORKER, "--raylet_socket_name=/x"]
    raylet = run(*words, executable=sys.executable, environ={"PYTHON": sys.executable})
    lonely = int(raylet.stdout.readline())
    worker = read_stat(lonely).parent
    watching = start("--interval", "0.1")
    try:
        watching.until(lambda one: any(process["pid"] == lonely and process["kind"] == "child" for process in one["processes"] or ()))
        raylet.kill()
        os.kill(worker, 9)
        sample = watching.until(lambda one: any(process["pid"] == lonely and process["kind"] == "orphan" for process in one["processes"]))
        (seen,) = (process["past"] for process in sample["processes"] if process["pid"] == lonely)
        assert (seen[0], seen[2]) == (worker, raylet.pid)
        (refused,) = action("plan", named=[[lonely, None]])["refused"]
        assert refused["kind"] == "foreign"
        past = [[lonely, read_stat(lonely).ticks, seen]]
        plan = action("plan", past=past)
        (mine,) = (target for target in plan["targets"] if target["pid"] == lonely)
        assert "was seen as a child of worker" in mine["why"][0]
        assert pids(action("do", targets=[mine])["refused"]) == [lonely]
        assert pids(action("do", targets=[mine], past=past)["done"]) == [lonely]
    finally:
        if read_stat(lonely):
            os.kill(lonely, 9)


# On the oldest Python


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_it_ends_an_orphan_on_every_python(orphan, version):
    process = orphan()
    request = {"act": "kill", "named": [[process.pid, None]], "grace": 5}
    python = python_or_skip(version)
    plan = piped(python, {**request, "stage": "plan"})
    assert pids(plan["targets"]) == [process.pid]
    done = piped(python, {**request, "stage": "do", "targets": plan["targets"]})
    assert pids(done["done"]) == [process.pid]
    process.wait(60)


def piped(python: str, request: dict) -> dict:
    program = payload.program(["--no-lifeline", "act", json.dumps(request)], acting=True)
    played = subprocess.run([python, "-"], input=program, capture_output=True, check=True)
    return json.loads(played.stdout.splitlines()[-1])
