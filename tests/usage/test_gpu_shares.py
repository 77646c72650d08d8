from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import PHASES, Activity, Actor, Bundle, Fault, Finding, Hold, Job, Quantity, Snapshot
from cockpit.usage import CAUSES, Owner, sample_usage
from tests.usage.worlds import JOB, empty, gpus, group, holder, placed, world
from tests.world import GIB, NOW, actor, gpu, node, process, theirs

TRAIN = Owner("job", JOB)


def use(*processes, before=None, owner=TRAIN, **more):
    return sample_usage(world(*processes, **more), before).uses[owner]


HUNG = Finding("job-hung", "critical", "job ppo-7b", "hung", about=("job:ppo-7b",))
WAITING = group(Bundle({"GPU": 8.0}), state="PENDING", wait="held")
STARTING = actor(1, state="PENDING_CREATION", needs={"GPU": 1.0}, wait="starting")
ENDED = (Job("ppo-7b", JOB, "ppo-7b", "FAILED"),)
SYNCS, LOADS, UNKNOWN = ((Activity("job:ppo-7b", phase),) for phase in ("weight sync", "loading", None))
LOST = (node(1, seen=NOW, gpus=(gpu(0, fault="lost"),)),)


@pytest.mark.parametrize(
    ("processes", "more", "busy", "idle"),
    [
        pytest.param([holder(0, 1)], {"groups": [group(placed(), placed())]}, 2, {}, id="all work"),
        pytest.param([], {"groups": [group(placed(4.0))], "nodes": empty()}, 0, {"unused": 4}, id="reserved and not held"),
        pytest.param([holder(0)], {"rates": (0.0,)}, 0, {"unseen": 1}, id="no known cause"),
        pytest.param([holder(0)], {"rates": (0.0,), "activities": SYNCS}, 0, {"sync": 1}, id="in a phase"),
        pytest.param([holder(0)], {"rates": (0.0,), "activities": UNKNOWN}, 0, {"unseen": 1}, id="in an unknown phase"),
        pytest.param([holder(0)], {"rates": (0.0,), "activities": LOADS}, 0, {"loading": 1}, id="in the phase loading"),
        pytest.param([holder(0)], {"rates": (0.0,), "activities": SYNCS, "groups": [WAITING]}, 0, {"placement": 1}, id="waits in a phase"),
        pytest.param([holder(0, 1)], {"rates": (90.0, 0.0), "activities": SYNCS}, 1, {"turn": 1}, id="others work in a phase"),
        pytest.param([holder(0)], {"rates": (0.0,), "groups": [WAITING]}, 0, {"placement": 1}, id="a group has no place"),
        pytest.param([holder(0)], {"rates": (0.0,), "actors": [STARTING]}, 0, {"loading": 1}, id="an actor is being started"),
        pytest.param([holder(0, 1, 2, 3)], {"rates": (90.0, 90.0, 90.0, 0.0)}, 3, {"turn": 1}, id="most others work"),
        pytest.param([holder(*range(8))], {"rates": (90.0, *[0.0] * 7)}, 1, {"rank": 7}, id="one of eight works"),
        pytest.param([holder(0, 1, 2, 3)], {"rates": (100.0,) * 3 + (0.0,), "findings": (HUNG,)}, 0, {"rank": 4}, id="hung"),
        pytest.param([holder(0, kind="orphan")], {}, 0, {"dead": 1}, id="left over, even if busy"),
        pytest.param([], {"groups": [group(placed())], "nodes": empty(), "jobs": ENDED}, 0, {"dead": 1}, id="its job has ended"),
        pytest.param([holder(0)], {"nodes": LOST}, 0, {"dead": 1}, id="lost"),
    ],
)
def test_each_idle_gpu_has_a_cause(processes, more, busy, idle):
    found = use(*processes, **more)
    assert (found.busy, found.idle) == (busy, idle)


def test_a_gpu_that_works_is_reserved_and_held():
    found = use(holder(0, 1), groups=[group(placed(), placed())])
    assert (found.reserved, found.held, found.busy, found.had) == (2, 2, 2, 2)


