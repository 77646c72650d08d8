"""A Ray is started on a host that is fit for it, survives its starter, and a failure is one sentence."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from cockpit.probe.actions import start
from cockpit.probe.actions.host_state import HostState
from cockpit.probe.actions.start import fitness, installation, is_of_its_owner
from cockpit.probe.actions.start.ray_start import Outcome, why_unreachable
from cockpit.probe.sample.gpus import GpuReading
from cockpit.probe.sample.network import listening_sockets
from cockpit.probe.sample.sessions import Sessions
from cockpit.sources.probes import payload
from tests.probe import process_tables
from tests.probe.actions.start_stand_in import RAYLET, SESSION, VERSIONS, own_gcs, plan_and_do, raylet, request, run_stage, stand_in
from tests.probe.waiting import until

pytestmark = pytest.mark.process


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files that the stand-in writes beside itself and its Python."""
    with tempfile.TemporaryDirectory(prefix="start") as folder:
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        path = Path(folder)
        stand_in(path / "python", f"echo '{VERSIONS}'")
        yield path
        with suppress(OSError, ValueError):
            os.kill(int((path / "pid").read_text()), signal.SIGKILL)


@pytest.fixture
def gcs() -> Iterator[str]:
    """The address of a head's GCS."""
    with own_gcs() as address:
        yield address


def test_a_worker_is_started_with_the_presets_flags_and_environment_and_no_file_of_ours_open(notes: Path, gcs: str):
    raylet(notes, gcs)
    asked = request(notes, gcs, "--num-cpus=2")
    plan = run_stage(start.plan, asked)
    (target,) = plan["targets"]
    assert (target["part"], target["live"], plan["refused"]) == ("worker", False, [])
    assert (target["facts"]["ray_version"], target["facts"]["python_version"]) == ("2.60.0", "3.11.7")
    done = run_stage(start.do, {**asked, "targets": plan["targets"]})
    assert [one["outcome"] for one in done["done"]] == [f"started: {SESSION}"], done
    assert (notes / "argv").read_text() == f"start --address={gcs} --num-cpus=2\n"
    environ = (notes / "env").read_text().splitlines()
    assert "TRAIN=yes" in environ
    assert f"PATH={notes}:{os.environ['PATH']}" in environ
    assert not [line for line in environ if line.startswith(("RAY_ADDRESS=", "RAY_JOB_ID="))]
    pid = int((notes / "pid").read_text())
    assert os.getsid(pid) != os.getsid(0)
    ours = {link(one) for one in Path("/proc/self/fd").iterdir()}
    log = f"{notes}/state/cockpit/ray-start-worker-{socket.gethostname()}-{os.geteuid()}.log"
    assert [link(Path(f"/proc/{pid}/fd/{number}")) for number in range(3)] == ["/dev/null", log, log]
    assert {link(one) for one in Path(f"/proc/{pid}/fd").iterdir()} & ours <= {"/dev/null", ""}
    assert int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[4]) == 0, "no terminal"


def link(path: Path) -> str:
    """The target of the link; empty if it is gone."""
    with suppress(OSError):
        return str(path.readlink())
    return ""


