"""Several sessions on a host, pointers to dead sessions, and a temp dir of another user."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Limits
from cockpit.findings.sessions import dead_pointers, foreign_temps, lone_gcs, several_sessions
from cockpit.model import Cluster, Host, Pointer, Quantity, RayProcess, Session, TempDir
from tests.findings.detection import FreshTracker, codes, detect, only
from tests.world import GIB, NOW, gpu, node, snapshot

ALONE = (several_sessions, lone_gcs, dead_pointers, foreign_temps)
OLD, NEW = "session_2026-11-20_00-00-00_000000_7", "session_2026-11-21_00-00-00_000000_8"


def session(name, live, owner="train", temp="/tmp/ray"):
    return Session(host="w1", name=name, path=f"{temp}/{name}", live=live, owner=owner, size=GIB)


def host(**more):
    facts = {"name": "w1", "taken": NOW, "gpus": (gpu(0), gpu(1)), **more}
    return snapshot(hosts={"w1": Host(**facts)}, nodes=())


def test_two_living_sessions_on_a_host_are_reported():
    live = (session(OLD, True), session(NEW, True, "other", "/tmp/other/ray"), session("session_dead", False))
    found = only(detect(host(sessions=live), detectors=ALONE), "sessions-several")
    assert found.text == (f"2 Ray sessions run on w1, and each may offer the same 2 GPUs: {OLD} of train, {NEW} of other")
    assert (found.level, found.subject, found.remedy.action) == ("warning", "w1", "stop")
    assert found.about == (live[0].key, live[1].key)
    assert only(detect(host(sessions=live, gpus=None), detectors=ALONE), "sessions-several").level == "info"
    followed = only(detect(replace(host(sessions=live), cluster=Cluster(session=NEW)), detectors=ALONE), "sessions-several")
    assert followed.text.endswith(f": {OLD} of train, {NEW} of other (this cluster)")
    assert detect(host(sessions=live), 25, detectors=ALONE) == (), "one may end while the other begins"
    skypilot = (session(OLD, True, temp="/tmp/ray_skypilot"), session(NEW, True))
    found = only(detect(host(sessions=skypilot), detectors=ALONE), "sessions-several")
    assert (found.level, found.remedy.action) == ("info", None), "SkyPilot runs its own Ray"


@pytest.mark.parametrize(("gpus", "level"), [(0, "info"), (2, "warning")])
def test_two_sessions_share_no_gpus_if_the_followed_one_offers_none(gpus, level):
    seen = host(sessions=(session(OLD, True), session(NEW, True)), nodes=(node(1).id,))
    offers = node(1, resources={"CPU": Quantity(0, 8), **({"GPU": Quantity(0, gpus)} if gpus else {})})
    found = only(detect(replace(seen, cluster=Cluster(session=NEW), nodes=(offers,)), detectors=ALONE), "sessions-several")
    assert found.level == level
    assert ("may offer the same" in found.text) == (gpus > 0)


def test_a_lone_gcs_of_a_failed_start_is_in_the_way():
    live = (session(OLD, True), session(NEW, True))
    rays = (RayProcess("raylet", 25, OLD), RayProcess("gcs_server", 228, NEW))
    (found,) = detect(host(sessions=live, rays=rays), detectors=ALONE)
    assert (found.code, found.level, found.remedy.action, found.about) == ("gcs-alone", "warning", "stop", (live[1].key,))
    assert found.text == (
        f"A GCS (pid 228) of {NEW} of train runs on w1 without a raylet, "
        "maybe left by a failed `ray start`: the next `ray start` on its port fails too"
    )
    assert detect(host(sessions=live, rays=rays), 50, detectors=ALONE) == (), "its raylet may still start"
    assert detect(host(sessions=live, rays=(*rays, RayProcess("raylet", 3, NEW))), 50, detectors=(lone_gcs,)) == ()
    assert detect(replace(host(sessions=live, rays=rays), cluster=Cluster(session=NEW)), detectors=(lone_gcs,)) == (), "node-dead tells it"


def test_one_sample_ignores_a_ray_that_has_just_started():
    rays, once = (RayProcess("gcs_server", 228, NEW),), FreshTracker(Limits(), (lone_gcs,), assumed=60.0)
    for started, found in ((NOW - 5, 0), (NOW - 600, 1)):
        assert len(once(host(sessions=(replace(session(NEW, True), started=started),), rays=rays)).findings) == found


@pytest.mark.parametrize("sessions", [None, (), (session(OLD, False), session(NEW, True)), (session(OLD, None), session(NEW, True))])
def test_one_living_session_beside_dead_or_unknown_ones_is_fine(sessions):
    assert detect(host(sessions=sessions), detectors=ALONE) == ()


LATEST = Pointer("/tmp/ray/session_latest", f"/tmp/ray/{OLD}", False)
CURRENT = Pointer("/tmp/ray/ray_current_cluster", "10.0.0.1:6379", False)


def test_a_pointer_to_a_dead_session_is_reported_while_another_lives():
    found = only(detect(host(pointers=(LATEST,), sessions=(session(OLD, False), session(NEW, True))), detectors=ALONE), "pointer-dead")
    assert found.text == f"On w1 /tmp/ray/session_latest points at the dead {OLD}, while {NEW} runs there"
    assert (found.level, found.subject, found.remedy.action) == ("warning", "w1 /tmp/ray", "clean")
    assert found.evidence == (f"readlink /tmp/ray/session_latest: /tmp/ray/{OLD}",)
    assert found.about == (session(OLD, False).key,)
    left = host(pointers=(LATEST,), sessions=(session(OLD, False),))
    assert only(detect(left, detectors=ALONE), "pointer-dead").level == "info", "every `ray stop` leaves it"


def test_the_address_of_a_dead_cluster_is_reported_with_its_effect():
    found = only(detect(host(pointers=(LATEST, CURRENT)), detectors=ALONE), "pointer-dead")
    assert found.text == (
        f"On w1 /tmp/ray/session_latest points at the dead {OLD} and /tmp/ray/ray_current_cluster names 10.0.0.1:6379, "
        "where no Ray runs: `ray.init()` and `ray status` fail"
    )
    assert found.about == ("node:w1",), "an action must not target every host"
    assert found.level == "warning"
    assert detect(host(pointers=(LATEST, CURRENT)), 55, detectors=ALONE) == (), "while a Ray starts, its pointer may be ahead of it"


@pytest.mark.parametrize(
    "pointers", [None, (), (Pointer("/tmp/ray/session_latest", "x", True),), (Pointer("/tmp/ray/session_latest", "x", None),)]
)
def test_valid_or_unknown_pointers_are_fine(pointers):
    assert detect(host(pointers=pointers), detectors=ALONE) == ()


def test_a_temp_dir_of_another_user_is_reported():
    found = only(detect(host(temps=(TempDir("/tmp/ray", "root", False),)), detectors=ALONE), "temp-dir-foreign")
    assert found.text == "/tmp/ray on w1 belongs to root, and this user can't write to it: `ray start` by this user fails there"
    assert (found.level, found.subject) == ("warning", "w1 /tmp/ray")
    assert "--temp-dir=/tmp/ray-$USER" in found.remedy.text
    used = host(temps=(TempDir("/tmp/ray", "root", False),), sessions=(session(NEW, True, "root"),))
    assert only(detect(used, detectors=ALONE), "temp-dir-foreign").level == "info"
    elsewhere = host(temps=(TempDir("/tmp/ray", "root", False),), sessions=(session(NEW, True, temp="/scratch/ray"),))
    assert only(detect(elsewhere, detectors=ALONE), "temp-dir-foreign").level == "info"


@pytest.mark.parametrize(
    "temps", [None, (), (TempDir("/tmp/ray", "root", True),), (TempDir("/tmp/ray", "root", None),), (TempDir("/data/x", "root", False),)]
)
def test_own_unknown_and_secondary_temp_dirs_are_fine(temps):
    assert detect(host(temps=temps), detectors=ALONE) == ()


def test_old_facts_are_not_reported():
    stale = host(
        taken=None, sessions=(session(OLD, True), session(NEW, True)), pointers=(LATEST,), temps=(TempDir("/tmp/ray", "x", False),)
    )
    assert detect(stale, detectors=ALONE) == ()


def test_sessions_in_separate_slurm_jobs_share_no_gpus():
    live = (session(OLD, True), session(NEW, True, "other", "/tmp/other/ray"))
    mine, others = RayProcess("raylet", 25, OLD, slurm="1"), RayProcess("raylet", 228, NEW, slurm="2")
    assert detect(host(sessions=live, rays=(mine, others)), detectors=ALONE) == ()
    for unclear in (replace(others, slurm="1"), replace(others, slurm=None)):
        assert codes(detect(host(sessions=live, rays=(mine, unclear)), detectors=ALONE)) == {"sessions-several"}
    assert codes(detect(host(sessions=live, rays=(mine,)), detectors=(several_sessions,))) == {"sessions-several"}
