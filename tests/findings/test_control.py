"""Broken parts of Ray on its head: one cause is one finding."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.control import ended_ray, refused, replaced_ray, silent_dashboard, silent_gcs, silent_monitor
from cockpit.model import Cluster, Fault, RayProcess
from tests.findings.detection import codes, detect, only
from tests.findings.heads import (
    ADDRESS,
    DASHBOARD,
    GCS,
    GCS_SILENT,
    LOG_MONITOR,
    MONITOR,
    MONITOR_SILENT,
    NO_DASHBOARD,
    RAYLET,
    SESSION,
    elsewhere,
    head,
)
from tests.world import NOW

CONTROL = (silent_gcs, silent_dashboard, ended_ray, silent_monitor, refused)


def test_a_silent_gcs_is_reported_with_evidence_from_its_host():
    found = only(detect(head(RAYLET, GCS, faults=(GCS_SILENT,)), detectors=CONTROL), "gcs-silent")
    assert found.text == (
        "Ray's GCS does not answer: its process on node1 (pid 10) still exists; nothing new can start, and Ray's data is old"
    )
    assert (found.level, found.since) == ("critical", NOW - 40)
    assert found.evidence == (f"GET {ADDRESS}/api/gcs_healthz: {GCS_SILENT.text}", "ps on node1: pid 10 is in state S")
    bare = only(detect(elsewhere(head(faults=(GCS_SILENT,))), detectors=CONTROL), "gcs-silent")
    assert bare.text == "Ray's GCS does not answer; nothing new can start, and Ray's data is old"
    other = RayProcess("gcs_server", 11, "session_2026-11-20_00-00-00_000000_7", None, "T")
    assert detect(head(RAYLET, GCS, other), detectors=CONTROL) == ()


def test_a_stopped_or_ended_gcs_is_reported_even_without_a_dashboard_and_a_short_silence_is_not():
    stopped = replace(GCS, state="T")
    found = only(detect(head(RAYLET, stopped), detectors=CONTROL), "gcs-silent")
    assert found.text.startswith("Ray's GCS does not answer: its process on node1 (pid 10) is stopped by a signal;")
    assert found.remedy.text == "find out who stopped the process; `kill -CONT 10` on node1 resumes it"
    found = only(detect(head(RAYLET), detectors=CONTROL), "gcs-silent")
    assert found.text == "Ray's GCS does not answer: its process on node1 has ended; Ray ends on all nodes after a minute without a GCS"
    assert detect(head(RAYLET, GCS, faults=(GCS_SILENT,)), 5, detectors=CONTROL) == ()


def test_one_sample_accepts_a_gcs_that_answers_others():
    once = FindingTracker(Limits(), CONTROL, assumed=60.0)
    as_of = {"ray.actors": NOW, "ray.placement_groups": NOW}
    assert once(head(RAYLET, GCS, faults=(GCS_SILENT,), as_of=as_of)).findings == ()
    assert codes(once(head(RAYLET, GCS, faults=(GCS_SILENT,))).findings) == {"gcs-silent"}
    assert codes(once(head(RAYLET, replace(GCS, state="T"), faults=(GCS_SILENT,), as_of=as_of)).findings) == {"gcs-silent"}
    assert codes(detect(head(RAYLET, GCS, faults=(GCS_SILENT,), as_of=as_of), detectors=CONTROL)) == {"gcs-silent"}


@pytest.mark.parametrize("rays", [(RAYLET, replace(GCS, state="T")), (RAYLET,)])
def test_a_gcs_that_stops_everything_is_one_finding(rays):
    faults = (GCS_SILENT, NO_DASHBOARD, MONITOR_SILENT)
    assert codes(detect(head(*rays, faults=faults, processes=()), detectors=CONTROL)) == {"gcs-silent"}


def test_a_dead_dashboard_of_a_living_ray_is_reported():
    found = only(detect(head(RAYLET, GCS, faults=(NO_DASHBOARD,), processes=(MONITOR,)), detectors=CONTROL), "dashboard-silent")
    assert found.text == (
        f"Ray runs on node1, but its dashboard at {ADDRESS} does not answer: its process on node1 has ended; "
        "running jobs continue, new ones can't be submitted"
    )
    assert (found.level, found.evidence[0]) == ("critical", NO_DASHBOARD.text)
    stopped = replace(DASHBOARD, state="T")
    found = only(detect(head(RAYLET, GCS, faults=(NO_DASHBOARD,), processes=(stopped,)), detectors=CONTROL), "dashboard-silent")
    assert "`kill -CONT 30` on node1" in found.remedy.text


OTHER = "session_2026-11-21_02-00-00_000000_900"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("is_known", [True, False])
def test_of_two_rays_the_dashboard_of_the_address_is_blamed(is_known: bool, order: int):
    frozen = replace(DASHBOARD, command=f"{DASHBOARD.command} --port=8265", state="T")
    theirs = replace(DASHBOARD, pid=31, session=OTHER, command=f"{DASHBOARD.command} --port=8266", state="S")
    rays = (RAYLET, GCS, replace(RAYLET, pid=21, session=OTHER, node=None), replace(GCS, pid=11, session=OTHER, state="T"))[::order]
    here = "http://127.0.0.1:8265"
    cluster = Cluster(here, session=SESSION if is_known else None, reachable=False)
    made = head(*rays, faults=(NO_DASHBOARD,), processes=(frozen, theirs)[::order], cluster=cluster, nodes=None)
    (mine,) = made.hosts["node1"].sessions or ()
    sessions = (mine, replace(mine, name=OTHER))[::order]
    made = replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=sessions)})
    (found,) = detect(made, detectors=CONTROL)
    assert found.text.startswith(
        f"Ray session {SESSION} runs on node1, but its dashboard at {here} does not answer: its process on node1 (pid 30) is stopped"
    )
    gone = replace(made, processes=(theirs,), hosts={"node1": replace(made.hosts["node1"], processes=(theirs,))})
    (found,) = detect(gone, detectors=CONTROL)
    assert "its process on node1 has ended" in found.text


def test_of_two_rays_with_invisible_dashboards_neither_is_blamed():
    rays = (RAYLET, GCS, replace(RAYLET, pid=21, session=OTHER, node=None))
    made = head(*rays, faults=(NO_DASHBOARD,), cluster=Cluster(ADDRESS, reachable=False), nodes=None)
    (mine,) = made.hosts["node1"].sessions or ()
    made = replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=(mine, replace(mine, name=OTHER)))})
    (found,) = detect(made, detectors=CONTROL)
    assert found.text.startswith(f"Ray runs on node1, but its dashboard at {ADDRESS} does not answer; running jobs continue")


def test_another_session_in_place_of_the_followed_one_is_reported():
    other = replace(NO_DASHBOARD, cause="other session", text=f"{ADDRESS}: another Ray session answers there now, {OTHER}")
    made = head(live=False, faults=(other,), processes=(), jobs=(), cluster=Cluster(ADDRESS, session=SESSION, reachable=False))
    (dead,) = made.hosts["node1"].sessions or ()
    both = (dead, replace(dead, name=OTHER, live=True))
    found = only(detect(replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=both)}), detectors=CONTROL), "ray-ended")
    assert found.text == "Ray has ended on its head node1; another Ray session answers at its address now"
    assert found.remedy.text.endswith("; to follow another Ray of this host, press `a` on the screen")
    reported = Cluster(ADDRESS, "2.60.0", OTHER, reachable=True, before=SESSION, replaced=NOW - 30)
    found = only(detect(head(RAYLET, GCS, cluster=reported), detectors=(replaced_ray,)), "ray-replaced")
    assert found.text == f"The Ray at {ADDRESS} is now {OTHER}; before, cockpit followed {SESSION}"
    assert (found.level, found.since, found.subject) == ("info", NOW - 30, OTHER)
    for cluster in (replace(reported, replaced=NOW - 700), replace(reported, before=None, replaced=None)):
        assert detect(head(RAYLET, GCS, cluster=cluster), detectors=(replaced_ray,)) == ()


def test_a_dashboard_may_start_late_and_a_mistyped_port_says_nothing_about_it():
    assert detect(head(RAYLET, GCS, faults=(NO_DASHBOARD,)), 25, detectors=CONTROL) == ()
    once = FindingTracker(Limits(), CONTROL, assumed=60.0)
    made = head(RAYLET, GCS, faults=(NO_DASHBOARD,))
    for started, found in ((NOW - 5, set()), (NOW - 600, {"dashboard-silent"}), (None, {"dashboard-silent"})):
        sessions = tuple(replace(session, started=started) for session in made.hosts["node1"].sessions or ())
        assert codes(once(replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=sessions)})).findings) == found
    made = head(RAYLET, GCS, faults=(NO_DASHBOARD,), cluster=Cluster("http://127.0.0.1:9", reachable=False), nodes=None)
    for listens, found in (("http://127.0.0.1:8265", set()), ("http://127.0.0.1:9", {"dashboard-silent"}), (None, {"dashboard-silent"})):
        sessions = tuple(replace(session, dashboard=listens) for session in made.hosts["node1"].sessions or ())
        typed = replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=sessions)})
        assert codes(detect(typed, detectors=CONTROL)) == found


@pytest.mark.parametrize(
    "fine",
    [
        pytest.param(head(RAYLET, GCS, faults=()), id="healthy"),
        pytest.param(
            head(RAYLET, GCS, faults=(replace(NO_DASHBOARD, cause=None),), cluster=Cluster(ADDRESS, session=SESSION, reachable=False)),
            id="what answers is no dashboard",
        ),
        pytest.param(
            head(RAYLET, GCS, faults=(NO_DASHBOARD,), cluster=Cluster("http://10.9.9.9:8265", reachable=False), nodes=None),
            id="the dashboard is far away",
        ),
        pytest.param(elsewhere(head(faults=(NO_DASHBOARD,))), id="the head is not seen"),
        pytest.param(head(live=None, faults=(NO_DASHBOARD,)), id="unknown whether it lives"),
    ],
)
def test_a_healthy_remote_or_unprobed_head_has_no_findings(fine):
    assert detect(fine, detectors=CONTROL) == ()


def test_an_ended_ray_is_reported_with_its_running_jobs():
    made = head(live=False, faults=(NO_DASHBOARD,), processes=())
    found = only(detect(made, detectors=CONTROL), "ray-ended")
    assert found.text == "Ray has ended on its head node1; shortly before, 1 job was running: ppo-7b"
    assert (found.level, found.subject) == ("critical", SESSION)
    calm = only(detect(replace(made, jobs=()), detectors=CONTROL), "ray-ended")
    assert (calm.level, calm.text) == ("info", "Ray has ended on its head node1")
    stopped = tuple(replace(session, stopped=True) for session in made.hosts["node1"].sessions or ())
    found = only(detect(replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=stopped)}), detectors=CONTROL), "ray-ended")
    assert found.text == "Ray was stopped on its head node1; shortly before, 1 job was running: ppo-7b"
    assert found.level == "warning", "no job was certainly lost"


def test_a_silent_monitor_is_reported():
    found = only(detect(head(RAYLET, GCS, faults=(MONITOR_SILENT,), processes=(LOG_MONITOR,)), detectors=CONTROL), "monitor-silent")
    assert found.text == (
        "The autoscaler monitor has stopped reporting: its process on node1 has ended; "
        "used and pending resources are as old as its last report, and no node is added"
    )
    assert found.level == "warning"
    stopped = replace(MONITOR, state="T")
    found = only(detect(head(RAYLET, GCS, faults=(MONITOR_SILENT,), processes=(LOG_MONITOR, stopped)), detectors=CONTROL), "monitor-silent")
    assert "`kill -CONT 40` on node1" in found.remedy.text


@pytest.mark.parametrize(
    ("cause", "code", "words"),
    [
        ("no token", "token-missing", "requires a token, and cockpit found none on this host"),
        (
            "wrong token",
            "token-refused",
            "rejects the token that cockpit found on this host: it belongs to another cluster, or the head has a new one",
        ),
    ],
)
def test_a_refused_connection_is_one_finding_that_names_the_side_to_fix(cause, code, words):
    faults = tuple(Fault(f"ray.{name}", f"{name} is locked", NOW - 40, cause=cause) for name in ("jobs", "identity", "nodes"))
    (found,) = detect(head(RAYLET, GCS, faults=faults, cluster=Cluster(ADDRESS, reachable=False)), detectors=CONTROL)
    assert (found.code, found.text, found.evidence[0]) == (code, f"{ADDRESS} {words}", "identity is locked")
    assert "ray get-auth-token" in found.remedy.text
