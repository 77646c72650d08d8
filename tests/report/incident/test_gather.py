from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from cockpit.config.document import json_schema
from cockpit.model import Remedy, Snapshot
from cockpit.recording.events import Event
from cockpit.report.incident.account import Account, account_json
from cockpit.report.incident.episodes import event_spans
from cockpit.report.incident.gather import make_account
from cockpit.report.incident.html import account_html
from cockpit.report.incident.markdown import account_markdown
from tests.report.incident.phase_recordings import long_run, two_sessions
from tests.report.incident.recordings import ACTION, DISK, EVENTS, HUNG, Made, at, night
from tests.usage.worlds import world
from tests.world import NOW

TOKEN = "hf_" + "a1B2c3D4e5F6" * 3


@pytest.fixture(scope="module")
def account():
    return make_account(night())


def found(account, code):
    return [one for one in account.findings if one.code == code]


def test_a_finding_is_one_episode_from_its_beginning_to_its_end(account):
    (hung,) = found(account, "job-hung")
    assert (hung.begin, hung.end, hung.level, hung.times) == (NOW + 595, NOW + 2400, "critical", 1)
    assert hung.evidence == HUNG.evidence
    assert hung.action == "stop-job"


def test_a_finding_between_two_samples_is_known_from_its_events(account):
    (lost,) = found(account, "gpu-lost")
    assert (lost.begin, lost.end, lost.subject) == (NOW + 801, NOW + 804, "node1 GPU 3")


def test_a_finding_between_two_samples_has_evidence_and_remedy_of_its_beginning():
    looks = [at(world(findings=(HUNG,) if after == 2 else ()), after) for after in (0, 2, 4, 10)]
    begun = Event(NOW + 2, "finding", HUNG.text, "begin", HUNG.subject, HUNG.level, HUNG.key, HUNG.about)
    ended = Event(NOW + 4, "finding", HUNG.text, "end", HUNG.subject, HUNG.level, HUNG.key, HUNG.about)
    (hung,) = make_account(Made(looks, [begun, ended])).findings
    assert (hung.begin, hung.end, hung.action) == (NOW + 2, NOW + 4, "stop-job")
    assert hung.evidence == HUNG.evidence


def test_a_finding_that_got_worse_between_two_samples_has_its_worst_text():
    mild = Event(NOW + 2, "finding", "a rank may hang", "begin", HUNG.subject, "info", HUNG.key, HUNG.about)
    worse = Event(NOW + 3, "finding", HUNG.text, "worse", HUNG.subject, "critical", HUNG.key, HUNG.about)
    ended = Event(NOW + 4, "finding", HUNG.text, "end", HUNG.subject, "critical", HUNG.key, HUNG.about)
    (span,) = event_spans((mild, worse, ended), NOW + 10)
    assert (span.begin, span.end, span.thing.level, span.thing.text) == (NOW + 2, NOW + 4, "critical", HUNG.text)


def test_findings_are_in_the_order_of_their_beginning(account):
    assert [one.code for one in account.findings] == ["job-hung", "disk-filling", "gpu-lost", "gpu-memory-orphaned"]


def test_a_finding_that_had_not_cleared_has_no_end():
    snapshots = [at(world(findings=(DISK,)), after) for after in (0, 10, 20)]
    assert make_account(Made(snapshots)).findings[0].end is None


def test_a_finding_that_returns_within_a_minute_is_one_episode():
    looks = [world(findings=(DISK,)), world(), world(findings=(DISK,)), world()]
    (one,) = make_account(Made([at(look, 10 * number) for number, look in enumerate(looks)])).findings
    assert (one.begin, one.end, one.times) == (NOW, NOW + 30, 2)


def test_a_finding_keeps_its_most_severe_text():
    levels = ("info", "critical", "info")
    looks = [at(world(findings=(replace(DISK, level=level, text=level),)), 10 * number) for number, level in enumerate(levels)]
    assert [(one.level, one.text) for one in make_account(Made(looks)).findings] == [("critical", "critical")]


def test_an_action_has_its_user_and_outcome(account):
    (action,) = account.actions
    assert (action.at, action.end, action.user, action.host) == (NOW + 2900, NOW + 2912, "ann", "head")
    assert action.text == "kill-orphans: ended 4 processes on node1"


def test_an_action_has_its_targets_and_their_job():
    rows = [{"target": f"pid {1000 + number}", "job": "02000000"} for number in range(5)]
    over = replace(EVENTS[1], data={**ACTION, "outcome": {"done": rows[:4], "failed": rows[4:]}})
    night_with = make_account(night((EVENTS[0], over)))
    assert night_with.actions[0].targets[0] == "pid 1000 of job ppo-7b"
    told = "ended 4 processes on node1: pid 1000 of job ppo-7b, pid 1001 of job ppo-7b, pid 1002 of job ppo-7b and 2 more"
    assert told in account_markdown(night_with)
    assert told in account_html(night_with)
    planned = replace(EVENTS[0], data={**ACTION, "plan": [{"target": "job ppo-7b", "job": "02000000"}]})
    assert make_account(night((planned,))).actions[0].targets == ("job ppo-7b",)


