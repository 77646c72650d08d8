"""What the doctor says of one look: what is wrong, what is fine, what nobody could see; and what he packs up."""

from __future__ import annotations

import json
import os
import stat
import tarfile

import pytest
from msgspec.structs import replace

from cockpit.config.settings import Config
from cockpit.findings import CHECKS, DETECTORS, FindingTracker, Limits
from cockpit.model import Cluster, Fault, Hold, Host, Session, Snapshot
from cockpit.report.doctor import doctor_json, doctor_text, run_checks, write_bundle
from tests.world import GIB, NOW, gpu, node, process, snapshot

LOST = node(1, gpus=(gpu(0), gpu(1, fault="fallen off the bus")))


def looked(of: Snapshot) -> tuple[Snapshot, list]:
    judged = FindingTracker(Limits(), DETECTORS, assumed=60.0)(of)
    return judged, run_checks(judged, Limits())


def seen(*nodes, **more):
    """A cluster of which every host is looked at."""
    hosts = {each.host: Host(each.host, (each.ip,), NOW, gpus=each.gpus, processes=(), nodes=(each.id,), local=each.head) for each in nodes}
    calm = {"placement_groups": (), "actors": (), "jobs": (), "demand": (), "processes": (), "faults": (), "sessions": (), "hosts": hosts}
    return snapshot(nodes=nodes, **{**calm, **more})


def idle(number):
    return node(number, gpus=tuple(gpu(index, 0, uuid=f"GPU-{number}-{index}") for index in range(8)))


def verdicts(of: Snapshot) -> dict[str, str]:
    return {each.check.title: each.verdict for each in looked(of)[1]}


def test_where_all_is_well_and_all_is_seen_all_is_fine():
    assert set(verdicts(seen(idle(1), idle(2))).values()) == {"fine"}
    text = doctor_text(*looked(seen(idle(1), idle(2))))
    assert "2 nodes alive, 2 of 2 hosts probed" in text.splitlines()[0]
    assert "Not fully checked" not in text


def test_what_is_found_stands_first_with_its_evidence_and_what_mends_it():
    left = process(1200, kind="orphan", gpus=(Hold(2, 40 * GIB),), why=("its raylet is dead",))
    lines = doctor_text(*looked(seen(idle(1), processes=(left,)))).splitlines()
    assert lines[2].startswith("WARNING 1 orphan process holds 40G of GPU memory on node1 GPU ")
    assert any("pid 1200" in line and "its raylet is dead" in line for line in lines[3:6])
    assert any(line.startswith("    -> ") and "(`cockpit kill-orphans`)" in line for line in lines)


def test_a_host_that_nobody_looks_at_is_named_and_never_said_to_be_fine():
    half = seen(idle(1), idle(2))
    half = replace(half, hosts={"node1": half.hosts["node1"]})
    assert verdicts(half)["GPU memory held by orphan processes"] == "unknown"
    assert verdicts(half)["Number of GPUs: Ray and NVML agree"] == "partly"
    assert "no process list from node2" in doctor_text(*looked(half))


def test_a_host_that_ray_does_not_know_and_nobody_reaches_is_told_too():
    silent = tuple(Fault(f"ray.{name}", "nothing listens there", NOW, cause="silent") for name in ("jobs", "identity"))
    assert "  - ray.identity: nothing listens there; no new data on: jobs\n" in doctor_text(*looked(seen(idle(1), faults=silent)))
    text = doctor_text(*looked(seen(idle(1), faults=(Fault("probe", "w9: ssh: connection refused", NOW, "w9"),))))
    assert "Failing or stale sources:\n  - probe: w9: ssh: connection refused\n" in text


def test_without_a_dashboard_what_only_ray_knows_is_unknown():
    down = Snapshot(taken=NOW, cluster=Cluster("http://head:8265", reachable=False))
    told = verdicts(down)
    assert told["Pending actors"] == told["Pending and failed jobs"] == "unknown"
    assert "Ray has not listed its actors" in doctor_text(*looked(down))


def test_what_needs_somebody_who_watches_is_said_to_be_so():
    text = doctor_text(*looked(seen(idle(1))))
    assert "Found only over time" in text
    assert "Stalled jobs: GPUs at 0 %" in text


def test_every_detector_belongs_to_one_check():
    names = [detector.__name__ for check in CHECKS for detector in check.detectors]
    assert len(names) == len(set(names)) == len(DETECTORS)
    assert len({check.title for check in CHECKS}) == len(CHECKS)


def test_a_script_gets_every_check_and_the_whole_status():
    told = json.loads(doctor_json(*looked(seen(LOST))))
    assert {check["title"] for check in told["checks"]} == {check.title for check in CHECKS}
    assert [finding["code"] for finding in told["status"]["findings"]]
    assert next(check for check in told["checks"] if "lost" in check["title"])["verdict"] == "found"


@pytest.fixture
def bundle(tmp_path):
    logs = tmp_path / "session" / "logs"
    logs.mkdir(parents=True)
    (logs / "raylet.out").write_text(
        "".join(f"line {number}\n" for number in range(500))
        + "WANDB_API_KEY=0123456789abcdef0123456789abcdef\n"
        + f"-----BEGIN PRIVATE KEY-----\n{'0123456789abcdef' * 4}\n-----END PRIVATE KEY-----\n"
    )
    (logs / "job-driver-x.log").write_text("what a user wrote\n")
    live = Session(host="node1", name="session_1", path=str(tmp_path / "session"), live=True, trusted=True)
    judged, checked = looked(seen(node(1), sessions=(live,)))
    path = tmp_path / "bundle.tar.gz"
    write_bundle(path, judged, checked, Config())
    return path


def test_a_bundle_holds_all_of_it_and_only_its_owner_may_read_it(bundle):
    assert stat.S_IMODE(os.stat(bundle).st_mode) == 0o600
    with tarfile.open(bundle) as packed:
        names = {name.removeprefix("cockpit-doctor/") for name in packed.getnames()}
        log = packed.extractfile("cockpit-doctor/logs/session_1/raylet.out").read().decode()
    assert names == {"doctor.txt", "status.json", "config.yaml", "versions.txt", "logs/session_1/raylet.out"}
    assert log.splitlines()[0] == "line 304"
    assert "0123456789abcdef" not in log


def test_a_bundle_never_takes_the_place_of_another_file(bundle):
    with pytest.raises(FileExistsError):
        write_bundle(bundle, *looked(seen(idle(1))), Config())
