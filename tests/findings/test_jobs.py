"""Jobs that don't start are reported with the reason their supervisor waits, failed jobs with the important line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.findings.jobs import error_lines, failed_jobs, pending_jobs
from cockpit.model import SUPERVISOR, Fault, Job
from cockpit.sources.lenient_json import decode
from cockpit.sources.ray import actors, wire
from tests.findings.detection import after_silence, detect, only
from tests.world import NOW, actor, snapshot

RECORDED = Path(__file__).parents[1] / "recorded" / "2.60" / "jobs.json"
ALONE = (pending_jobs, failed_jobs)
TRACE = """Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):
Traceback (most recent call last):
  File "train.py", line 7, in <module>
    raise RuntimeError("boom")
RuntimeError: boom
"""


def submitted(name="ppo", status="FAILED", **more):
    facts = {"entrypoint": "python train.py", "started": NOW - 900, "ended": None if status in ("PENDING", "RUNNING") else NOW - 600}
    return Job(name, submission=name, status=status, **{**facts, **more})


def seen(*jobs, actors=(), **more):
    """The findings of one sample."""
    return detect(snapshot(jobs=jobs, actors=actors, **more), 0, detectors=ALONE)


def pending(seconds, message="Job has not started yet.", **more):
    return submitted("ppo", "PENDING", started=NOW - seconds, message=message, **more)


def supervisor(**more):
    return actor(1, internal=True, name=f"{SUPERVISOR}ppo", state="PENDING_CREATION", **more)


def recorded_jobs():
    return {made.id: made for entry in decode(RECORDED.read_bytes(), tuple[wire.Job, ...]) if (made := actors.parse_job(entry))}


@pytest.mark.parametrize(("seconds", "level"), [(9, None), (11, "info"), (299, "info"), (301, "warning"), (3600, "warning")])
def test_a_pending_job_is_an_info_and_later_a_warning(seconds, level):
    assert [found.level for found in seen(pending(seconds))] == [level] * (level is not None)


def test_a_pending_job_has_its_supervisors_reason():
    why = "never fits on these nodes: needs 99 GPUs on one node; node1 has 8"
    found = only(seen(pending(60), actors=(supervisor(why=why, wait="never"),)), "job-pending")
    assert found.text == f"Job ppo has not started: {why}"
    assert (found.level, found.subject, found.since) == ("critical", "job ppo", NOW - 60)
    assert found.evidence == (
        "`ray job status ppo` reports PENDING: Job has not started yet.",
        "its supervisor is PENDING_CREATION",
    )


@pytest.mark.parametrize(
    ("wait", "begins"),
    [
        ("never", "submit it again with less for its entrypoint"),
        ("held", "wait until the resources for its entrypoint are free"),
        ("short", "wait until the resources for its entrypoint are free"),
        ("starting", "read runtime_env_setup-"),
        (None, "read runtime_env_setup-"),
    ],
)
def test_no_action_is_offered_for_a_job_that_has_not_started(wait, begins):
    (found,) = seen(pending(400), actors=(supervisor(why="why", wait=wait),))
    assert found.remedy.text.startswith(begins)
    assert "`ray job stop` has no effect before it has started" in found.remedy.text
    assert found.remedy.text.endswith('ray.kill(ray.get_actor("_ray_internal_job_actor_ppo", "SUPERVISOR_ACTOR_RAY_NAMESPACE"))')
    assert found.remedy.action is None


def test_without_a_supervisor_rays_words_are_shown_and_unknown_actors_say_nothing():
    (bare,) = seen(pending(60))
    assert (bare.text, bare.evidence[1]) == ("Job ppo has not started: Ray gives no reason", "Ray lists no supervisor for it")
    (finding,) = seen(pending(60, "Job has not started yet. It may be waiting for resources."))
    assert finding.text == "Job ppo has not started: It may be waiting for resources."
    (unknown,) = seen(pending(60), actors=None, actors_complete=None)
    assert unknown.evidence == ("`ray job status ppo` reports PENDING: Job has not started yet.",)


def test_rays_ten_lines_about_lacking_memory_become_one():
    users = "336\t0.04\tray::RuntimeEnvAgent\n13\t0.03\tgcs_server --log_dir=/tmp/ray/ses...\n"
    advice = "Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/. Consider more memory.\n"
    head = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
    assert error_lines(head + users + advice) == ("Ray's memory monitor killed one of its workers because the node was low on memory",)
    assert error_lines(head + users + advice + "RuntimeError: boom") == ("RuntimeError: boom",)


def test_failed_jobs_have_their_end_and_exception_the_newest_first():
    found = only(seen(submitted(message=TRACE, error_type="JOB_ENTRYPOINT_COMMAND_ERROR", exit_code=1)), "job-failed")
    assert found.text == "Job ppo failed: RuntimeError: boom (exit code 1)"
    assert found.evidence == ("RuntimeError: boom", "`ray job logs ppo` shows the whole log")
    assert (found.level, found.since, found.remedy.action) == ("warning", NOW - 600, None)
    assert seen(submitted(exit_code=-9))[0].text == "Job ppo failed (killed by signal 9); Ray gives no reason"
    assert seen(submitted())[0].text == "Job ppo failed; Ray gives no reason"
    jobs = [
        submitted(f"job{number}", entrypoint=f"python {number}.py", ended=NOW - 600 + number, message="ValueError: x")
        for number in range(3)
    ]
    reported = seen(*jobs)
    assert [one.subject for one in reported if one.code == "job-failed"] == ["job job2", "job job1", "job job0"]


MISMATCH = """RuntimeError: Version mismatch: The cluster was started with:
    Ray: 2.60.0
    Python: 3.11.7