def test_a_report_has_complete_commands_and_no_keys():
    stop = Remedy("stop the job", "stop-job")
    findings = tuple(
        replace(DISK, level="critical", subject=name, remedy=remedy, about=("job:ppo-7b",))
        for name, remedy in (("a", stop), ("b", Remedy("kill it", "kill")))
    )
    told = make_account(Made([at(world(findings=findings), 0), at(world(findings=findings), 10)]))
    for text in (account_markdown(told), account_html(told)):
        assert "cockpit stop-job ppo-7b" in text
        assert "cockpit kill" not in text


def test_an_action_without_a_recorded_end_is_included(account):
    (action,) = make_account(night(EVENTS[:1])).actions
    assert (action.end, action.action) == (None, ACTION["act"])


def test_jobs_failed_sources_gaps_and_damage_are_included(account):
    assert [(job.id, job.status, job.ended) for job in account.jobs] == [("ppo-7b", "FAILED", NOW + 2400)]
    assert [(one.source, one.begin, one.end) for one in account.faults] == [("ray.identity", NOW + 1200, NOW + 1500)]
    assert account.gaps == ((NOW + 1590, NOW + 2200),)
    assert len(account.damage) == 1


def test_gpu_hours_cover_only_the_recorded_time(account):
    (row,) = account.usage
    assert row.hours.busy == pytest.approx(4 * 590 / 3600, abs=1e-3)
    assert set(row.hours.idle_by_cause) == {"rank", "dead"}
    assert (row.kills, row.user) == (1, "train")
    assert account.unwatched_s == 610


def test_only_the_time_between_two_moments_is_gathered():
    account = make_account(night(), NOW + 2500, NOW + 2600)
    assert [one.code for one in account.findings] == ["gpu-memory-orphaned"]
    assert (account.begin, account.end, account.actions) == (NOW + 2500, NOW + 2600, ())


def test_the_report_of_a_job_has_only_its_own_facts():
    account = make_account(night(), job="ppo-7b")
    assert [one.code for one in account.findings] == ["job-hung", "gpu-lost", "gpu-memory-orphaned"]
    assert ([job.id for job in account.jobs], account.users) == (["ppo-7b"], ())


def test_a_course_has_few_points_for_any_length():
    account = make_account(Made([at(world(), 5 * number) for number in range(3000)]))
    assert 200 < len(account.course) <= 480


def test_no_text_has_a_secret_or_a_control_character():
    def hostile(snapshot: Snapshot) -> Snapshot:
        jobs = tuple(
            replace(job, entrypoint=f"\x1b[2J HF_TOKEN={TOKEN} python x.py", message=f"a\nb\u202e {TOKEN}") for job in snapshot.jobs
        )
        return replace(snapshot, jobs=jobs, findings=tuple(replace(one, text=f"{TOKEN}\x07") for one in snapshot.findings))

    events = [replace(event, text=f"\x1b]0;{TOKEN}", data={"user": TOKEN}) for event in EVENTS]
    text = account_json(make_account(night(events, hostile)))
    assert TOKEN not in text
    texts = [text for job in json.loads(text)["jobs"] for text in (job["entrypoint"], job["message"])]
    assert all(each.isprintable() for each in texts)
    assert "\\u001b" not in text


def test_a_failed_job_has_the_most_important_line_of_its_log():
    log = "Job entrypoint command failed with exit code 1, last available logs:\nstep 1\nValueError: no reward\nbye"

    def fail(snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, jobs=tuple(replace(job, status="FAILED", message=log) for job in snapshot.jobs))

    account = make_account(night(change=fail))
    assert {job.error for job in account.jobs} == {"ValueError: no reward"}
    assert ": ValueError: no reward" in account_markdown(account)


def test_the_json_of_a_report_follows_its_schema(account):
    assert msgspec.json.decode(account_json(account), type=Account) == account
    assert json_schema(Account)["$defs"]["Account"]["properties"].keys() == json.loads(account_json(account)).keys()


def test_the_phases_of_a_job_are_summed_over_the_whole_recording():
    (course,) = make_account(long_run(steps=100)).phases
    assert (course.job, course.steps, course.step_seconds) == ("ppo-7b", 100, 120)
    assert course.seconds == {"rollout": 6000, "scoring": 3000, "training": 2000, "weight sync": 1000}
    assert len(course.parts) <= 240
    assert all(one.end <= other.begin + 1e-3 for one, other in pairwise(course.parts))


def test_a_part_of_a_recording_has_its_own_phases_only():
    recording = long_run(steps=100)
    (course,) = make_account(recording, recording.begin + 1200, recording.begin + 2400).phases
    assert course.steps == 10
    assert sum(course.seconds.values()) == pytest.approx(1200)


def test_a_phase_that_lasts_ends_with_its_session():
    before, after = make_account(two_sessions()).phases
    assert before.session != after.session
    assert (before.seconds, after.seconds) == ({"rollout": 100}, {"training": 50})


def test_a_job_without_phases_has_none(account):
    assert account.phases == ()
