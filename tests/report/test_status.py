from __future__ import annotations

import json
import os
import stat
from typing import Any

import pytest

from cockpit.config.document import json_schema
from cockpit.findings import DETECTORS, FindingTracker, Limits
from cockpit.model import (
    Cluster,
    Communicator,
    CountGap,
    CountGroup,
    Disk,
    Failure,
    Fault,
    Finding,
    Hold,
    HostMemory,
    Job,
    NcclRank,
    NcclReport,
    PlacementGroup,
    Remedy,
    Session,
    Snapshot,
)
from cockpit.report import status
from cockpit.report.status import CRITICAL, NO_ANSWER, OK, WARNING, Status, exit_code, export, status_json
from tests.report.phase_worlds import lagging, phased
from tests.world import GIB, NOW, actor, engine, node, process, snapshot

TEXT, NUMBER, WHOLE, TRUTH, MANY = str, (int, float), int, bool, list
CONTRACT = {
    "": {"schema": WHOLE, "taken": NUMBER, "cluster": dict, "nodes": MANY, "actors": dict, "placement_groups": MANY, "jobs": MANY,
         "processes": MANY, "sessions": MANY, "findings": MANY, "faults": MANY},
    "cluster": {"address": TEXT, "ray_version": TEXT, "session": TEXT, "cluster_id": TEXT, "auth": TEXT, "reachable": TRUTH},
    "nodes": {"id": TEXT, "host": TEXT, "ip": TEXT, "head": TRUTH, "state": TEXT, "age": NUMBER, "cpu": NUMBER, "memory": dict,
              "object_store": dict, "shm": dict, "disks": MANY, "resources": dict, "gpus": MANY},
    "nodes.memory": {"used": WHOLE, "total": WHOLE, "kill_at": WHOLE},
    "nodes.object_store": {"used": WHOLE, "total": WHOLE},
    "nodes.shm": {"used": WHOLE, "total": WHOLE},
    "nodes.disks": {"path": TEXT, "used": WHOLE, "total": WHOLE},
    "nodes.resources.GPU": {"used": NUMBER, "total": NUMBER},
    "nodes.gpus": {"index": WHOLE, "uuid": TEXT, "name": TEXT, "utilization": NUMBER, "memory_used": WHOLE, "memory_total": WHOLE,
                   "power": NUMBER, "power_limit": NUMBER, "temperature": NUMBER},
    "actors": {"counts": dict, "complete": TRUTH, "pending": MANY},
    "actors.pending": {"id": TEXT, "class": TEXT, "name": TEXT, "state": TEXT, "job": TEXT, "needs": dict, "placement_group": TEXT,
                       "waiting": NUMBER, "why": TEXT, "wait": TEXT},
    "placement_groups": {"id": TEXT, "name": TEXT, "state": TEXT, "strategy": TEXT, "bundles": MANY, "job": TEXT, "waiting": NUMBER,
                         "why": TEXT, "wait": TEXT},
    "placement_groups.bundles": {"needs": dict, "node": (str, type(None))},
    "jobs": {"id": TEXT, "status": TEXT, "entrypoint": TEXT, "started": NUMBER, "ended": NUMBER, "message": TEXT, "reason": TEXT,
             "failure": (dict, type(None)), "phase": (dict, type(None)), "steps": (dict, type(None)), "ranks": (list, type(None))},
    "processes": {"host": TEXT, "pid": WHOLE, "started": NUMBER, "parent": WHOLE, "user": TEXT, "command": TEXT, "rss": WHOLE,
                  "gpus": MANY, "kind": TEXT, "why": MANY, "job": TEXT, "actor": TEXT, "session": TEXT},
    "processes.gpus": {"index": WHOLE, "memory": WHOLE},
    "sessions": {"host": TEXT, "name": TEXT, "path": TEXT, "live": TRUTH, "owner": TEXT, "size": WHOLE, "keeps": MANY},
    "engines": {"software": TEXT, "number": TEXT, "model": TEXT, "node": TEXT, "pid": WHOLE, "job": TEXT, "actor": TEXT, "by": TEXT,
                "running": WHOLE, "waiting": WHOLE, "kv_cache": NUMBER, "tokens_per_second": NUMBER, "preemptions_per_minute": NUMBER,
                "preemptions": WHOLE, "read": NUMBER},
    "faults": {"source": TEXT, "host": TEXT, "text": TEXT, "since": NUMBER, "sources": MANY},
}  # fmt: skip


WITH_ENGINES = snapshot(engines=(engine(), engine(4712, unanswered=NOW - 60, why="no answer", ended=NOW - 60)))


