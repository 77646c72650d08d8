"""Tests each kind of process, and each piece of evidence that could mislead."""

from __future__ import annotations

import pytest

from cockpit.probe.sample.process_kinds import SeenWorker, SocketListener
from tests.probe.forests import NODE, OTHER, RAY, SESSION, USER, folder, gcs, judged, kinds, left, process, raylet, worker, worker_log

EVIL = 666
ROOT = 0
JOB = '{"metadata": {"job_submission_id": "ppo"}}'
JOB_LOG = f"{SESSION}/logs/job-driver-ppo.log"
DEAD = f"its raylet 100 of {SESSION.rpartition('/')[2]} is dead (RAY_RAYLET_PID)"

# ray


def test_the_parts_of_a_living_session_are_ray():
    log_monitor = process(101, f"python -u {RAY}/_private/log_monitor.py --session-dir={SESSION}")
    dashboard = process(102, f"python {RAY}/dashboard/dashboard.py --session-dir={SESSION}")
    module = process(104, "ray-dashboard-JobHead-0", parent=103)
    agent = process(105, "ray::DashboardAgent", parent=100)
    fork_server = process(103, "python -c forkserver", parent=102)
    found = judged(gcs(), raylet(), log_monitor, dashboard, fork_server, module, agent)
    assert {pid: verdict.kind for pid, verdict in found.items() if pid != 103} == dict.fromkeys((90, 100, 101, 102, 104, 105), "ray")
    assert found[103].kind == "child"
    assert {verdict.session for verdict in found.values()} == {SESSION}
    assert found[100].node == found[105].node == NODE


def test_a_dashboard_lives_with_its_gcs_server_after_the_raylet_died():
    assert kinds(gcs(), process(102, f"python {RAY}/dashboard/dashboard.py --session-dir={SESSION}"))[102] == "ray"


def test_an_agent_started_inside_another_ray_follows_its_own_raylet():
    """Agents of Ray 2.60 inherit the RAY_RAYLET_PID that their raylet was started with."""
    agent = process(105, "ray::DashboardAgent", parent=100, RAY_RAYLET_PID="7")
    assert kinds(raylet(RAY_RAYLET_PID="7"), agent)[105] == "ray"


def test_a_fork_of_a_raylet_that_will_become_a_worker_is_no_second_raylet():
    fork = raylet(110, parent=100)
    assert kinds(raylet(), fork) == {100: "ray", 110: "child"}


def test_an_editor_on_a_file_of_ray_is_not_listed():
    assert kinds(raylet(), process(50, f"vim {RAY}/dashboard/dashboard.py")) == {100: "ray"}


# worker


def test_a_child_of_a_raylet_with_rays_title_is_a_worker():
    found = judged(raylet(), worker(200))[200]
    assert (found.kind, found.job, found.session, found.node) == ("worker", "02000000", SESSION, NODE)
    assert "raylet 100" in found.why[0]


def test_a_worker_is_known_by_its_title_when_its_main_thread_has_another_name():
    assert kinds(raylet(), worker(200, name="pt_main_thread"))[200] == "worker"


def test_a_worker_behind_a_wrapper_is_a_worker():
    assert kinds(raylet(), process(150, "nsys profile", parent=100), worker(200, parent=150, RAY_RAYLET_PID="100"))[200] == "worker"


def test_a_worker_in_a_container_knows_its_raylet_by_the_pid_in_there():
    inside = [raylet(5000, pids=(5000, 17)), worker(5100, parent=4999, pids=(5100, 80), RAY_RAYLET_PID="17", logs=[worker_log(80)])]
    assert kinds(*inside, process(4999, "conmon"))[5100] == "worker"


# driver


def test_a_script_that_has_connected_is_a_driver():
    script = process(300)
    found = judged(raylet(), script, drivers=[(script, "01000000")])[300]
    assert (found.kind, found.job) == ("driver", "01000000")