def test_every_phase_has_its_cause_in_words():
    for phase in PHASES:
        (cause,) = use(holder(0), rates=(0.0,), activities=(Activity("job:ppo-7b", phase),)).idle
        assert cause != "unseen"
        assert CAUSES[cause] in (f"idle in phase {phase}", "starting or loading", "no worker runs a method")


def test_nearly_all_idle_time_of_a_job_with_phases_is_in_a_named_one():
    cycle = ["rollout"] * 50 + ["scoring"] * 20 + ["waiting"] * 3 + ["training"] * 25 + [None] * 2
    named = [use(holder(0), rates=(0.0,), activities=(Activity("job:ppo-7b", phase),)).idle.get("unseen", 0) == 0 for phase in cycle]
    assert sum(named) >= 0.95 * len(cycle)


def test_an_actor_in_a_group_counts_with_its_group():
    assert use(groups=[group(placed())], actors=[actor(1, placement_group=f"{7:036x}", needs={"GPU": 1.0})]).reserved == 1


def test_fractions_of_actors_add_up():
    assert use(actors=[actor(number, needs={"GPU": 0.2}) for number in range(5)]).reserved == pytest.approx(1)


@pytest.mark.parametrize("absurd", [float("nan"), float("inf"), -8.0, 1e9])
def test_an_absurd_number_of_gpus_is_none(absurd):
    found = sample_usage(world(groups=[group(placed(absurd))], actors=[actor(1, needs={"GPU": absurd})]))
    assert TRAIN not in found.uses


def test_waiting_groups_and_actors_and_dead_actors_reserve_nothing():
    dead = Actor("a", "C", state="DEAD", job=JOB, node=f"{1:056x}", needs={"GPU": 1.0})
    waiting = actor(1, state="PENDING_CREATION", node=None)
    found = sample_usage(world(groups=[group(Bundle({"GPU": 8.0}), state="PENDING")], actors=[waiting, dead]))
    assert TRAIN not in found.uses


def test_idle_gpus_load_while_their_memory_grows():
    seen = world(holder(0), rates=(0.0,))
    memory = dict(sample_usage(seen).memory)
    assert sample_usage(seen, memory).uses[TRAIN].idle == {"unseen": 1}
    assert sample_usage(seen, {name: used - GIB for name, used in memory.items()}).uses[TRAIN].idle == {"loading": 1}


def test_what_belongs_to_no_job_of_ours_has_an_owner_of_its_own():
    orphan = process(7, kind="orphan", user="ann", gpus=(Hold(0, GIB),))
    assert use(orphan, owner=Owner("left over", "ann")).idle == {"dead": 1}
    assert use(theirs(5, gpus=(Hold(0, GIB),)), owner=Owner("other Ray", "train")).held == 1


OLD = (node(1, gpus=gpus(0.0), seen=NOW - STALE_AFTER_S - 1),)
HIDDEN = (node(1, seen=NOW, gpus=(gpu(0), gpu(1, used=0), gpu(2, used=0))),)


@pytest.mark.parametrize(
    ("processes", "more", "unknown", "idle"),
    [
        pytest.param([holder(0)], {"nodes": OLD, "groups": [group(placed(2.0))]}, 2, {}, id="old facts"),
        pytest.param([holder(0)], {"rates": (None,)}, 1, {}, id="unknown utilization"),
        pytest.param([], {"groups": [group(placed(3.0))], "nodes": HIDDEN}, 1, {"unused": 2}, id="hidden processes use a GPU"),
        pytest.param([], {"groups": [group(placed(3.0))], "processes": None}, 3, {}, id="unknown processes"),
    ],
)
def test_a_gpu_is_unknown_and_not_idle_if_the_facts_do_not_say(processes, more, unknown, idle):
    found = use(*processes, **more)
    assert (found.busy, found.unknown, found.idle) == (0, unknown, idle)
    assert (found.held is None) is ("processes" in more)