def told(of=None):
    return json.loads(status_json(of or snapshot()))


def found(value, where):
    """Every object at a place such as `nodes.gpus`."""
    at = [value]
    for name in filter(None, where.split(".")):
        at = [inner for outer in at for inner in (outer[name] if isinstance(outer[name], list) else [outer[name]]) if inner is not None]
    return at


def right(value, kind):
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


@pytest.mark.parametrize("where", CONTRACT)
def test_every_field_of_the_contract_is_there_with_its_type_in_every_object(where):
    objects = found(told(WITH_ENGINES), where)
    assert objects, f"nothing is listed in {where}"
    assert len({frozenset(each) for each in objects}) == 1
    for name, kind in CONTRACT[where].items():
        values = [each[name] for each in objects]
        assert [value for value in values if right(value, kind)], f"no {where}.{name} is ever known"
        assert not [value for value in values if value is not None and not right(value, kind)]


def test_what_nccl_reported_is_listed_with_counts_and_ranks():
    gap = CountGap("AllReduce", (CountGroup(412, 7), CountGroup(411, 1, (NcclRank(rank=3, pid=4003, gpu=3),))))
    report = NcclReport(job="job:ppo-7b", asked=NOW, versions=("2.29.7",), communicators=(Communicator(hash="0x1", gaps=(gap,)),), number=1)
    (found,) = json.loads(status_json(snapshot(nccl=(report,))))["nccl"]
    assert (found["job"], found["asked"], found["problems"]) == ("job:ppo-7b", NOW, [])
    low = found["communicators"][0]["gaps"][0]["groups"][1]
    assert (low["launched"], low["ranks"][0]["rank"], low["ranks"][0]["process"]) == (411, 3, None)
    assert json.loads(status_json(snapshot()))["nccl"] == []


def test_unknown_is_null_and_neither_empty_nor_zero():
    unknown = told(Snapshot(taken=NOW))
    assert {name: unknown[name] for name in ("nodes", "placement_groups", "jobs", "processes", "sessions")} == dict.fromkeys(
        ("nodes", "placement_groups", "jobs", "processes", "sessions")
    )
    assert unknown["actors"] == {"counts": None, "complete": None, "pending": None}
    assert set(unknown["cluster"].values()) == {None}
    assert unknown["findings"] == unknown["faults"] == []


def test_a_node_without_a_probe_has_nulls():
    (bare,) = told(snapshot(nodes=(node(1, probed=False, gpus=None, seen=None, cpu=None, memory=HostMemory(), disks=(Disk("/tmp"),)),)))[
        "nodes"
    ]
    assert bare["gpus"] is bare["age"] is bare["cpu"] is None
    assert bare["memory"] == {
        "used": None,
        "total": None,
        "kill_at": None,
        "host_total": None,
        "shared": None,
        "whole": None,
        "isolation": None,
        "charged": None,
    }
    assert bare["disks"] == [{"path": "/tmp", "used": None, "total": None}]
    (none,) = told(snapshot(nodes=(node(1, gpus=()),)))["nodes"]
    assert none["gpus"] == []


def test_ages_and_waits_are_seconds_before_the_snapshot():
    status = told()
    assert [each["age"] for each in status["nodes"]] == [0, 2, 3]
    assert {each["waiting"] for each in status["actors"]["pending"] if each["state"] == "PENDING_CREATION"} == {300}
    assert [each["waiting"] for each in status["placement_groups"]] == [400, None]
    assert told(snapshot(nodes=(node(1, seen=NOW + 30),)))["nodes"][0]["age"] == 0, "its clock is ahead"


def test_pending_lists_waiting_and_restarting_actors_only():
    states = [each["state"] for each in told()["actors"]["pending"]]
    assert sorted(set(states)) == ["PENDING_CREATION", "RESTARTING"]
    assert len(states) == 5


def test_a_running_job_has_its_phase_steps_and_ranks():
    job = told(lagging())["jobs"][0]
    assert job["phase"] == {
        "name": "training",
        "also": [],
        "method": None,
        "since": NOW - 40,
        "framework": None,
        "logged": False,
        "text": "step 412 · training (usual 20s ± 0s) · 30.0 steps/h",
        "waits": "7 of 8 PolicyModelActor have waited for 4m00s; node1 GPU 3 (pid 2003) is still in fit",
    }
    steps = job["steps"]
    assert (steps["number"], steps["total"], steps["began"], steps["seen"]) == (412, None, NOW - 40, 4)
    assert steps["phases"] == {"rollout": 40}
    assert steps["usual"]["step"] == {"median": 120, "spread": 0}
    assert steps["usual"]["scoring"] == {"median": 30, "spread": 0}
    assert (steps["per_hour"], steps["left"]) == (30, None)
    assert [each["number"] for each in steps["ended"]] == [408, 409, 410, 411]
    assert steps["ended"][-1]["phases"] == {"rollout": 60, "scoring": 30, "training": 20, "weight sync": 10}
    assert len(job["ranks"]) == 8
    assert [(each["pid"], each["behind"]) for each in job["ranks"] if each["method"] == "fit"] == [(2003, NOW - 240)]
    assert job["ranks"][0] == {
        "class": "PolicyModelActor", "host": "node1", "pid": 2000, "actor": None, "gpus": [0], "method": None, "phase": None,
        "behind": None,
    }  # fmt: skip


