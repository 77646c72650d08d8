"""The tracker adds times and an order to findings, and a detector that raises an error silences no other."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.model import Finding, Snapshot
from tests.world import NOW, snapshot


def said(*findings):
    def detect(facts):
        return findings

    return detect


def trips(facts):
    yield Finding("half", "info", "w1", "half an answer")
    raise ValueError("token=hunter2hunter2hunter2")


def test_a_finding_stands_since_it_was_first_seen_again_or_since_when_it_knows_itself():
    here = [Finding("a", "info", "w1", "…"), Finding("b", "info", "w1", "…", since=NOW - 600)]
    judge = FindingTracker(Limits(), (lambda facts: list(here),))
    judge(snapshot())
    told = judge(replace(snapshot(), taken=NOW + 60)).findings
    assert {finding.code: finding.since for finding in told} == {"a": NOW, "b": NOW - 600}
    gone = here.pop(0)
    judge(replace(snapshot(), taken=NOW + 70))
    here.append(gone)
    assert [one.since for one in judge(replace(snapshot(), taken=NOW + 90)).findings if one.code == "a"] == [NOW + 90]


def test_it_is_judged_again_after_a_pause_or_when_much_more_will_be_known_and_stays_found_until_then():
    judge = FindingTracker(Limits(), (said(Finding("a", "info", "w1", "…")),))
    judge(snapshot())
    later = replace(snapshot(), taken=NOW + 1)
    assert not judge.due(later)
    assert judge.due(replace(later, taken=NOW + 2))
    judge.expire_findings()
    assert judge.due(later)
    assert [finding.code for finding in judge.with_findings(later).findings] == ["a"]


def test_the_worst_come_first_and_of_these_the_oldest():
    told = (
        Finding("new", "warning", "w1", "…", since=NOW - 1),
        Finding("old", "warning", "w1", "…", since=NOW - 9),
        Finding("bad", "critical", "w1", "…"),
    )
    assert [finding.code for finding in FindingTracker(Limits(), (said(*told),))(snapshot()).findings] == ["bad", "old", "new"]


@pytest.mark.parametrize(
    ("seen", "said_text", "text"),
    [
        (40, "It is full", "It is full, as of 40s ago"),
        (40, "job a failed: it died.", "job a failed: it died, as of 40s ago"),
        *((seen, "It is full", "It is full") for seen in (20, -60, math.nan, math.inf)),
    ],
)
def test_what_follows_from_old_facts_says_so(seen, said_text, text):
    told = FindingTracker(Limits(), (said(Finding("a", "info", "w1", said_text, seen=NOW - seen)),))(snapshot())
    assert told.findings[0].text == text


def test_a_detector_that_trips_is_a_fault_without_secrets_and_silences_no_other():
    judge = FindingTracker(Limits(), (trips, said(Finding("a", "info", "w1", "…"))))
    for seconds in (0, 60):
        told = judge(replace(snapshot(), taken=NOW + seconds))
    assert [finding.code for finding in told.findings] == ["a"]
    bug = told.faults[-1]
    assert (bug.source, bug.since) == ("findings.trips", NOW)
    assert "cockpit has a bug: ValueError" in bug.text
    assert "hunter2" not in bug.text


def test_what_nobody_counts_any_more_is_forgotten():
    judge = FindingTracker(
        Limits(), (lambda facts: facts.growth_by_name(facts.snapshot.cluster.session or "", {"a": facts.now}, 600.0) and (),)
    )
    for day in range(6):
        base = snapshot()
        judge.run_detectors(replace(base, taken=NOW + day * 86400, cluster=replace(base.cluster, session=f"session {day}")))
    assert list(judge._counted) == ["session 4", "session 5"]


def test_what_nobody_has_watched_has_not_lasted():
    lasted = []

    def detect(facts):
        lasted.append(facts.seconds_lasting("idle", "gpu"))
        return ()

    judge = FindingTracker(Limits(), (detect,))
    for taken in (100.0, 110.0):
        judge.run_detectors(Snapshot(taken=taken))
    judge.skip_gap(3600.0)
    judge.run_detectors(Snapshot(taken=3712.0))
    assert lasted == [0.0, 10.0, 12.0]


def test_what_is_being_judged_while_its_cluster_is_left_is_not_told_of_the_next():
    def detect(facts):
        judge.forget_findings()
        yield Finding("burns", "critical", "the old cluster", "it burns")

    judge = FindingTracker(Limits(), (detect,))
    assert judge(snapshot()).findings == ()
