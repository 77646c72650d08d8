"""Signs in command lines, environments and logs; the texts come from real Rays."""

from __future__ import annotations

import pytest

from cockpit.probe.sample.origin import trace
from tests.probe.process_tables import NODE, RAY, SESSION, worker_log

PYTHON = "/env/bin/python3"


@pytest.mark.parametrize(
    ("argv", "role"),
    [
        ((f"{RAY}/core/src/ray/raylet/raylet", f"--raylet_socket_name={SESSION}/sockets/raylet"), "raylet"),
        ((f"{RAY}/core/src/ray/gcs/gcs_server", f"--log_dir={SESSION}/logs"), "gcs_server"),
        ((PYTHON, f"{RAY}/dashboard/dashboard.py", "--host=127.0.0.1"), "dashboard"),
        ((PYTHON, "-u", f"{RAY}/dashboard/agent.py", "--node-ip-address=127.0.0.1"), "agent"),
        ((PYTHON, "-u", f"{RAY}/_private/runtime_env/agent/main.py"), "agent"),
        ((PYTHON, "-u", f"{RAY}/autoscaler/_private/monitor.py"), "autoscaler"),
        ((PYTHON, "-u", f"{RAY}/_private/log_monitor.py"), "log_monitor"),
        ((PYTHON, "-m", "ray.util.client.server", "--port=10001"), "client_server"),
        ((PYTHON, f"{RAY}/_private/workers/setup_worker.py", f"{RAY}/_private/workers/default_worker.py"), "worker"),
        (("ray::DashboardAgent",), "agent"),
        (("ray::RuntimeEnvAgent",), "agent"),
        (('ray-dashboard-JobHead-0 (/env/bin/python3 -c "from multiprocessing.forkserver …")',), "dashboard"),
        (("ray::JobSupervisor",), "supervisor"),
        (("ray::IDLE",), "worker"),
        (("ray::WorkerDict.actor_rollout_generate",), "worker"),
    ],
)
def test_each_part_of_ray_is_known_by_its_command(argv, role):
    assert trace(argv, argv[0].rpartition("/")[2][:15], {}).role == role


@pytest.mark.parametrize(
    "argv",
    [
        ("python", "gpu_monitor.py"), ("vim", f"{RAY}/dashboard/dashboard.py"), ("python", "lint.py", f"{RAY}/dashboard/dashboard.py"),
        ("tail", "-f", f"{SESSION}/logs/raylet.out"), ("/opt/game/raylet", "--level=3"), ("less", "gcs_server"),
        ("python", "-c", "print('ray::IDLE')"),
    ],
)  # fmt: skip
def test_a_name_among_the_arguments_is_no_sign_of_ray_or_of_its_session(argv):
    found = trace(argv, argv[0].rpartition("/")[2], {})
    assert found.role is found.session is None


@pytest.mark.parametrize("flag", ["--session_dir=", "--session-dir=", "--log_dir=", "--logs-dir="])
def test_a_service_names_its_session_in_its_flags(flag):
    folder = SESSION if "session" in flag else f"{SESSION}/logs"
    argv = (PYTHON, f"{RAY}/_private/log_monitor.py", f"{flag}{folder}", "--gcs-address=1.2.3.4:6379")
    assert trace(argv, "python3", {}).session == SESSION


def test_a_session_folder_in_a_flag_may_have_any_name():
    argv = (f"{RAY}/raylet", "--raylet_socket_name=x", "--session_dir=/my data/session_x/")
    assert trace(argv, "raylet", {}).session == "/my data/session_x"


def test_a_worker_that_waited_for_a_job_and_a_supervisor_do_not_know_their_job():
    assert trace(("ray::A",), "ray::A", {"RAY_JOB_ID": "ffffffff", "RAY_RAYLET_PID": "100"}).job is None
    assert trace(("ray::JobSupervisor",), "ray::JobSupervi", {"RAY_JOB_ID": "02000000"}).job is None


