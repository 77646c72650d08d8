"""Each host of a preset gets its own request, and the answers of all hosts are judged together."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.actions.plan import Plan, Target, Unreached
from cockpit.actions.recover.hosts import (
    address_conflicts,
    dashboard_of,
    expected_gpus,
    host_lines,
    listens_far,
    same_host,
    sessions_of,
    start_requests,
    why_another_jobs,
    why_another_ray,
    why_not,
)
from cockpit.config.reach import HostEntry
from cockpit.presets import RayNode, RayStart

START = RayStart(
    RayNode("head", flags={"port": 6400, "num_gpus": 8}), (RayNode("w1", "10.0.0.2", {"num_gpus": 4}),), env={"A": "b"}, python="/py"
)
NAMES = {"head": "login-1", "w1": "w1"}
"""This host is the preset's head; its own name is `login-1`."""


def survey_of(host: str, role: str, **facts: Any) -> Target:
    usual = {"ray_version": "2.60.0", "python_version": "3.11.7", "ray": "/venv/bin/ray", "user": "train", "rays": []}
    return Target("host", host, name=role, part=role, facts={**usual, **facts})


HEAD, WORKER = survey_of("login-1", "head", gcs="10.0.0.1:6400"), survey_of("w1", "worker")


def plan(*targets: Target, **more: Any) -> Plan:
    return Plan("start", "Start Ray", targets=targets, **more)


def test_a_host_with_another_address_in_the_config_is_reported():
    config = (HostEntry("w1", address="192.168.0.2"), HostEntry("head", address="192.168.0.1"))
    assert list(address_conflicts(START, config)) == [
        "w1 has address 192.168.0.2 in the config and 10.0.0.2 in the preset; 192.168.0.2 is used"
    ]
    assert not list(address_conflicts(START, (HostEntry("w1"), HostEntry("w1", address="10.0.0.2"))))


def test_each_host_is_asked_with_its_own_flags_and_the_presets_environment():
    requests = start_requests(START, NAMES, {"A": "b"}, {}, survey=True)
    assert {host: (one["role"], one["words"], one["gcs"], one["name"]) for host, one in requests.items()} == {
        "login-1": ("head", ["--port=6400", "--num-gpus=8"], None, "head"),
        "w1": ("worker", ["--num-gpus=4"], None, "10.0.0.2"),
    }
    assert all(one["env"] == {"A": "b"} and one["python"] == "/py" and one["survey"] for one in requests.values())


def test_workers_get_the_address_of_the_head_and_each_host_the_ray_that_was_found():
    requests = start_requests(START, NAMES, {}, {"login-1": HEAD, "w1": WORKER})
    assert (requests["login-1"]["gcs"], requests["w1"]["gcs"]) == (None, "10.0.0.1:6400")
    assert {(one["ray"], one["user"]) for one in requests.values()} == {("/venv/bin/ray", "train")}


def test_a_printed_plan_shows_nothing_of_the_environment():
    requests = start_requests(START, NAMES, {"HF_TOKEN": "hf_secret"}, {})
    assert requests["w1"]["env"] == {"HF_TOKEN": "hf_secret"}
    assert "hf_secret" not in repr(plan(requests=requests))


def test_the_gcs_decides_whether_a_session_is_this_clusters():
    ours, theirs = "session_2026-11-21_01-00-00_000001_1", "session_2026-11-21_02-00-00_000002_2"
    head = survey_of("login-1", "head", gcs="10.0.0.1:6400", rays=[{"session": ours, "gcs": "10.0.0.1:6400"}])
    worker = survey_of("w1", "worker", rays=[{"session": theirs, "gcs": "10.9.9.9:6400"}, {"session": ours, "gcs": "10.0.0.1:6400"}])
    assert sessions_of(START, NAMES, {"login-1": head, "w1": worker}) == (ours,)


@pytest.mark.parametrize(("job", "port", "refused"), [("41", 6400, True), ("42", 6400, False), (None, 6400, False), ("41", 6379, False)])
def test_another_jobs_ray_on_a_shared_node_is_refused(job: str | None, port: int, refused: bool):
    rays = [{"session": "session_1", "gcs": f"10.0.0.1:{port}", "here": True, "slurm": job}]
    surveyed = {"login-1": survey_of("login-1", "head", gcs="10.0.0.1:6400", rays=rays), "w1": WORKER}
    reason = "session_1 on login-1, with the same port 6400, belongs to Slurm job 41, and is not touched: "
    change = "set ray.head.port in the preset to another port"
    assert why_another_jobs(replace(START, slurm="42"), NAMES, surveyed) == (reason + change if refused else None)
    assert why_another_jobs(START, NAMES, surveyed) is None, "but not on named hosts"


