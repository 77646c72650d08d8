"""Kills for lack of memory: logs of raylets of Ray 2.60 and 2.44, read piece by piece, and the kernel's own log."""

from __future__ import annotations

import os
import shutil
import socket
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.probe.sample import oom_kills as reading
from cockpit.probe.sample.classify import classify
from cockpit.probe.sample.kernel_log import Counter, Kernel, KillReport, find_counters, parse
from cockpit.probe.sample.oom_kills import KillScanner
from cockpit.probe.sample.past import ProcessHistory
from cockpit.probe.sample.proc import TICKS_PER_SECOND
from cockpit.probe.sample.process_kinds import ProcessFacts
from tests.probe.process_tables import process, raylet, table, worker
from tests.probe.silent_kernel import SilentKernel

RECORDED = Path(__file__).parents[2] / "recorded"
NEW, OLD = (RECORDED / version / "raylet_kills.txt" for version in ("2.60", "2.44.1"))
WRITTEN = {NEW: datetime(2026, 11, 21, 15, 25, 19, 360000), OLD: datetime(2026, 11, 21, 15, 21, 49, 565000)}
GIB = 1 << 30


def at(log: Path) -> float:
    """The time of the first kill in the recorded log, by this host's clock."""
    return WRITTEN[log].timestamp()


SESSION = "session_2026-11-22_08-06-31_428681_12"


def reader(log: Path, later: float = 60.0) -> KillScanner:
    return KillScanner(SilentKernel(), lambda: at(log) + later)


