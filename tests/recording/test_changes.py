from __future__ import annotations

from msgspec.structs import replace

from cockpit.model import Failure, Fault, Job, Snapshot
from cockpit.recording.changes import events_between, has_news
from tests import world

FINDING = world.finding()
FAULT = Fault("ray.nodes", "no answer within 8 s", 5.0)
RUNNING = Job("train1", "01000000", "train1", "RUNNING", started=3.0)
FAILED = replace(RUNNING, status="FAILED", ended=8.0, message="RuntimeError: boom\nmore")


def events(before, now):
    return [(event.at, event.kind, event.phase, event.level, event.text) for event in events_between(before, replace(now, taken=9.0))]


def test_a_finding_begins_gets_worse_and_ends_and_nothing_else_is_an_event():
    mild, bad = Snapshot(findings=(replace(FINDING, level="info"),)), Snapshot(findings=(FINDING,))
    assert events(Snapshot(), bad) == [(9.0, "finding", "begin", "critical", FINDING.text)]
    assert events(mild, bad) == [(9.0, "finding", "worse", "critical", FINDING.text)]
    assert events(bad, Snapshot()) == [(9.0, "finding", "end", "critical", FINDING.text)]
    assert has_news(mild, bad)
    assert events(bad, bad) == events(bad, mild) == []
    assert events(bad, Snapshot(findings=(replace(FINDING, text="GPU 3 is lost for 2m"),))) == []


def test_a_fault_begins_and_ends():
    assert [phase for _, _, phase, _, _ in events(Snapshot(faults=(FAULT,)), Snapshot())] == ["end"]
    assert [text for *_, text in events(Snapshot(), Snapshot(faults=(FAULT,)))] == ["no answer within 8 s"]


def test_one_outage_of_several_sources_begins_and_ends_once():
    other = replace(FAULT, source="ray.jobs")
    both = Snapshot(faults=(FAULT, other))
    assert [phase for _, _, phase, _, _ in events(Snapshot(), both)] == ["begin"]
    assert events(Snapshot(faults=(FAULT,)), both) == events(both, Snapshot(faults=(other,))) == []
    assert [phase for _, _, phase, _, _ in events(both, Snapshot())] == ["end"]
    assert len(events(Snapshot(faults=(FAULT,)), Snapshot(faults=(FAULT, replace(other, text="HTTP 500"))))) == 1


def test_a_job_begins_and_ends_in_the_state_that_shows_it():
    assert events(Snapshot(jobs=()), Snapshot(jobs=(RUNNING,))) == [(9.0, "job", "begin", None, "job train1 was submitted")]
    assert events(Snapshot(jobs=(RUNNING,)), Snapshot(jobs=(FAILED,))) == [
        (9.0, "job", "end", "critical", "job train1 ended: FAILED: RuntimeError: boom")
    ]
    preamble = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
    ((*_, text),) = events(Snapshot(jobs=(RUNNING,)), Snapshot(jobs=(replace(FAILED, message=f"{preamble}step 7\nKeyError: 'x'"),)))
    assert text == "job train1 ended: FAILED: The code looks up the key 'x', which is not there"


def test_what_the_log_of_a_failed_job_shows_later_is_an_event_unless_it_is_the_same():
    job = replace(FAILED, message="failed with exit code 1")
    before, failure = Snapshot(jobs=(job,)), Failure(job.key, job.ended, text="ValueError: x", cause="The batch is too large")
    assert events(before, Snapshot(jobs=(job,), failures=(failure,))) == [
        (9.0, "job", "end", "critical", "job train1 failed: The batch is too large")
    ]
    unread = Failure(job.key, job.ended, unread="no such file")
    ((*_, text),) = events(Snapshot(jobs=(job,), failures=(unread,)), Snapshot(jobs=(job,), failures=(failure,)))
    assert text == "job train1 failed: The batch is too large", "its log could be read at the second try"
    same = replace(failure, text="failed with exit code 1", cause=None)
    assert events(before, Snapshot(jobs=(job,), failures=(same,))) == []
    assert events(Snapshot(jobs=(job,), failures=(failure,)), Snapshot(jobs=(job,), failures=(failure,))) == []
    ((*_, text),) = events(Snapshot(jobs=(RUNNING,)), Snapshot(jobs=(job,), failures=(failure,)))
    assert text == "job train1 ended: FAILED: The batch is too large"


def test_a_job_between_two_snapshots_has_begin_and_end_and_jobs_of_the_first_have_none():
    assert [phase for _, _, phase, _, _ in events(Snapshot(jobs=()), Snapshot(jobs=(FAILED,)))] == ["begin", "end"]
    assert events(Snapshot(jobs=None), Snapshot(jobs=(RUNNING, FAILED))) == []


def test_events_are_news():
    jobs = Snapshot(jobs=(RUNNING,))
    assert has_news(Snapshot(), Snapshot(findings=(FINDING,)))
    assert has_news(jobs, Snapshot(jobs=(FAILED,)))
    assert not has_news(jobs, Snapshot(jobs=(replace(RUNNING, entrypoint="x"),), taken=99.0))
