"""Jobs that don't start are reported with the reason their supervisor waits, failed jobs with the important line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from cockpit.findings.jobs import failed_jobs, pending_jobs
from cockpit.model import SUPERVISOR, Failure, Fault, Job, OomKill
from cockpit.sources.lenient_json import decode
from cockpit.sources.ray import actors, wire
from tests.findings.detection import after_silence, detect, only
from tests.world import GIB, NOW, actor, node, snapshot

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


def told(message, exit_code=1, *failures, **more):
    """The finding about one failed job with this message."""
    job = submitted(message=message, exit_code=exit_code)
    return only(seen(job, failures=tuple(failures), **more), "job-failed")


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
    assert "Ray's memory monitor killed one of its workers because the node was low on memory" in told(head + users + advice).text
    assert told(head + users + advice + "RuntimeError: boom").text.startswith("RuntimeError: boom;")


def test_a_failed_job_is_told_with_what_was_raised_first_and_the_newest_job_first():
    found = told(TRACE)
    assert found.text == "RuntimeError: boom; job ppo failed (exit code 1)"
    assert found.evidence == ("RuntimeError: boom", "raised at train.py:7 in <module>", "`ray job logs ppo` shows the whole log")
    assert found.remedy.text == "read its log (`l`) around the line of train.py:7 in <module>; starting the job again clears this finding"
    assert (found.level, found.since, found.remedy.action) == ("warning", NOW - 600, None)
    assert told("", None).text == "Job ppo failed"
    jobs = [
        submitted(f"job{number}", entrypoint=f"python {number}.py", ended=NOW - 600 + number, message=f"{'xyz'[number]}Error: x")
        for number in range(3)
    ]
    assert [one.subject for one in seen(*jobs)] == ["job job2", "job job1", "job job0"]


def test_jobs_that_failed_for_the_same_reason_are_one_finding():
    jobs = [
        submitted(
            f"job{number}", entrypoint=f"python {number}.py", ended=NOW - 600 + number, exit_code=1, message=f"ValueError: part {number}"
        )
        for number in range(4)
    ]
    (found,) = seen(*jobs)
    assert found.text == "ValueError: part 3; job job3 and 3 other jobs failed (exit code 1)"
    assert found.about == tuple(f"job:job{number}" for number in (3, 2, 1, 0))
    assert found.evidence[1:3] == ("job job2 failed for the same reason", "job job1 failed for the same reason")


def test_jobs_without_a_known_reason_are_not_put_together():
    assert len(seen(submitted("a", entrypoint="a"), submitted("b", entrypoint="b"))) == 2


def read(**more):
    """What the log of the failed job shows."""
    return Failure("job:ppo", NOW - 600, **{"file": "job-driver-ppo.log", **more})


def test_the_log_says_more_than_the_message_and_where_it_was_raised():
    found = told(
        TRACE, 1, read(text="KeyError: 'x'", raised_at="data.py:3 in load", also=2, others="ValueError: y", others_count=1, earlier_s=4)
    )
    assert found.text == "KeyError: 'x'; job ppo failed (exit code 1)"
    assert found.evidence == (
        "KeyError: 'x'",
        "raised at data.py:3 in load",
        "2 other processes report the same error",
        "1 other process reports 4 s later: ValueError: y",
        "`ray job logs ppo` shows the whole log",
    )


def test_an_earlier_failure_of_the_same_job_is_not_taken_for_this_one():
    assert told(TRACE, 1, Failure("job:ppo", NOW - 700, text="KeyError: 'x'")).text.startswith("RuntimeError: boom;")


def test_a_log_without_an_error_and_one_that_could_not_be_read_are_said():
    assert told("", 1, read()).text == "Job ppo failed (exit code 1); its log shows no reason"
    found = told("", 1, read(file=None, unread="no way there"))
    assert (found.text, found.evidence[0]) == ("Job ppo failed (exit code 1)", "its log was not read: no way there")
    assert told("", 1).text == "Job ppo failed (exit code 1)"  # it is not read yet


def test_a_sentence_of_the_table_begins_with_a_capital_and_an_unknown_error_is_shown_as_it_is():
    assert told("torch.x.OddError: no").text == "torch.x.OddError: no; job ppo failed (exit code 1)"
    known = read(text="x", cause="the disk is full", remedy="make room on it", known="disk-full")
    assert told("", 1, known).text == "The disk is full; job ppo failed (exit code 1)"
    assert told("", 1, known).remedy.text == "make room on it; then start it again"
    assert told("", 1, read(text="x", cause="vLLM wants more", known="vllm")).text.startswith("vLLM wants more;")


def test_the_rank_its_node_and_its_gpu_are_named_as_far_as_they_are_known():
    place = {"text": "OddError: no", "rank": 3, "pid": 12, "ip": "10.0.0.2"}
    assert told("", 1, read(**place)).text == "OddError: no (rank 3 on node2); job ppo failed (exit code 1)"
    assert told("", 1, read(**place, gpus=(3,))).text == "OddError: no on rank 3 (node2 GPU 3); job ppo failed (exit code 1)"
    assert told("", 1, read(**{**place, "rank": None}, gpus=(3,))).text == "OddError: no (on node2 GPU 3); job ppo failed (exit code 1)"
    assert told("", 1, read(**{**place, "ip": "10.9.9.9"})).text == "OddError: no (rank 3); job ppo failed (exit code 1)"
    assert told("", 1, read(**place, gpus=(77,))).text == "OddError: no (rank 3 on node2); job ppo failed (exit code 1)"


MISMATCH = """RuntimeError: Version mismatch: The cluster was started with:
    Ray: 2.60.0
    Python: 3.11.7