def write(path: Path, text: bytes, moment: float) -> str:
    with path.open("ab") as file:
        file.write(text)
    os.utime(path, (moment, moment))
    return str(path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / SESSION / "logs"
    folder.mkdir(parents=True)
    return folder / "raylet.out"


def test_ray_2_60_names_each_worker_that_it_killed(log):
    found = reader(NEW).read([write(log, NEW.read_bytes(), at(NEW) + 1)])
    assert found
    task, actor = found
    assert (task["name"], task["pid"], task["actor"], task["job"]) == ("munch", 21026, None, "01000000")
    assert (actor["name"], actor["pid"], actor["actor"]) == ("hog:Hog.__init__", 21025, "ac2747c3da8c1a54f86cb16f01000000")
    assert {kill["node"] for kill in found} == {"873994cd253114770ff1662b23d14f9cfcb48c34eeb27f34736b5c6f"}
    assert {kill["moment"] for kill in found} == {at(NEW)}
    assert {kill["session"] for kill in found} == {SESSION}
    assert {kill["held"] for kill in found} == {int(0.04 * GIB)}
    assert task["text"].startswith("Selected to kill: (Task: job ID=01000000, ")


def test_ray_2_44_names_them_in_a_sentence_below_the_headline(log):
    found = reader(OLD).read([write(log, OLD.read_bytes(), at(OLD) + 1)])
    assert found
    task, actor = found
    assert (task["name"], task["pid"], task["actor"], task["job"]) == ("munch", 12373, None, "01000000")
    assert (actor["name"], actor["pid"], actor["actor"], actor["job"]) == (
        "hog:Hog.__init__", 12374, "fcdb2957895f2440c7e9af2201000000", "01000000",
    )  # fmt: skip
    assert {kill["node"] for kill in found} == {"a51490ada9dbe4fb354e29854257bae4db40bdcf26350fd5a5945a48"}
    assert [kill["moment"] for kill in found] == pytest.approx([at(OLD), at(OLD) + 0.418])
    assert actor["held"] == int(0.04 * GIB)


@pytest.mark.parametrize(("start", "actor"), [("f" * 16, "fcdb2957895f2440c7e9af2201000000"), ("65fd96608bd1de0d", None)])
def test_an_actor_that_ray_2_44_killed_during_its_creation_is_known_by_its_task(log, start, actor):
    text = OLD.read_text().replace("(actor ID: ", f"(task ID: {start}")
    found = reader(OLD).read([write(log, text.encode(), at(OLD))])
    assert found
    assert (found[-1]["actor"], found[-1]["job"], found[0]["actor"]) == (actor, "01000000", None)


@pytest.mark.parametrize("recorded", [NEW, OLD])
@pytest.mark.parametrize("step", [1000, 37])
def test_a_log_that_grows_piece_by_piece_reports_each_kill_once(log, recorded, step):
    text, kills = recorded.read_bytes(), reader(recorded)
    whole = reader(recorded).read([write(log.with_name("whole"), text, at(recorded))])
    for start in range(0, len(text), step):
        found = kills.read([write(log, text[start : start + step], at(recorded))])
    assert found == whole
    assert len(found) == 2


def test_a_rotated_log_is_not_read_again(log):
    kills = reader(NEW)
    write(log, NEW.read_bytes(), at(NEW))
    kills.read([str(log)])
    log.rename(log.with_name("raylet.1.out"))
    write(log, b"[2026-11-21 15:26:00,000 I 1 1] (raylet) quiet\n", at(NEW) + 50)
    found = kills.read([str(log), str(log.with_name("raylet.1.out"))])
    assert found
    assert len(found) == 2


def test_a_kill_is_forgotten_after_an_hour_and_a_log_that_is_older_is_not_read(log):
    moment = [at(NEW) + 60]
    kills = KillScanner(SilentKernel(), lambda: moment[0])
    assert len(kills.read([write(log, NEW.read_bytes(), at(NEW))]) or ()) == 2
    moment[0] += 3600
    assert kills.read([str(log)]) == []
    os.utime(log, (at(NEW) - 4000, at(NEW) - 4000))
    assert reader(NEW).read([str(log)]) == []


def test_only_the_end_of_a_long_log_is_read(log, monkeypatch):
    monkeypatch.setattr(reading, "MAX_BYTES", 20_000)
    quiet = b"[2026-11-21 15:25:20,000 I 1 1] (raylet) nothing happens\n" * 1000
    assert reader(NEW).read([write(log, NEW.read_bytes() + quiet, at(NEW))]) == []
    assert len(reader(NEW).read([write(log, NEW.read_bytes(), at(NEW))]) or ()) == 2


@pytest.mark.parametrize("hours", [-8, 0, 5.5])
def test_a_log_in_another_time_zone_has_the_same_moment(log, hours):
    """The log has the time 15:25, and was written `hours` away from that."""
    zone = timedelta(hours=hours).total_seconds()
    kills = KillScanner(SilentKernel(), lambda: at(NEW) + zone + 60)
    found = kills.read([write(log, NEW.read_bytes(), at(NEW) + zone + 1)])
    assert found
    assert found[0]["moment"] == at(NEW) + zone


def test_without_a_log_and_without_a_kernel_nothing_is_known(tmp_path):
    assert KillScanner(SilentKernel()).read([]) is None
    assert KillScanner(SilentKernel()).read([str(tmp_path / "gone")]) == []
    assert Kernel(str(tmp_path / "absent"), ()).read() is None


def test_neither_a_pipe_nor_a_link_is_read(tmp_path, log):
    os.mkfifo(tmp_path / "pipe")
    write(log, NEW.read_bytes(), at(NEW))
    (tmp_path / "link").symlink_to(log)
    assert reader(NEW).read([str(tmp_path / "pipe"), str(tmp_path / "link")]) == []


@given(
    st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(NEW.read_bytes().split(b"\n") + OLD.read_bytes().split(b"\n"))), max_size=30)
)
def test_no_content_of_a_log_causes_an_error(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("log") / "raylet.out"
    found = KillScanner(SilentKernel(), lambda: at(NEW)).read([write(path, b"\n".join(lines), at(NEW))])
    assert all(kill["pid"] > 0 and at(NEW) - 3600 <= kill["moment"] for kill in found or ())


# The kernel

KILLED = (
    "3,2417,9000000,-;Out of memory: Killed process 4711 (python (x)) total-vm:9000kB, anon-rss:4000kB, file-rss:20kB, "
    "shmem-rss:4kB, UID:0 pgtables:100kB oom_score_adj:1000\n"
)


def test_the_kernel_names_the_killed_process_and_the_time():
    assert parse(KILLED, 1000.0) == {
        "by": "kernel", "moment": 1009.0, "pid": 4711, "name": "python (x)", "held": 4024 * 1024, "text": KILLED.partition(";")[2].strip(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "pid", "held"),
    [
        ("Memory cgroup out of memory: Killed process 7 (x) total-vm:1kB, anon-rss:2kB, file-rss:0kB, shmem-rss:0kB, UID:0", 7, 2048),
        ("Killed process 8 (x) total-vm:1kB, anon-rss:3kB, file-rss:1kB", 8, 4096),
        ("Killed process 9 (x), UID 1000, total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB", 9, 1024),
    ],
)
def test_the_wording_of_older_kernels_is_understood(text, pid, held):
    found = parse(f"3,1,1,-;{text}", 0.0)
    assert found
    assert (found["pid"], found["held"]) == (pid, held)


@pytest.mark.parametrize(
    "record",
    [
        "",
        "3;Killed process",
        "6,1,5,-;eth0: link up",
        "3,1,x,-;Killed process 1 (a) anon-rss:1kB",
        "6,1,5000000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/user.slice/\
Killed process 4242 (ray::Train) anon-rss:80000000kB,task=a,pid=7,uid=1000",
        "12,1,5000000,-;Out of memory: Killed process 4242 (ray::Train) total-vm:9kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB",
    ],
    ids=["none", "cut", "another", "no time", "the name of a cgroup", "a record of a program"],
)
def test_other_records_are_no_kills(record):
    assert parse(record, 0.0) is None


def test_each_record_is_reported_once(tmp_path):
    """A file stands in for the log. The log returns one record per read, but a file returns all."""
    log = tmp_path / "kmsg"
    log.write_text(KILLED)
    kernel = Kernel(str(log), counters=())
    assert [kill["pid"] for kill in kernel.read() or ()] == [4711]
    assert kernel.read() == []
    with log.open("a") as file:
        file.write(KILLED.replace("4711", "4712"))
    assert [kill["pid"] for kill in kernel.read() or ()] == [4712]


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel's log may not be read here")
def test_the_kernels_real_log_can_be_read_to_its_end():
    kernel = Kernel("/dev/kmsg", counters=())
    assert kernel.read() is not None
    assert kernel.read() is not None, "and does not wait for more"


class Ticks:
    """A clock that advances by ten seconds at each reading."""

    def __init__(self):
        self.now = 70.0

    def __call__(self):
        self.now += 10
        return self.now


def test_without_the_log_a_counter_reports_a_kill_and_its_limit(tmp_path):
    counter = tmp_path / "memory.events"
    counter.write_text("low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\n")
    for name, value in (("memory.max", 3 << 30), ("memory.current", 2 << 30)):
        (tmp_path / name).write_text(f"{value}\n")
    (tmp_path / "memory.stat").write_text(f"inactive_file {1 << 29}\nactive_file {1 << 29}\n")
    counters = (Counter(str(tmp_path / "none"), ()), Counter(str(counter), (str(tmp_path),)))
    kernel = Kernel(str(tmp_path / "absent"), counters, Ticks())
    assert kernel.read() == []
    counter.write_text("oom_kill 4\n")
    assert kernel.read() == [
        {
            "by": "kernel",
            "moment": 90.0,
            "within": 10.0,
            "count": 2,
            "limit": 3 << 30,
            "used": 1 << 30,
            "slurm": None,
            "text": f"oom_kill in {counter} has grown from 2 to 4",
        }
    ]
    assert kernel.read() == []


def test_in_a_slurm_job_the_cgroup_and_limit_of_the_job_count(tmp_path):
    (tmp_path / "self").mkdir()
    cgroup, job = tmp_path / "self" / "cgroup", tmp_path / "cgroups" / "system.slice" / "slurmstepd.scope" / "job_42"
    cgroup.write_text("0::/system.slice/slurmstepd.scope/job_42/step_3/user/task_0\n")
    job.mkdir(parents=True)
    (job / "memory.events").write_text("oom 0\noom_kill 0\n")
    (job / "memory.max").write_text("3145728000\n")
    kernel = Kernel(str(tmp_path / "absent"), find_counters(str(tmp_path), str(tmp_path / "cgroups")), Ticks())
    assert kernel.read() == []
    (job / "memory.events").write_text("oom 1\noom_kill 1\n")
    (found,) = kernel.read()
    assert found["text"] == f"oom_kill in {job}/memory.events has grown from 0 to 1"
    assert (found["slurm"], found["limit"], found["used"]) == ("42", 3145728000, None)


def test_in_cgroup_version_1_the_kills_of_all_tasks_of_the_job_are_summed(tmp_path):
    """The layout of Slurm 22.05: the job's own file stays at 0."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("4:memory:/slurm_w1/uid_12345/job_42/step_3/task_0\n0::/\n")
    job = tmp_path / "cgroups" / "memory" / "slurm_w1" / "uid_12345" / "job_42"
    tasks = [job / "step_0" / "task_0", job / "step_3" / "task_0"]
    for folder in (job, *tasks):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    (job / "memory.limit_in_bytes").write_text("3145728000\n")
    kernel = Kernel(str(tmp_path / "absent"), find_counters(str(tmp_path), str(tmp_path / "cgroups")), Ticks())
    assert kernel.read() == []
    (tasks[0] / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    (found,) = kernel.read()
    assert found["text"] == f"oom_kill in {tasks[0]}/memory.oom_control has grown from 0 to 1"
    assert (found["slurm"], found["limit"], found["count"]) == ("42", 3145728000, 1)


def test_in_cgroup_version_1_the_end_of_a_step_hides_no_kill_of_another_step(tmp_path):
    """A step that began after the last reading has counted only since then."""

    def counts(step, kills):
        folder = tmp_path / "job_42" / f"step_{step}" / "task_0"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.oom_control").write_text(f"oom_kill {kills}\n")

    counts(0, 0)
    counts(1, 3)
    kernel = Kernel(str(tmp_path / "absent"), (Counter(f"{tmp_path}/job_42/step_*/task_*/memory.oom_control", (), "42"),), Ticks())
    assert kernel.read() == []
    shutil.rmtree(tmp_path / "job_42" / "step_1")
    counts(0, 1)
    counts(2, 2)
    (found,) = kernel.read()
    assert found["count"] == 3
    assert [part.partition("/job_42/")[2] for part in found["text"].split("; ")] == [
        "step_0/task_0/memory.oom_control has grown from 0 to 1",
        "step_2/task_0/memory.oom_control has grown from 0 to 2",
    ]
    assert kernel.read() == []


@pytest.mark.parametrize(
    "cgroup_text", ["0::/\n", "4:memory:/slurm/uid_0/job_42/step_0\n0::/\n", "0::/user.slice/job_x/step_1\n", "0::/../job_1"]
)
def test_outside_of_slurm_the_kills_of_a_container_count(tmp_path, cgroup_text):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(cgroup_text)
    assert find_counters(str(tmp_path), "/c")[-2:] == (
        Counter("/c/memory.events", ("/c",)),
        Counter("/c/memory/memory.oom_control", ("/c/memory",)),
    )


RECORDS = """\
4,1,5000000,-;python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
6,2,5000001,-;memory: usage 3072000kB, limit 3072000kB, failcnt 1203
6,3,5000002,-;memory+swap: usage 3072000kB, limit 9007199254740988kB, failcnt 0
6,4,5000003,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/uid_0/job_42,\
task_memcg=/slurm/uid_0/job_42/step_0/task_0,task=a,pid=7,uid=0,pid=1192,uid=0
3,5,5000004,-;Memory cgroup out of memory: Killed process 1192 (a,pid=7,uid=0) total-vm:9kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB
3,6,5000005,-;Memory cgroup out of memory: Killed process 7 (b) total-vm:9kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB
4,7,5000006,-;python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
6,8,5000007,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=c,pid=1192,uid=0
3,9,5000008,-;Out of memory: Killed process 1192 (c) total-vm:9kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB
"""
"""Records of Linux 6.18 (mm/oom_kill.c, mm/memcontrol-v1.c), with a name that looks like the end of such a line."""


def test_the_limit_is_reported_only_for_the_process_that_it_killed():
    """Another process that ends with it, and one that is killed because the whole host has no memory, have no limit."""
    log, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET), Kernel("stands open already", ())
    kernel._log = log[0].fileno()
    log[0].setblocking(False)
    for record in RECORDS.splitlines():
        log[1].send(record.encode())
    kills = [(kill["pid"], kill.get("limit"), kill.get("slurm")) for kill in kernel.read() or ()]
    assert kills == [(1192, 3072000 << 10, "42"), (7, None, None), (1192, None, None)]


def test_a_cgroup_with_the_name_of_a_slurm_job_is_no_slurm_job():
    report = KillReport()
    report.add_line("memory: usage 3072000kB, limit 3072000kB, failcnt 1203")
    report.add_line(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/user.slice/c,"
        "oom_memcg=/system.slice/slurmstepd.scope/job_42,task_memcg=/user.slice/c,task=a,pid=7,uid=1000"
    )
    assert report.facts(7) == {}


@pytest.mark.parametrize("held", ["1.2.3", "9" * 400, ".", "²"])
def test_an_invalid_number_loses_only_its_own_line(tmp_path, held):
    good = "Selected to kill: (Actor(aa): job ID=01000000, pid=1, actual memory used=1.5GB"
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    lines = (f"[{moment},123 I 7 7] (raylet) x: Killing 1 worker(s)", good.replace("1.5", held), good.replace("pid=1", "pid=2"))
    log = tmp_path / "session_x" / "logs" / "raylet.out"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"{line}\n" for line in (lines[0], *(f"[{moment},124 I 7 7] (raylet) {line}" for line in lines[1:]))))
    assert [kill["pid"] for kill in KillScanner(Kernel(str(tmp_path / "absent"), ())).read([str(log)]) or ()] == [2]


def test_a_killed_process_was_rays_if_it_was_seen_as_such_shortly_before():
    past, second = ProcessHistory(), TICKS_PER_SECOND
    there = table(raylet(), worker(200), process(300, "stress", ticks=9))
    past.learn(there, classify(there, ProcessFacts()), 100 * second)
    assert past.was_rays(200, 99 * second) is None, "nobody looked yet"
    assert [past.was_rays(pid, 103 * second) for pid in (100, 200, 300, 400)] == [True, True, False, False]
    assert past.was_rays(200, 500 * second) is False, "another process has its pid"
    past.learn(table(), {}, 104 * second)
    assert past.was_rays(200, 103 * second) is True
    past.learn(table(), {}, 3800 * second)
    assert past.was_rays(200, 103 * second) is False, "long ago"