def test_the_driver_of_a_submitted_job_is_found_below_its_supervisor():
    family = [raylet(), worker(200, title="ray::JobSupervisor"), process(201, "/bin/sh -c train", parent=200)]
    driver = process(202, parent=201)
    assert kinds(*family, driver, drivers=[(driver, "03000000")]) == {100: "ray", 200: "worker", 201: "child", 202: "driver"}


def test_a_pid_that_was_a_driver_once_is_no_driver():
    other = process(300)
    assert kinds(raylet(), other, drivers=[(other._replace(ticks=7), "01000000")]) == {100: "ray"}


def test_a_driver_of_a_dead_ray_is_foreign():
    """A notebook that used Ray earlier must not be killed."""
    script = process(300)
    found = judged(script, drivers=[(script, "01000000")], holders=[300])[300]
    assert found.kind == "foreign"
    assert "which is dead" in found.why[0]


# child


def test_a_process_started_by_a_worker_is_a_child_even_in_its_own_session():
    family = [raylet(), worker(200), process(201, parent=200, leader=201), process(202, "VLLM::EngineCore", parent=201)]
    assert kinds(*family) == {100: "ray", 200: "worker", 201: "child", 202: "child"}


def test_a_fork_of_a_worker_keeps_its_title_and_is_a_child():
    assert kinds(raylet(), worker(200), worker(201, parent=200, logs=[worker_log(200)], RAY_RAYLET_PID="100"))[201] == "child"


def test_a_process_started_by_a_driver_is_a_child():
    script = process(300)
    assert kinds(raylet(), script, process(301, parent=300), drivers=[(script, "01000000")])[301] == "child"


def test_a_double_fork_of_a_living_worker_is_a_child():
    """Its parent is pid 1 at once; its log names the worker that started it."""
    found = judged(raylet(), worker(200), left(210, job="ffffffff", logs=[worker_log(200, "ffffffff")]))[210]
    assert found.kind == "child"
    assert "worker 200" in found.why[-1]


def test_a_child_whose_worker_died_while_its_job_has_another_worker_here_stays_a_child():
    assert kinds(raylet(), worker(200), left(210))[210] == "child"


def test_a_child_whose_worker_died_while_the_driver_of_its_job_runs_here_stays_a_child():
    script = process(300)
    assert kinds(raylet(), script, left(210), drivers=[(script, "02000000")])[210] == "child"


def test_a_part_of_a_running_submission_that_lost_its_parent_stays_a_child():
    config = '{"metadata": {"job_submission_id": "ppo"}}'
    job = [worker(200, title="ray::JobSupervisor"), process(201, parent=200, RAY_JOB_CONFIG_JSON_ENV_VAR=config)]
    found = judged(raylet(), *job, process(210, RAY_JOB_CONFIG_JSON_ENV_VAR=config))[210]
    assert (found.kind, found.session) == ("child", SESSION)


def test_a_process_of_a_submission_that_runs_in_two_clusters_has_an_unknown_session():
    config = '{"metadata": {"job_submission_id": "ppo"}}'
    logs = [worker_log(300, session=OTHER)]
    jobs = [worker(200, title="ray::JobSupervisor"), process(201, parent=200, RAY_JOB_CONFIG_JSON_ENV_VAR=config)]
    jobs += [worker(300, title="ray::JobSupervisor", parent=150, logs=logs), process(301, parent=300, RAY_JOB_CONFIG_JSON_ENV_VAR=config)]
    found = judged(raylet(), raylet(150, OTHER), *jobs, process(210, RAY_JOB_CONFIG_JSON_ENV_VAR=config))[210]
    assert (found.kind, found.session) == ("child", None)


def test_a_job_with_the_same_number_in_another_cluster_does_not_count():
    found = judged(raylet(), raylet(150, OTHER), worker(160, parent=150, logs=[worker_log(160, session=OTHER)]), left(210))[210]
    assert (found.kind, found.undecided) == ("unknown", "job")


