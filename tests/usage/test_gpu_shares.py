from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Actor, Bundle, Fault, Finding, Hold, Job, Quantity, Snapshot
from cockpit.usage import Owner, sample_usage
from tests.usage.worlds import JOB, empty, gpus, group, holder, placed, world
from tests.world import GIB, NOW, actor, gpu, node, process, theirs

TRAIN = Owner("job", JOB)


def use(*processes, before=None, owner=TRAIN, **more):
    return sample_usage(world(*processes, **more), before).uses[owner]


def test_a_gpu_that_works_is_reserved_held_and_busy():
    found = use(holder(0, 1), groups=[group(placed(), placed())])
    assert (found.reserved, found.held, found.busy, found.had) == (2, 2, 2, 2)
    assert not found.idle


def test_a_reserved_gpu_that_no_process_holds_is_unused():
    assert use(groups=[group(placed(4.0))], nodes=empty()).idle == {"unused": 4}


def test_an_actor_in_a_group_counts_with_its_group():
    assert use(groups=[group(placed())], actors=[actor(1, placement_group=f"{7:036x}", needs={"GPU": 1.0})]).reserved == 1


def test_fractions_of_actors_add_up():
    assert use(actors=[actor(number, needs={"GPU": 0.2}) for number in range(5)]).reserved == pytest.approx(1)


@pytest.mark.parametrize("absurd", [float("nan"), float("inf"), -8.0, 1e9])
def test_an_absurd_number_of_gpus_is_none(absurd):
    found = sample_usage(world(groups=[group(placed(absurd))], actors=[actor(1, needs={"GPU": absurd})]))
    assert TRAIN not in found.uses


def test_waiting_groups_and_actors_reserve_nothing():
    found = sample_usage(
        world(groups=[group(Bundle({"GPU": 8.0}), state="PENDING")], actors=[actor(1, state="PENDING_CREATION", node=None)])
    )
    assert TRAIN not in found.uses


def test_idle_without_a_known_cause_is_unseen():
    assert use(holder(0), rates=(0.0,)).idle == {"unseen": 1}


def test_idle_gpus_wait_for_placement_while_a_group_of_the_job_has_no_place():
    waiting = group(Bundle({"GPU": 8.0}), state="PENDING", wait="held")
    assert use(holder(0), rates=(0.0,), groups=[waiting]).idle == {"placement": 1}


def test_idle_gpus_load_while_an_actor_of_the_job_is_being_started():
    starting = actor(1, state="PENDING_CREATION", needs={"GPU": 1.0}, wait="starting")
    assert use(holder(0), rates=(0.0,), actors=[starting]).idle == {"loading": 1}


def test_idle_gpus_load_while_their_memory_grows():
    seen = world(holder(0), rates=(0.0,))
    memory = dict(sample_usage(seen).memory)
    assert sample_usage(seen, memory).uses[TRAIN].idle == {"unseen": 1}
    assert sample_usage(seen, {name: used - GIB for name, used in memory.items()}).uses[TRAIN].idle == {"loading": 1}


def test_where_most_others_work_it_is_the_others_turn():
    assert use(holder(0, 1, 2, 3), rates=(90.0, 90.0, 90.0, 0.0)).idle == {"turn": 1}


def test_where_one_of_eight_works_the_others_wait_for_it():
    found = use(holder(*range(8)), rates=(90.0, *[0.0] * 7))
    assert (found.busy, found.idle) == (1, {"rank": 7})


def test_gpus_that_are_found_to_wait_for_each_other_are_not_busy():
    hung = Finding("job-hung", "critical", "job ppo-7b", "hung", about=("job:ppo-7b",))
    found = use(holder(0, 1, 2, 3), rates=(100.0, 100.0, 100.0, 0.0), findings=(hung,))
    assert (found.busy, found.idle) == (0, {"rank": 4})


def test_gpus_of_processes_that_are_left_over_are_dead_even_if_busy():
    found = use(holder(0, kind="orphan"))
    assert (found.busy, found.idle) == (0, {"dead": 1})


def test_an_orphan_without_a_job_belongs_to_its_user():
    orphan = process(7, kind="orphan", user="ann", gpus=(Hold(0, GIB),))
    assert use(orphan, owner=Owner("left over", "ann")).idle == {"dead": 1}


