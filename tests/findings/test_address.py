"""An address without an answer: other Rays that are there, and how to reach them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.address import wrong_address
from cockpit.findings.control import silent_dashboard
from cockpit.findings.rays_here import head_elsewhere, rays_on
from cockpit.model import Allocation, Cluster, Fault, Host, OtherRay, Pod, RayCluster, RayProcess, Session, SlurmNode, Snapshot
from tests.findings.detection import codes, looked, only
from tests.findings.heads import DASHBOARD, GCS, NO_DASHBOARD, RAYLET, SESSION, head
from tests.world import NOW

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
    assert found.text == "Nothing answers at http://127.0.0.1:9999; this host has a Ray cluster at http://127.0.0.1:8265"
    assert found.remedy.text == "use `cockpit --address http://127.0.0.1:8265`"
    both = only(looked(wrongly_addressed(HERS, OURS), detectors=(wrong_address,)), "address-wrong")
    assert both.text.endswith("this host has a Ray cluster at http://127.0.0.1:8265 and a Ray cluster of train at http://127.0.0.1:1")
    assert both.remedy.text == "use `cockpit --address http://127.0.0.1:8265`", "not another user's, where there is one of ours"


def test_what_answers_but_not_as_ray_is_critical_and_the_ray_of_this_host_is_named():
    gateway = "http://127.0.0.1:9999 does not answer like Ray: HTTP 504: an HTML page titled “504”, server nginx"
    fault = Fault("ray.identity", gateway, NOW - 9, cause="not ray")
    made = replace(wrongly_addressed(OURS), faults=(fault,))
    found = only(looked(made, detectors=(wrong_address, silent_dashboard)), "address-wrong")
    assert found.text == f"{gateway}; this host has a Ray cluster at http://127.0.0.1:8265"
    assert (found.level, found.remedy.text) == ("critical", "use `cockpit --address http://127.0.0.1:8265`")
    at_its_port = replace(made, cluster=replace(made.cluster, address=OURS.url))
    assert codes(looked(at_its_port, detectors=(wrong_address, silent_dashboard))) == {"address-wrong"}
    was_ray = replace(made, cluster=replace(made.cluster, session=SESSION))
    assert only(looked(was_ray, detectors=(wrong_address, silent_dashboard)), "address-wrong").text == gateway


def test_before_the_others_were_asked_nothing_is_said_of_them_and_a_single_look_gives_no_age():
    once = FindingTracker(Limits(), (wrong_address,), assumed=60.0)
    assert [found.since for found in once(wrongly_addressed(OURS)).findings] == [None]
    made = wrongly_addressed(OURS)
    assert looked(replace(made, cluster=replace(made.cluster, others=None)), detectors=(wrong_address,)) == ()


def test_a_ray_that_does_not_answer_is_not_offered_and_another_users_by_its_address():
    found = only(looked(wrongly_addressed(UNSEEN), detectors=(wrong_address,)), "address-wrong")
    assert found.text.endswith("this host has no Ray cluster that answers")
    assert UNSEEN.url not in found.remedy.text
    assert "session_far has its dashboard at http://127.0.0.1:38225, which does not answer from here" in found.evidence[1]
    found = only(looked(wrongly_addressed(replace(HERS, answers=None)), detectors=(wrong_address,)), "address-wrong")
    assert found.text.endswith("this host has no Ray cluster of yours that answers")
    assert found.remedy.text.startswith(
        "if you mean the Ray cluster of train: `cockpit --address http://127.0.0.1:1`; if this is the head: "
    )


def test_where_another_ray_answers_one_that_a_container_hides_is_not_called_silent():
    within = replace(DASHBOARD, command=f"{DASHBOARD.command} --port=8265", session=UNSEEN.session)
    hidden = replace(wrongly_addressed(replace(UNSEEN, url=OURS.url), address=OURS.url), processes=(within,))
    seen = hidden.hosts["node1"]
    (session,) = seen.sessions or ()
    hidden = replace(hidden, hosts={"node1": replace(seen, sessions=(replace(session, dashboard=None),), processes=(within,))})
    detectors = (wrong_address, silent_dashboard)
    assert codes(looked(hidden, detectors=detectors)) == {"dashboard-silent"}
    found = replace(hidden, cluster=replace(hidden.cluster, others=(replace(OURS, url="http://127.0.0.1:2"),)))
    told = only(looked(found, detectors=detectors), "address-wrong")
    assert told.text == "Nothing answers at http://127.0.0.1:8265; this host has a Ray cluster at http://127.0.0.1:2"
    assert codes(looked(found, detectors=detectors)) == {"address-wrong"}
    listens = replace(found, hosts={"node1": replace(seen, processes=(within,))})
    assert codes(looked(listens, detectors=detectors)) == {"dashboard-silent"}, "its socket is seen here, so that no container hides it"


def test_a_single_look_that_ends_before_the_others_were_asked_names_them_and_says_so():
    made = replace(head(RAYLET, GCS, faults=(NO_DASHBOARD,), nodes=None), cluster=Cluster("http://127.0.0.1:9999", reachable=False))
    sessions = tuple(replace(one, dashboard=OURS.url, trusted=True) for one in made.hosts["node1"].sessions or ())
    made = replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=sessions)})
    (found,) = FindingTracker(Limits(), (wrong_address, silent_dashboard), assumed=60.0)(made).findings
    assert found.text == f"Nothing answers at http://127.0.0.1:9999; this host has a Ray cluster at {OURS.url}"
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


def test_where_no_ray_runs_the_next_steps_are_said_unless_slurms_nodes_can_not_be_probed():
    found = only(looked(wrongly_addressed(), detectors=(wrong_address,)), "address-wrong")
    assert found.text == "Nothing answers at http://127.0.0.1:9999; this host has no Ray"
    for step in ("`ray start --head`", "`cockpit --address http://HEAD:8265`", "`cockpit demo`"):
        assert step in found.remedy.text
    made = wrongly_addressed()
    unreached = replace(
        made, allocation=Allocation("42", "RUNNING", None, ()), faults=(*made.faults, Fault("probe", "srun: no", NOW, "gpu1"))
    )
    remedy = only(looked(unreached, detectors=(wrong_address,)), "address-wrong").remedy.text
    assert remedy == "first find out why the nodes of Slurm job 42 can't be probed: `cockpit doctor`"
    reached = replace(unreached, faults=made.faults)
    assert "`ray start --head`" in only(looked(reached, detectors=(wrong_address,)), "address-wrong").remedy.text


IN_PODS = RayCluster("ray", "raycluster-kuberay")
FORWARD = "`kubectl port-forward -n ray gpu1 8265:8265`"


@pytest.mark.parametrize(
    ("url", "orchestrator", "way"),
    [
        ("http://127.0.0.1:8265", None, "its dashboard listens only on gpu1: run cockpit there"),
        (
            "http://127.0.0.1:8265",
            Allocation("42", "RUNNING", None, ()),
            "its dashboard listens only on gpu1: run cockpit there: `srun --overlap --jobid=42 -w gpu1 --pty cockpit`",
        ),
        ("http://10.0.0.2:8265", None, "use `cockpit --address http://10.0.0.2:8265`"),
        (
            "http://10.0.0.2:8265",
            IN_PODS,
            f"its dashboard listens in pod gpu1: {FORWARD}, and in another terminal `cockpit --address http://127.0.0.1:8265`",
        ),
    ],
)
def test_where_a_ray_lives_on_another_host_the_way_to_it_is_said(url: str, orchestrator: Allocation | RayCluster | None, way: str):
    allocation, cluster = (orchestrator, None) if isinstance(orchestrator, Allocation) else (None, orchestrator)
    made = replace(wrongly_addressed(), allocation=allocation, kubernetes=cluster)
    there = Session(name="session_there", path="/tmp/ray/session_there", live=True, dashboard=url, trusted=True)
    hosts = {**made.hosts, "gpu1": Host("gpu1", ("10.0.0.2",), NOW, sessions=(there,))}
    found = only(looked(replace(made, hosts=hosts), detectors=(wrong_address,)), "address-wrong")
    assert found.text == "Nothing answers at http://127.0.0.1:9999; this host has no Ray, but gpu1 has one"
    assert found.evidence[-1] == f"session_there on gpu1 has its dashboard at {url}"
    assert found.remedy.text == way
    hers = {**hosts, "gpu1": replace(hosts["gpu1"], sessions=(replace(there, trusted=False),))}
    assert only(looked(replace(made, hosts=hers), detectors=(wrong_address,)), "address-wrong").text.endswith("this host has no Ray")


def test_a_head_pod_is_where_a_ray_lives_also_before_a_probe_has_looked_there():
    head = Pod("ray-head", "u1", ip="10.9.0.1", phase="Running", head=True)
    made = replace(wrongly_addressed(), kubernetes=replace(IN_PODS, pods=(head, replace(head, name="ray-worker", head=False))))
    found = only(looked(made, detectors=(wrong_address,)), "address-wrong")
    assert found.text == "Nothing answers at http://127.0.0.1:9999; this host has no Ray, but ray-head has one"
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
    made = wrongly_addressed(replace(UNSEEN, url=OURS.url), address="http://10.0.0.1:8265")
    far = replace(made, hosts={"node1": replace(made.hosts["node1"], addresses=("10.0.0.1",))}, processes=(DASHBOARD,))
    assert "dashboard-silent" not in codes(looked(far, detectors=(wrong_address, silent_dashboard)))
    here = replace(far, cluster=replace(far.cluster, address=OURS.url))
    assert codes(looked(here, detectors=(wrong_address, silent_dashboard))) == {"dashboard-silent"}


def on_a_worker(**of_raylet: Any) -> Snapshot:
    """Nothing listens there, and the raylet's head is another host."""
    worker = replace(RAYLET, gcs="10.0.0.9:6379", **of_raylet)
    made = head(
        worker, faults=(NO_DASHBOARD,), cluster=Cluster("http://127.0.0.1:8265", reachable=False, others=()), nodes=None, processes=()
    )
    (session,) = made.hosts["node1"].sessions or ()
    return replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=(replace(session, trusted=True),), nodes=())})