def test_a_process_without_parent_waits_for_rays_answer_about_its_job():
    found = judged(raylet(), left(210))[210]
    assert (found.kind, found.undecided, found.job) == ("unknown", "job", "02000000")
    assert (found.session, found.node) == (SESSION, NODE)
    assert found.why[-1] == "only Ray knows whether job 02000000 still runs"


def test_the_descendants_of_an_undecided_process_wait_for_the_same_answer():
    found = judged(raylet(), left(210), process(211, parent=210))
    assert (found[211].kind, found[211].undecided, found[211].job) == ("unknown", "job", "02000000")


def test_a_process_without_parent_and_without_job_is_unknown():
    found = judged(raylet(), left(210, job="ffffffff"))[210]
    assert (found.kind, found.undecided) == ("unknown", None)


def test_a_worker_of_another_job_does_not_keep_a_process_alive():
    assert kinds(raylet(), worker(200, job="03000000"), left(210))[210] == "unknown"


# stale


def test_a_worker_that_outlived_its_raylet_is_stale():
    found = judged(worker(200, parent=1, RAY_RAYLET_PID="100"))[200]
    assert found.kind == "stale"
    assert DEAD in found.why


def test_parts_of_a_dead_session_are_stale():
    parts = [
        process(101, f"python -u {RAY}/_private/log_monitor.py --session-dir={SESSION}"),
        process(102, f"python {RAY}/dashboard/dashboard.py --session-dir={SESSION}"),
        process(105, "ray::DashboardAgent", RAY_NODE_ID=NODE),
    ]
    assert kinds(*parts) == dict.fromkeys((101, 102, 105), "stale")


def test_of_two_sessions_only_the_dead_ones_parts_are_stale():
    living = [raylet(), process(102, f"python {RAY}/dashboard/dashboard.py --session-dir={SESSION}"), worker(200)]
    dead = [process(152, f"python {RAY}/dashboard/dashboard.py --session-dir={OTHER}"), worker(250, parent=1, RAY_RAYLET_PID="99")]
    assert kinds(*living, *dead) == {100: "ray", 102: "ray", 200: "worker", 152: "stale", 250: "stale"}


def test_a_session_with_a_listening_socket_lives_even_if_its_raylet_is_hidden():
    dashboard = process(102, f"python {RAY}/dashboard/dashboard.py --session-dir={SESSION}")
    assert kinds(dashboard, folders=[folder(listeners=[SocketListener(0, USER)])])[102] == "ray"


def test_a_part_of_a_session_without_folder_is_stale_only_if_no_process_is_hidden():
    dashboard = process(102, f"python {RAY}/dashboard/dashboard.py --session-dir={SESSION}")
    assert kinds(dashboard, folders=[folder(uid=None)])[102] == "unknown"
    assert kinds(dashboard, folders=[folder(uid=None)], sees_all=True)[102] == "stale"


def test_a_part_of_a_session_in_another_users_folder_is_not_stale():
    dashboard = process(102, f"python {RAY}/dashboard/dashboard.py --session-dir={SESSION}")
    assert kinds(dashboard, folders=[folder(uid=EVIL)])[102] == "unknown"


# orphan


def test_a_child_whose_raylet_is_dead_is_an_orphan():
    found = judged(left(210))[210]
    assert (found.kind, found.why, found.session) == ("orphan", (DEAD,), SESSION)


@pytest.mark.parametrize("parent", ["systemd --user", "tini -- run", "/usr/bin/containerd-shim"])
def test_an_orphan_stays_one_under_any_reaper(parent):
    assert kinds(process(40, parent), left(210, parent=40))[210] == "orphan"


def test_the_first_process_of_a_container_is_a_reaper_whatever_its_name():
    assert kinds(process(40, "python entry.py", pids=(40, 1)), left(210, parent=40, pids=(210, 77)))[210] == "orphan"


