from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.model import Cluster, Hold, HostMemory, Job, OomKill, Snapshot
from cockpit.usage import Owner, Usage
from cockpit.usage.usage import LONGEST_STEP_S, MAX_OWNERS, STEP_S
from tests.usage.worlds import JOB, empty, group, holder, placed, world
from tests.world import GIB, NOW, actor, node, process, with_figures

PPO = Job("ppo-7b", JOB, "ppo-7b", "RUNNING")


def watched(*snapshots, step=10.0):
    usage = Usage()
    for number, snapshot in enumerate(snapshots):
        usage.add(dated(snapshot, number * step))
    return usage


def dated(snapshot, after):
    now = NOW + after
    nodes = None if snapshot.nodes is None else tuple(with_figures(each, seen=now) for each in snapshot.nodes)
    return replace(snapshot, taken=now, nodes=nodes)


def of_job(usage, job=PPO):
    found = usage.of_job(job)
    assert found is not None
    return found


BUSY = world(holder(0, 1), groups=[group(placed(2.0))])
IDLE = world(holder(0, 1), groups=[group(placed(2.0))], rates=(0.0, 0.0))


def test_gpu_seconds_add_up_from_snapshot_to_snapshot():
    used = of_job(watched(BUSY, BUSY, IDLE))
    assert (used.sums.reserved, used.sums.held, used.sums.busy, used.sums.idle) == (40, 40, 20, {"unseen": 20})
    assert used.seen_s == 20


def test_a_single_snapshot_one_that_comes_too_soon_and_one_without_processes_and_actors_count_no_time():
    usage = watched(BUSY)
    assert (of_job(usage).sums.had, usage.watched_s) == (0, 0)
    assert not usage.add(dated(BUSY, STEP_S / 2))
    assert not usage.add(Snapshot(taken=NOW + 10))
    assert usage.watched_s == 0
    assert usage.add(dated(BUSY, STEP_S))


def test_unwatched_time_is_neither_idle_nor_busy():
    usage = watched(IDLE, IDLE, step=LONGEST_STEP_S + 1)
    assert of_job(usage).sums.had == 0
    assert usage.unwatched_s == LONGEST_STEP_S + 1
    usage = watched(IDLE, IDLE)
    usage.add(dated(IDLE, 1000))
    assert (of_job(usage).seen_s, of_job(usage).unwatched_s) == (10, 990)


def test_a_clock_that_is_set_back_counts_nothing_and_goes_on():
    usage = watched(BUSY, BUSY)
    usage.add(dated(BUSY, -500))
    usage.add(dated(BUSY, -490))
    assert (usage.begin, of_job(usage).sums.busy, usage.unwatched_s) == (NOW - 500, 40, 0)


def test_of_another_cluster_it_begins_anew():
    first, other = (replace(BUSY, cluster=Cluster(session=name)) for name in ("session_1", "session_2"))
    usage = watched(first, first, other)
    assert (usage.watched_s, of_job(usage).sums.busy) == (0, 0)


def test_reservations_that_were_unknown_are_no_zeros():
    used = of_job(watched(BUSY, BUSY, world(holder(0), actors=None)))
    assert (used.seen_s, used.reserved_s, used.held_s) == (20, 10, 20)


def test_the_fleet_is_counted_for_all_owners():
    sums = watched(IDLE, world(holder(0), rates=(90.0, 0.0, None, 0.0))).fleet_sums
    assert (sums.gpus, sums.busy, sums.idle, sums.unknown, sums.reserved) == (40, 10, 20, 10, 60)