@pytest.mark.parametrize(
    ("gcs", "here", "ours"),
    [
        ("127.0.0.1:6400", True, True),  # any Ray with the head's port is in the way
        ("127.0.0.1:6400", False, False),  # of a container, where 127.0.0.1 is another host
        ("10.9.9.9:6400", False, False),  # the head's host is a worker of another cluster too
        ("10.0.0.1:6380", True, False),
        ("10.0.0.1:6400", True, True),
    ],
)
def test_on_the_head_the_port_decides_whether_a_session_is_this_clusters(gcs: str, here: bool, ours: bool):
    old = "session_2026-11-21_01-00-00_000001_1"
    head = survey_of("login-1", "head", gcs="10.0.0.1:6400", rays=[{"session": old, "gcs": gcs, "here": here}])
    assert sessions_of(START, NAMES, {"login-1": head}) == ((old,) if ours else ())


@pytest.mark.parametrize(
    ("host", "gcs", "addresses", "another"),
    [
        ("login-1", "127.0.0.1:6400", (), False),
        ("w1", "10.0.0.1:6400", (), False),
        ("w1", "10.9.0.1:6400", ("10.9.0.1",), False),  # by another of the head's addresses
        ("login-1", "10.0.0.1:26380", (), True),
        ("w1", "10.7.7.7:6400", (), True),
        ("w1", None, (), False),
    ],
)
def test_a_session_whose_own_raylet_has_another_gcs_is_never_stopped(host, gcs, addresses, another):
    """Any user may call a process raylet and name any session and the preset's GCS."""
    meant = Target("process", host, pid=7, part="raylet", session="session_1", facts={"gcs": gcs})
    reason = why_another_ray(START, NAMES, {"login-1": HEAD}, [meant], addresses)
    assert (reason is not None) == another
    assert not another or reason == f"raylet 7 of session_1 on {host} has its GCS at {gcs}: another Ray cluster, left alone"


@pytest.mark.parametrize(
    ("answered", "sentence"),
    [
        (plan(HEAD, WORKER), None),
        (plan(HEAD, survey_of("w1", "worker", ray_version=None, python_version=None)), None),
        (plan(HEAD, survey_of("w1", "worker", ray_version="2.44.1")), "w1 has Ray 2.44.1, but the head login-1 has 2.60.0"),
        (plan(HEAD, survey_of("w1", "worker", python_version="3.11.6")), "w1 has Python 3.11.6, but the head login-1 has 3.11.7"),
        (plan(HEAD, unreached=(Unreached("w1", "w1: connection refused"),)), "w1: connection refused"),
        (plan(HEAD, refused=(Target("host", "w1", reason="num_gpus is 8, but NVML finds 7"),)), "w1: num_gpus is 8, but NVML finds 7"),
        (plan(HEAD, refused=(Target("host", "w1", reason="w1: no `ray` command is on the PATH"),)), "w1: no `ray` command is on the PATH"),
        (plan(HEAD), "w1 is the same host as another host of the preset"),
    ],
)
def test_the_reasons_against_a_start_are_one_sentence_and_unknown_versions_are_none(answered: Plan, sentence: str | None):
    assert why_not(START, NAMES, answered) == sentence


def test_uncountable_gpus_are_unknown():
    targets = [
        survey_of("a", "head", num_gpus=8, gpus=8),
        survey_of("b", "worker", gpus=8, gpus_visible=2),
        survey_of("c", "worker", gpus=None),
    ]
    assert expected_gpus(targets) == {"a": 8.0, "b": 2.0, "c": None}


@pytest.mark.parametrize(
    ("listens", "near", "url"),
    [
        (None, True, "http://127.0.0.1:8265"),
        ("0.0.0.0", True, "http://127.0.0.1:8265"),
        ("0.0.0.0", False, "http://10.0.0.1:8265"),
        ("10.0.0.7", True, "http://10.0.0.7:8265"),
        ("::", False, "http://10.0.0.1:8265"),
    ],
)
def test_the_dashboard_is_asked_at_its_future_address(listens: str | None, near: bool, url: str):
    flags = {"dashboard_host": listens} if listens else {}
    assert dashboard_of(RayStart(RayNode("head", flags=flags)), "10.0.0.1", near=near) == url


@pytest.mark.parametrize(("flags", "far"), [({}, False), ({"dashboard_host": "127.0.0.1"}, False), ({"dashboard_host": "0.0.0.0"}, True)])
def test_a_dashboard_that_listens_only_on_the_head_is_recognized(flags: dict[str, Any], far: bool):
    assert listens_far(RayStart(RayNode("head", flags=flags))) is far


def test_two_names_of_one_host_are_found_before_anything_is_stopped():
    assert same_host(NAMES) is None
    assert "head and 10.0.0.1 are the same host (login-1)" in str(same_host({"head": "login-1", "w1": "w1", "10.0.0.1": "login-1"}))


def test_the_line_of_a_host_has_its_running_session_and_its_numbers():
    one = Target("host", "w1", session="session_1", live=True, why=("ray start", "as root, Ray 2.60.0", "8 GPUs by NVML"))
    assert list(host_lines([one])) == ["w1: already runs session_1; as root, Ray 2.60.0; 8 GPUs by NVML"]