def test_the_pid_of_a_dead_raylet_may_be_reused():
    found = judged(process(100, "postgres"), left(210))[210]
    assert found.kind == "orphan"
    assert "now postgres" in found.why[0]


def test_a_raylet_started_later_with_the_same_pid_is_another_one():
    found = judged(raylet(ticks=9000), left(210, ticks=2100))[210]
    assert found.kind == "orphan"
    assert "started later" in found.why[0]


def test_a_zombie_raylet_is_dead():
    found = judged(process(100, "raylet", state="Z"), left(210))[210]
    assert (found.kind, found.why) == ("orphan", (DEAD.replace(" (", ", a zombie ("),))


def test_another_living_session_does_not_keep_an_orphan():
    assert kinds(raylet(500, OTHER), worker(550, parent=500), left(210))[210] == "orphan"


def test_a_child_of_an_orphan_is_an_orphan():
    found = judged(left(210), process(211, "VLLM::EngineCore", parent=210))[211]
    assert (found.kind, found.why[0]) == ("orphan", "child of python 210 (orphan)")


def test_a_child_of_a_stale_worker_is_an_orphan():
    assert kinds(worker(200, parent=1, RAY_RAYLET_PID="100"), left(210, parent=200))[210] == "orphan"


def test_a_process_of_a_submitted_job_in_a_dead_session_is_an_orphan():
    found = judged(process(210, RAY_JOB_CONFIG_JSON_ENV_VAR=JOB, logs=[JOB_LOG]))[210]
    assert (found.kind, found.job, found.session) == ("orphan", "ppo", SESSION)


def test_a_process_of_a_submitted_job_follows_the_raylet_that_it_names_not_another_live_one():
    found = judged(raylet(500, OTHER), process(610, RAY_RAYLET_PID="100", RAY_JOB_CONFIG_JSON_ENV_VAR=JOB))[610]
    assert (found.kind, found.job, found.why) == ("orphan", "ppo", (DEAD,))


def past(pid: int = 200, raylet: tuple[int, int] = (100, 1000), until: int = 5000) -> SeenWorker:
    return SeenWorker(pid, 2000, raylet, SESSION, "02000000", until, USER)


def test_a_process_once_seen_below_a_worker_is_an_orphan_when_the_raylet_is_dead():
    daemon = process(210, "daemon")
    found = judged(daemon, seen={daemon.identity: past()})[210]
    assert (found.kind, found.job) == ("orphan", "02000000")
    assert "was seen as a child of worker 200" in found.why[0]


def test_the_first_reason_of_an_undecided_process_names_its_dead_worker():
    daemon = process(210, "daemon")
    assert judged(raylet(), daemon, seen={daemon.identity: past()})[210].why == (
        "its worker 200 is gone",
        "it was seen as a child of worker 200, whose raylet 100 still runs",
        "only Ray knows whether job 02000000 still runs",
    )


def test_a_process_once_seen_below_a_live_worker_is_its_child():
    daemon = process(210, "daemon")
    assert kinds(raylet(), worker(200), daemon, seen={daemon.identity: past()})[210] == "child"


def test_a_process_in_the_group_of_a_dead_worker_is_an_orphan():
    assert kinds(process(210, "daemon", group=200), workers={200: past()})[210] == "orphan"


def test_a_process_younger_than_the_end_of_the_worker_does_not_belong_to_it():
    assert kinds(process(900, "daemon", group=200), workers={200: past(until=5000)}) == {}


def test_the_process_group_that_ray_was_started_in_proves_nothing():
    """Up to Ray 2.44, workers stay in the process group of the shell that ran `ray start`, like other jobs of that shell."""
    assert kinds(raylet(group=40), worker(200, group=40), process(210, "daemon", group=40)) == {100: "ray", 200: "worker"}


# nothing that lives, whatever speaks against it


