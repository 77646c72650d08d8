from __future__ import annotations

from cockpit.model import Fault
from cockpit.notify.recipient import BEGIN_AFTER_S, END_AFTER_S, FIRST_PAUSE_S, LONGEST_PAUSE_S, REST_S, Recipient
from tests.notify.said import NOW, finding, robot, snapshot

STEP_S = 2.0


def watched(recipient, spans, until, begin=0.0, faults=()):
    """Messages by second; `spans`: for each finding the seconds from which to which it is seen."""
    told = []
    for step in range(int(until / STEP_S) + 1):
        at = begin + step * STEP_S
        now = snapshot(*(one for one, times in spans.items() if any(a <= at < b for a, b in times)), at=at, faults=faults)
        recipient.update(now)
        if (message := recipient.message(now)) is not None:
            recipient.note_sent(message, now.taken)
            told.append((at, [one.subject for one in message.begun], [one.subject for one in message.ended]))
    return told


def test_start_and_end_are_sent_once_each_even_if_the_finding_flickers_and_a_short_one_is_not_sent():
    told = watched(Recipient(robot()), {finding("w1"): [(4, 100)]}, 600)
    assert told == [(4 + BEGIN_AFTER_S, ["w1"], []), (98 + END_AFTER_S, [], ["w1"])]
    flicker = [(at, at + 20) for at in range(0, 400, 60)]
    told = watched(Recipient(robot()), {finding("w1"): flicker}, 700)
    assert [(begun, ended) for _, begun, ended in told] == [(["w1"], []), ([], ["w1"])]
    assert watched(Recipient(robot()), {finding("w1"): [(0, 8)]}, 300) == []


def test_simultaneous_findings_share_a_message_and_later_ones_get_another():
    rack = {finding(f"w{n}"): [(n // 10 * 4, 1e9)] for n in range(30)}
    told = watched(Recipient(robot()), rack, 60)
    assert [len(begun) for _, begun, _ in told] == [10, 20]
    assert told[1][0] - told[0][0] >= REST_S


def test_no_robot_gets_more_than_its_limit_in_a_minute():
    storm = {finding(f"w{n}"): [(4 * n, 1e9)] for n in range(150)}
    at = [moment for moment, _, _ in watched(Recipient(robot("dingtalk")), storm, 660)]
    assert max(sum(first <= moment < first + 60 for moment in at) for first in at) <= 20


def test_after_a_restart_nothing_is_sent_twice_and_missed_ends_are_sent():
    before = Recipient(robot())
    watched(before, {finding("w1"): [(0, 1e9)], finding("w2"): [(0, 1e9)]}, 60)
    after = Recipient(robot(), before.open_notices)
    told = watched(after, {finding("w2"): [(0, 1e9)], finding("w3"): [(0, 1e9)]}, 300, begin=1_000)
    assert told == [(1_000 + BEGIN_AFTER_S, ["w3"], []), (1_000 + END_AFTER_S, [], ["w1"])]


def test_a_target_gets_only_its_levels_and_codes():
    findings = {one: [(0, 1e9)] for one in (finding("a", level="warning"), finding("b"), finding("c", code="disk-full"))}
    assert [begun for _, begun, _ in watched(Recipient(robot()), findings, 20)] == [["b", "c"]]
    assert [begun for _, begun, _ in watched(Recipient(robot(level="warning", codes=("gpu-lost",))), findings, 20)] == [["a", "b"]]


def message_at_the_end(*findings, **more):
    """What is sent when a critical finding has been replaced by these for three minutes."""
    recipient = Recipient(robot())
    watched(recipient, {finding("w1"): [(0, 1e9)]}, 20)
    for at in range(20, 200, 2):
        recipient.update(snapshot(*findings, at=at))
    message = recipient.message(snapshot(*findings, at=200, **more))
    assert message is not None
    return message


def test_a_finding_that_becomes_a_warning_is_called_lowered_and_failing_sources_are_named():
    lowered = message_at_the_end(finding("w1", level="warning"))
    assert "LOWERED TO WARNING (was critical): w1 is lost" in lowered.text(1_000)
    faults = (Fault("ray.nodes", "no answer", NOW), Fault("notify", "no answer", NOW))
    assert message_at_the_end(faults=faults).unread == ("ray.nodes",)


def test_pauses_grow_after_failures_and_a_server_may_demand_longer_ones():
    recipient, at, pauses = Recipient(robot()), 20.0, []
    recipient.update(snapshot(finding(), at=0))
    for _ in range(8):
        recipient.note_failure("no", NOW + at)
        begun, at = at, at + 1
        while recipient.message(snapshot(finding(), at=at)) is None:
            recipient.update(snapshot(finding(), at=at))
            at += 1
        pauses.append(at - begun)
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    recipient.note_failure("blocked", NOW + at, 600.0)
    assert recipient.message(snapshot(finding(), at=at + 599)) is None
    assert recipient.message(snapshot(finding(), at=at + 600)) is not None