def test_what_is_unknown_of_phases_is_null():
    unknown = told(phased(activities=(), spans=(), steps=0))["jobs"][0]
    assert unknown["phase"] is unknown["steps"] is unknown["ranks"] is None
    ended = told(phased(activities=()))["jobs"][0]
    assert ended["phase"] is ended["ranks"] is None
    assert len(ended["steps"]["ended"]) == 4, "the steps of a job that has ended are kept"
    assert told(phased(phase=None))["jobs"][0]["phase"]["name"] is None


def test_a_failed_job_has_its_reason_and_the_error_that_caused_it():
    failed = Job("a", "01000000", "a", "FAILED", ended=NOW, message="exit code 1", driver_node=node(1).id)
    failure = Failure(
        "job:a",
        NOW,
        text="CUDA out of memory",
        file="worker-1.err",
        known="cuda-oom",
        cause="GPU memory is full",
        rank=3,
        pid=7,
        also=30,
        raised_at="a.py:1 in f",
    )
    job = told(snapshot(jobs=(failed,), failures=(failure,)))["jobs"][0]
    assert job["reason"] == "GPU memory is full"
    assert job["failure"] == {
        "text": "CUDA out of memory",
        "cause": "GPU memory is full",
        "known": "cuda-oom",
        "remedy": None,
        "raised_at": "a.py:1 in f",
        "node": node(1).id,
        "pid": 7,
        "rank": 3,
        "also": 30,
        "others": None,
        "file": "worker-1.err",
    }
    runs, unknown = told(snapshot(jobs=(Job("b", status="RUNNING", message="Job is currently running."), Job("c", status="FAILED"))))[
        "jobs"
    ]
    assert (runs["reason"], runs["failure"]) == (None, None)
    assert (unknown["reason"], unknown["failure"]) == (None, None)


def test_text_from_the_cluster_is_unchanged_in_json():
    hostile = 'x[/]"\\\x1b[31m\u202e漢\n'
    assert told(snapshot(jobs=None, nodes=(node(1, hostile),)))["nodes"][0]["host"] == f"node1{hostile}"


def test_one_line_for_scripts_and_many_for_people():
    assert "\n" not in status_json(snapshot())
    assert json.loads(status_json(snapshot(), indent=2)) == told()
    assert status_json(snapshot(), indent=2).count("\n") > 100


# Its schema


def shapes(schema):
    """Every object in the schema, with its definitions resolved."""

    def follow(part):
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rsplit("/", 1)[-1]]
        return next((follow(one) for one in part["anyOf"] if one.get("type") != "null"), part) if "anyOf" in part else part

    def at(where):
        part = follow(schema)
        for name in filter(None, where.split(".")):
            part = follow(part["properties"][name])
            part = follow(part["items"]) if part.get("type") == "array" else part
        return part["properties"]

    return at


@pytest.mark.parametrize("where", [where for where in CONTRACT if where != "nodes.resources.GPU"])
def test_the_schema_knows_every_field(where):
    assert set(CONTRACT[where]) <= set(shapes(json_schema(Status))(where))


@pytest.mark.parametrize("of", [snapshot(), snapshot("\x1b[31m"), Snapshot(), snapshot(nodes=(node(1, gpus=None),), faults=())])
def test_the_json_follows_its_schema(of):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json_schema(Status))
    validator.validate(told(of))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**told(of), "nodes": 3})


# Its exit code

