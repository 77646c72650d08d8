"""An address without an answer: other existing Rays and how to reach them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.findings.address import wrong_address
from cockpit.findings.control import silent_dashboard
from cockpit.findings.rays_here import head_elsewhere, rays_on
from cockpit.model import Allocation, Cluster, Fault, Host, OtherRay, Pod, RayCluster, RayProcess, Session, SlurmNode, Snapshot
from tests.findings.detection import codes, detect, only
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


def test_a_wrong_address_names_the_answering_ray_of_this_host():
    found = only(detect(wrongly_addressed(OURS), detectors=(wrong_address,)), "address-wrong")
    assert found.text == "Nothing answers at http://127.0.0.1:9999; this host has a Ray cluster at http://127.0.0.1:8265"
    assert found.remedy.text == "use `cockpit --address http://127.0.0.1:8265`"
    both = only(detect(wrongly_addressed(HERS, OURS), detectors=(wrong_address,)), "address-wrong")
    assert both.text.endswith("this host has a Ray cluster at http://127.0.0.1:8265 and a Ray cluster of train at http://127.0.0.1:1")
    assert both.remedy.text == "use `cockpit --address http://127.0.0.1:8265`", "ours is preferred to another user's"


def test_another_program_at_the_address_is_critical_and_names_the_ray_of_this_host():
    gateway = "http://127.0.0.1:9999 does not answer like Ray: HTTP 504: an HTML page titled “504”, server nginx"
    fault = Fault("ray.identity", gateway, NOW - 9, cause="not ray")
    made = replace(wrongly_addressed(OURS), faults=(fault,))
    found = only(detect(made, detectors=(wrong_address, silent_dashboard)), "address-wrong")
    assert found.text == f"{gateway}; this host has a Ray cluster at http://127.0.0.1:8265"
    assert (found.level, found.remedy.text) == ("critical", "use `cockpit --address http://127.0.0.1:8265`")
    at_its_port = replace(made, cluster=replace(made.cluster, address=OURS.url))
    assert codes(detect(at_its_port, detectors=(wrong_address, silent_dashboard))) == {"address-wrong"}
    was_ray = replace(made, cluster=replace(made.cluster, session=SESSION))
    assert only(detect(was_ray, detectors=(wrong_address, silent_dashboard)), "address-wrong").text == gateway


def test_other_rays_are_not_mentioned_before_they_were_asked_and_one_sample_gives_no_age():
    once = FindingTracker(Limits(), (wrong_address,), assumed=60.0)
    assert [found.since for found in once(wrongly_addressed(OURS)).findings] == [None]
    made = wrongly_addressed(OURS)
    assert detect(replace(made, cluster=replace(made.cluster, others=None)), detectors=(wrong_address,)) == ()


def test_a_silent_ray_is_not_offered_and_another_users_is_offered_by_address():
    found = only(detect(wrongly_addressed(UNSEEN), detectors=(wrong_address,)), "address-wrong")
    assert found.text.endswith("this host has no Ray cluster that answers")
    assert UNSEEN.url not in found.remedy.text
    assert "session_far has its dashboard at http://127.0.0.1:38225, which does not answer from here" in found.evidence[1]
    found = only(detect(wrongly_addressed(replace(HERS, answers=None)), detectors=(wrong_address,)), "address-wrong")
    assert found.text.endswith("this host has no Ray cluster of yours that answers")
    assert found.remedy.text.startswith(
        "if you mean the Ray cluster of train: `cockpit --address http://127.0.0.1:1`; if this is the head: "
    )


def test_a_ray_hidden_in_a_container_is_not_called_silent_if_another_one_answers():
    within = replace(DASHBOARD, command=f"{DASHBOARD.command} --port=8265", session=UNSEEN.session)
    hidden = replace(wrongly_addressed(replace(UNSEEN, url=OURS.url), address=OURS.url), processes=(within,))
    seen = hidden.hosts["node1"]
    (session,) = seen.sessions or ()
    hidden = replace(hidden, hosts={"node1": replace(seen, sessions=(replace(session, dashboard=None),), processes=(within,))})
    detectors = (wrong_address, silent_dashboard)
    assert codes(detect(hidden, detectors=detectors)) == {"dashboard-silent"}
    found = replace(hidden, cluster=replace(hidden.cluster, others=(replace(OURS, url="http://127.0.0.1:2"),)))
    reported = only(detect(found, detectors=detectors), "address-wrong")
    assert reported.text == "Nothing answers at http://127.0.0.1:8265; this host has a Ray cluster at http://127.0.0.1:2"
    assert codes(detect(found, detectors=detectors)) == {"address-wrong"}
    listens = replace(found, hosts={"node1": replace(seen, processes=(within,))})
    assert codes(detect(listens, detectors=detectors)) == {"dashboard-silent"}, "its socket is visible, so no container hides it"


def test_one_sample_that_ends_before_the_others_were_asked_names_them_and_says_so():
    made = replace(head(RAYLET, GCS, faults=(NO_DASHBOARD,), nodes=None), cluster=Cluster("http://127.0.0.1:9999", reachable=False))
    sessions = tuple(replace(one, dashboard=OURS.url, trusted=True) for one in made.hosts["node1"].sessions or ())
    made = replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=sessions)})
    (found,) = FindingTracker(Limits(), (wrong_address, silent_dashboard), assumed=60.0)(made).findings
    assert found.text == f"Nothing answers at http://127.0.0.1:9999; this host has a Ray cluster at {OURS.url}"
    assert found.remedy.text == f"use `cockpit --address {OURS.url}`"


def test_the_port_of_a_hidden_dashboard_comes_from_its_command_line():
    command = "python -u /x/ray/dashboard/dashboard.py --host=127.0.0.1 --port=38225 --port-retries=50"
    unseen = replace(DASHBOARD, command=command, session="session_None")
    made = wrongly_addressed(replace(UNSEEN, session="session_None"))
    (session,) = made.hosts["node1"].sessions or ()
    host = replace(made.hosts["node1"], sessions=(replace(session, dashboard=None),), processes=(unseen,))
    assert [(ray.url, ray.owner) for ray in rays_on(host)] == [("http://127.0.0.1:38225", "train")]
    made = replace(made, hosts={"node1": host}, processes=(unseen,))
    assert codes(detect(made, detectors=(wrong_address, silent_dashboard))) == {"address-wrong"}
    same = replace(unseen, command=command.replace("38225", "9999"))
    assert codes(detect(replace(made, processes=(same,)), detectors=(wrong_address, silent_dashboard))) == {"dashboard-silent"}


def test_without_a_ray_the_next_steps_are_named_unless_slurms_nodes_cannot_be_probed():
    found = only(detect(wrongly_addressed(), detectors=(wrong_address,)), "address-wrong")
    assert found.text == "Nothing answers at http://127.0.0.1:9999; this host has no Ray"
    for step in ("`ray start --head`", "`cockpit --address http://HEAD:8265`", "`cockpit demo`"):
        assert step in found.remedy.text
    made = wrongly_addressed()
    unreached = replace(
        made, allocation=Allocation("42", "RUNNING", None, ()), faults=(*made.faults, Fault("probe", "srun: no", NOW, "gpu1"))
    )
    remedy = only(detect(unreached, detectors=(wrong_address,)), "address-wrong").remedy.text
    assert remedy == "first find out why the nodes of Slurm job 42 can't be probed: `cockpit doctor`"
    reached = replace(unreached, faults=made.faults)
    assert "`ray start --head`" in only(detect(reached, detectors=(wrong_address,)), "address-wrong").remedy.text


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
def test_the_way_to_a_ray_on_another_host_is_named(url: str, orchestrator: Allocation | RayCluster | None, way: str):
    allocation, cluster = (orchestrator, None) if isinstance(orchestrator, Allocation) else (None, orchestrator)
    made = replace(wrongly_addressed(), allocation=allocation, kubernetes=cluster)
    there = Session(name="session_there", path="/tmp/ray/session_there", live=True, dashboard=url, trusted=True)
    hosts = {**made.hosts, "gpu1": Host("gpu1", ("10.0.0.2",), NOW, sessions=(there,))}
    found = only(detect(replace(made, hosts=hosts), detectors=(wrong_address,)), "address-wrong")
    assert found.text == "Nothing answers at http://127.0.0.1:9999; this host has no Ray, but gpu1 has one"
    assert found.evidence[-1] == f"session_there on gpu1 has its dashboard at {url}"
    assert found.remedy.text == way
    hers = {**hosts, "gpu1": replace(hosts["gpu1"], sessions=(replace(there, trusted=False),))}
    assert only(detect(replace(made, hosts=hers), detectors=(wrong_address,)), "address-wrong").text.endswith("this host has no Ray")


def test_a_head_pod_counts_as_a_ray_even_before_it_was_probed():
    head = Pod("ray-head", "u1", ip="10.9.0.1", phase="Running", head=True)
    made = replace(wrongly_addressed(), kubernetes=replace(IN_PODS, pods=(head, replace(head, name="ray-worker", head=False))))
    found = only(detect(made, detectors=(wrong_address,)), "address-wrong")
    assert found.text == "Nothing answers at http://127.0.0.1:9999; this host has no Ray, but ray-head has one"
    assert found.evidence[-1] == "RayCluster ray/raycluster-kuberay on ray-head has its dashboard at http://10.9.0.1:8265"
    assert "`kubectl port-forward -n ray ray-head 8265:8265`" in found.remedy.text
    here = next(host.name for host in made.hosts.values() if host.local)
    ours = replace(made, kubernetes=replace(IN_PODS, pods=(replace(head, name=here),)))
    assert only(detect(ours, detectors=(wrong_address,)), "address-wrong").text.endswith("this host has no Ray")


def test_an_address_that_has_answered_or_may_be_right_is_not_called_wrong():
    known = wrongly_addressed(OURS)
    known = replace(known, cluster=replace(known.cluster, session=SESSION))
    for right in (known, wrongly_addressed(OURS, address=OURS.url)):
        assert detect(right, detectors=(wrong_address,)) == ()
    made = wrongly_addressed(replace(UNSEEN, url=OURS.url), address="http://10.0.0.1:8265")
    far = replace(made, hosts={"node1": replace(made.hosts["node1"], addresses=("10.0.0.1",))}, processes=(DASHBOARD,))
    assert "dashboard-silent" not in codes(detect(far, detectors=(wrong_address, silent_dashboard)))
    here = replace(far, cluster=replace(far.cluster, address=OURS.url))
    assert codes(detect(here, detectors=(wrong_address, silent_dashboard))) == {"dashboard-silent"}


def on_a_worker(**of_raylet: Any) -> Snapshot:
    """Nothing listens at the address, and the raylet's head is another host."""
    worker = replace(RAYLET, gcs="10.0.0.9:6379", **of_raylet)
    made = head(
        worker, faults=(NO_DASHBOARD,), cluster=Cluster("http://127.0.0.1:8265", reachable=False, others=()), nodes=None, processes=()
    )
    (session,) = made.hosts["node1"].sessions or ()
    return replace(made, hosts={"node1": replace(made.hosts["node1"], sessions=(replace(session, trusted=True),), nodes=())})