This process on 10.0.0.2:0 was started with:
    Ray: 2.60.0
    Python: 3.11.2
"""


def test_an_exception_of_several_lines_is_complete():
    (reported,) = error_lines(f"Traceback (most recent call last):\n  File x\n{MISMATCH}")
    assert reported == " ".join(MISMATCH.split())


NCCL = (
    "(Critic pid=12) [rank3]:[E1121 10:00:01 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600051 milliseconds before timing out."
)
FREE = (
    "ValueError: Free memory on device (11.2/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). "
    "Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
REGISTER = (
    "core_worker.cc:496: Failed to register worker to Raylet: IOError: [RayletClient] Unable to register worker with raylet. "
    "Failed to read data from the socket: End of file"
)


@pytest.mark.parametrize(
    ("message", "says", "helps", "action"),
    [
        (f"{NCCL}\n{TRACE}", "[rank3]:[E1121", "one rank did not reach the collective", None),
        (f"{NCCL}\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "torch.Out", "smaller micro batches", None),
        (FREE, "ValueError: Free memory on device", "another process uses memory of that GPU", "kill-orphans"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "RuntimeError: CUDA", "the GPU failed", None),
        (
            f"{NCCL}\nray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "ray.exceptions.OutOfMemoryError",
            "Ray killed it because its node ran out of host memory",
            None,
        ),
        (
            "Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: Task was killed",
            "Worker exit type: NODE_OUT_OF_MEMORY",
            "run fewer workers there at once",
            None,
        ),
        (
            "slurmstepd: error: Detected 2 oom_kill events in StepId=42.1. Some of the step tasks have been OOM Killed.",
            "slurmstepd: error: Detected 2",
            "`--mem=0` for all of a node",
            None,
        ),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in step 42.0 cgroup.",
            "slurmstepd: error: Detected 1",
            "the job reached its Slurm memory limit",
            None,
        ),
        ("ValueError: Total available GPUs 7.0 is less than total desired GPUs 8", "ValueError: Total", "nodes x GPUs of each model", None),
        ("ValueError: placement group bundle index 6 is invalid. Valid: 0-4", "ValueError: placement", "must have its size", None),
        (MISMATCH, "RuntimeError: Version mismatch", "Python down to the patch version", None),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "OSError: [Errno 28]", "a disk is full", "clean"),
        (f"{REGISTER}\nbye", "core_worker.cc:496", "ray_init.num_cpus", None),
        ("RuntimeError: can't start new thread", "RuntimeError: can't", "`ulimit -u`", None),
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 9 of 64: Resource temporarily unavailable", "Open", "pids.max", None),
        ("libgomp: Thread creation failed: Resource temporarily unavailable", "libgomp: ", "OMP_NUM_THREADS", None),
        ("OSError: [Errno 98] Address already in use", "OSError: [Errno 98]", "`ss -ltnp` there shows the process", None),
        ("DistNetworkError: bind to [::]:29500 (errno: 98 - Address already in use).", "DistNetworkError: bind", "MASTER_PORT", None),
        ("RuntimeError: No available agent to submit job, please try again later.", "RuntimeError: No", "dashboard_agent.log", None),
    ],
)
def test_common_failures_of_training_have_a_remedy(message, says, helps, action):
    found = only(seen(submitted(message=message)), "job-failed")
    assert found.text.startswith(f"Job ppo failed: {says}")
    assert helps in found.remedy.text
    assert found.remedy.action == action


@pytest.mark.parametrize(
    "message",
    ["BlockingIOError: [Errno 11] Resource temporarily unavailable", "ValueError: exit code 98", "INFO address: in use by rank 3"],
)
def test_similar_messages_have_no_such_cause(message):
    found = only(seen(submitted(message=message)), "job-failed")
    assert found.remedy.text == "fix the error that its log shows, and start it again: that clears this finding"


def test_successful_stopped_and_old_jobs_are_not_reported():
    long_ago = submitted(ended=NOW - 5 * 3600)
    assert seen(submitted("a", "SUCCEEDED"), submitted("b", "STOPPED", entrypoint="x"), long_ago, submitted(ended=None)) == ()
    assert detect(snapshot(jobs=None), 0, detectors=ALONE) == ()


def test_a_running_relaunch_ends_it_and_a_failed_one_replaces_it():
    first, later = submitted("first"), {"started": NOW - 300, "ended": NOW - 100}
    assert seen(first, submitted("second", "RUNNING", started=NOW - 300)) == ()
    assert seen(first, submitted("second", "SUCCEEDED", **later)) == ()
    assert [each.subject for each in seen(first, submitted("second", **later))] == ["job second"]
    assert [each.subject for each in seen(first, submitted("second", "PENDING", started=NOW - 5))] == ["job first"]
    assert [each.subject for each in seen(first, submitted("older", "SUCCEEDED", started=NOW - 5000))] == ["job first"]
    assert [each.subject for each in seen(first, submitted("other", "RUNNING", started=NOW - 5, entrypoint="x"))] == ["job first"]


def test_the_important_line_of_recorded_failures_is_found():
    jobs = recorded_jobs()
    assert error_lines(jobs["fail-1"].message) == ("entrypoint failing on purpose",)
    assert error_lines(jobs["zoo-1"].message)[-1].startswith("ValueError: Cannot schedule GpuHolder with the placement group")
    assert error_lines(jobs["badrenv"].message)[-1] == "ValueError: Could not find Conda executable at conda."
    assert error_lines(jobs["raysubmit_kLxceEXRbxc3AQU2"].message)[-1].startswith("ValueError: /home/user/jobs is not a valid URI.")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("torch.cuda.OutOfMemoryError: CUDA out of memory.\nexit", "torch.cuda.OutOfMemoryError: CUDA out of memory."),
        ("\x1b[36m(Critic pid=12, ip=10.0.0.2)\x1b[0m ValueError: bad\n(raylet) gone", "ValueError: bad"),
        ("ray.exceptions.RayTaskError(KeyError): ray::f()\nKeyError: 'x'", "KeyError: 'x'"),
        ("  KeyError: not at the margin\nsh: 1: train: not found", "sh: 1: train: not found"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("bash: line 1: 77 Killed  python train.py", "bash: line 1: 77 Killed python train.py"),
    ],
)
def test_the_last_exception_counts_most_and_otherwise_the_last_line(message, line):
    assert error_lines(message)[-1] == line


def test_empty_messages_give_nothing_and_hostile_ones_are_short_clean_and_quick():
    assert error_lines(None) == error_lines("") == error_lines(" \n\t\n") == ()
    assert error_lines("\x1b]0;evil\x07" * 3000 + "\u202eX")[-1].isprintable()
    assert len(error_lines("A" * 21_000)[-1]) <= 300
    assert error_lines("a." * 10_000 + "\n" + "(" * 10_000 + "\n" + "A" * 10_000 + "Error")
    odd = submitted("x\x1b[31m" * 40, started=float("nan"), ended=NOW + 1e12, exit_code=1 << 80, message="\x00", entrypoint=None)
    assert seen(odd) == ()


def test_old_facts_are_dated():
    known = snapshot(jobs=(pending(100),), actors=(), as_of={"ray.jobs": NOW})
    (found,) = after_silence(known, 500, detectors=ALONE, faults=(Fault("ray.jobs", "silent", NOW + 5),))
    assert (found.level, found.seen) == ("info", NOW)