This process on 10.0.0.2:0 was started with:
    Ray: 2.60.0
    Python: 3.11.2
"""


def test_a_mismatch_of_versions_which_ray_reports_in_several_lines_is_one_cause():
    found = told(f"Traceback (most recent call last):\n  File x\n{MISMATCH}")
    assert found.text == "This process has another version of Ray or Python than the cluster; job ppo failed (exit code 1)"
    assert found.evidence[0] == "RuntimeError: Version mismatch: The cluster was started with:"


FREE = (
    "ValueError: Free memory on device (11.2/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). "
    "Decrease GPU memory utilization or reduce GPU memory used by other processes."
)


@pytest.mark.parametrize(
    ("message", "says", "helps"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "CUDA ran out of memory", "smaller micro batches"),
        (FREE, "vLLM wants 71.2 GiB of the GPU's 79.1 GiB", "gpu_memory_utilization"),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in step 42.0 cgroup.", "The Slurm job reached its memory limit", "--mem"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "The file system that holds /tmp/x is full", "df -h"),
        ("RuntimeError: can't start new thread", "Python could not start a thread", "`ulimit -u`"),
        ("DistNetworkError: bind to [::]:29500 (errno: 98 - Address already in use).", "Port 29500 is in use", "ss -ltnp"),
        ("sh: 1: train: not found", "The command train is not on the PATH", ""),
        ("bash: line 1: 77 Killed  python train.py", "The process 77, which the script started, was killed with SIGKILL", ""),
    ],
)
def test_a_known_error_is_told_with_what_helps_and_without_an_action_as_no_target_is_proven(message, says, helps):
    found = told(message, sessions=(), processes=())
    assert found.text.startswith(says)
    assert found.text.endswith("; job ppo failed (exit code 1)")
    assert helps in found.remedy.text
    assert found.remedy.action is None


@pytest.mark.parametrize(
    "message",
    ["BlockingIOError: [Errno 11] Resource temporarily unavailable", "ValueError: exit code 98", "INFO address: in use by rank 3"],
)
def test_what_only_looks_like_a_known_error_has_no_remedy(message):
    found = told(message)
    assert found.text == f"{message}; job ppo failed (exit code 1)"
    assert found.remedy.text == "read its log (`l`); starting the job again clears this finding"


@pytest.mark.parametrize(
    ("code", "message", "says"),
    [
        (137, "", "Killed by SIGKILL"),
        (-9, "step 5", "Killed by SIGKILL"),
        (137, "ValueError: of a retry long before", "Killed by SIGKILL"),
        (143, "", "Ended by SIGTERM"),
        (-15, "", "Ended by SIGTERM"),
        (139, "", "Crashed by SIGSEGV"),
        (-11, "step 5", "Crashed by SIGSEGV"),
        (134, "", "Aborted by SIGABRT"),
        (135, "", "Crashed by SIGBUS"),
        (130, "", "Interrupted by SIGINT"),
        (127, "", "A command of its entrypoint was not found"),
        (126, "", "A command of its entrypoint is there but can't be executed"),
        (2, "", "Ended with exit code 2, as argparse and shells do"),
        (127, "ValueError: x", "ValueError: x;"),
        (2, "train.py: bad --lr", "train.py: bad --lr;"),
        (1, "", "Job ppo failed (exit code 1)"),
        (255, "", "Job ppo failed (exit code 255)"),
        (1 << 80, "", "Job ppo failed"),
        (-(1 << 80), "", "Job ppo failed"),
    ],
)
def test_without_an_error_in_the_log_the_exit_code_says_what_is_known(code, message, says):
    assert told(message, code).text.startswith(says)


def test_what_a_process_wrote_last_before_a_signal_is_evidence():
    assert told("step 5", 137).evidence[0] == "step 5"


def test_a_known_error_is_told_whatever_the_exit_code():
    assert told("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", 137).text.startswith("CUDA ran out of memory")


def killed(*kills, ago=600.0, **host):
    """The finding about a job that SIGKILL ended on node1, whose probe knows these kills."""
    here = snapshot()
    first = replace(here.hosts["node1"], nodes=(node(1).id,), oom_kills=kills, **host)
    job = submitted(exit_code=137, ended=NOW - ago, driver_node=node(1).id)
    return only(seen(job, oom_kills=kills, hosts={"node1": first}), "job-failed")


def test_a_kill_by_the_kernel_or_ray_there_at_that_time_is_told_with_its_numbers():
    kill = OomKill("kernel", NOW - 612, 77, "python", host="node1", held=61 * GIB, limit=64 * GIB)
    found = killed(kill)
    words = "the kernel killed python (pid 77) on node1 12s before (it held 61G, limit 64G)"
    assert found.text == f"Killed by SIGKILL; {words}; job ppo failed (exit code 137)"
    assert words in found.evidence
    by_ray = killed(OomKill("ray", NOW - 600, 77, "Critic", node=node(1).id))
    assert "Ray's memory monitor killed Critic (pid 77) on node1 at that time" in by_ray.text


@pytest.mark.parametrize(
    "kill",
    [
        OomKill("kernel", NOW - 1000, 77, "python", host="node1"),
        OomKill("kernel", NOW - 500, 77, "python", host="node1"),
        OomKill("kernel", NOW - 605, 77, "python", host="node2"),
        OomKill("ray", NOW - 605, 77, "python", node=node(2).id),
        OomKill("kernel", None, 77, "python", host="node1"),
    ],
)
def test_a_kill_at_another_time_or_place_is_not_its_cause(kill):
    found = killed(kill)
    none = "no kill by the kernel or by Ray is known on node1 in the 5m00s before it failed"
    assert none in found.evidence
    assert "it may be somebody's kill -9, the scheduler, or a container limit" in found.text


def test_where_kills_can_t_be_known_none_is_claimed_to_be_absent():
    unknown = "whether the kernel or Ray killed a process on node1 at that time is unknown"
    here = snapshot()
    first = replace(here.hosts["node1"], nodes=(node(1).id,), oom_kills=None)
    job = submitted(exit_code=137, driver_node=node(1).id)
    found = only(seen(job, oom_kills=(), hosts={"node1": first}), "job-failed")
    assert (found.text, unknown in found.evidence) == ("Killed by SIGKILL; job ppo failed (exit code 137)", True)
    assert unknown in killed(ago=4000).evidence
    assert unknown in killed(ago=2, taken=NOW - 4).evidence, "the probe has not looked since it failed"


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


def test_of_recorded_failures_the_error_that_matters_is_found():
    def text(name):
        job = replace(recorded_jobs()[name], ended=NOW - 60)
        return only(seen(job), "job-failed").text

    assert text("fail-1") == "entrypoint failing on purpose; job fail-1 failed (exit code 1)"
    assert text("zoo-1").startswith(
        "GpuHolder asks for {'GPU': 50, 'CPU': 1}, and no bundle of its placement group is that large; job zoo-1"
    )
    assert text("badrenv").endswith("; job badrenv failed (RUNTIME_ENV_SETUP_FAILURE)")
    assert text("raysubmit_kLxceEXRbxc3AQU2").startswith("A runtime_env names the local directory /home/user/jobs where Ray uploads none")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("\x1b[36m(Critic pid=12, ip=10.9.9.9)\x1b[0m OddError: bad\n(raylet) gone", "OddError: bad"),
        ("ray.exceptions.RayTaskError(OddError): ray::f()\nOddError: 'x'", "OddError: 'x'"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("step 4\nstep 5\n-----\n\n", "step 5"),
    ],
)
def test_what_was_raised_matters_most_and_else_the_last_line(message, line):
    assert told(message).text == f"{line}; job ppo failed (exit code 1)"


def test_empty_messages_give_nothing_and_hostile_ones_are_short_clean_and_quick():
    for empty in (None, "", " \n\t\n"):
        assert told(empty).text == "Job ppo failed (exit code 1)"
    assert told("\x1b]0;evil\x07" * 3000 + "\u202eX").text.isprintable()
    assert len(told("A" * 21_000).text) < 400
    assert told("a." * 10_000 + "\n" + "(" * 10_000 + "\n" + "A" * 10_000 + "Error").text
    assert "sk-abcdefghij" not in str(told("ValueError: api_key=sk-abcdefghijklmnopqrstuvwxyz012345"))
    odd = submitted("x\x1b[31m" * 40, started=float("nan"), ended=NOW + 1e12, exit_code=1 << 80, message="\x00", entrypoint=None)
    assert seen(odd) == ()


def test_the_command_of_an_entrypoint_is_no_error_of_its_job():
    entrypoint = "python train.py || echo Killed\necho 'ValueError: of the command'\nexit 137"
    message = (
        f"2026-11-28 10:00:00,000\tINFO job_manager.py:568 -- Runtime env is set up.\nRunning entrypoint for job ppo: {entrypoint}\nstep 5"
    )
    found = only(seen(submitted(message=message, exit_code=1, entrypoint=entrypoint)), "job-failed")
    assert (found.text, found.evidence[0]) == ("step 5; job ppo failed (exit code 1)", "step 5")


def test_old_facts_are_dated():
    known = snapshot(jobs=(pending(100),), actors=(), as_of={"ray.jobs": NOW})
    (found,) = after_silence(known, 500, detectors=ALONE, faults=(Fault("ray.jobs", "silent", NOW + 5),))
    assert (found.level, found.seen) == ("info", NOW)