@pytest.mark.parametrize("more", [{"actors": None}, {"placement_groups": None}, {"faults": (Fault("ray.actors", "silent", NOW),)}])
def test_if_ray_does_not_answer_reservations_are_unknown(more):
    found = sample_usage(world(holder(0), **more)).uses[TRAIN]
    assert (found.reserved, found.held, found.busy) == (None, 1, 1)


def test_a_gpu_of_several_owners_is_shared_by_their_rank():
    other = process(1002, job="03000000", gpus=(Hold(0, GIB),))
    found = sample_usage(world(holder(0), other)).uses
    assert [found[owner].held for owner in (TRAIN, Owner("job", "03000000"))] == [0.5, 0.5]
    foreign, orphan = process(8, kind="foreign", gpus=(Hold(0, GIB), Hold(1, GIB))), process(9, kind="orphan", gpus=(Hold(1, GIB),))
    found = sample_usage(world(holder(0), foreign, orphan)).uses
    assert (found[TRAIN].held, found[Owner("no job", "train")].held, found[Owner("left over", "train")].held) == (1, 1, 0)


def test_a_submission_id_and_the_id_of_its_job_are_one_owner():
    found = sample_usage(world(holder(0), process(7, job="ppo-7b", gpus=(Hold(1, GIB),)))).uses
    assert found[TRAIN].held == 2
    assert set(found) == {TRAIN}


def test_two_raylets_on_a_host_have_its_gpus_once():
    nodes = tuple(node(number, seen=NOW, host="one", gpus=(gpu(0, utilization=50.0),)) for number in (1, 2))
    found = sample_usage(Snapshot(taken=NOW, nodes=nodes, processes=(holder(0), holder(0, pid=5, node=f"{2:056x}"))))
    assert found.fleet.gpus == 1
    assert found.uses[TRAIN].held == 1


def test_unknown_gpus_of_the_fleet_are_not_idle_and_without_nodes_the_fleet_is_unknown():
    fleet = sample_usage(world(rates=(90.0, 0.0, None))).fleet
    assert (fleet.gpus, fleet.busy, fleet.idle, fleet.unknown, fleet.reserved) == (3, 1, 1, 1, 6)
    fleet = sample_usage(Snapshot(taken=NOW)).fleet
    assert (fleet.gpus, fleet.busy, fleet.idle, fleet.reserved) == (None, None, None, None)


RATES = st.lists(st.none() | st.sampled_from([0.0, 3.0, 60.0, 100.0, -1.0]), max_size=6)
KINDS = st.sampled_from(["worker", "child", "orphan", "foreign", "unknown"])
HOLDERS = st.lists(st.tuples(KINDS, st.sampled_from([None, JOB, "03000000", "ppo-7b"]), st.sets(st.integers(0, 6))), max_size=5)
GROUPS = st.lists(
    st.tuples(st.sampled_from([JOB, "03000000", None]), st.sampled_from(["CREATED", "PENDING", "REMOVED"]), st.integers(0, 4)), max_size=4
)


@given(RATES, HOLDERS, GROUPS, st.booleans(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_busy_idle_and_unknown_add_up_to_the_whole(rates, holders, groups, is_old, has_processes):
    listed = tuple(
        process(number, kind=kind, job=job, gpus=tuple(Hold(index, GIB) for index in places))
        for number, (kind, job, places) in enumerate(holders)
    )
    seen = world(
        nodes=(node(1, gpus=gpus(*rates), seen=NOW - 100 * is_old, resources={"GPU": Quantity(1, 8)}),),
        groups=[group(*[placed()] * size, state=state, job=job) for job, state, size in groups],
        processes=listed if has_processes else None,
    )
    uses = sample_usage(seen).uses
    for found in uses.values():
        assert found.had == pytest.approx(max(found.reserved, found.held or 0.0))
        assert min([found.busy, found.unknown, *found.idle.values()]) >= 0
        assert not is_old or (not found.busy and found.idle.keys() <= {"dead"})
    assert sum(found.held or 0 for found in uses.values()) <= 7 + 1e-9
    assert sum(found.busy for found in uses.values()) <= Counter((rate or 0) > 5 for rate in rates)[True] + 1e-9