def test_below_a_living_raylet_no_sign_of_death_counts():
    child = process(201, "python rank.py", parent=200, RAY_RAYLET_PID="99", logs=[worker_log(9, session=OTHER)])
    assert kinds(raylet(), worker(200), child)[201] == "child"


def test_a_session_behind_a_link_is_the_same_session():
    """`ray start --temp-dir=/tmp/link`: the raylet names the link, the kernel shows the logs where they are."""
    linked = SESSION.replace("/tmp/ray", "/tmp/link")
    folders = [folder(SESSION, 100, inode=7), folder(linked, 100, inode=7)]
    job = process(210, "python plain.py", RAY_JOB_CONFIG_JSON_ENV_VAR=JOB, logs=[JOB_LOG])
    found = judged(raylet(session=linked), job, folders=folders)[210]
    assert (found.kind, found.undecided) == ("unknown", "job")
    supervised = [worker(200, title="ray::JobSupervisor"), job._replace(parent=200)]
    assert kinds(raylet(session=linked), *supervised, folders=folders)[210] == "child"


def test_a_renamed_session_lives_while_a_raylet_listens_in_it():
    """Any user may write into Ray's temp dir."""
    renamed = "/tmp/ray/session_2001-01-01_00-00-00_000000_1"
    job = process(210, RAY_JOB_CONFIG_JSON_ENV_VAR=JOB, logs=[f"{renamed}/logs/job-driver-ppo.log"])
    found = judged(raylet(), job, folders=[folder(renamed, 100, listeners=[SocketListener(100, USER)])])[210]
    assert found.kind == "unknown"


def test_processes_of_a_terminal_that_was_started_in_a_job_are_in_use():
    """A tmux that was started in a job, and a server below its shell: their variables name a Ray that has long ended."""
    ours = {"RAY_RAYLET_PID": "100", "RAY_JOB_ID": "02000000"}
    tmux = process(210, "tmux", **ours)
    shell = process(211, "-bash", parent=210, terminal=34816, **ours)
    server = process(212, "python server.py", parent=211, terminal=34816, leader=211, **ours)
    alone = process(213, "python server.py", terminal=34816, leader=211, **ours)
    assert kinds(tmux, shell, server, alone) == dict.fromkeys((210, 211, 212, 213), "unknown")


@pytest.mark.parametrize("parent", ["slurmstepd: [1.0]", "orted", "sshd: train", "bash", "my-launcher"])
def test_a_process_with_a_live_launcher_as_parent_is_in_use(parent):
    found = judged(process(40, parent), left(210, parent=40))[210]
    assert found.kind == "unknown"
    assert found.why[-1].endswith("lives, and is not Ray's")


def test_a_process_with_a_hidden_parent_is_unknown():
    assert kinds(left(210, parent=0))[210] == "unknown"
    assert kinds(left(210, parent=999))[210] == "unknown"


def test_variables_that_a_process_inherited_from_a_containers_first_process_prove_nothing():
    """A job has started a container, and somebody still works in it."""
    first = process(1, "bash", parent=0, RAY_RAYLET_PID="100", RAY_JOB_ID="02000000")
    assert kinds(first, left(210), init=False)[210] == "unknown"


def test_a_variable_counts_only_if_a_session_of_its_user_had_that_raylet():
    """Slurm's srun copies the environment of a job to other hosts."""
    for folders in ([], [folder(SESSION, 77)], [folder(SESSION, 100, uid=EVIL)], [folder(SESSION, 100, uid=ROOT)]):
        found = judged(left(210), folders=folders)[210]
        assert (found.kind, found.undecided) == ("unknown", None)
        assert "its session may be on another host" in found.why[0]


def test_a_process_that_sees_other_files_is_unknown_and_the_reason_says_so():
    """Such as a process of a Slurm job with its own /tmp, seen from outside of the job."""
    inside = left(210)
    inside = inside._replace(details=inside.details._replace(mount_namespace="mnt:[4026539999]"))
    found = judged(inside, folders=[])[210]
    assert (found.kind, found.undecided) == ("unknown", None)
    assert found.why[0].endswith(
        "it sees other files than cockpit (it is in a container, or in a job with its own /tmp): run cockpit there"
    )


