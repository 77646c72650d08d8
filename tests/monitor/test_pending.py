"""Why something waits, from Ray's reports about nodes, actors, groups and demand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.model import Bundle, Demand, Fault, Job, PlacementGroup, Quantity, Worker
from cockpit.monitor import pending, pending_reasons
from cockpit.monitor.join import Join
from cockpit.monitor.source_answers import Parts
from cockpit.sources.ray.client import ActorFacts, GroupFacts, JobFacts, NodeFacts, StatusFacts
from tests.sources.ray.recorded_ray import RecordedRay
from tests.world import NOW, actor, node

HEAD, W1 = f"{1:056x}", f"{2:056x}"
STARTING = "resources are reserved; the runtime environment or the worker process is starting"


def nodes(*used, growing=False, **more):
    """Nodes of 8 GPUs and 16 CPUs with these amounts reserved."""
    made = [
        node(number, resources={"GPU": Quantity(gpus, 8.0), "CPU": Quantity(cpus, 16.0)}, **more)
        for number, (gpus, cpus) in enumerate(used, 1)
    ]
    return NodeFacts(nodes=tuple(made), workers=(), holders=(), growing=growing)


def waiting(number=9, **more):
    facts = {"state": "PENDING_CREATION", "node": None, "pid": None, "needs": {"GPU": 8.0}, "since": NOW - 60, **more}
    return actor(number, **facts)


def group(number=7, **more):
    facts = {"state": "PENDING", "strategy": "PACK", "bundles": (Bundle({"GPU": 8.0}),), "job": "02000000", "since": NOW - 60, **more}
    return PlacementGroup(f"{number:036x}", f"group{number}", **facts)


def parts(listed, *actors, groups=(), jobs=(), demand=None, asked=NOW, grouped=NOW, **more):
    return Parts(
        nodes=listed,
        status=StatusFacts(usage=None, demand=demand),
        actors=ActorFacts(actors=actors, counts=None, complete=True),
        groups=GroupFacts(groups=groups),
        jobs=JobFacts(jobs=jobs),
        as_of={"ray.status": asked, "ray.placement_groups": grouped},
        **more,
    )


def why(listed, *actors, **more):
    """Why the last actor waits; without actors, why the last group waits."""
    snapshot = Join()(parts(listed, *actors, **more), NOW)
    return (snapshot.actors or snapshot.placement_groups)[-1].why


def word(listed, *actors, **more):
    """The same as one word."""
    snapshot = Join()(parts(listed, *actors, **more), NOW)
    return (snapshot.actors or snapshot.placement_groups)[-1].wait


def queued(**needs):
    return (Demand(needs=needs, count=1),)


def test_a_reason_names_the_job_and_actor_or_the_ended_job_that_hold_the_resources():
    critic = actor(1, class_="Critic", node=W1, needs={"GPU": 2.0})
    jobs = (Job("train1", "02000000", status="RUNNING"),)
    reason = why(nodes((8, 0), (2, 0)), critic, waiting(), jobs=jobs)
    known = "node2 has 8 but 2 are reserved by job train1 (actor Critic), node1 has 8 but 8 are reserved"
    assert reason.startswith(f"needs 8 GPUs on one node; {known}")
    left = group(1, state="CREATED", bundles=(Bundle({"GPU": 8.0}, HEAD),))
    jobs = (Job("train0", "02000000", status="FAILED"),)
    assert why(nodes((8, 0)), waiting(), groups=(left,), jobs=jobs).endswith("8 are reserved by ended job train0 (group group1)")


def test_a_groups_reason_has_rays_own_words_behind_it_and_is_that_of_its_actors():
    reason = "never fits on these nodes: needs 9 GPUs on one node; node1 has 8"
    large = group(bundles=(Bundle({"GPU": 9.0}),), why="no nodes could hold it")
    assert why(nodes((0, 0)), groups=(large,)) == f"{reason} (Ray: no nodes could hold it)"
    actor_of_it = waiting(placement_group=f"{7:036x}")
    assert why(nodes((0, 0)), actor_of_it, groups=(replace(large, why=""),)) == f"its placement group waits: {reason}"
    assert why(nodes((0, 0), growing=True), waiting(needs={"GPU": 9.0})).startswith("does not fit on the current nodes: needs 9 GPUs")


def test_a_group_counts_as_removed_once_the_list_is_newer_than_the_actor():
    bound = waiting(placement_group=f"{7:036x}")
    assert why(nodes((0, 0)), bound) == "its placement group was removed"
    assert why(nodes((0, 0)), bound, grouped=NOW - 50) is None
    cut = replace(parts(nodes((0, 0)), bound), groups=GroupFacts(groups=(), complete=False))
    assert Join()(cut, NOW).actors[-1].why is None


def test_an_actor_in_a_placed_group_waits_for_others_there():
    placed = group(state="CREATED", bundles=(Bundle({"GPU": 1.0}, HEAD), Bundle({"GPU": 1.0}, HEAD)))
    inside = {"placement_group": placed.id, "needs": {"GPU": 1.0}, "bundle": 1}
    reason = why(nodes((2, 0)), actor(1, class_="Rollout", **inside), waiting(**inside), groups=(placed,), demand=queued(GPU=1.0))
    assert reason == "in its placement group it needs 1 GPU on one node; bundle 1 has 1 but 1 is reserved by job 02000000 (actor Rollout)"
    anywhere = waiting(placement_group=placed.id, needs={"GPU": 1.0})
    assert why(nodes((2, 0)), actor(1, **inside), anywhere, groups=(placed,), demand=queued(GPU=1.0)) is None


def test_an_actor_that_ray_no_longer_queues_is_being_started_and_free_gpus_may_be_fractions():
    assert why(nodes((8, 0)), waiting(), demand=()) == STARTING
    assert why(nodes((0, 0)), waiting(), demand=queued(GPU=8.0)).startswith("there is room for it, but Ray keeps it queued")
    assert why(nodes((0, 0)), waiting()).startswith("there is room for it: the runtime environment")
    parted = [actor(number, node=HEAD, needs={"GPU": 0.5}) for number in (1, 2)]
    reason = why(nodes((1, 0)), *parted, waiting(needs={"GPU": 7.0}), demand=queued(GPU=7.0))
    assert "but Ray keeps it queued: the free GPUs may be fractions of several GPUs, or it may be bound to a node" in reason


def test_a_new_request_is_judged_once_the_report_is_newer():
    assert why(nodes((8, 0)), waiting(since=NOW - 2), demand=()) is None
    assert "8 are reserved" in why(nodes((8, 0)), waiting(since=NOW - 2), demand=queued(GPU=8.0))
    assert "never" in why(nodes((8, 0)), waiting(since=NOW - 2, needs={"GPU": 9.0}), demand=())


def test_an_actor_whose_constructor_runs_holds_its_resources():
    listed = replace(nodes((8, 0)), workers=(Worker(HEAD, 77, actor=f"{1:032x}"),))
    running = waiting(1, class_="Critic")
    assert why(listed, running) == "its constructor is running on node1, pid 77"
    assert "8 are reserved by job 02000000 (actor Critic)" in why(listed, running, waiting())


def test_an_actor_that_declares_nothing_needs_a_cpu_and_one_that_is_restarted_is_judged_too():
    reason = why(nodes((0, 16)), waiting(needs={}), demand=queued(CPU=1.0))
    assert reason == "needs 1 CPU on one node; node1 has 16 but 16 are reserved by tasks or starting workers"
    assert "8 are reserved" in why(nodes((8, 0)), waiting(state="RESTARTING", node=W1), demand=())


def test_a_label_that_no_node_has_or_that_a_full_node_has():
    assert "no node has that label; there are gpu=a100 on 1 node" in why(
        nodes((0, 0), labels={"gpu": "a100"}), waiting(labels={"gpu": "h100"})
    )
    labelled = nodes((8, 0), (0, 0))
    listed = replace(labelled, nodes=(replace(labelled.nodes[0], labels={"gpu": "h100"}), labelled.nodes[1]))
    assert word(listed, waiting(labels={"gpu": "h100"})) == "label"


def test_without_a_strategy_there_is_a_reason_only_if_no_strategy_could_place_it():
    unknown = group(strategy=None, bundles=(Bundle({"GPU": 4.0}),) * 3, why="Ray's words")
    assert why(nodes((0, 0), (8, 0)), groups=(unknown,)) == "Ray's words"
    assert "there are only 8 GPUs in total" in why(nodes((0, 0)), groups=(unknown,))


def test_of_a_group_that_lost_a_node_only_the_lost_bundles_wait():
    half = group(state="RESCHEDULING", strategy="STRICT_SPREAD", bundles=(Bundle({"GPU": 8.0}, HEAD), Bundle({"GPU": 8.0}, W1)))
    reason = why(nodes((8, 0)), groups=(half,))
    assert reason.startswith("never fits on these nodes: needs 8 GPUs on one node; no node is allowed to run it")


def test_both_jobs_of_a_deadlock_have_it_as_reason():
    held = [group(number, state="CREATED", bundles=(Bundle({"GPU": 8.0}, f"{number:056x}"),), job=f"0{number}000000") for number in (1, 2)]
    wanted = [group(number, job=f"0{number - 2}000000") for number in (3, 4)]
    snapshot = Join()(parts(nodes((8, 0), (8, 0)), groups=(*held, *wanted)), NOW)
    (reason,) = {each.why for each in snapshot.placement_groups[2:]}
    assert reason.startswith(
        "deadlock, none continues until one releases its resources: needs 8 GPUs on one node; node1 has 8 but 8 are reserved"
    )
    assert {each.wait for each in snapshot.placement_groups[2:]} == {"deadlock"}


def test_each_reason_has_its_word():
    full, half = nodes((8, 0)), nodes((4, 0), (4, 0))
    assert word(full, waiting(needs={"GPU": 9.0})) == "never"
    assert word(full, waiting()) == "held"
    assert word(half, waiting()) == "fragmented"
    assert word(nodes((0, 16)), waiting(needs={"GPU": 8.0, "CPU": 1.0})) == "short"
    assert word(full, waiting(), demand=()) == "starting"
    assert word(nodes((0, 0)), waiting()) == "room"
    assert word(full, waiting(placement_group=f"{7:036x}")) == "removed"
    assert word(full, waiting(placement_group=f"{7:036x}"), groups=(group(),)) == "group"
    assert word(full, groups=(group(),)) == "held"


def test_a_job_that_waits_for_what_it_holds_itself_is_no_deadlock_with_others():
    mine = actor(1, class_="Critic", node=HEAD, needs={"GPU": 8.0})
    assert word(nodes((8, 0)), mine, waiting()) == "itself"
    reason = "its own job holds what it needs: needs 8 GPUs on one node; node1 has 8 but 8 are reserved by job 02000000 (actor Critic)"
    assert why(nodes((8, 0)), mine, waiting()) == reason


def test_an_uncertain_reason_has_no_word_and_old_or_missing_facts_give_none():
    assert word(nodes((0, 0), growing=True), waiting(needs={"GPU": 9.0})) is None
    assert word(nodes((8, 0)), waiting(since=NOW - 2), demand=()) is None
    assert word(None, waiting()) is None
    old = {("ray.status", None): Fault("ray.status", "silent", NOW)}
    assert why(nodes((8, 0)), waiting(), faults=old) is None
    assert "never" in why(nodes((8, 0)), waiting(needs={"GPU": 9.0}), faults=old)
    assert why(nodes((8, 0)), waiting(needs={"GPU": 9.0}), faults={("ray.nodes", None): Fault("ray.nodes", "silent", NOW)}) is None
    assert why(nodes((None, None)), waiting()) is None
    assert why(None, waiting()) is None


@pytest.mark.parametrize("source", ["ray.identity", "ray.gcs", "ray.nodes"])
def test_reasons_stay_while_rays_sources_fail(source):
    join, never = Join(), waiting(needs={"GPU": 9.0})
    spoken = {"ray.status": NOW, "ray.placement_groups": NOW, "ray.identity": NOW - 8, "ray.gcs": NOW}
    first = replace(parts(nodes((8, 0)), never), as_of=spoken)
    actors = join(first, NOW).actors
    silent = replace(
        first, faults={("ray.nodes", None): Fault("ray.nodes", "silent", NOW + 5), (source, None): Fault(source, "x", NOW + 9)}
    )
    assert join(silent, NOW + 60).actors is actors
    answered = replace(silent, as_of={**spoken, "ray.identity": NOW + 12, "ray.gcs": NOW + 12})
    assert join(answered, NOW + 60).actors[-1].why is None


def test_a_still_mangled_name_is_no_missing_resource():
    listed = NodeFacts(nodes=(node(1, resources={"specialHw": Quantity(0.0, 1.0)}),), workers=(), holders=())
    assert why(listed, waiting(needs={"special_hw": 1.0})) is None
    assert why(nodes((0, 0)), waiting(needs={"special_hw": 1.0})).startswith("never fits on these nodes: ")


def test_reasons_are_found_again_when_their_facts_change():
    join, young = Join(), waiting(since=NOW - 10)
    assert join(parts(nodes((8, 0)), young), NOW).actors[-1].why is None
    assert "8 are reserved" in join(parts(nodes((8, 0)), young, asked=NOW + 10), NOW + 10).actors[-1].why
    assert "7 are reserved" in join(parts(nodes((7, 0)), young, asked=NOW + 10), NOW + 10).actors[-1].why


def test_of_a_large_cluster_reasons_are_found_again_rarely_but_at_once_with_a_sources_first_answer():
    clock = [0.0]
    reasons = pending.PendingReasons(lambda: clock[0])
    large = [
        NodeFacts(nodes=tuple(node(1 + n, resources={"GPU": Quantity(used, 8.0)}) for n in range(101)), workers=(), holders=())
        for used in (8, 7)
    ]
    actors = ActorFacts(actors=(actor(1, state="PENDING_CREATION", needs={"GPU": 9.0}, since=NOW - 60), actor(2)), counts={}, complete=True)

    def why(facts, listed=actors, jobs=None):
        return reasons(Parts(nodes=facts, actors=listed, jobs=jobs)).actors[0]

    first = why(large[0]).why
    assert "8" in first
    other = ActorFacts(actors=(replace(actors.actors[0], needs={"GPU": 10.0}), actors.actors[1]), counts={}, complete=True)
    carried = why(large[1], other)
    assert carried.why == first
    assert carried.needs == {"GPU": 10.0}
    assert "10" in why(large[1], other, JobFacts(jobs=())).why
    clock[0] = 20.0
    assert "9" in why(large[1], actors, JobFacts(jobs=())).why


async def joined_recording(version):
    ray = RecordedRay(version).ray(lambda: NOW)
    read = {"nodes": await ray.read_nodes(), "status": await ray.read_status(), "groups": await ray.read_placement_groups()}
    return Join()(Parts(**read, actors=await ray.read_actors(), as_of={"ray.status": NOW}), NOW)


@pytest.mark.parametrize("version", ["2.60", "2.44.1", "2.9.3"])
async def test_recorded_answers_of_each_ray_version_give_the_same_reasons(version):
    snapshot = await joined_recording(version)
    assert "never fits on these nodes: needs 100 GPUs on one node; vm has 2" in {each.why for each in snapshot.actors}
    waits_for = {each.why.partition(" (Ray: ")[0] for each in snapshot.placement_groups if each.pending}
    assert "never fits on these nodes: needs 50 GPUs on one node; vm has 2" in waits_for


async def test_the_reasons_of_recorded_actors():
    actors = (await joined_recording("2.60")).actors
    two_nodes = "needs 2 x 1 CPU, each on a node of its own; only 1 node can take it"
    never = "never fits on these nodes"
    assert {(each.why or "").partition(" (Ray: ")[0] for each in actors if each.state == "PENDING_CREATION"} == {
        f"{never}: needs 1 special_hw_a on one node; no node has any",
        f"its placement group waits: {never}: {two_nodes}",
        f"its placement group waits: {never}: needs 50 GPUs on one node; vm has 2",
        "needs 2 GPUs on one node; vm has 2 but 2 are reserved by tasks or starting workers",
        f"{never}: needs 100 GPUs on one node; vm has 2",
        f"{never}: needs 1 CPU on one node with accel=h100: no node has a label accel",
    }


AMOUNT = st.one_of(st.none(), st.floats(-1e18, 1e18), st.integers(0, 9).map(float))
TEXT = st.sampled_from(["", "x", "!", "in(", "in()", "!in(a", "\x1b[31m", "😀" * 99])
NEEDS = st.dictionaries(st.sampled_from(["GPU", "CPU", "memory", "a_b", ""]), AMOUNT.filter(lambda amount: amount is not None), max_size=3)
BUNDLES = st.lists(st.builds(Bundle, NEEDS, st.sampled_from([None, HEAD, "gone"]), st.dictionaries(TEXT, TEXT, max_size=2)), max_size=4)
ACTOR = st.builds(
    lambda number, **more: waiting(number, **more),
    st.integers(1, 4),
    state=st.sampled_from(["PENDING_CREATION", "RESTARTING", "ALIVE", "DEPENDENCIES_UNREADY", "?"]),
    node=st.sampled_from([None, HEAD, "gone"]),
    needs=NEEDS,
    labels=st.dictionaries(TEXT, TEXT, max_size=2),
    placement_group=st.sampled_from([None, f"{1:036x}", "gone"]),
    bundle=st.one_of(st.none(), st.integers(0, 9)),
    job=st.sampled_from([None, "", "02000000"]),
    since=st.sampled_from([None, -1.0, NOW - 60, NOW + 1e9]),
)
GROUP = st.builds(
    lambda number, bundles, **more: group(number, bundles=tuple(bundles), **more),
    st.integers(1, 4),
    BUNDLES,
    state=st.sampled_from(["PENDING", "RESCHEDULING", "PREPARED", "CREATED", "?"]),
    strategy=st.sampled_from([None, "PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD", "?"]),
    job=st.sampled_from([None, "", "02000000", "03000000"]),
)
RESOURCES = st.dictionaries(st.sampled_from(["GPU", "CPU", "memory", "aB"]), st.builds(Quantity, AMOUNT, AMOUNT), max_size=3)


def demanded(listed, *actors, **more):
    """The reason and the word for each shape."""
    return [(each.why, each.wait) for each in Join()(parts(listed, *actors, **more), NOW).demand]


LARGE = Demand({"CPU": 1.0, "GPU": 16.0}, 2)
NEVER = ("never fits on these nodes: needs 16 GPUs on one node; 2 nodes have 8", "never")


def test_only_tasks_too_large_for_every_node_and_unknown_to_actors_have_a_reason():
    queue = Demand({"GPU": 8.0}, 500)
    assert demanded(nodes((8, 0), (8, 0)), demand=(queue, LARGE)) == [(None, None), NEVER]
    assert demanded(nodes((0, 0), (0, 0)), waiting(needs=LARGE.needs), demand=(LARGE,)) == [(None, None)]
    assert demanded(nodes((0, 0), (0, 0)), waiting(), demand=(LARGE,)) == [NEVER]
    grows = "does not fit on the current nodes: needs 16 GPUs on one node; 2 nodes have 8"
    assert demanded(nodes((0, 0), (0, 0), growing=True), demand=(LARGE,)) == [(grows, None)]


READ = parts(nodes((0, 0), (0, 0)), demand=(LARGE,))
FIRST, SECOND = READ.nodes.nodes
MANGLED = NodeFacts((replace(FIRST, resources={"specialHw": Quantity(0.0, 1.0)}),), (), ())


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(replace(READ, actors=None), id="actors"),
        pytest.param(replace(READ, actors=ActorFacts(actors=(), counts=None, complete=False)), id="all actors"),
        pytest.param(replace(READ, nodes=None), id="nodes"),
        pytest.param(replace(READ, nodes=NodeFacts((FIRST, replace(SECOND, resources={})), (), ())), id="the size of a node"),
        pytest.param(parts(MANGLED, demand=(Demand({"special_hw": 1.0}, 1),)), id="names"),
        pytest.param(replace(READ, as_of={}), id="the age of the report"),
    ],
)
def test_without_the_necessary_facts_tasks_have_no_reason(read):
    assert [each.why for each in Join()(read, NOW).demand] == [None]


@pytest.mark.parametrize("lost", [["ray.status"], ["ray.actors"], ["ray.nodes", "ray.identity", "ray.gcs", "ray.status", "ray.actors"]])
def test_reasons_of_tasks_become_stale_with_their_source_and_stay(lost):
    join, read = Join(), parts(nodes((0, 0), (0, 0)), waiting(), demand=(LARGE,))
    reason = join(read, NOW).demand
    assert reason[0].why
    faults = {(source, None): Fault(source, "silent", NOW + 5) for source in lost}
    for listed in (nodes((8, 0), (0, 0)), nodes((8, 0), (8, 0))):
        assert join(replace(read, nodes=listed, faults=faults), NOW + 9).demand == reason


def test_if_only_the_node_list_is_stale_tasks_have_no_reason():
    join, read = Join(), parts(nodes((0, 0), (0, 0)), demand=(LARGE,))
    assert join(read, NOW).demand[0].why
    newer = {"ray.identity": NOW + 9, "ray.gcs": NOW + 9, "ray.status": NOW + 9}
    lost = {("ray.nodes", None): Fault("ray.nodes", "silent", NOW + 5)}
    assert join(replace(read, faults=lost, as_of=newer), NOW + 9).demand == (LARGE,)


def test_large_demand_is_limited_as_in_rays_own_report():
    many = tuple(Demand({"GPU": 9.0 + number}, 1) for number in range(1000))
    assert sum(why is not None for why, _ in demanded(nodes((0, 0)), demand=many)) == pending_reasons.MAX_LARGE_DEMAND


def test_tasks_lose_their_reason_when_a_large_enough_node_has_joined():
    join, listed = Join(), nodes((0, 0), (0, 0))
    assert join(parts(listed, demand=(LARGE,)), NOW).demand[0].why
    large = node(3, resources={"GPU": Quantity(0.0, 16.0), "CPU": Quantity(0.0, 16.0)})
    assert join(parts(replace(listed, nodes=(*listed.nodes, large)), demand=(LARGE,)), NOW).demand == (LARGE,)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(RESOURCES, max_size=3), st.lists(ACTOR, max_size=5), st.lists(GROUP, max_size=4), NEEDS)
def test_absurd_facts_make_no_absurd_sentence(resources, actors, groups, demand):
    listed = nodes(*[(0, 0)] * len(resources))
    listed = replace(listed, nodes=tuple(replace(each, resources=has) for each, has in zip(listed.nodes, resources, strict=True)))
    read = parts(listed, *actors, groups=tuple(groups), demand=(Demand(demand, 1),))
    snapshot = Join()(read, NOW)
    assert [each.id for each in snapshot.actors] == [each.id for each in actors]
    for reason in [each.why for each in (*snapshot.actors, *snapshot.placement_groups, *snapshot.demand) if each.why]:
        assert not {"nan", "inf", "None", "\x1b"} & set(reason.replace(";", " ").split())
        assert len(reason) < 3000