def test_a_reservation_of_an_ended_job_is_dead():
    assert use(groups=[group(placed())], nodes=empty(), jobs=(Job("ppo-7b", JOB, "ppo-7b", "FAILED"),)).idle == {"dead": 1}


def test_a_lost_gpu_is_dead():
    assert use(holder(0), nodes=(node(1, seen=NOW, gpus=(gpu(0, fault="lost"),)),)).idle == {"dead": 1}


def test_of_old_facts_nothing_follows():
    old = node(1, gpus=gpus(0.0), seen=NOW - STALE_AFTER_S - 1)
    found = use(holder(0), nodes=(old,), groups=[group(placed(2.0))])
    assert (found.busy, found.idle, found.unknown) == (0, {}, 2)


def test_an_unknown_utilization_is_not_idle():
    found = use(holder(0), rates=(None,))
    assert (found.idle, found.unknown) == ({}, 1)


def test_if_hidden_processes_use_gpus_reserved_gpus_may_be_in_use():
    found = use(groups=[group(placed(3.0))], nodes=(node(1, seen=NOW, gpus=(gpu(0), gpu(1, used=0), gpu(2, used=0))),))
    assert (found.unknown, found.idle) == (1, {"unused": 2})


def test_without_processes_reserved_gpus_are_unknown():
    found = use(groups=[group(placed(3.0))], processes=None)
    assert (found.held, found.unknown, found.idle) == (None, 3, {})


@pytest.mark.parametrize("more", [{"actors": None}, {"placement_groups": None}, {"faults": (Fault("ray.actors", "silent", NOW),)}])
def test_if_ray_does_not_answer_reservations_are_unknown(more):
    found = sample_usage(world(holder(0), **more)).uses[TRAIN]
    assert (found.reserved, found.held, found.busy) == (None, 1, 1)


def test_a_gpu_of_two_jobs_is_half_each_ones():
    other = process(1002, job="03000000", gpus=(Hold(0, GIB),))
    found = sample_usage(world(holder(0), other)).uses
    assert [found[owner].held for owner in (TRAIN, Owner("job", "03000000"))] == [0.5, 0.5]


def test_a_job_comes_before_others_and_those_before_what_is_left_over():
    foreign, orphan = process(8, kind="foreign", gpus=(Hold(0, GIB), Hold(1, GIB))), process(9, kind="orphan", gpus=(Hold(1, GIB),))
    found = sample_usage(world(holder(0), foreign, orphan)).uses
    assert (found[TRAIN].held, found[Owner("no job", "train")].held, found[Owner("left over", "train")].held) == (1, 1, 0)


def test_processes_of_another_ray_have_an_owner_of_their_own():
    assert use(theirs(5, gpus=(Hold(0, GIB),)), owner=Owner("other Ray", "train")).held == 1


def test_a_submission_id_and_the_id_of_its_job_are_one_owner():
    found = sample_usage(world(holder(0), process(7, job="ppo-7b", gpus=(Hold(1, GIB),)))).uses
    assert found[TRAIN].held == 2
    assert set(found) == {TRAIN}


def test_two_raylets_on_a_host_have_its_gpus_once():
    nodes = tuple(node(number, seen=NOW, host="one", gpus=(gpu(0, utilization=50.0),)) for number in (1, 2))
    found = sample_usage(Snapshot(taken=NOW, nodes=nodes, processes=(holder(0), holder(0, pid=5, node=f"{2:056x}"))))
    assert found.fleet.gpus == 1
    assert found.uses[TRAIN].held == 1


def test_unknown_gpus_of_the_fleet_are_not_idle():
    fleet = sample_usage(world(rates=(90.0, 0.0, None))).fleet
    assert (fleet.gpus, fleet.busy, fleet.idle, fleet.unknown, fleet.reserved) == (3, 1, 1, 1, 6)


def test_without_nodes_the_fleet_is_unknown():
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


def test_an_actor_that_is_dead_reserves_nothing():
    assert not sample_usage(world(actors=[Actor("a", "C", state="DEAD", job=JOB, node=f"{1:056x}", needs={"GPU": 1.0})])).uses