def test_the_start_goes_on_if_its_caller_is_killed_midway(notes: Path, gcs: str):
    slow = RAYLET.replace("setsid", f"touch {notes}/begun; sleep 1; setsid")
    stand_in(notes / "ray", slow.format(notes=notes, python=sys.executable, session=SESSION, gcs=gcs))
    asked = request(notes, gcs)
    plan = run_stage(start.plan, asked)
    text = json.dumps({**asked, "stage": "do", "targets": plan["targets"]})
    with subprocess.Popen([sys.executable, "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True) as probe:
        assert probe.stdin
        probe.stdin.write(payload.program(["--no-lifeline", "act", text], acting=True))
        probe.stdin.close()
        until((notes / "begun").exists)
        os.killpg(probe.pid, signal.SIGKILL)
    done = run_stage(start.do, {**asked, "targets": plan["targets"]})
    assert [one["outcome"] for one in done["done"]] == [f"already runs: {SESSION}"], "the next start waits for it"
    assert Path(f"/proc/{int((notes / 'pid').read_text())}").exists()


def test_two_simultaneous_starts_start_one_ray(notes: Path, gcs: str):
    slow = RAYLET.replace("setsid", "sleep 1; setsid").replace(">{notes}/argv", ">>{notes}/argv")
    stand_in(notes / "ray", slow.format(notes=notes, python=sys.executable, session=SESSION, gcs=gcs))
    asked = request(notes, gcs)
    asked["targets"] = run_stage(start.plan, asked)["targets"]
    with ThreadPoolExecutor() as pool:
        done = [*pool.map(lambda _: run_stage(start.do, asked)["done"][0]["outcome"], range(2))]
    assert sorted(done) == [f"already runs: {SESSION}", f"started: {SESSION}"]
    assert len((notes / "argv").read_text().splitlines()) == 1


def test_a_failed_start_reports_its_remaining_processes(notes: Path, gcs: str):
    raylet(notes, gcs)
    stand_in(notes / "ray", (notes / "ray").read_text() + "exit 1")
    (failed,) = plan_and_do(request(notes, gcs))["failed"]
    assert (failed["live"], failed["session"]) == (True, SESSION)


def test_a_ray_that_runs_already_is_not_started_twice(notes: Path, gcs: str):
    raylet(notes, gcs)
    asked = request(notes, gcs)
    plan = run_stage(start.plan, asked)
    run_stage(start.do, {**asked, "targets": plan["targets"]})
    (notes / "argv").unlink()
    again = run_stage(start.plan, asked)
    assert [(one["live"], one["session"]) for one in again["targets"]] == [(True, SESSION)]
    done = run_stage(start.do, {**asked, "targets": plan["targets"]})
    assert [one["outcome"] for one in done["done"]] == [f"already runs: {SESSION}"]
    assert not (notes / "argv").exists()
    other = run_stage(start.do, {**asked, "session": "session_2026-11-21_08-00-00_000000_1", "targets": plan["targets"]})
    assert f"a raylet of {SESSION} still runs here, but the head's session is" in other["refused"][0]["reason"]


def test_a_head_without_a_part_is_refused(notes: Path, gcs: str):
    raylet(notes, gcs)
    worker = request(notes, gcs)
    plan_and_do(worker)
    head = run_stage(start.plan, request(notes, None, f"--port={gcs.rpartition(':')[2]}", role="head"))
    assert [one["reason"] for one in head["refused"]] == ["only a part of that Ray runs here: raylet, without gcs_server"]


def test_a_start_whose_command_has_changed_is_refused(notes: Path, gcs: str):
    raylet(notes, gcs)
    plan = run_stage(start.plan, request(notes, gcs, "--num-cpus=2"))
    done = run_stage(start.do, {**request(notes, gcs, "--num-cpus=64"), "targets": plan["targets"]})
    assert "its command has changed since the plan was made" in done["refused"][0]["reason"]
    assert not (notes / "argv").exists()


def test_a_taken_port_is_reported_with_its_holder(notes: Path, gcs: str):
    stand_in(notes / "ray", "exit 1")
    port = gcs.rpartition(":")[2]
    answer = run_stage(start.plan, request(notes, None, f"--port={port}", role="head"))
    assert answer["targets"] == []
    assert (
        f"port {port} (port) is taken by {Path('/proc/self/comm').read_text().strip()} {os.getpid()} of " in answer["refused"][0]["reason"]
    )
    assert run_stage(start.plan, request(notes, None, f"--port={port}", role="head", survey=True))["refused"] == []


def test_a_head_without_its_agents_port_runs_but_gets_no_job(notes: Path, gcs: str, monkeypatch: pytest.MonkeyPatch):
    stand_in(notes / "ray", "exit 1")
    monkeypatch.setattr("cockpit.probe.actions.start.fitness.AGENT", {"--dashboard-agent-listen-port": int(gcs.rpartition(":")[2])})
    head = request(notes, None, f"--port={free_port()}", role="head")
    reason = run_stage(start.plan, {**head, "job": True})["refused"][0]["reason"]
    assert "(dashboard_agent_listen_port) is taken by" in reason
    assert reason.endswith(": no job could be submitted to this node")
    without = run_stage(start.plan, head)
    assert (len(without["targets"]), any("dashboard_agent_listen_port" in note for note in without["notes"])) == (1, True)
    assert run_stage(start.plan, request(notes, gcs, job=True))["refused"] == []


def test_more_gpus_than_cuda_visible_devices_lists_are_refused(notes: Path, gcs: str):
    stand_in(notes / "ray", "exit 1")
    answer = run_stage(start.plan, request(notes, gcs, "--num-gpus=8", env={"CUDA_VISIBLE_DEVICES": "0,1"}))
    assert "num_gpus is 8, but CUDA_VISIBLE_DEVICES lists 2" in answer["refused"][0]["reason"]


@pytest.mark.parametrize(
    ("cgroup", "step"),
    [
        ("0::/system.slice/slurmstepd.scope/job_42/step_3/user/task_0\n", "3"),
        ("9:devices:/slurm/uid_1000/job_42/step_17/task_0\n1:name=systemd:/system.slice/slurmd.service\n", "17"),
        ("0::/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0\n", None),
        ("9:devices:/slurm/uid_1000/job_42/step_extern/task_0\n", None),
        ("0::/user.slice/user-0.slice/session-3.scope\n", None),
    ],
)
def test_nothing_is_started_in_a_slurm_step_that_would_end_ray(monkeypatch: pytest.MonkeyPatch, cgroup: str, step: str | None):
    monkeypatch.setattr(fitness, "read_or_nothing", lambda _: cgroup)
    fit = fitness.Fitness([], [], {})
    fitness._judge_slurm_step(fit)
    against = fit.against
    assert len(against) == (step is not None)
    for text in against:
        assert text.startswith(f"cockpit is in step {step} of Slurm job 42: when that step ends, Slurm kills everything started in it; ")
        assert "srun --overlap --jobid=42 --nodes=1 --ntasks=1 -w " in text


def test_a_python_without_ray_is_an_error(notes: Path, gcs: str):
    assert run_stage(start.plan, request(notes, gcs))["error"] == f"{notes}/ray does not exist or can't be run"


def test_a_ray_without_its_python_is_an_error_before_anything_is_started(notes: Path, gcs: str):
    stand_in(notes / "ray", "exit 1")
    (notes / "ray").write_text(f"#!{notes}/moved/python\nimport ray\n")
    error = run_stage(start.plan, request(notes, gcs))["error"]
    assert error.startswith(f"{notes}/ray can't be run here: its interpreter {notes}/moved/python is missing, or not accessible to ")


def test_by_default_it_is_the_ray_on_the_path_else_at_the_heads_path(notes: Path, gcs: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(installation, "_find_in_sessions", lambda *_: None)
    monkeypatch.setattr(installation, "_find_in_old_logs", lambda _: None)
    me = pwd.getpwuid(os.geteuid())
    monkeypatch.setattr(installation, "_entry", lambda _: pwd.struct_passwd((*me[:6], "/bin/false")))  # no real login shell
    raylet(notes, gcs)
    monkeypatch.setenv("PATH", f"{notes}:/usr/bin:/bin")
    found = run_stage(start.plan, request(notes, gcs, python=None))["targets"][0]["facts"]
    assert (found["ray"], found["how"]) == (f"{notes}/ray", "on the PATH")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert (
        "no `ray` command is on the PATH, nor on that of a login shell" in run_stage(start.plan, request(notes, gcs, python=None))["error"]
    )
    found = run_stage(start.plan, request(notes, gcs, python=None, likely=f"{notes}/ray"))["targets"][0]["facts"]
    assert (found["ray"], found["how"]) == (f"{notes}/ray", "at the same path as on the head")


def test_an_unreachable_head_is_reported_before_ray_waits_for_minutes(notes: Path, gcs: str):
    raylet(notes, gcs)
    nowhere = f"{gcs.rpartition(':')[0]}:{free_port()}"
    asked = request(notes, nowhere)
    done = plan_and_do(asked)
    assert done["failed"][0]["error"] == f"the head's GCS at {nowhere} can't be reached from here: connection refused"
    assert why_unreachable(gcs) is None


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("", 0))
        port: int = server.getsockname()[1]
        return port


def test_listening_ports_are_seen(gcs: str):
    assert int(gcs.rpartition(":")[2]) in {one.port for one in listening_sockets()}
    with socket.socket() as closed:
        closed.bind(("", 0))
        assert closed.getsockname()[1] not in {one.port for one in listening_sockets()}


def test_a_failure_is_a_sentence_with_the_relevant_lines(notes: Path, gcs: str):
    stand_in(notes / "ray", f"echo Local node IP: 1.2.3.4; echo '{WRONG_TOKEN}'; exit 1")
    asked = request(notes, gcs)
    done = plan_and_do(asked)
    error = done["failed"][0]["error"]
    assert error.startswith("the cluster requires a token: none was given, or a wrong one: `ray start` ended with exit code 1: ")
    assert "Local node" not in error
    assert f"{notes}/state/cockpit/ray-start-worker-{socket.gethostname()}-{os.geteuid()}.log" in error


def test_hosts_that_share_a_home_have_a_log_each(notes: Path, gcs: str, monkeypatch: pytest.MonkeyPatch):
    asked = request(notes, gcs)
    for host in ("w1", "w2"):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: host)
        stand_in(notes / "ray", f"echo it fails on {host}; exit 1")
        done = plan_and_do(asked)
        assert f": it fails on {host} (full output: " in done["failed"][0]["error"]
    logs = {log.name: log.read_text() for log in (notes / "state" / "cockpit").iterdir()}
    assert logs == {f"ray-start-worker-{host}-{os.geteuid()}.log": f"it fails on {host}\n" for host in ("w1", "w2")}


WRONG_TOKEN = "ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: Authentication token is missing or incorrect."


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("ConnectionError: Ray is trying to start at 10.0.0.1:6379, but is already running at 10.0.0.1:6379.", "a Ray already runs"),
        (WRONG_TOKEN, "the cluster requires a token"),
        (
            "  File utils.py\nRuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.44.1\n    Python: 3.11.7",
            "Ray or Python here has another version",
        ),
        ("ValueError: Attempting to start raylet with 8 GPU, but CUDA_VISIBLE_DEVICES contains ['0', '1'].", "num_gpus is more than"),
        ("OSError: [Errno 24] Too many open files", "the open-file limit"),
        ("OSError: [Errno 28] No space left on device: '/tmp/ray'", "a disk is full"),
        ("PermissionError: [Errno 13] Permission denied: '/tmp/ray/ray_current_cluster'", "a file of another user"),
        ("Usage: ray start [OPTIONS]\nError: No such option: --nonsense", "this Ray version does not know one of the flags"),
        ("rpc_client.h:153: Failed to connect to GCS at address 10.99.3.1:6379 within 5 seconds.", "the head's GCS does not answer"),
        (
            "RuntimeError: Session name a does not match persisted value b. Perhaps there was an error connecting to Redis.",
            "the head's session",
        ),
        ("RuntimeError: Failed to start GCS.  Last 2 lines of error files:disk.", "the GCS did not start"),
        ("Exception: The current node timed out during startup. This could happen because", "a part of Ray has not come up in time"),
        ("grpc_server.cc: Failed to bind: Address already in use", "a port is taken"),
    ],
)
def test_causes_are_found_in_rays_output(text: str, cause: str):
    sentence = Outcome(1, text, "/log").sentence
    assert sentence.startswith(cause)
    assert text.splitlines()[-1].strip()[:100] in sentence


