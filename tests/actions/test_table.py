from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pytest

import cockpit
from cockpit.actions.action import Nouns, Runbook
from cockpit.actions.choose import Choice, Selection, choose_action
from cockpit.actions.jobs import JobAction
from cockpit.actions.on_hosts import HostAction
from cockpit.actions.plan import ActionTarget
from cockpit.actions.table import ACTIONS, STEPS, actions_on, find_action
from cockpit.model import Finding, Job, PlacementGroup, Remedy, Session
from cockpit.probe.actions.perform import ACTIONS as PROBE_ACTIONS
from tests.world import actor, node, process, snapshot

FORBIDDEN = {"ctrl+a", "ctrl+b", "ctrl+d", "delete", "backspace", "ctrl+c"}


def test_every_action_has_its_own_id_a_help_sentence_and_flags_that_set_fields_of_a_target():
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
    assert all(action.help and action.title and action.keys for action in ACTIONS)
    flags = {flag.field for action in ACTIONS if not isinstance(action, Runbook) for flag in action.flags}
    assert flags <= set(ActionTarget.__struct_fields__)


def test_no_action_has_a_key_that_people_press_by_mistake():
    keys = {key for action in ACTIONS for key in action.keys.split(",")}
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
def test_the_selected_row_decides_what_a_key_means(key, rows, meant):
    found = choose_action(actions_on(key), Selection(rows))
    assert isinstance(found, Choice)
    assert found.action.id == meant


@pytest.mark.parametrize(
    ("key", "rows", "expected"),
    [
        ("T", [], "Terminate: put the cursor on a process"),
        ("J", [Job("train1", status="FAILED")], "has already ended (FAILED)"),
        ("X", [Job("train1", status="RUNNING")], "is still running: stop it first"),
        ("K", [process(5, ticks=None)], "No probe has seen process 5"),
        ("K", [actor(1, state="DEAD")], "That actor is dead"),
    ],
)
def test_a_key_without_a_meaning_gives_the_reason(key, rows, expected):
    assert expected in str(choose_action(actions_on(key), Selection(rows)))


def orphans(*about, action="kill-orphans"):
    return Finding("gpu-memory-orphaned", "critical", "node1", "an orphan holds a GPU", (), None, Remedy("kill it", action), about)


def test_a_remedy_targets_the_findings_orphans_or_else_its_host():
    mine, other = process(1, ticks=10, kind="orphan"), process(2, ticks=20, kind="orphan")
    alive = process(3, ticks=30)
    found = orphans(mine.key, alive.key)
    choice = choose_action(actions_on("K"), Selection([found], snapshot=snapshot(processes=(mine, other, alive), findings=(found,))))
    assert isinstance(choice, Choice)
    assert (choice.action.id, choice.target.rows, choice.target.hosts) == ("kill-orphans", (mine,), ())
    asked = find_action("kill-orphans").request(choice.target, "node1")
    assert asked == {"act": "kill", "named": [[1, 10]]}, "the probe still ends only this kind"
    found = orphans(node(1).key)
    choice = choose_action(actions_on("K"), Selection([found], snapshot=snapshot(findings=(found,))))
    assert isinstance(choice, Choice)
    assert (choice.target.rows, choice.target.hosts) == ((), ("10.0.0.1",))


def test_a_selected_findings_remedy_precedes_the_keys_meaning_for_other_rows():
    orphan = process(1, kind="orphan")
    known = snapshot(processes=(orphan,), findings=(orphans(orphan.key),))
    choice = choose_action(actions_on("K"), Selection([actor(1), *known.findings], snapshot=known))
    assert isinstance(choice, Choice)
    assert (choice.action.id, choice.is_remedy_of_finding) == ("kill-orphans", True)


A5, B6 = process(5, ticks=7, host="a"), process(6, ticks=8, host="b")
SESSIONS = (Session(host="a", name="session_1", path="/tmp/ray/session_1"), Session(host="b", name="session_2", path="/data/ray/session_2"))


@pytest.mark.parametrize(
    ("action", "target", "host", "request_"),
    [
        ("kill", ActionTarget(rows=(A5, B6)), "a", {"act": "kill", "named": [[5, 7]], "any": True}),
        ("kill", ActionTarget(rows=(A5,)), "b", {"act": "kill", "named": [], "any": True}),
        ("terminate", ActionTarget(rows=(A5,)), "a", {"act": "kill", "named": [[5, 7]], "any": True, "only": "TERM"}),
        (
            "kill-orphans",
            ActionTarget(pids=(5,), force=True),  # may be another user's but must be a leftover
            "a",
            {"act": "kill", "named": [[5, None]], "pids": True, "force": True},
        ),
        ("clean", ActionTarget(rows=SESSIONS), "b", {"act": "clean", "sessions": ["/data/ray/session_2"], "protected": [], "ended": []}),
        ("clean", ActionTarget(rows=SESSIONS[:1]), "b", {"act": "clean", "sessions": [], "protected": [], "ended": []}),
    ],
)
def test_selected_rows_are_sent_only_to_their_own_host(action, target, host, request_):
    assert find_action(action).request(target, host) == request_


def test_an_action_without_an_impact_can_not_be_created():
    class Careless(HostAction):
        id, keys, title, help = "careless", "Z", "Careless", "Do something"
        nouns: ClassVar[Nouns] = {}

        def request(self, chosen, host):
            return {}

    with pytest.raises(TypeError, match="impact"):
        Careless()


def test_all_actions_use_the_same_nouns_for_a_kind_of_target():
    pairs = [pair for action in (*ACTIONS, *STEPS) if isinstance(action, HostAction | JobAction) for pair in action.nouns.items()]
    assert len({what for what, _ in pairs}) == len(set(pairs))


def test_no_code_branches_on_the_id_of_an_action():
    names = "|".join(action.id for action in (*ACTIONS, *STEPS))
    branch = re.compile(
        rf"""\b(action|action\.id|action\.verb|verb)\s*(==|!=|in|not in)\s*[(\[{{]?\s*["']({names}|kill_actor|remove_placement_group)["']"""
    )
    folders = [Path(cockpit.__file__).parent / folder for folder in ("actions", "cli", "ui", "report")]
    assert all(folder.is_dir() for folder in folders)
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert [line for path in files for line in path.read_text().splitlines() if branch.search(line)] == []
    assert branch.search('if plan.action != "launch":')
    assert branch.search('action.verb in ("stop", "clean")')


@pytest.mark.parametrize(
    "action", [action for action in (*ACTIONS, *STEPS) if isinstance(action, HostAction)], ids=lambda action: action.id
)
def test_every_request_names_an_action_that_the_probe_has(action):
    asked = action.request(ActionTarget(requests={"w1": {"role": "head"}}), "w1")
    assert asked["act"] in PROBE_ACTIONS
