"""What Ray's own parts on its head do not do any more: one cause is one finding."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.control import ended_ray, refused, silent_dashboard, silent_gcs, silent_monitor, wrong_address
from cockpit.findings.rays_here import rays_on
from cockpit.model import Allocation, Cluster, Fault, Host, OtherRay, Pod, RayCluster, RayProcess, Session, Snapshot
from tests.findings.detection import codes, looked, only
from tests.world import GIB, NOW, node, process, snapshot

CONTROL = (silent_gcs, silent_dashboard, ended_ray, silent_monitor, refused)
ADDRESS, SESSION = "http://10.0.0.1:8265", "session_2026-11-21_01-17-58_164160_11638"
GCS_SILENT = Fault("ray.gcs", "Ray's GCS does not answer; the dashboard's data may be old", NOW - 40, cause="gcs")
NO_DASHBOARD = Fault("ray.identity", f"{ADDRESS} can't be reached: connection refused, nothing listens there", NOW - 40, cause="silent")
MONITOR_SILENT = Fault("ray.status", "the autoscaler monitor has reported nothing for 25 s", NOW - 40, cause="monitor")
RAYLET, GCS = RayProcess("raylet", 20, SESSION, node(1).id, "S"), RayProcess("gcs_server", 10, SESSION, None, "S")
DASHBOARD = process(30, kind="ray", command="python /x/ray/dashboard/dashboard.py --host=127.0.0.1", session=SESSION)
MONITOR = process(40, kind="ray", command="python /x/ray/autoscaler/_private/monitor.py --logs-dir=/x", session=SESSION)
LOG_MONITOR = process(41, kind="ray", command="python /x/ray/_private/log_monitor.py --logs-dir=/x", session=SESSION)


def head(*rays: RayProcess, live: bool | None = True, processes=(DASHBOARD, MONITOR, LOG_MONITOR), **more: Any) -> Snapshot:
    """The head is looked at, and these parts of Ray run there."""
    sessions = (Session(host="node1", name=SESSION, path=f"/tmp/ray/{SESSION}", live=live, owner="train", size=GIB),)
    nodes = (node(1).id,) if RAYLET in rays else ()
    host = Host("node1", ("10.0.0.1",), NOW, sessions=sessions, nodes=nodes, rays=rays, processes=processes, local=True)
    facts = {
        "cluster": Cluster(ADDRESS, "2.60.0", SESSION, reachable=NO_DASHBOARD not in more.get("faults", ())),
        "nodes": (node(1), node(2)),
        "hosts": {"node1": host},
        "processes": processes,
        "as_of": {},
        **more,
    }
    return snapshot(**facts)


def elsewhere(made: Snapshot) -> Snapshot:
    return replace(made, hosts={}, processes=None)


def test_a_gcs_that_does_not_answer_is_told_with_what_its_host_shows():
    found = only(looked(head(RAYLET, GCS, faults=(GCS_SILENT,)), detectors=CONTROL), "gcs-silent")
    assert found.text == ("Ray's GCS does not answer: its process on node1 (pid 10) exists; nothing new can start, and Ray's data is old")
    assert (found.level, found.since) == ("critical", NOW - 40)
    assert found.evidence == (f"GET {ADDRESS}/api/gcs_healthz: {GCS_SILENT.text}", "ps on node1: pid 10 is in state S")
    bare = only(looked(elsewhere(head(faults=(GCS_SILENT,))), detectors=CONTROL), "gcs-silent")
    assert bare.text == "Ray's GCS does not answer; nothing new can start, and Ray's data is old"


def test_a_stopped_gcs_is_told_even_where_no_dashboard_could():
    stopped = replace(GCS, state="T")
    found = only(looked(head(RAYLET, stopped), detectors=CONTROL), "gcs-silent")
    assert found.text.startswith("Ray's GCS does not answer: its process on node1 (pid 10) is stopped by a signal;")
    assert found.remedy.text == "find out who stopped it; `kill -CONT 10` on node1 resumes it"


def test_a_gcs_that_has_ended_while_the_raylet_lives_is_told():
    found = only(looked(head(RAYLET), detectors=CONTROL), "gcs-silent")
    assert found.text == "Ray's GCS does not answer: its process on node1 has ended; Ray ends on all nodes after a minute without a GCS"


def test_a_gcs_that_hiccups_is_not_told():
    assert looked(head(RAYLET, GCS, faults=(GCS_SILENT,)), 5, detectors=CONTROL) == ()


def test_a_single_look_believes_a_gcs_that_answers_others():
    once = FindingTracker(Limits(), CONTROL, assumed=60.0)
    heard = {"ray.actors": NOW, "ray.placement_groups": NOW}
    assert once(head(RAYLET, GCS, faults=(GCS_SILENT,), as_of=heard)).findings == ()
    assert codes(once(head(RAYLET, GCS, faults=(GCS_SILENT,))).findings) == {"gcs-silent"}
    assert codes(once(head(RAYLET, replace(GCS, state="T"), faults=(GCS_SILENT,), as_of=heard)).findings) == {"gcs-silent"}
    assert codes(looked(head(RAYLET, GCS, faults=(GCS_SILENT,), as_of=heard), detectors=CONTROL)) == {"gcs-silent"}


@pytest.mark.parametrize("rays", [(RAYLET, replace(GCS, state="T")), (RAYLET,)])
def test_a_gcs_that_takes_everything_with_it_is_one_finding(rays):
    faults = (GCS_SILENT, NO_DASHBOARD, MONITOR_SILENT)
    assert codes(looked(head(*rays, faults=faults, processes=()), detectors=CONTROL)) == {"gcs-silent"}


def test_the_gcs_of_another_cluster_on_the_host_is_not_ours():
    other = RayProcess("gcs_server", 11, "session_2026-11-20_00-00-00_000000_7", None, "T")
    assert looked(head(RAYLET, GCS, other), detectors=CONTROL) == ()


def test_a_dashboard_that_is_gone_while_ray_lives_is_told():
    found = only(looked(head(RAYLET, GCS, faults=(NO_DASHBOARD,), processes=(MONITOR,)), detectors=CONTROL), "dashboard-silent")
    assert found.text == (
        f"Ray runs on node1, but its dashboard at {ADDRESS} does not answer: its process on node1 has ended; "
        "running jobs continue, new ones can't be submitted"
    )
    assert (found.level, found.evidence[0]) == ("critical", NO_DASHBOARD.text)
    stopped = replace(DASHBOARD, state="T")
    found = only(looked(head(RAYLET, GCS, faults=(NO_DASHBOARD,), processes=(stopped,)), detectors=CONTROL), "dashboard-silent")
    assert "`kill -CONT 30` on node1" in found.remedy.text


def test_while_ray_starts_its_dashboard_may_be_late():
    assert looked(head(RAYLET, GCS, faults=(NO_DASHBOARD,)), 25, detectors=CONTROL) == ()
    once = FindingTracker(Limits(), CONTROL, assumed=60.0)
    made = head(RAYLET, GCS, faults=(NO_DASHBOARD,))
    for started, found in ((NOW - 5, set()), (NOW - 600, {"dashboard-silent"}), (None, {"dashboard-silent"})):
        sessions = tuple(replace(session, started=started) for session in made.hosts["node1"].sessions or ())
        assert codes(once(replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=sessions)})).findings) == found


def test_a_dashboard_far_away_is_not_that_of_the_ray_here():
    far = Cluster("http://10.9.9.9:8265", reachable=False)
    assert looked(head(RAYLET, GCS, faults=(NO_DASHBOARD,), cluster=far, nodes=None), detectors=CONTROL) == ()


def test_a_port_that_somebody_has_mistyped_says_nothing_of_the_ray_here():
    made = head(RAYLET, GCS, faults=(NO_DASHBOARD,), cluster=Cluster("http://127.0.0.1:9", reachable=False), nodes=None)
    for listens, found in (("http://127.0.0.1:8265", set()), ("http://127.0.0.1:9", {"dashboard-silent"}), (None, {"dashboard-silent"})):
        sessions = tuple(replace(session, dashboard=listens) for session in made.hosts["node1"].sessions or ())
        typed = replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=sessions)})
        assert codes(looked(typed, detectors=CONTROL)) == found


HERS = OtherRay("http://127.0.0.1:1", "session_hers", "train", answers=True)
OURS = OtherRay("http://127.0.0.1:8265", "session_ours", answers=True)
UNSEEN = OtherRay("http://127.0.0.1:38225", "session_far", answers=False)


def wrongly_addressed(*others: OtherRay, address: str = "http://127.0.0.1:9999") -> Snapshot:
    lost = Cluster(address, reachable=False, others=others)
    made = head(RAYLET, GCS, faults=(NO_DASHBOARD,), cluster=lost, nodes=None)
    (session,) = made.hosts["node1"].sessions or ()
    sessions = tuple(replace(session, name=ray.session, dashboard=ray.url) for ray in others)
    rays = (replace(RAYLET, session=None),) if others else ()
    return replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=sessions, rays=rays)})


def test_a_wrong_address_names_the_ray_of_this_host_that_answers():
    found = only(looked(wrongly_addressed(OURS), detectors=(wrong_address,)), "address-wrong")
    assert found.text == "nothing answers at http://127.0.0.1:9999; this host has a Ray at http://127.0.0.1:8265"
    assert found.remedy.text == "use `cockpit --address http://127.0.0.1:8265`"
    both = only(looked(wrongly_addressed(HERS, OURS), detectors=(wrong_address,)), "address-wrong")
    assert both.text.endswith("this host has a Ray at http://127.0.0.1:8265 and a Ray of train at http://127.0.0.1:1")
    assert both.remedy.text == "use `cockpit --address http://127.0.0.1:8265`", "not another user's, where there is one of ours"


def test_a_ray_that_is_seen_but_does_not_answer_is_not_offered():
    found = only(looked(wrongly_addressed(UNSEEN), detectors=(wrong_address,)), "address-wrong")
    assert found.text.endswith("this host has no Ray that answers")
    assert UNSEEN.url not in found.remedy.text
    assert "session_far has its dashboard at http://127.0.0.1:38225, which does not answer from here" in found.evidence[1]


def test_another_users_ray_that_was_not_asked_is_offered_by_its_address():
    found = only(looked(wrongly_addressed(replace(HERS, answers=None)), detectors=(wrong_address,)), "address-wrong")
    assert found.text.endswith("this host has no Ray of yours that answers")
    assert found.remedy.text.startswith("if you mean the Ray of train: `cockpit --address http://127.0.0.1:1`; if this is the head: ")


def test_where_another_ray_answers_one_that_a_container_hides_is_not_called_silent():
    hidden = replace(wrongly_addressed(replace(UNSEEN, url=OURS.url), address=OURS.url), processes=(DASHBOARD,))
    detectors = (wrong_address, silent_dashboard)
    assert codes(looked(hidden, detectors=detectors)) == {"dashboard-silent"}
    found = replace(hidden, cluster=replace(hidden.cluster, others=(replace(OURS, url="http://127.0.0.1:2"),)))
    told = only(looked(found, detectors=detectors), "address-wrong")
    assert told.text == "nothing answers at http://127.0.0.1:8265; this host has a Ray at http://127.0.0.1:2"
    assert codes(looked(found, detectors=detectors)) == {"address-wrong"}


def test_before_the_others_were_asked_nothing_is_said_of_them():
    made = wrongly_addressed(OURS)
    assert looked(replace(made, cluster=replace(made.cluster, others=None)), detectors=(wrong_address,)) == ()


def test_a_single_look_that_ends_before_the_others_were_asked_names_them_and_says_so():
    made = replace(head(RAYLET, GCS, faults=(NO_DASHBOARD,), nodes=None), cluster=Cluster("http://127.0.0.1:9999", reachable=False))
    sessions = tuple(replace(one, dashboard=OURS.url, trusted=True) for one in made.hosts["node1"].sessions or ())
    made = replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=sessions)})
    (found,) = FindingTracker(Limits(), (wrong_address, silent_dashboard), assumed=60.0)(made).findings
    assert found.text == f"nothing answers at http://127.0.0.1:9999; this host has a Ray at {OURS.url}, which has not answered yet"
    assert found.remedy.text == f"use `cockpit --address {OURS.url}`"


def test_where_a_dashboard_listens_out_of_sight_its_command_line_says_its_port():
    command = "python -u /x/ray/dashboard/dashboard.py --host=127.0.0.1 --port=38225 --port-retries=50"
    unseen = replace(DASHBOARD, command=command, session="session_None")
    made = wrongly_addressed(replace(UNSEEN, session="session_None"))
    (session,) = made.hosts["node1"].sessions or ()
    host = replace(made.hosts["node1"], sessions=(replace(session, dashboard=None),), processes=(unseen,))
    assert [(ray.url, ray.owner) for ray in rays_on(host)] == [("http://127.0.0.1:38225", "train")]
    made = replace(made, hosts={"node1": host}, processes=(unseen,))
    assert codes(looked(made, detectors=(wrong_address, silent_dashboard))) == {"address-wrong"}
    same = replace(unseen, command=command.replace("38225", "9999"))
    assert codes(looked(replace(made, processes=(same,)), detectors=(wrong_address, silent_dashboard))) == {"dashboard-silent"}


def test_where_no_ray_runs_the_next_steps_are_said():
    found = only(looked(wrongly_addressed(), detectors=(wrong_address,)), "address-wrong")
    assert found.text == "nothing answers at http://127.0.0.1:9999; this host has no Ray"
    for step in ("`ray start --head`", "`cockpit --address http://HEAD:8265`", "`cockpit demo`"):
        assert step in found.remedy.text


def test_where_no_node_of_slurms_job_can_be_looked_at_a_ray_may_run_there():
    made = wrongly_addressed()
    unreached = replace(
        made, allocation=Allocation("42", "RUNNING", None, ()), faults=(*made.faults, Fault("probe", "srun: no", NOW, "gpu1"))
    )
    remedy = only(looked(unreached, detectors=(wrong_address,)), "address-wrong").remedy.text
    assert remedy == "see first why the nodes of Slurm job 42 can't be looked at: `cockpit doctor`"
    reached = replace(unreached, faults=made.faults)
    assert "`ray start --head`" in only(looked(reached, detectors=(wrong_address,)), "address-wrong").remedy.text


IN_PODS = RayCluster("ray", "raycluster-kuberay")
FORWARD = "`kubectl port-forward -n ray gpu1 8265:8265`"


@pytest.mark.parametrize(
    ("url", "orchestrator", "way"),
    [
        ("http://127.0.0.1:8265", None, "its dashboard listens on gpu1 alone: run cockpit there"),
        (
            "http://127.0.0.1:8265",
            Allocation("42", "RUNNING", None, ()),
            "its dashboard listens on gpu1 alone: run cockpit there: `srun --overlap --jobid=42 -w gpu1 --pty cockpit`",
        ),
        ("http://10.0.0.2:8265", None, "use `cockpit --address http://10.0.0.2:8265`"),
        (
            "http://10.0.0.2:8265",
            IN_PODS,
            f"its dashboard listens in pod gpu1: {FORWARD}, and `cockpit --address http://127.0.0.1:8265` beside it",
        ),
    ],
)
def test_where_a_ray_lives_on_another_host_the_way_to_it_is_said(url: str, orchestrator: Allocation | RayCluster | None, way: str):
    allocation, cluster = (orchestrator, None) if isinstance(orchestrator, Allocation) else (None, orchestrator)
    made = replace(wrongly_addressed(), allocation=allocation, kubernetes=cluster)
    there = Session(name="session_there", path="/tmp/ray/session_there", live=True, dashboard=url, trusted=True)
    hosts = {**made.hosts, "gpu1": Host("gpu1", ("10.0.0.2",), NOW, sessions=(there,))}
    found = only(looked(replace(made, hosts=hosts), detectors=(wrong_address,)), "address-wrong")
    assert found.text == "nothing answers at http://127.0.0.1:9999; this host has no Ray, but gpu1 has one"
    assert found.evidence[-1] == f"session_there on gpu1 has its dashboard at {url}"
    assert found.remedy.text == way
    hers = {**hosts, "gpu1": replace(hosts["gpu1"], sessions=(replace(there, trusted=False),))}
    assert only(looked(replace(made, hosts=hers), detectors=(wrong_address,)), "address-wrong").text.endswith("this host has no Ray")


def test_a_head_pod_is_where_a_ray_lives_also_before_a_probe_has_looked_there():
    head = Pod("ray-head", "u1", ip="10.9.0.1", phase="Running", head=True)
    made = replace(wrongly_addressed(), kubernetes=replace(IN_PODS, pods=(head, replace(head, name="ray-worker", head=False))))
    found = only(looked(made, detectors=(wrong_address,)), "address-wrong")
    assert found.text == "nothing answers at http://127.0.0.1:9999; this host has no Ray, but ray-head has one"
    assert found.evidence[-1] == "RayCluster ray/raycluster-kuberay on ray-head has its dashboard at http://10.9.0.1:8265"
    assert "`kubectl port-forward -n ray ray-head 8265:8265`" in found.remedy.text
    here = next(host.name for host in made.hosts.values() if host.local)
    ours = replace(made, kubernetes=replace(IN_PODS, pods=(replace(head, name=here),)))
    assert only(looked(ours, detectors=(wrong_address,)), "address-wrong").text.endswith("this host has no Ray")


def test_an_address_that_has_answered_or_may_be_right_is_not_called_wrong():
    known = wrongly_addressed(OURS)
    known = replace(known, cluster=replace(known.cluster, session=SESSION))
    for right in (known, wrongly_addressed(OURS, address=OURS.url)):
        assert looked(right, detectors=(wrong_address,)) == ()


def test_what_answers_but_is_no_dashboard_is_a_fault_and_no_finding():
    other = replace(NO_DASHBOARD, cause=None)
    lost = Cluster(ADDRESS, session=SESSION, reachable=False)
    assert looked(head(RAYLET, GCS, faults=(other,), cluster=lost), detectors=CONTROL) == ()


def test_a_ray_that_has_ended_is_told_with_the_jobs_that_ran():
    found = only(looked(head(live=False, faults=(NO_DASHBOARD,), processes=()), detectors=CONTROL), "ray-ended")
    assert found.text == "Ray has ended on its head node1, and 1 job ended with it: ppo-7b"
    assert (found.level, found.subject) == ("critical", SESSION)
    calm = only(looked(head(live=False, faults=(NO_DASHBOARD,), processes=(), jobs=()), detectors=CONTROL), "ray-ended")
    assert (calm.level, calm.text) == ("info", "Ray has ended on its head node1")


def test_a_ray_that_somebody_has_stopped_lost_no_job_for_certain():
    made = head(live=False, faults=(NO_DASHBOARD,), processes=())
    stopped = tuple(replace(session, stopped=True) for session in made.hosts["node1"].sessions or ())
    found = only(looked(replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=stopped)}), detectors=CONTROL), "ray-ended")
    assert found.text == "Ray was stopped on its head node1; shortly before, 1 job was running: ppo-7b"
    assert found.level == "warning"


def test_a_ray_whose_head_can_not_be_seen_has_perhaps_not_ended():
    assert looked(elsewhere(head(faults=(NO_DASHBOARD,))), detectors=CONTROL) == ()
    assert looked(head(live=None, faults=(NO_DASHBOARD,)), detectors=CONTROL) == ()


def test_a_monitor_that_writes_no_more_is_told():
    found = only(looked(head(RAYLET, GCS, faults=(MONITOR_SILENT,), processes=(LOG_MONITOR,)), detectors=CONTROL), "monitor-silent")
    assert found.text == (
        "the autoscaler monitor has reported nothing for more than 40s: its process on node1 has ended; "
        "used and pending resources are that old, and no node is added"
    )
    assert found.level == "warning"
    stopped = replace(MONITOR, state="T")
    found = only(looked(head(RAYLET, GCS, faults=(MONITOR_SILENT,), processes=(LOG_MONITOR, stopped)), detectors=CONTROL), "monitor-silent")
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
def test_a_locked_door_is_one_finding_that_says_which_side_lacks_what(cause, code, words):
    faults = tuple(Fault(f"ray.{name}", f"{name} is locked", NOW - 40, cause=cause) for name in ("jobs", "identity", "nodes"))
    (found,) = looked(head(RAYLET, GCS, faults=faults, cluster=Cluster(ADDRESS, reachable=False)), detectors=CONTROL)
    assert (found.code, found.text, found.evidence[0]) == (code, f"{ADDRESS} {words}", "identity is locked")
    assert "ray get-auth-token" in found.remedy.text


def test_a_healthy_head_has_nothing():
    assert looked(head(RAYLET, GCS, faults=()), detectors=CONTROL) == ()


def test_a_dashboard_that_listens_on_its_own_host_alone_is_not_called_silent_at_another_address():
    made = wrongly_addressed(replace(UNSEEN, url=OURS.url), address="http://10.0.0.1:8265")
    far = replace(made, hosts={"node1": replace(made.hosts["node1"], addresses=("10.0.0.1",))}, processes=(DASHBOARD,))
    assert "dashboard-silent" not in codes(looked(far, detectors=(wrong_address, silent_dashboard)))
    here = replace(far, cluster=replace(far.cluster, address=OURS.url))
    assert codes(looked(here, detectors=(wrong_address, silent_dashboard))) == {"dashboard-silent"}