@pytest.mark.parametrize(("owner", "user", "counts"), [(7, 7, True), (7, 666, False), (666, 7, False), (7, 0, True)])
def test_a_raylet_counts_for_its_session_only_as_its_owner_or_root(owner, user, counts):
    one = process_tables.raylet(uid=user)
    look = HostState(
        process_tables.table(one), {}, GpuReading(), Sessions(of={100: process_tables.folder(process_tables.SESSION, 100, uid=owner)})
    )
    assert is_of_its_owner(look, one) is counts


@pytest.mark.parametrize(
    ("words", "env", "reasons"),
    [
        (
            [f"--temp-dir=/tmp/{'t' * 60}"],
            {},
            (
                "the path of Ray's socket plasma_store in /tmp/ttt",
                "but at most 107 are possible: `ray start` would fail; use a temp dir of at most 36 bytes",
            ),
        ),
        ([], {"RAY_TMPDIR": f"/tmp/{'t' * 60}"}, (f"in /tmp/{'t' * 60}/ray (69 bytes)",)),
        ([f"--temp-dir=/{'t' * 43}"], {}, ("the dashboard of Ray 2.50 and later would end at its start",)),
    ],
    ids=["its flag", "its environment", "its dashboard"],
)
def test_a_temp_dir_that_is_too_long_for_rays_sockets_is_refused_while_another_ray_still_runs(notes: Path, words, env, reasons):
    raylet(notes, "127.0.0.1:6379")
    asked = request(notes, None, *words, "--node-ip-address=127.0.0.1", role="head", survey=True, env=env)
    (refused,) = run_stage(start.plan, asked)["refused"]
    assert [reason for reason in reasons if reason not in refused["reason"]] == []
    allowed = run_stage(start.plan, {**asked, "words": [*asked["words"], "--include-dashboard=false"]})["targets"]
    assert bool(allowed) == ("dashboard" in refused["reason"])


