"""Tests each kind of process, and each piece of evidence that could mislead."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.probe.sample.process_kinds import SeenWorker, SocketListener
from cockpit.probe.sample.processes import ScannedProcess
from tests.probe.process_tables import (
    NODE,
    OTHER,
    RAY,
    SESSION,
    USER,
    folder,
    gcs,
    judged,
    kinds,
    left,
    process,
    raylet,
    worker,
    worker_log,
)

EVIL = 666
ROOT = 0
JOB = '{"metadata": {"job_submission_id": "ppo"}}'
JOB_LOG = f"{SESSION}/logs/job-driver-ppo.log"
DEAD = f"its raylet 100 of {SESSION.rpartition('/')[2]} is dead (RAY_RAYLET_PID)"
LINKED = SESSION.replace("/tmp/ray", "/tmp/link")
RENAMED = "/tmp/ray/session_2001-01-01_00-00-00_000000_1"
OURS = {"RAY_RAYLET_PID": "100", "RAY_JOB_ID": "02000000"}
Case = tuple[dict[int, str], tuple[ScannedProcess, ...], dict[str, Any]]


def case(expected: dict[int, str], *processes: ScannedProcess, **facts: Any) -> Case:
    """The kinds of all listed processes, the processes, and what else is known of the host."""
    return expected, processes, facts


def dashboard(pid: int = 102, session: str = SESSION) -> ScannedProcess:
    return process(pid, f"python {RAY}/dashboard/dashboard.py --session-dir={session}")


def submitted(pid: int, **more: Any) -> ScannedProcess:
    """A process of the submitted job `ppo`."""
    return process(pid, RAY_JOB_CONFIG_JSON_ENV_VAR=JOB, **more)


def supervisor(pid: int = 200, **more: Any) -> ScannedProcess:
    return worker(pid, title="ray::JobSupervisor", **more)


def past(pid: int = 200, raylet: tuple[int, int] = (100, 1000), until: int = 5000) -> SeenWorker:
    return SeenWorker(pid, 2000, raylet, SESSION, "02000000", until, USER)


def see_other_files(one: ScannedProcess) -> ScannedProcess:
    return one._replace(details=one.details._replace(mount_namespace="mnt:[4026539999]"))


script, daemon = process(300), process(210, "daemon")
BOTH = [folder(SESSION, 100), folder(OTHER, 100, inode=2)]
HIDDEN_RAYLET = [folder(SESSION, 100), folder(OTHER, 5, listeners=[SocketListener(0, USER)])]

KINDS = {
    # ray
    "a dashboard lives with its gcs_server after the raylet died": case({90: "ray", 102: "ray"}, gcs(), dashboard()),
    "an agent of a Ray inside another Ray inherits the RAY_RAYLET_PID of that one (2.60)": case(
        {100: "ray", 105: "ray"}, raylet(RAY_RAYLET_PID="7"), process(105, "ray::DashboardAgent", parent=100, RAY_RAYLET_PID="7")
    ),
    "a fork of a raylet that will become a worker is no second raylet": case({100: "ray", 110: "child"}, raylet(), raylet(110, parent=100)),
    "an editor on a file of Ray is not listed": case({100: "ray"}, raylet(), process(50, f"vim {RAY}/dashboard/dashboard.py")),
    # worker
    "a worker is known by its title, whatever its main thread is called": case(
        {100: "ray", 200: "worker"}, raylet(), worker(200, name="pt_main_thread")
    ),
    "a worker behind a wrapper is a worker": case(
        {100: "ray", 150: "child", 200: "worker"},
        raylet(), process(150, "nsys profile", parent=100), worker(200, parent=150, RAY_RAYLET_PID="100"),
    ),
    "a worker in a container knows its raylet by the pid in there": case(
        {5000: "ray", 5100: "worker"},
        raylet(5000, pids=(5000, 17)), worker(5100, parent=4999, pids=(5100, 80), RAY_RAYLET_PID="17", logs=[worker_log(80)]),
        process(4999, "conmon"),
    ),
    # driver
    "the driver of a submitted job is found below its supervisor": case(
        {100: "ray", 200: "worker", 201: "child", 202: "driver"},
        raylet(), supervisor(), process(201, "/bin/sh -c train", parent=200), process(202, parent=201),
        drivers=[(process(202, parent=201), "03000000")],
    ),
    "a pid that was a driver once is no driver": case({100: "ray"}, raylet(), script, drivers=[(script._replace(ticks=7), "01000000")]),
    # child
    "a process started by a worker is a child even in its own session": case(
        {100: "ray", 200: "worker", 201: "child", 202: "child"},
        raylet(), worker(200), process(201, parent=200, leader=201), process(202, "VLLM::EngineCore", parent=201),
    ),
    "a fork of a worker keeps its title and is a child": case(
        {100: "ray", 200: "worker", 201: "child"},
        raylet(), worker(200), worker(201, parent=200, logs=[worker_log(200)], RAY_RAYLET_PID="100"),
    ),
    "a process started by a driver is a child": case(
        {100: "ray", 300: "driver", 301: "child"}, raylet(), script, process(301, parent=300), drivers=[(script, "01000000")]
    ),
    "a child stays one after its worker died while its job has another worker here": case(
        {100: "ray", 200: "worker", 210: "child"}, raylet(), worker(200), left(210)
    ),
    "a child stays one after its worker died while the driver of its job runs here": case(
        {100: "ray", 300: "driver", 210: "child"}, raylet(), script, left(210), drivers=[(script, "02000000")]
    ),
    "a worker of another job does not keep a process alive": case(
        {100: "ray", 200: "worker", 210: "unknown"}, raylet(), worker(200, job="03000000"), left(210)
    ),
    "an unreadable child of a worker is a child": case(
        {100: "ray", 200: "worker", 201: "child"}, raylet(), worker(200), process(201, parent=200, readable=False)
    ),
    "a process once seen below a live worker is its child": case(
        {100: "ray", 200: "worker", 210: "child"}, raylet(), worker(200), daemon, seen={daemon.identity: past()}
    ),
    "below a living raylet no sign of death counts": case(
        {100: "ray", 200: "worker", 201: "child"},
        raylet(), worker(200), process(201, "python rank.py", parent=200, RAY_RAYLET_PID="99", logs=[worker_log(9, session=OTHER)]),
    ),
    "children inherit the old variables of a driver that was started from an old job's shell": case(
        {500: "ray", 600: "driver", 601: "child"},
        raylet(500), process(600, RAY_RAYLET_PID="100"), process(601, parent=600, RAY_RAYLET_PID="100"),
        drivers=[(process(600, RAY_RAYLET_PID="100"), "01000000")],
    ),
    # stale
    "parts of a dead session are stale": case(
        dict.fromkeys((101, 102, 105), "stale"),
        process(101, f"python -u {RAY}/_private/log_monitor.py --session-dir={SESSION}"), dashboard(),
        process(105, "ray::DashboardAgent", RAY_NODE_ID=NODE),
    ),
    "of two sessions only the dead one's parts are stale": case(
        {100: "ray", 102: "ray", 200: "worker", 152: "stale", 250: "stale"},
        raylet(), dashboard(), worker(200), dashboard(152, OTHER), worker(250, parent=1, RAY_RAYLET_PID="99"),
    ),
    "a session with a listening socket lives even if its raylet is hidden": case(
        {102: "ray"}, dashboard(), folders=[folder(listeners=[SocketListener(0, USER)])]
    ),
    "a part of a session without folder is unknown if a process may be hidden": case(
        {102: "unknown"}, dashboard(), folders=[folder(uid=None)]
    ),
    "a part of a session without folder is stale if no process is hidden": case(
        {102: "stale"}, dashboard(), folders=[folder(uid=None)], sees_all=True
    ),
    "a part of a session in another user's folder is not stale": case({102: "unknown"}, dashboard(), folders=[folder(uid=EVIL)]),
    "a stale worker below a living launcher is in use": case(
        {200: "unknown"}, process(40, "my-launcher"), worker(200, parent=40, RAY_RAYLET_PID="100")
    ),
    # orphan
    "the first process of a container is a reaper whatever its name": case(
        {210: "orphan"}, process(40, "python entry.py", pids=(40, 1)), left(210, parent=40, pids=(210, 77))
    ),
    "another living session does not keep an orphan": case(
        {500: "ray", 550: "worker", 210: "orphan"}, raylet(500, OTHER), worker(550, parent=500), left(210)
    ),
    "a child of a stale worker is an orphan": case(
        {200: "stale", 210: "orphan"}, worker(200, parent=1, RAY_RAYLET_PID="100"), left(210, parent=200)
    ),
    "a process in the group of a dead worker is an orphan": case(
        {210: "orphan"}, process(210, "daemon", group=200), workers={200: past()}
    ),
    "another user's raylet and listener keep nothing alive: he could keep root from ending orphans": case(
        {100: "ray", 300: "ray", 210: "orphan"},
        raylet(100, ticks=5, uid=EVIL), raylet(300, uid=EVIL), left(210),
        folders=[folder(SESSION, 100, listeners=[SocketListener(300, EVIL)])],
    ),
    "the log decides between two sessions that had a raylet with the same pid": case(
        {210: "orphan"}, left(210, logs=[worker_log(200)]), folders=BOTH
    ),
    "a younger raylet's session does not run the job of an older log": case(
        {500: "ray", 210: "orphan"}, raylet(500, OTHER), submitted(210, logs=[JOB_LOG])
    ),
    # nothing that lives, whatever speaks against it
    "a process younger than the end of the worker does not belong to it": case(
        {}, process(900, "daemon", group=200), workers={200: past(until=5000)}
    ),
    "up to Ray 2.44, workers stay in the process group of the shell that ran `ray start`, like other jobs of that shell": case(
        {100: "ray", 200: "worker"}, raylet(group=40), worker(200, group=40), process(210, "daemon", group=40)
    ),
    "a session behind a link is the same session for the child of a supervisor": case(
        {100: "ray", 200: "worker", 210: "child"},
        raylet(session=LINKED), supervisor(), submitted(210, command="python plain.py", logs=[JOB_LOG], parent=200),
        folders=[folder(SESSION, 100, inode=7), folder(LINKED, 100, inode=7)],
    ),
    "any user may rename a session, which lives while a raylet listens in it": case(
        {100: "ray", 210: "unknown"},
        raylet(), submitted(210, logs=[f"{RENAMED}/logs/job-driver-ppo.log"]),
        folders=[folder(RENAMED, 100, listeners=[SocketListener(100, USER)])],
    ),
    "a tmux that was started in a job, and a server below its shell, have variables of a Ray that has long ended": case(
        dict.fromkeys((210, 211, 212, 213), "unknown"),
        process(210, "tmux", **OURS), process(211, "-bash", parent=210, terminal=34816, **OURS),
        process(212, "python server.py", parent=211, terminal=34816, leader=211, **OURS),
        process(213, "python server.py", terminal=34816, leader=211, **OURS),
    ),
    "a process with a hidden parent": case({210: "unknown"}, left(210, parent=0)),
    "a process with a parent that is not there": case({210: "unknown"}, left(210, parent=999)),
    "somebody still works in a container that a job started: variables inherited from its first process prove nothing": case(
        {1: "unknown", 210: "unknown"},
        process(1, "bash", parent=0, RAY_RAYLET_PID="100", RAY_JOB_ID="02000000"), left(210), init=False,
    ),
    "a variable that names another node does not count": case({210: "unknown"}, left(210, RAY_NODE_ID="ff" * 28)),
    "without a log, nothing decides between two sessions that had a raylet with the same pid": case(
        {210: "unknown"}, left(210), folders=BOTH
    ),
    "an attacker may rename his folder, which contains an unreadable one of the victim: a name without raylets proves nothing": case(
        {210: "unknown"}, left(210, logs=[worker_log(200)]), folders=[folder(SESSION)]
    ),
    "no raylet counts as dead while another one of the user is hidden": case({210: "unknown"}, left(210), folders=HIDDEN_RAYLET),
    "no submission counts as over while another raylet of the user is hidden": case(
        {210: "unknown"}, submitted(210, logs=[JOB_LOG]), folders=HIDDEN_RAYLET
    ),
    "a raylet of root counts for every user": case({100: "ray", 210: "unknown"}, raylet(uid=ROOT), left(210)),
    "a worker of another user proves nothing": case({}, daemon, seen={daemon.identity: past()._replace(uid=EVIL)}),
    "a submission without a log on this host": case({210: "unknown"}, submitted(210)),
    "an orphan with a terminal below it is in use": case(
        {210: "unknown", 211: "unknown"}, left(210, "python notebook.py"), process(211, "-bash", parent=210, terminal=34816)
    ),
    "an engine's title proves nothing alone": case({210: "unknown"}, process(210, "VLLM::EngineCore"), holders=[210]),
    "an absent raylet is not dead if processes are hidden": case({210: "unknown"}, left(210), init=False),
    "a stuck raylet is not dead": case({100: "ray", 210: "unknown"}, raylet(name="raylet", stuck=True, state="D"), left(210)),
    "an unreadable worker without parent": case({200: "unknown"}, worker(200, parent=1, readable=False, logs=[])),
    "an unreadable engine without parent": case({400: "unknown"}, process(400, command="VLLM::EngineCore", readable=False)),
    # foreign
    "an engine of a person's own": case(
        {210: "foreign"}, process(40, "bash"), process(210, "VLLM::EngineCore", parent=40), holders=[210]
    ),
    "nohup after a logout": case({400: "foreign"}, process(400), holders=[400]),
    "nohup with torch": case({400: "foreign"}, process(400, name="pt_main_thread"), holders=[400]),
    "a service": case({400: "foreign"}, process(400, "/usr/bin/dcgm-exporter"), holders=[400]),
    "a Ray client's environment": case(
        {400: "foreign"}, process(400, RAY_ADDRESS="10.0.0.1:6379", CUDA_VISIBLE_DEVICES="3"), holders=[400]
    ),
    "a job id alone": case({400: "foreign"}, process(400, RAY_JOB_ID="02000000"), holders=[400]),
    "a foreign process without GPU is not listed": case({}, process(400)),
    "a loop of parents ends": case(
        {400: "foreign", 401: "foreign"}, process(400, parent=401), process(401, parent=400), holders=[400, 401]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "processes", "facts"), KINDS.values(), ids=KINDS)
def test_each_process_has_its_kind(expected, processes, facts):
    assert kinds(*processes, **facts) == expected


def test_the_parts_of_a_living_session_are_ray():
    log_monitor = process(101, f"python -u {RAY}/_private/log_monitor.py --session-dir={SESSION}")
    module = process(104, "ray-dashboard-JobHead-0", parent=103)
    agent = process(105, "ray::DashboardAgent", parent=100)
    fork_server = process(103, "python -c forkserver", parent=102)
    found = judged(gcs(), raylet(), log_monitor, dashboard(), fork_server, module, agent)
    assert {pid: verdict.kind for pid, verdict in found.items() if pid != 103} == dict.fromkeys((90, 100, 101, 102, 104, 105), "ray")
    assert found[103].kind == "child"
    assert {verdict.session for verdict in found.values()} == {SESSION}
    assert found[100].node == found[105].node == NODE


def test_a_child_of_a_raylet_with_rays_title_is_a_worker():
    found = judged(raylet(), worker(200))[200]
    assert (found.kind, found.job, found.session, found.node) == ("worker", "02000000", SESSION, NODE)
    assert "raylet 100" in found.why[0]


def test_a_script_that_has_connected_is_a_driver_and_foreign_once_its_ray_is_dead():
    """A notebook that used Ray earlier must not be killed."""
    found = judged(raylet(), script, drivers=[(script, "01000000")])[300]
    assert (found.kind, found.job) == ("driver", "01000000")
    found = judged(script, drivers=[(script, "01000000")], holders=[300])[300]
    assert found.kind == "foreign"
    assert "which is dead" in found.why[0]


def test_a_double_fork_of_a_living_worker_is_a_child():
    """Its parent is pid 1 at once; its log names the worker that started it."""
    found = judged(raylet(), worker(200), left(210, job="ffffffff", logs=[worker_log(200, "ffffffff")]))[210]
    assert found.kind == "child"
    assert "worker 200" in found.why[-1]


def test_a_part_of_a_running_submission_that_lost_its_parent_stays_a_child():
    """If the submission runs in two clusters, its session is unknown."""
    job = [supervisor(), submitted(201, parent=200)]
    found = judged(raylet(), *job, submitted(210))[210]
    assert (found.kind, found.session) == ("child", SESSION)
    job += [supervisor(300, parent=150, logs=[worker_log(300, session=OTHER)]), submitted(301, parent=300)]
    found = judged(raylet(), raylet(150, OTHER), *job, submitted(210))[210]
    assert (found.kind, found.session) == ("child", None)


def test_a_process_without_parent_and_its_descendants_wait_for_rays_answer_about_its_job():
    found = judged(raylet(), left(210), process(211, parent=210))
    assert (found[210].kind, found[210].undecided, found[210].job) == ("unknown", "job", "02000000")
    assert (found[210].session, found[210].node) == (SESSION, NODE)
    assert found[210].why[-1] == "only Ray knows whether job 02000000 still runs"
    assert (found[211].kind, found[211].undecided, found[211].job) == ("unknown", "job", "02000000")


def test_a_job_with_the_same_number_in_another_cluster_does_not_count():
    found = judged(raylet(), raylet(150, OTHER), worker(160, parent=150, logs=[worker_log(160, session=OTHER)]), left(210))[210]
    assert (found.kind, found.undecided) == ("unknown", "job")


def test_a_process_without_a_job_or_a_log_waits_for_no_answer():
    for one in (left(210, job="ffffffff"), submitted(210)):
        found = judged(raylet(), one)[210]
        assert (found.kind, found.undecided) == ("unknown", None)


def test_what_outlived_its_raylet_is_stale_or_an_orphan_and_the_reason_says_so():
    found = judged(worker(200, parent=1, RAY_RAYLET_PID="100"))[200]
    assert found.kind == "stale"
    assert DEAD in found.why
    found = judged(left(210), process(211, "VLLM::EngineCore", parent=210))
    assert (found[210].kind, found[210].why, found[210].session) == ("orphan", (DEAD,), SESSION)
    assert (found[211].kind, found[211].why[0]) == ("orphan", "child of python 210 (orphan)")


@pytest.mark.parametrize("parent", ["systemd --user", "tini -- run", "/usr/bin/containerd-shim"])
def test_an_orphan_stays_one_under_any_reaper(parent):
    assert kinds(process(40, parent), left(210, parent=40))[210] == "orphan"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (process(100, "postgres"), "now postgres"),
        (raylet(ticks=9000), "started later"),
        (process(100, "raylet", state="Z"), DEAD.replace(" (", ", a zombie (")),
    ],
)
def test_a_raylet_is_dead_if_its_pid_belongs_to_another_process_or_a_zombie(now, expected):
    found = judged(now, left(210, ticks=2100))[210]
    assert found.kind == "orphan"
    assert expected in found.why[0]


def test_a_process_of_a_submitted_job_in_a_dead_session_is_an_orphan():
    """The raylet that it names counts, not another live one."""
    found = judged(submitted(210, logs=[JOB_LOG]))[210]
    assert (found.kind, found.job, found.session) == ("orphan", "ppo", SESSION)
    found = judged(raylet(500, OTHER), submitted(610, RAY_RAYLET_PID="100"))[610]
    assert (found.kind, found.job, found.why) == ("orphan", "ppo", (DEAD,))


def test_a_process_once_seen_below_a_worker_is_judged_by_the_raylet_of_that_worker():
    found = judged(daemon, seen={daemon.identity: past()})[210]
    assert (found.kind, found.job) == ("orphan", "02000000")
    assert "was seen as a child of worker 200" in found.why[0]
    assert judged(raylet(), daemon, seen={daemon.identity: past()})[210].why == (
        "its worker 200 is gone",
        "it was seen as a child of worker 200, whose raylet 100 still runs",
        "only Ray knows whether job 02000000 still runs",
    )


def test_a_session_behind_a_link_is_the_same_session():
    """`ray start --temp-dir=/tmp/link`: the raylet names the link, the kernel shows the logs where they are."""
    folders = [folder(SESSION, 100, inode=7), folder(LINKED, 100, inode=7)]
    found = judged(raylet(session=LINKED), submitted(210, command="python plain.py", logs=[JOB_LOG]), folders=folders)[210]
    assert (found.kind, found.undecided) == ("unknown", "job")


@pytest.mark.parametrize("parent", ["slurmstepd: [1.0]", "orted", "sshd: train", "bash", "my-launcher"])
def test_a_process_with_a_live_launcher_as_parent_is_in_use(parent):
    found = judged(process(40, parent), left(210, parent=40))[210]
    assert found.kind == "unknown"
    assert found.why[-1].endswith("lives, and is not Ray's")


@pytest.mark.parametrize("folders", [[], [folder(SESSION, 77)], [folder(SESSION, 100, uid=EVIL)], [folder(SESSION, 100, uid=ROOT)]])
def test_a_variable_counts_only_if_a_session_of_its_user_had_that_raylet(folders):
    """Slurm's srun copies the environment of a job to other hosts."""
    found = judged(left(210), folders=folders)[210]
    assert (found.kind, found.undecided) == ("unknown", None)
    assert "its session may be on another host" in found.why[0]