def test_a_variable_that_names_another_node_does_not_count():
    assert kinds(left(210, RAY_NODE_ID="ff" * 28))[210] == "unknown"


def test_the_log_decides_between_two_sessions_that_had_a_raylet_with_the_same_pid():
    both = [folder(SESSION, 100), folder(OTHER, 100, inode=2)]
    assert kinds(left(210), folders=both)[210] == "unknown"
    assert kinds(left(210, logs=[worker_log(200)]), folders=both)[210] == "orphan"


def test_a_folder_with_a_sessions_name_but_without_raylets_proves_nothing():
    """An attacker may rename his own folder, which contains a folder of the victim that he can't read."""
    assert kinds(left(210, logs=[worker_log(200)]), folders=[folder(SESSION)])[210] == "unknown"
    found = judged(process(210, RAY_JOB_CONFIG_JSON_ENV_VAR=JOB, logs=[JOB_LOG]), folders=[folder(SESSION)])[210]
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
    job = process(210, RAY_JOB_CONFIG_JSON_ENV_VAR=JOB, logs=[JOB_LOG])
    found = judged(raylet(150, OTHER), job)[210]
    assert (found.kind, found.undecided, found.asks) == ("unknown", "job", (OTHER,))
    assert kinds(raylet(500, OTHER), job)[210] == "orphan"  # that one is younger


def test_no_raylet_counts_as_dead_while_another_one_of_the_user_is_hidden():
    unseen = [folder(SESSION, 100), folder(OTHER, 5, listeners=[SocketListener(0, USER)])]
    assert kinds(left(210), folders=unseen)[210] == "unknown"
    assert kinds(process(210, RAY_JOB_CONFIG_JSON_ENV_VAR=JOB, logs=[JOB_LOG]), folders=unseen)[210] == "unknown"


def test_another_users_raylet_and_listener_keep_nothing_alive():
    """Else any user could keep root from ending orphans."""
    claims = [raylet(100, ticks=5, uid=EVIL), raylet(300, uid=EVIL)]
    found = kinds(*claims, left(210), folders=[folder(SESSION, 100, listeners=[SocketListener(300, EVIL)])])
    assert found[210] == "orphan"


def test_a_raylet_of_root_counts_for_every_user():
    assert kinds(raylet(uid=ROOT), left(210))[210] == "unknown"


def test_a_worker_of_another_user_proves_nothing():
    daemon = process(210, "daemon")
    assert kinds(daemon, seen={daemon.identity: past()._replace(uid=EVIL)}) == {}


def test_an_engines_title_proves_nothing_alone():
    for parent in (1, 40):
        found = judged(process(40, "bash"), process(210, "VLLM::EngineCore", parent=parent), holders=[210])[210]
        assert found.kind == ("unknown" if parent == 1 else "foreign")


def test_a_submission_without_a_log_on_this_host_is_unknown():
    assert kinds(process(210, RAY_JOB_CONFIG_JSON_ENV_VAR=JOB))[210] == "unknown"
    assert judged(raylet(), process(210, RAY_JOB_CONFIG_JSON_ENV_VAR=JOB))[210].undecided is None


def test_a_stale_worker_below_a_living_launcher_is_in_use():
    assert kinds(process(40, "my-launcher"), worker(200, parent=40, RAY_RAYLET_PID="100"))[200] == "unknown"


def test_an_orphan_with_a_terminal_below_it_is_in_use():
    shell = process(211, "-bash", parent=210, terminal=34816)
    assert kinds(left(210, "python notebook.py"), shell)[210] == "unknown"


# foreign