def test_the_log_of_such_a_worker_begins_with_its_job():
    head = b":job_id:01000000\n:actor_name:A\nhello\n"
    environ = {"RAY_JOB_ID": "ffffffff", "RAY_RAYLET_PID": "100"}
    assert trace(("sleep",), "sleep", environ, [worker_log(384, "ffffffff")], head).job == "01000000"
    assert trace(("sleep",), "sleep", {**environ, "RAY_JOB_ID": "03000000"}, [worker_log(384, "ffffffff")], head).job == "03000000"
    assert trace(("sleep",), "sleep", environ, [worker_log(384, "ffffffff")], b"what is :job_id:01000000?").job is None


@pytest.mark.parametrize("end", ["", ".3", " (deleted)", ".1 (deleted)"])
def test_a_log_that_was_rotated_or_removed_still_counts(end):
    assert trace(("sleep",), "sleep", {}, [worker_log(384) + end]).worker == 384


def test_the_children_of_a_submitted_job_belong_to_the_submission_not_to_its_supervisors_job():
    config = '{"runtime_env": {}, "metadata": {"job_submission_id": "ppo-7b", "job_name": "ppo-7b"}}'
    found = trace(("sleep", "9"), "sleep", {"RAY_JOB_CONFIG_JSON_ENV_VAR": config, "RAY_JOB_ID": "02000000", "RAY_RAYLET_PID": "5"})
    assert (found.submission, found.job, found.raylet) == ("ppo-7b", None, 5)


@pytest.mark.parametrize(
    "config", ["", "{", "[]", "3", '{"metadata": 3}', '{"metadata": {"job_submission_id": 3}}', '{"metadata": ' + "[" * 100_000]
)
def test_a_broken_job_config_is_no_submission(config):
    assert trace(("sleep",), "sleep", {"RAY_JOB_CONFIG_JSON_ENV_VAR": config}).submission is None


def test_the_log_of_a_process_shows_its_session_and_its_worker_or_submission():
    found = trace(("python", "serve.py"), "python", {}, ["pipe:[77]", worker_log(8913, "03000000")])
    assert (found.worker, found.session, found.job) == (8913, SESSION, "03000000")
    found = trace(("python", "serve.py"), "python", {}, [f"{SESSION}/logs/job-driver-ppo-7b.log"])
    assert (found.submission, found.session) == ("ppo-7b", SESSION)


def test_nodes_are_named_by_flags_and_by_the_environment_of_agents():
    assert trace(("/x/raylet", "--raylet_socket_name=x", f"--node_id={NODE}"), "raylet", {}).node == NODE
    assert trace(("ray::DashboardAgent",), "ray::DashboardA", {"RAY_NODE_ID": NODE}).node == NODE


@pytest.mark.parametrize(
    ("argv", "name", "engine"),
    [
        (("VLLM::EngineCore",), "VLLM::EngineCor", "VLLM::EngineCore"),
        (("python", "-m", "x"), "VLLM::Worker_TP", "VLLM::Worker_TP"),
        (("sglang::scheduler_TP0",), "sglang::scheduler_TP0"[:15], "sglang::scheduler_TP0"),
        (("sgl_diffusion::scheduler_TP0",), "sgl_diffusion::"[:15], "sgl_diffusion::scheduler_TP0"),
        (("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(7)"), "pt_main_thread", "pt_main_thread"),
        (("python", "train.py"), "pt_main_thread", None),
        (("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(7)"), "python", None),
        (("bash",), "bash", None),
    ],
)
def test_an_engine_is_known_by_its_title(argv, name, engine):
    assert trace(argv, name, {}).engine == engine


def test_an_unreadable_environment_is_not_an_empty_one():
    assert not trace(("python",), "python", None).readable
    assert trace(("python",), "python", {}).readable


@pytest.mark.parametrize("written", ["²", "9" * 5000, "-1", "1e3", " 7", ""])
def test_an_invalid_pid_is_no_raylet(written):
    assert trace(("a",), "a", {"RAY_RAYLET_PID": written}).raylet is None
