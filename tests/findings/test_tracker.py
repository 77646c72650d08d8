"""The tracker adds times and an order to findings, and a detector that raises an error silences no other."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from cockpit.findings import FindingTracker, Limits
from cockpit.model import Finding, Snapshot
from tests.world import NOW, snapshot


def detector_of(*findings):
    def detect(facts):
        return findings

    return detect


def failing(facts):
    yield Finding("half", "info", "w1", "half an answer")
    raise ValueError("token=hunter2hunter2hunter2")


def test_a_finding_has_its_first_time_or_its_own():
    here = [Finding("a", "info", "w1", "…"), Finding("b", "info", "w1", "…", since=NOW - 600)]
    judge = FindingTracker(Limits(), (lambda facts: list(here),))
    judge(snapshot())
    reported = judge(replace(snapshot(), taken=NOW + 60)).findings
    assert {finding.code: finding.since for finding in reported} == {"a": NOW, "b": NOW - 600}
    gone = here.pop(0)
    judge(replace(snapshot(), taken=NOW + 70))
    here.append(gone)
    assert [one.since for one in judge(replace(snapshot(), taken=NOW + 90)).findings if one.code == "a"] == [NOW + 90]


def test_detectors_run_again_after_a_pause_or_with_more_facts_and_findings_stay_until_then():
    judge = FindingTracker(Limits(), (detector_of(Finding("a", "info", "w1", "…")),))
    judge(snapshot())
    later = replace(snapshot(), taken=NOW + 1)
    assert not judge.due(later)
    assert judge.due(replace(later, taken=NOW + 2))
    judge.expire_findings()
    assert judge.due(later)
    assert [finding.code for finding in judge.with_findings(later).findings] == ["a"]


def test_the_most_severe_findings_come_first_and_then_the_oldest():
    reported = (
        Finding("new", "warning", "w1", "…", since=NOW - 1),
        Finding("old", "warning", "w1", "…", since=NOW - 9),
        Finding("bad", "critical", "w1", "…"),
    )
    assert [finding.code for finding in FindingTracker(Limits(), (detector_of(*reported),))(snapshot()).findings] == ["bad", "old", "new"]


@pytest.mark.parametrize(
    ("seen", "expected_text", "text"),
    [
        (40, "It is full", "It is full, as of 40s ago"),
        (40, "job a failed: it died.", "job a failed: it died, as of 40s ago"),
        *((seen, "It is full", "It is full") for seen in (20, -60, math.nan, math.inf)),
    ],
)
def test_findings_from_old_facts_say_so(seen, expected_text, text):
    reported = FindingTracker(Limits(), (detector_of(Finding("a", "info", "w1", expected_text, seen=NOW - seen)),))(snapshot())
    assert reported.findings[0].text == text


def test_an_error_in_a_detector_is_a_fault_without_secrets_and_silences_no_other():
    judge = FindingTracker(Limits(), (failing, detector_of(Finding("a", "info", "w1", "…"))))
    for seconds in (0, 60):
        reported = judge(replace(snapshot(), taken=NOW + seconds))
    assert [finding.code for finding in reported.findings] == ["a"]
    bug = reported.faults[-1]
    assert (bug.source, bug.since) == ("findings.failing", NOW)
    assert "cockpit has a bug: ValueError" in bug.text
    assert "hunter2" not in bug.text


def test_unused_clocks_are_forgotten():
    judge = FindingTracker(
        Limits(), (lambda facts: facts.growth_by_name(facts.snapshot.cluster.session or "", {"a": facts.now}, 600.0) and (),)
    )
    for day in range(6):
        base = snapshot()
        judge.run_detectors(replace(base, taken=NOW + day * 86400, cluster=replace(base.cluster, session=f"session {day}")))
    assert list(judge._counted) == ["session 4", "session 5"]


def test_time_without_samples_does_not_count():
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


def test_a_judgement_during_a_cluster_change_is_not_reported_for_the_next():
    def detect(facts):
        judge.forget_findings()
        yield Finding("burns", "critical", "the old cluster", "it burns")

    judge = FindingTracker(Limits(), (detect,))
    assert judge(snapshot()).findings == ()