def test_a_process_that_sees_other_files_is_unknown_and_the_reason_says_so():
    """Such as a process of a Slurm job with its own /tmp, seen from outside of the job."""
    found = judged(see_other_files(left(210)), folders=[])[210]
    assert (found.kind, found.undecided) == ("unknown", None)
    assert found.why[0].endswith(
        "it sees other files than cockpit (it is in a container, or in a job with its own /tmp): run cockpit there"
    )


def test_the_path_of_a_submissions_log_proves_nothing_in_a_folder_without_raylets():
    found = judged(submitted(210, logs=[JOB_LOG]), folders=[folder(SESSION)])[210]
    assert (found.kind, found.undecided) == ("unknown", None)


def test_a_moved_log_does_not_change_the_session_and_both_sessions_are_asked():
    """Any user may move a log into another session's folder, and both sessions give their jobs the same numbers."""
    moved = [worker_log(200, session=OTHER)]
    found = judged(raylet(), raylet(101, OTHER), left(210, logs=moved))[210]
    assert (found.session, found.undecided, found.asks) == (SESSION, "job", (SESSION, OTHER))
    outside = process(200, "ray::Actor", RAY_RAYLET_PID="100", logs=moved)
    assert judged(raylet(), raylet(101, OTHER), outside)[200].session == SESSION