BOTH = (wrong_address, silent_dashboard)


def test_on_a_worker_the_head_is_named_and_no_dashboard_is_called_silent():
    found = only(detect(on_a_worker(), detectors=BOTH), "address-wrong")
    assert found.text == f"Nothing answers at http://127.0.0.1:8265; this host is a worker of {SESSION}, whose head is 10.0.0.9"
    way = "run cockpit there, or use `cockpit --address http://10.0.0.9:8265` if its dashboard listens on all interfaces"
    assert found.remedy.text == way
    assert codes(detect(on_a_worker(), detectors=BOTH)) == {"address-wrong"}


def test_in_slurm_the_head_has_its_slurm_name_and_another_jobs_worker_does_not_count():
    job = Allocation("42", "RUNNING", None, (SlurmNode("gpu9", "mixed", others=("c9", "10.0.0.9")),))
    found = only(detect(replace(on_a_worker(slurm="42"), allocation=job, slurm_ids=frozenset(["42"])), detectors=BOTH), "address-wrong")
    assert found.text.endswith("whose head is gpu9")
    assert found.remedy.text.startswith("run cockpit there: `srun --overlap --jobid=42 -w gpu9 --pty cockpit`, or use")
    for unanswered in ((), ("rays",)):
        slurm = None if unanswered else "41"
        made = replace(on_a_worker(slurm=slurm), slurm_ids=frozenset(["42"]))
        made = replace(made, hosts={"node1": replace(made.hosts["node1"], unanswered=unanswered)})
        other = only(detect(made, detectors=BOTH), "address-wrong")
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
def test_a_worker_is_recognized_by_the_gcs_address_of_another_host(gcs: str, head: str | None):
    host = Host("gpu001", ("10.0.0.1", "fd00::1"), rays=(RayProcess("raylet", 20, SESSION, gcs=gcs),))
    assert head_elsewhere(host, SESSION) == head
    with_gcs = replace(host, rays=(*host.rays, RayProcess("gcs_server", 10, SESSION)))
    assert head_elsewhere(with_gcs, SESSION) is None, "seen from another network"