BOTH = (wrong_address, silent_dashboard)


def test_on_a_worker_the_head_is_named_and_no_dashboard_is_called_silent():
    found = only(looked(on_a_worker(), detectors=BOTH), "address-wrong")
    assert found.text == f"Nothing answers at http://127.0.0.1:8265; this host is a worker of {SESSION}, whose head is 10.0.0.9"
    way = "run cockpit there, or use `cockpit --address http://10.0.0.9:8265` if its dashboard listens on all interfaces"
    assert found.remedy.text == way
    assert codes(looked(on_a_worker(), detectors=BOTH)) == {"address-wrong"}


def test_in_slurm_the_head_has_its_name_there_and_the_worker_of_another_job_is_none():
    job = Allocation("42", "RUNNING", None, (SlurmNode("gpu9", "mixed", others=("c9", "10.0.0.9")),))
    found = only(looked(replace(on_a_worker(slurm="42"), allocation=job, slurm_ids=frozenset(["42"])), detectors=BOTH), "address-wrong")
    assert found.text.endswith("whose head is gpu9")
    assert found.remedy.text.startswith("run cockpit there: `srun --overlap --jobid=42 -w gpu9 --pty cockpit`, or use")
    for unanswered in ((), ("rays",)):
        slurm = None if unanswered else "41"
        made = replace(on_a_worker(slurm=slurm), slurm_ids=frozenset(["42"]))
        made = replace(made, hosts={"node1": replace(made.hosts["node1"], unanswered=unanswered)})
        other = only(looked(made, detectors=BOTH), "address-wrong")
        assert other.text == "Nothing answers at http://127.0.0.1:8265; this host has no Ray"


@pytest.mark.parametrize(
    ("gcs", "head"),
    [
        ("gpu002:6379", "gpu002"),
        ("[fd00::2]:6379", "fd00::2"),
        ("gpu001.cluster.local:6379", None),
        ("[fd00::1]:6379", None),
        ("[::1]:6379", None),
        ("127.0.1.1:6379", None),
        ("10.0.0.1:6379", None),
        ("10.0.0.2:6379", "10.0.0.2"),
    ],
)
def test_a_worker_is_known_by_a_gcs_that_is_no_name_of_its_host(gcs: str, head: str | None):
    host = Host("gpu001", ("10.0.0.1", "fd00::1"), rays=(RayProcess("raylet", 20, SESSION, gcs=gcs),))
    assert head_elsewhere(host, SESSION) == head
    with_gcs = replace(host, rays=(*host.rays, RayProcess("gcs_server", 10, SESSION)))
    assert head_elsewhere(with_gcs, SESSION) is None, "seen from another network"