def test_a_raylet_in_another_pid_namespace_is_not_called_dead():
    """A process that has left its container, such as `nsenter` in a privileged pod."""
    inside = raylet(5000, pids=(5000, 100))
    found = judged(inside, left(6000), folders=[folder(SESSION, 100)])[6000]
    assert (found.kind, found.undecided) == ("unknown", None)
    assert "its raylet 100 may still run, in another PID namespace (pid 5000 here)" in found.why[0]


def test_the_name_of_a_log_proves_nothing_alone():
    """Else a user who renames a file into the folder of a dead session would end the process that writes it."""
    found = judged(process(210, "VLLM::EngineCore", logs=[worker_log(200)]))[210]
    assert found.kind == "unknown"
    assert "only the path of that log file shows this, which is no proof" in found.why


def test_ray_decides_if_a_log_may_have_been_moved_from_a_live_session():
    found = judged(raylet(150, OTHER), submitted(210, logs=[JOB_LOG]))[210]
    assert (found.kind, found.undecided, found.asks) == ("unknown", "job", (OTHER,))


@pytest.mark.parametrize(
    ("holder", "why"),
    [
        ([], "another PID namespace"),
        ([process(400, readable=False)], "its environment can't be read: no permission"),
        ([process(400, name="python", stuck=True, state="D")], "stuck in the kernel"),
        ([process(400, state="Z")], "a zombie"),
    ],
)
def test_a_holder_of_gpu_memory_that_cannot_be_read_is_unknown(holder, why):
    found = judged(*holder, holders=[400])[400]
    assert found.kind == "unknown"
    assert why in found.why[0]


def test_a_zombie_below_a_worker_is_a_child():
    found = judged(raylet(), worker(200), process(201, "sh", parent=200, state="Z"))[201]
    assert found.kind == "child"
    assert "a zombie" in found.why[0]


def test_a_dead_raylet_and_the_log_of_a_living_session_contradict_each_other():
    found = judged(raylet(500), left(610, raylet=100, logs=[worker_log(200)]))[610]
    assert (found.kind, found.undecided) == ("unknown", None)
    assert found.why[-1] == "these reasons contradict each other"


def test_an_orphan_adopted_by_a_driver_that_is_pid_1_is_not_its_child():
    first = process(1, "python train.py", parent=0)
    found = judged(raylet(500), first, left(610, raylet=100), drivers=[(first, "01000000")], init=False)[610]
    assert found.kind == "unknown"
    assert DEAD in found.why


def test_a_thousand_generations_are_judged():
    line = [raylet(), worker(200), *(process(pid, parent=pid - 1) for pid in range(201, 1400))]
    assert set(kinds(*line).values()) == {"ray", "worker", "child"}