@pytest.mark.parametrize(
    "stranger",
    [
        process(400, "python train.py"),
        process(400, "python train.py", name="pt_main_thread"),
        process(400, "/usr/bin/dcgm-exporter"),
        process(400, "python train.py", RAY_ADDRESS="10.0.0.1:6379", CUDA_VISIBLE_DEVICES="3"),
        process(400, "python train.py", RAY_JOB_ID="02000000"),
    ],
    ids=["nohup after a logout", "nohup with torch", "service", "a Ray client's environment", "a job id alone"],
)
def test_parent_1_alone_proves_nothing(stranger):
    assert kinds(raylet(), stranger, holders=[400])[400] == "foreign"


def test_a_foreign_process_without_gpu_is_not_listed():
    assert kinds(process(400)) == {}


# unknown


def test_a_holder_that_cannot_be_seen_is_unknown():
    found = judged(holders=[31337])[31337]
    assert found.kind == "unknown"
    assert "another PID namespace" in found.why[0]


def test_a_holder_whose_environment_cannot_be_read_is_unknown():
    found = judged(process(400, readable=False), holders=[400])[400]
    assert (found.kind, found.why) == ("unknown", ("its environment can't be read: no permission",))


def test_an_unreadable_worker_or_engine_without_parent_is_listed_as_unknown():
    assert kinds(worker(200, parent=1, readable=False, logs=[])) == {200: "unknown"}
    assert kinds(process(400, command="VLLM::EngineCore", readable=False)) == {400: "unknown"}


def test_a_stuck_holder_is_unknown():
    found = judged(process(400, name="python", stuck=True, state="D"), holders=[400])[400]
    assert found.kind == "unknown"
    assert "stuck in the kernel" in found.why[0]


def test_a_stuck_raylet_is_not_dead():
    assert kinds(raylet(name="raylet", stuck=True, state="D"), left(210))[210] == "unknown"


def test_an_unreadable_child_of_a_worker_is_a_child():
    assert kinds(raylet(), worker(200), process(201, parent=200, readable=False))[201] == "child"


def test_an_absent_raylet_is_not_dead_if_processes_are_hidden():
    assert kinds(left(210), init=False)[210] == "unknown"


def test_a_dead_raylet_and_the_log_of_a_living_session_contradict_each_other():
    found = judged(raylet(500), left(610, raylet=100, logs=[worker_log(200)]))[610]
    assert found.kind == "unknown"
    assert found.undecided is None
    assert found.why[-1] == "these reasons contradict each other"


def test_an_orphan_adopted_by_a_driver_that_is_pid_1_is_not_its_child():
    script = process(1, "python train.py", parent=0)
    found = judged(raylet(500), script, left(610, raylet=100), drivers=[(script, "01000000")], init=False)[610]
    assert found.kind == "unknown"
    assert DEAD in found.why


def test_children_inherit_the_old_variables_of_a_driver_that_was_started_from_an_old_jobs_shell():
    script = process(600, RAY_RAYLET_PID="100")
    child = process(601, parent=600, RAY_RAYLET_PID="100")
    assert kinds(raylet(500), script, child, drivers=[(script, "01000000")]) == {500: "ray", 600: "driver", 601: "child"}


def test_a_zombie_holds_nothing():
    found = judged(raylet(), worker(200), process(201, "sh", parent=200, state="Z"), process(400, state="Z"), holders=[400])
    assert found[201].kind == "child"
    assert found[400].kind == "unknown"
    assert "a zombie" in found[201].why[0]
    assert "a zombie" in found[400].why[0]


def test_a_loop_of_parents_ends():
    assert kinds(process(400, parent=401), process(401, parent=400), holders=[400, 401]) == {400: "foreign", 401: "foreign"}


def test_a_thousand_generations_are_judged():
    line = [raylet(), worker(200), *(process(pid, parent=pid - 1) for pid in range(201, 1400))]
    assert set(kinds(*line).values()) == {"ray", "worker", "child"}
