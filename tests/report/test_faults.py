"""Tests that sources with one cause of failure become one fault, which names them all."""

from __future__ import annotations

from cockpit.model import Cause, Fault
from cockpit.report.faults import also_down, by_cause
from tests.world import NOW

SOURCES = ("ray.actors", "ray.gcs", "ray.identity", "ray.jobs", "ray.nodes", "ray.oom", "ray.placement_groups", "ray.status")
REFUSED = "http://127.0.0.1:9999 can't be reached: connection refused, nothing listens there"


def fault(source: str, text: str = REFUSED, *, ago: float = 5.0, cause: Cause | None = "silent", host: str | None = None) -> Fault:
    return Fault(source, text, NOW - ago, host, cause)


def test_a_dashboard_that_is_down_is_one_fault_with_its_eight_sources():
    (one,) = by_cause(fault(source, ago=number) for number, source in enumerate(SOURCES))
    assert (one.source, one.text, one.since) == ("ray.identity", REFUSED, NOW - 7)
    assert one.sources == ("ray.identity", *(source for source in SOURCES if source != "ray.identity"))
    assert also_down(one) == ("; no new data on: actors, the GCS, jobs, nodes, out-of-memory kills, placement groups, resource usage")


def test_a_frozen_dashboard_is_one_fault_although_each_source_has_its_own_text():
    (one,) = by_cause(
        [fault("ray.jobs", "did not answer within 10 s (asked for jobs)"), fault("ray.identity", "did not answer (asked for its version)")]
    )
    assert (one.text, one.sources) == ("did not answer (asked for its version)", ("ray.identity", "ray.jobs"))


def test_another_server_at_the_address_is_one_fault():
    pages = [fault(source, f"sent an HTML page (asked for {source})", cause=None) for source in SOURCES]
    assert [one.source for one in by_cause(pages)] == ["ray.identity"]


def test_a_dead_gcs_is_the_cause_of_all_sources_of_ray():
    gone = fault("ray.gcs", "the GCS does not answer", cause="gcs")
    others = (
        fault("ray.identity", "no answer"),
        fault("ray.status", "nothing written", cause="monitor"),
        fault("ray.jobs", "500", cause=None),
    )
    (one,) = by_cause((*others, gone))
    assert (one.source, one.text) == ("ray.gcs", "the GCS does not answer")
    assert one.sources == ("ray.gcs", "ray.identity", "ray.jobs", "ray.status")


def test_a_missing_token_is_its_own_cause_beside_a_dead_gcs():
    locked = [fault(source, "asks for a token", cause="no token") for source in ("ray.actors", "ray.jobs")]
    gone = fault("ray.gcs", "the GCS does not answer", cause="gcs")
    assert [one.sources for one in by_cause([*locked, gone])] == [("ray.actors", "ray.jobs"), ("ray.gcs",)]
    everything = [fault(source, f"{source} asks for a token", cause="no token") for source in SOURCES]
    assert [one.source for one in by_cause(everything)] == ["ray.identity"]


def test_faults_of_different_causes_and_hosts_stay_apart_in_their_order():
    apart = (
        fault("probe", "w1: connection refused", host="w1", ago=9),
        fault("probe", "w2: connection refused", host="w2", ago=8),
        fault("nvml", "NVML has not answered for 12 s", host="w1"),
        fault("nvml", "NVML has not answered for 12 s", host="w2"),
        fault("ray.jobs", "HTTP 500", cause=None),
    )
    assert [(one.source, one.host, one.sources) for one in by_cause(apart)] == [(each.source, each.host, (each.source,)) for each in apart]
    assert also_down(by_cause(apart)[0]) == ""


def test_equal_texts_of_two_sources_are_one_fault():
    (one,) = by_cause([fault("ray.jobs", "HTTP 500", ago=3, cause=None), fault("ray.actors", "HTTP 500", ago=9, cause=None)])
    assert (one.source, one.sources, one.since) == ("ray.jobs", ("ray.jobs", "ray.actors"), NOW - 9)


def test_without_faults_there_is_none():
    assert by_cause(()) == ()
