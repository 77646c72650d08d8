from __future__ import annotations

import pytest
from world import actor, process

from cockpit.actions.table import ACTS, Aim, act_for, find_act, request
from cockpit.model import Job, PlacementGroup, Session

FORBIDDEN = {"ctrl+a", "ctrl+b", "ctrl+d", "delete", "backspace", "ctrl+c"}


def test_every_act_has_a_name_of_its_own_and_a_sentence():
    assert len({act.id for act in ACTS}) == len(ACTS)
    assert all(act.help and act.title and act.keys for act in ACTS)


def test_no_act_is_on_a_key_that_people_press_by_mistake():
    keys = {key for act in ACTS for key in act.keys.split(",")}
    assert not keys & FORBIDDEN
    assert all(key.isupper() or key == "f9" for key in keys)


@pytest.mark.parametrize(
    ("key", "rows", "meant"),
    [
        ("K", [process(5, ticks=1)], "kill"),
        ("f9", [process(5, ticks=1)], "kill"),
        ("T", [process(5, ticks=1)], "terminate"),
        ("K", [actor(1)], "kill-actor"),
        ("K", [], "kill-orphans"),
        ("K", [Job("train1")], "kill-orphans"),
        ("S", [process(5)], "stop"),
        ("C", [], "clean"),
        ("J", [Job("train1", status="RUNNING")], "stop-job"),
        ("X", [Job("train1", status="FAILED")], "delete-job"),
        ("X", [PlacementGroup("ab")], "remove-placement-group"),
    ],
)
def test_what_a_key_means_hangs_on_what_is_under_the_cursor(key, rows, meant):
    found = act_for(key, rows)
    assert not isinstance(found, str)
    assert found[0].id == meant


@pytest.mark.parametrize(
    ("key", "rows", "said"),
    [
        ("T", [], "Terminate: put the cursor on a process"),
        ("J", [Job("train1", status="FAILED")], "is over (FAILED)"),
        ("X", [Job("train1", status="RUNNING")], "still runs; J stops it"),
        ("K", [process(5, ticks=None)], "No probe has looked at process 5"),
        ("K", [actor(1, state="DEAD")], "That actor is dead"),
    ],
)
def test_a_key_that_means_nothing_says_why(key, rows, said):
    assert said in str(act_for(key, rows))


def test_processes_under_the_cursor_are_sent_to_their_own_host_alone():
    aim = Aim(rows=(process(5, ticks=7, host="a"), process(6, ticks=8, host="b")))
    assert request(find_act("kill"), aim, "a") == {"act": "kill", "named": [[5, 7]], "any": True}


def test_terminating_sends_no_sigkill():
    assert request(find_act("terminate"), Aim(rows=(process(5, ticks=7, host="a"),)), "a")["only"] == "TERM"


def test_orphans_by_pid_may_be_another_users_and_still_no_other_kind():
    asked = request(find_act("kill-orphans"), Aim(pids=(5,), force=True), "a")
    assert asked == {"act": "kill", "named": [[5, None]], "pids": True, "force": True}


def test_dead_sessions_that_were_chosen_are_cleaned_on_their_own_hosts_alone():
    rows = (Session("a", "session_1", "/tmp/ray/session_1"), Session("b", "session_2", "/data/ray/session_2"))
    assert request(find_act("clean"), Aim(rows=rows), "b")["sessions"] == ["/data/ray/session_2"]


def test_where_something_was_chosen_elsewhere_a_host_is_asked_for_nothing_and_not_for_everything():
    assert request(find_act("kill"), Aim(rows=(process(5, ticks=7, host="a"),)), "b")["named"] == []
    assert request(find_act("clean"), Aim(rows=(Session("a", "s", "/tmp/ray/s"),)), "b")["sessions"] == []