def test_a_worker_knows_the_length_of_its_heads_session(notes: Path, gcs: str):
    raylet(notes, gcs)
    asked = request(notes, gcs, f"--temp-dir=/{'t' * 43}", session="session_2026-11-27_21-34-42_343683_4194303")
    (refused,) = run_stage(start.plan, asked)["refused"]
    assert "108 bytes with a pid of 7 digits" in refused["reason"]
    (allowed,) = run_stage(start.plan, {**asked, "session": "session_2026-11-27_21-34-42_343683_18"})["targets"]
    assert "temp_dir_doubt" not in allowed["facts"]


@pytest.mark.parametrize(
    ("gib", "total", "environ", "against", "doubts"),
    [
        (64, 32, {}, 1, 0),
        (64, 128, {}, 0, 1),
        (64, 32, {"RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1"}, 0, 1),
        (8, 4, {}, 0, 1),
        (1, 32, {}, 0, 0),
    ],
)
def test_an_object_store_for_which_ray_start_would_fail_is_refused_and_one_that_is_slow_is_not(
    monkeypatch, gib, total, environ, against, doubts
):
    """What another Ray holds in /dev/shm is free once that is stopped, so only its whole size is certain."""
    monkeypatch.setattr(fitness, "free_space", lambda _: (2 * fitness.GIB, total * fitness.GIB))
    fit = fitness.Fitness([], [], {})
    fitness._judge_shared_memory(fit, [f"--object-store-memory={gib * fitness.GIB}"], environ)
    assert (len(fit.against), len(fit.doubts)) == (against, doubts)
    assert all("`ray start` would fail" in text for text in fit.against)
