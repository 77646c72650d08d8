"""A Ray in a Slurm job starts in a step of its own: the arguments and environment of `srun`, and the processes after its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cockpit.probe.actions import start
from cockpit.probe.actions.start.ray_start import Outcome
from cockpit.probe.actions.start.slurm_step import SlurmStep, find_step
from cockpit.sources.probes import payload
from tests.probe.actions.start_stand_in import RAYLET, SESSION, VERSIONS, own_gcs, plan_and_do, raylet, request, run_stage, stand_in
from tests.probe.waiting import until

pytestmark = pytest.mark.process

SRUN = """
echo "$@" >{notes}/srun_argv; env >{notes}/srun_env; echo $$ >{notes}/srun_pid
while [ "$1" != --quiet ]; do shift; done
shift
[ -z "$SLURM_MEM_PER_NODE" ] || exit 9
(for fd in $(ls /proc/$BASHPID/fd); do [ $fd -le 2 ] || eval "exec $fd>&-"; done
exec env SLURM_STEP_ID=7 CUDA_VISIBLE_DEVICES=0,1 setsid "$@") <&0 &
wait $!
code=$?
[ $code = 0 ] || echo "srun: error: w1: task 0: Exited with exit code $code" >&2
exit $code
"""
"""A stand-in for Slurm: the step has a session of its own and no file of `srun` open, because it is no child of `srun`."""


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files that the stand-ins write beside themselves."""
    with tempfile.TemporaryDirectory(prefix="step") as folder:
        path = Path(folder)
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setenv("SLURM_JOB_ID", "42")
        monkeypatch.setenv("SLURMD_NODENAME", "gpu007")
        monkeypatch.setenv("SLURM_MEM_PER_NODE", "10")
        monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
        stand_in(path / "python", f"echo '{VERSIONS}'")
        stand_in(path / "srun", SRUN.replace("{notes}", folder))
        yield path
        with suppress(OSError, ValueError):
            os.kill(int((path / "pid").read_text()), signal.SIGKILL)


@pytest.fixture
def gcs() -> Iterator[str]:
    with own_gcs() as address:
        yield address


def is_there(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_ray_runs_in_a_step_that_needs_no_srun_and_ends_with_it(notes: Path, gcs: str):
    raylet(notes, gcs)
    asked = request(notes, gcs, "--num-cpus=2", env={"TRAIN_API_KEY": "sk-5e5e", "CUDA_VISIBLE_DEVICES": "3"})
    plan = run_stage(start.plan, asked)
    assert "in its own step of Slurm job 42: the step ends with Ray, by scancel, or with the job" in plan["targets"][0]["why"]
    done = run_stage(start.do, {**asked, "targets": plan["targets"]})
    assert [one["outcome"] for one in done["done"]] == [f"started: {SESSION}"], done
    pid = int((notes / "pid").read_text())
    assert not is_there(int((notes / "srun_pid").read_text()))
    assert is_there(pid)
    step = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert "import ctypes" in Path(f"/proc/{step}/cmdline").read_text(), "what Ray leaves behind is its own"
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_there(step))


def test_the_next_start_waits_for_one_whose_cockpit_ended_with_its_step(notes: Path, gcs: str):
    slow = RAYLET.replace("setsid", f"touch {notes}/begun; sleep 1; setsid").replace(">{notes}/argv", ">>{notes}/argv")
    stand_in(notes / "ray", slow.format(notes=notes, python=sys.executable, session=SESSION, gcs=gcs))
    asked = request(notes, gcs)
    asked["targets"] = run_stage(start.plan, asked)["targets"]
    text = json.dumps({**asked, "stage": "do"})
    with subprocess.Popen([sys.executable, "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True) as probe:
        assert probe.stdin
        probe.stdin.write(payload.program(["--no-lifeline", "act", text], acting=True))
        probe.stdin.close()
        until((notes / "begun").exists)
        os.killpg(probe.pid, signal.SIGKILL)
        os.killpg(int((notes / "srun_pid").read_text()), signal.SIGKILL)
    done = run_stage(start.do, asked)
    assert [one["outcome"] for one in done["done"]] == [f"already runs: {SESSION}"]
    assert len((notes / "argv").read_text().splitlines()) == 1


def test_the_preset_overrides_slurms_variables_and_srun_gets_no_variable_of_it(notes: Path, gcs: str):
    raylet(notes, gcs)
    asked = request(notes, gcs, env={"TRAIN_API_KEY": "sk-5e5e", "CUDA_VISIBLE_DEVICES": "3"})
    plan_and_do(asked)
    environ = (notes / "env").read_text().splitlines()
    assert {"TRAIN_API_KEY=sk-5e5e", "CUDA_VISIBLE_DEVICES=3", "SLURM_STEP_ID=7"} <= {*environ}
    arguments = (notes / "srun_argv").read_text()
    assert arguments.startswith("--jobid=42 --overlap --nodes=1 --ntasks=1 --nodelist=gpu007 ")
    assert "sk-5e5e" not in arguments + (notes / "srun_env").read_text()


def test_the_named_job_counts_not_the_job_of_cockpit(notes: Path, gcs: str):
    raylet(notes, gcs)
    answer = plan_and_do(request(notes, gcs, slurm="43"))
    assert answer["done"], answer
    assert (notes / "srun_argv").read_text().startswith("--jobid=43 ")


def test_the_error_of_ray_in_a_step_is_reported_and_that_of_slurm_if_no_step_starts(notes: Path, gcs: str):
    stand_in(notes / "ray", "echo 'ValueError: no such thing'; exit 3")
    (failed,) = plan_and_do(request(notes, gcs))["failed"]
    assert failed["error"].startswith("`ray start` ended with exit code 3: ValueError: no such thing (full output: ")
    stand_in(notes / "srun", "echo 'srun: error: Unable to create step for job 42: Invalid job id specified' >&2; exit 1")
    (failed,) = plan_and_do(request(notes, gcs))["failed"]
    expected = "Slurm has started no step for it: `ray start` ended with exit code 1: srun: error: Unable to create step"
    assert failed["error"].startswith(expected)


def test_what_slurm_adds_to_a_failure_is_not_its_cause():
    noise = "srun: cluster configuration lacks support for cpu binding"
    outcome = Outcome(1, f"{noise}\nno luck\nsrun: error: w1: task 0: Exited with exit code 1", "/l")
    assert outcome.sentence == "`ray start` ended with exit code 1: no luck (full output: /l)"


def test_without_slurms_variables_or_without_srun_there_is_no_step(notes: Path):
    here = {"PATH": str(notes), "SLURM_JOB_ID": "42", "SLURMD_NODENAME": "gpu007"}
    assert find_step({}, here) == SlurmStep(f"{notes}/srun", "42", "gpu007")
    assert find_step({}, {**here, "SLURM_JOB_ID": ""}) is None
    assert find_step({"slurm": "42"}, {"PATH": str(notes)}) is None, "this host may be reached otherwise"
    assert find_step({}, {**here, "PATH": "/nowhere"}) is None
