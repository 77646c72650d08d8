"""Jobs that wait for each other's resources, or for their own, are found."""

from __future__ import annotations

from collections import Counter

from cockpit.placement import LivingNodes, ask, deadlock, shape
from tests.placement.given import hold, one, place


def stuck(world, asks):
    return deadlock(world, {job: Counter(mine) for job, mine in asks.items()})


def halves(*jobs):
    return LivingNodes([place(job, holds=(hold(job, "group g", GPU=8),)) for job in jobs])


def test_two_jobs_that_each_hold_half_and_want_the_other_wait_for_each_other():
    found = stuck(halves("a", "b"), {"a": [one(GPU=8)], "b": [one(GPU=8)]})
    assert (found.each_other, found.themselves) == ({"a", "b"}, set())


def test_a_job_that_only_waits_for_another_is_in_no_deadlock():
    found = stuck(halves("a", "b"), {"a": [one(GPU=8)]})
    assert (found.each_other, found.themselves) == (set(), set())


def test_a_third_job_that_holds_nothing_of_use_is_no_part_of_it():
    world = LivingNodes([*halves("a", "b").places, place("c", GPU=0, holds=(hold("c", "actor R", CPU=1),))])
    assert stuck(world, {job: [one(GPU=8)] for job in "abc"}).each_other == {"a", "b"}


def test_three_jobs_in_a_ring():
    labelled = [place(job, holds=(hold(job, "group g", GPU=8),), labels={"host": job}) for job in "abc"]
    asks = {job: [one({"host": other}, GPU=8)] for job, other in zip("abc", "bca", strict=True)}
    assert stuck(LivingNodes(labelled), asks).each_other == {"a", "b", "c"}


def test_what_a_job_that_waits_for_nothing_holds_will_be_free_some_day():
    assert stuck(halves("a", "b", "c"), {"a": [one(GPU=8)], "b": [one(GPU=8)]}).each_other == set()


def test_a_job_may_hold_what_it_waits_for():
    found = stuck(halves("a", "a"), {"a": [one(GPU=8)]})
    assert (found.each_other, found.themselves) == (set(), {"a"})


def test_what_fits_one_by_one_may_not_fit_together():
    world = LivingNodes([place("n", holds=(hold("a", "actor X", GPU=4),))])
    both = [ask([shape({"GPU": 3})], "PACK"), ask([shape({"GPU": 4})], "PACK")]
    assert stuck(world, {"a": both}).themselves == {"a"}
    assert stuck(world, {"a": both[:1]}).themselves == set()


def test_more_actors_than_there_ever_was_room_for_are_no_deadlock_while_some_can_be_placed():
    world = LivingNodes([place("n", holds=(hold("a", "actor X", GPU=4),))])
    assert stuck(world, {"a": [one(GPU=1)] * 20}).themselves == set()