def test_the_most_memory_and_the_fullest_host_of_a_job_are_kept():
    fewer = world(process(1001, job=JOB, rss=GIB, gpus=(Hold(0, GIB),)))
    used = of_job(watched(fewer, world(process(1001, job=JOB, rss=9 * GIB, gpus=(Hold(0, 70 * GIB),))), fewer))
    assert (used.gpu_memory, used.host_memory) == (70 * GIB, 9 * GIB)

    def full(used):
        return replace(BUSY, nodes=(node(1, memory=HostMemory(used * GIB, 1000 * GIB, 950 * GIB)),))

    mark = of_job(watched(full(700), full(900), full(800))).memory_mark
    assert mark is not None
    assert (mark.moment, mark.used, mark.kill_at, mark.node) == (NOW + 10, 900 * GIB, 950 * GIB, "node1")
    nodes = (node(1, memory=HostMemory()), node(2, memory=HostMemory(940 * GIB, 1000 * GIB, 950 * GIB)))
    assert of_job(watched(replace(BUSY, nodes=nodes))).memory_mark is None


def test_only_restarts_that_were_seen_to_happen_count():
    looks = [replace(BUSY, actors=(actor(1, restarts=number),)) for number in (3, 3, 5)]
    assert of_job(watched(*looks)).restarts == 2


def test_a_kill_counts_once_or_as_often_as_a_counter_has_counted_and_not_if_it_was_before_or_of_another_ray():
    def killed(*moments):
        return replace(BUSY, oom_kills=tuple(OomKill("ray", moment, int(moment - NOW), job=JOB, node="1") for moment in moments))

    usage = watched(killed(NOW - 9), killed(NOW - 9, NOW + 5), killed(NOW + 5))
    assert (usage.kills, of_job(usage).kills) == (1, 1)
    first = OomKill("kernel", NOW + 1, host="node1", text="oom_kill has grown from 0 to 1")
    again = OomKill("kernel", NOW + 2, host="node1", text="oom_kill has grown from 1 to 3", count=2)
    usage = watched(replace(BUSY, oom_kills=()), replace(BUSY, oom_kills=(first,)), replace(BUSY, oom_kills=(again, first)))
    assert usage.kills == 3
    assert watched(BUSY, replace(BUSY, oom_kills=(OomKill("ray", NOW + 5, 7, ours=False),))).kills == 0


def test_an_owner_that_is_gone_has_nothing_now_and_keeps_its_sums():
    used = of_job(watched(BUSY, BUSY, world(nodes=empty())))
    assert (used.now, used.sums.busy) == (None, 20)


def test_a_user_has_what_their_jobs_and_processes_have_and_an_unknown_user_is_none():
    alien = process(77, user="bob", kind="foreign", gpus=(Hold(3, 2 * GIB),))
    usage = watched(*[world(holder(0, 1, user="ann"), alien)] * 2)
    ann, bob = usage.users()
    assert (ann.user, ann.jobs, ann.gpus, ann.sums.busy) == ("ann", 1, 2, 20)
    assert (bob.user, bob.jobs, bob.gpu_memory, bob.sums.busy) == ("bob", 0, 2 * GIB, 10)
    (nobody,) = watched(*[world(groups=[group(placed())], nodes=empty())] * 2).users()
    assert (nobody.user, nobody.jobs) == (None, 1)


def test_who_has_most_comes_first():
    other = process(5, job="03000000", gpus=(Hold(2, GIB),))
    assert [each.owner.name for each in watched(*[world(holder(0, 1), other)] * 2).owners] == [JOB, "03000000"]


def test_a_cluster_can_not_fill_the_memory_with_jobs():
    many = tuple(process(number, job=f"{number:08x}") for number in range(MAX_OWNERS + 10))
    assert len(watched(world(*many)).owners) == MAX_OWNERS


@given(st.lists(st.tuples(st.sampled_from([BUSY, IDLE, world(actors=None), Snapshot()]), st.floats(-100, 200)), max_size=12))
@settings(deadline=None)
def test_whatever_comes_when_the_watched_time_bounds_all_sums(looks):
    usage, now = Usage(), 0.0
    for snapshot, wait in looks:
        now += wait
        usage.add(dated(snapshot, now))
    for each in usage.owners:
        assert 0 <= each.seen_s <= usage.watched_s + 1e-6
        assert each.sums.had <= 4 * each.seen_s + 1e-6
        assert each.sums.had == pytest.approx(each.sums.busy + each.sums.idle_sum + each.sums.unknown)
        assert each.owner == Owner("job", JOB)
