"""Jobs that wait for each other's resources, or for their own, are found."""

from __future__ import annotations

from collections import Counter

import pytest

from cockpit.placement import LivingNodes, find_deadlock, make_request, shape
from tests.placement.given import hold, one, place


def stuck(world, requests):
    return find_deadlock(world, {job: Counter(mine) for job, mine in requests.items()})


def halves(*jobs):
    return LivingNodes([place(job, holds=(hold(job, "group g", GPU=8),)) for job in jobs])


@pytest.mark.parametrize(
    ("holders", "waiting", "each_other", "themselves"),
    [
        pytest.param("ab", "ab", {"a", "b"}, set(), id="each holds half and wants the other"),
        pytest.param("ab", "a", set(), set(), id="the other waits for nothing"),
        pytest.param("abc", "ab", set(), set(), id="what a third holds will be free some day"),
        pytest.param("aa", "a", set(), {"a"}, id="it holds what it waits for"),
    ],
)
def test_jobs_wait_for_each_other_or_for_themselves_if_nobody_else_frees_what_they_need(holders, waiting, each_other, themselves):
    found = stuck(halves(*holders), {job: [one(GPU=8)] for job in waiting})
    assert (found.each_other, found.themselves) == (each_other, themselves)


def test_a_third_job_that_holds_nothing_of_use_is_no_part_of_it():
    world = LivingNodes([*halves("a", "b").nodes, place("c", GPU=0, holds=(hold("c", "actor R", CPU=1),))])
    assert stuck(world, {job: [one(GPU=8)] for job in "abc"}).each_other == {"a", "b"}


def test_three_jobs_in_a_ring():
    labelled = [place(job, holds=(hold(job, "group g", GPU=8),), labels={"host": job}) for job in "abc"]
    requests = {job: [one({"host": other}, GPU=8)] for job, other in zip("abc", "bca", strict=True)}
    assert stuck(LivingNodes(labelled), requests).each_other == {"a", "b", "c"}


def test_what_fits_one_by_one_may_not_fit_together():
    world = LivingNodes([place("n", holds=(hold("a", "actor X", GPU=4),))])
    both = [make_request([shape({"GPU": 3})], "PACK"), make_request([shape({"GPU": 4})], "PACK")]
    assert stuck(world, {"a": both}).themselves == {"a"}
    assert stuck(world, {"a": both[:1]}).themselves == set()


def test_more_actors_than_there_ever_was_room_for_are_no_deadlock_while_some_can_be_placed():
    world = LivingNodes([place("n", holds=(hold("a", "actor X", GPU=4),))])
    assert stuck(world, {"a": [one(GPU=1)] * 20}).themselves == set()
