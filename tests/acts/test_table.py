from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pytest

import cockpit
from cockpit.acts.act import Aim, Nouns, Runbook
from cockpit.acts.jobs import JobAct
from cockpit.acts.on_hosts import HostAct
from cockpit.acts.table import ACTS, STEPS, act_for, find_act
from cockpit.model import Job, PlacementGroup, Session
from tests.world import actor, process

FORBIDDEN = {"ctrl+a", "ctrl+b", "ctrl+d", "delete", "backspace", "ctrl+c"}


def test_every_act_has_a_name_of_its_own_and_a_sentence():
    assert len({act.id for act in ACTS}) == len(ACTS)
    assert all(act.help and act.title and act.keys for act in ACTS)


def test_no_act_is_on_a_key_that_people_press_by_mistake():
    keys = {key for act in ACTS for key in act.keys.split(",")}
    assert not keys & FORBIDDEN
    assert all(key.isupper() or key == "f9" for key in keys)


def test_every_flag_fills_a_field_of_what_is_asked_for():
    assert {flag.field for act in ACTS if not isinstance(act, Runbook) for flag in act.flags} <= set(Aim.__struct_fields__)


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
        ("J", [Job("train1", status="FAILED")], "has already ended (FAILED)"),
        ("X", [Job("train1", status="RUNNING")], "is still running: stop it first"),
        ("K", [process(5, ticks=None)], "No probe has seen process 5"),
        ("K", [actor(1, state="DEAD")], "That actor is dead"),
    ],
)
def test_a_key_that_means_nothing_says_why(key, rows, said):
    assert said in str(act_for(key, rows))


def test_processes_under_the_cursor_are_sent_to_their_own_host_alone():
    aim = Aim(rows=(process(5, ticks=7, host="a"), process(6, ticks=8, host="b")))
    assert find_act("kill").request(aim, "a") == {"act": "kill", "named": [[5, 7]], "any": True}


def test_terminating_sends_no_sigkill():
    assert find_act("terminate").request(Aim(rows=(process(5, ticks=7, host="a"),)), "a")["only"] == "TERM"


def test_orphans_by_pid_may_be_another_users_and_still_no_other_kind():
    asked = find_act("kill-orphans").request(Aim(pids=(5,), force=True), "a")
    assert asked == {"act": "kill", "named": [[5, None]], "pids": True, "force": True}


def test_dead_sessions_that_were_chosen_are_cleaned_on_their_own_hosts_alone():
    rows = (Session(host="a", name="session_1", path="/tmp/ray/session_1"), Session(host="b", name="session_2", path="/data/ray/session_2"))
    assert find_act("clean").request(Aim(rows=rows), "b")["sessions"] == ["/data/ray/session_2"]


def test_where_something_was_chosen_elsewhere_a_host_is_asked_for_nothing_and_not_for_everything():
    assert find_act("kill").request(Aim(rows=(process(5, ticks=7, host="a"),)), "b")["named"] == []
    assert find_act("clean").request(Aim(rows=(Session(host="a", name="s", path="/tmp/ray/s"),)), "b")["sessions"] == []


def test_an_act_that_lacks_a_part_of_its_definition_can_not_be_made():
    class Careless(HostAct):
        id, keys, title, help = "careless", "Z", "Careless", "Do something"
        nouns: ClassVar[Nouns] = {}

        def request(self, aim, host):
            return {}

    with pytest.raises(TypeError, match="impact"):
        Careless()


def test_no_two_acts_call_a_kind_of_target_differently():
    pairs = [pair for act in (*ACTS, *STEPS) if isinstance(act, HostAct | JobAct) for pair in act.nouns.items()]
    assert len({what for what, _ in pairs}) == len(set(pairs))


def test_nothing_branches_on_the_name_of_an_act():
    names = "|".join(act.id for act in (*ACTS, *STEPS))
    branch = re.compile(
        rf"""\b(act|act\.id|act\.verb|verb)\s*(==|!=|in|not in)\s*[(\[{{]?\s*["']({names}|kill_actor|remove_placement_group)["']"""
    )
    files = [path for folder in ("acts", "cli", "ui", "report") for path in (Path(cockpit.__file__).parent / folder).rglob("*.py")]
    assert [line for path in files for line in path.read_text().splitlines() if branch.search(line)] == []
    assert branch.search('if plan.act != "launch":')
    assert branch.search('act.verb in ("stop", "clean")')