CALM = {
    "nodes": (node(1), node(2)),
    "actors": (actor(1),),
    "placement_groups": (),
    "jobs": (Job("ppo-7b", "02000000", status="RUNNING"),),
    "processes": (process(1001),),
    "sessions": (Session(host="node1", name="s", path="/tmp/ray/s", live=True),),
    "faults": (),
}
WAITS = PlacementGroup("a", state="PENDING", since=NOW - 600, why="8 are held", wait="held")
DOWN = Cluster("http://10.0.0.1:8265", reachable=False)
LIVE, DEAD = (Session(host="node1", name="s", path="/tmp/ray/s", live=live) for live in (True, False))


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({}, OK),
        ({"sessions": (DEAD,)}, OK),
        ({"processes": None, "sessions": None}, OK),
        ({"actors": (actor(1, state="PENDING_CREATION", since=NOW - 1),)}, OK),
        ({"placement_groups": (WAITS,)}, WARNING),
        ({"processes": (process(1, kind="orphan", gpus=(Hold(0, GIB),)),)}, WARNING),
        ({"processes": (process(1, kind="orphan", gpus=(Hold(0, GIB), Hold(1, GIB))),)}, CRITICAL),
        ({"faults": (Fault("probe", "w1: gone", NOW, "w1"),)}, WARNING),
        ({"faults": (Fault("probe", "node2: no ssh", NOW, "node2"),)}, OK),
        ({"faults": (Fault("probe.gpus", "node2: NVML hangs", NOW, "node2"),)}, WARNING),
        ({"faults": (Fault("ray.jobs", "silent", NOW),)}, WARNING),
        ({"nodes": (node(1), node(2, state="DEAD"))}, CRITICAL),
        ({"nodes": (node(1), node(9, ip="10.0.0.1", state="DEAD"))}, OK),
        ({"nodes": (node(1), node(2, state="DEAD")), "placement_groups": (WAITS,)}, CRITICAL),
        ({"cluster": DOWN, "sessions": (LIVE,)}, CRITICAL),
        ({"cluster": DOWN, "sessions": (DEAD,)}, NO_ANSWER),
        ({"cluster": Cluster("http://elsewhere:8265", reachable=False), "sessions": (LIVE,)}, NO_ANSWER),
        ({"nodes": None}, WARNING),
        ({"actors": None}, WARNING),
        ({"cluster": DOWN, "sessions": None}, NO_ANSWER),
        ({"cluster": DOWN, "sessions": (), "faults": (Fault("ray.identity", "a login page", NOW, cause="not ray"),)}, CRITICAL),
        ({"cluster": Cluster(), "sessions": None}, NO_ANSWER),
    ],
)
def test_the_exit_code_is_that_of_the_worst_finding(facts, code):
    judged = FindingTracker(Limits(), DETECTORS, assumed=60.0)(snapshot(**{**CALM, **facts}))
    assert exit_code(judged) == code, judged.findings


def test_an_unreachable_host_of_the_config_is_a_warning_and_the_codes_are_those_of_the_contract():
    facts = {**CALM, "faults": (Fault("probe", "node2: no ssh", NOW, "node2"),)}
    judged = FindingTracker(Limits(), DETECTORS, assumed=60.0)(snapshot(**facts))
    assert [exit_code(judged, named) for named in (["node1"], ["node2"])] == [OK, WARNING]
    assert (OK, WARNING, CRITICAL, NO_ANSWER) == (0, 1, 2, 3)


def test_findings_have_evidence_and_remedy():
    finding = Finding("deadlock", "critical", "jobs a and b", "…", ("why",), NOW - 60, Remedy("stop one", "stop-job"), ("job:a",))
    (bare,) = told(snapshot(findings=(finding,)))["findings"]
    assert bare == {
        "code": "deadlock",
        "level": "critical",
        "subject": "jobs a and b",
        "text": "…",
        "evidence": ["why"],
        "since": NOW - 60,
        "remedy": {"text": "stop one", "act": "stop-job"},
        "seen": None,
        "sources": [],
    }
    assert told(snapshot(findings=(Finding("a", "info", "x", "…"),)))["findings"][0]["remedy"] is None


# A file of it


def test_only_the_owner_may_read_an_export_and_it_overwrites_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    try:
        path = export(snapshot(), NOW)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.parent == tmp_path
    with pytest.raises(FileExistsError):
        export(Snapshot(), NOW)
    assert json.loads(path.read_text()) == told()


def test_an_export_is_written_to_the_created_file_even_if_its_path_is_replaced(tmp_path, monkeypatch):
    """The owner of the folder may do that while the text is being made."""
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "root's"
    other.write_text("kept")

    def swapping(*_: Any, **__: Any) -> str:
        (made,) = tmp_path.glob("cockpit-*.json")
        made.unlink()
        made.symlink_to(other)
        return "{}"

    monkeypatch.setattr(status, "status_json", swapping)
    export(snapshot(), NOW)
    assert other.read_text() == "kept"


def test_an_export_into_a_removed_folder_is_an_error(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(OSError, match="No such file"):
        export(snapshot(), NOW)
