"""A job's groups fit now, later or never."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.budget import Budget, Group
from cockpit.check.check import check
from cockpit.check.result import exit_code
from cockpit.model import Bundle, Fault, Job, PlacementGroup, Quantity
from cockpit.placement import make_request, shape
from cockpit.placement.fit import Slot, greedy_moves
from cockpit.presets import Needs
from tests.check.worlds import asked, cluster, group, lines_of, machine, of, preset
from tests.world import NOW, actor

ACTOR, VLLM = group("actor", 8), group("vLLM", 8)
WHOLE = group("pool", 8, "STRICT_PACK", GPU=1.0)
VERL = group("pool", 8, "STRICT_PACK", GPU=1.0, CPU=3.0)
UNREPORTED = "Ray does not report what is in use at the moment"


def pending(gpus, wait, number=7, **more):
    facts = {"state": "PENDING", "strategy": "PACK", "job": "02000000", "since": NOW - 60, "wait": wait, **more}
    return PlacementGroup(f"{number:036x}", f"group{number}", bundles=tuple(Bundle({"GPU": 1.0}) for _ in range(gpus)), **facts)


@pytest.mark.parametrize(
    ("world", "groups", "verdict", "words"),
    [
        (cluster(machine(1), machine(2)), (ACTOR, VLLM), "now", "vLLM: 8 x 1 GPU + 1 CPU: 8 GPUs on "),
        (cluster(machine(1)), (ACTOR,), "now", "actor: 8 x 1 GPU + 1 CPU: 8 GPUs on head, which has 8 of 8 free"),
        (cluster(machine(1), machine(2, 8)), (ACTOR, VLLM), "later", "vLLM: needs 8 x 1 GPU; 0 of 16 GPUs are free, 16 are reserved: 8 by"),
        (cluster(machine(1, 4), machine(2, 4)), (WHOLE,), "later", "pool: needs 8 GPUs on one node; 8 GPUs are free, but not on one node"),
        (cluster(machine(1)), (ACTOR, VLLM), "never", "all groups together: needs 16 x 1 GPU; there are only 8 GPUs in total"),
        (cluster(machine(1), machine(2)), (VERL,), "never", "pool: enough GPUs, but not enough CPU: needs 24 CPUs on one node; 2 nodes"),
        (cluster(machine(1), machine(2)), (group("pool", 16, "STRICT_PACK", GPU=1.0),), "never", "pool: needs 16 GPUs on one node"),
        (cluster(machine(1), machine(2)), (group("actor", 3, "STRICT_SPREAD", GPU=8.0),), "never", "needs 3 x 8 GPUs, each on a node"),
        (cluster(machine(1)), (group("task", 9, None, GPU=1.0),), "never", "task: needs 9 x 1 GPU; there are only 8 GPUs in total"),
        (cluster(machine(1)), (group("task", 1, None, tpu=1.0),), "never", "task: needs 1 tpu on one node; no node has any"),
    ],
)  # fmt: skip
def test_now_later_or_never_with_the_numbers(world, groups, verdict, words):
    result = of(world, *groups)
    assert result.verdict == verdict
    assert any(words in line.text for line in result.lines), [line.text for line in result.lines]


def test_groups_that_are_alike_are_one_line_and_the_one_that_waits_is_named():
    pools = [VERL] * 2
    wide = {"cores": 24}
    assert "pool (2 groups): 8 x 1 GPU + 3 CPUs: " in lines_of(of(cluster(machine(1, **wide), machine(2, **wide)), *pools), "fine")[0]
    late = of(cluster(machine(1, **wide), machine(2, 1, **wide)), *pools)
    assert late.reason.text.startswith("pool (group 2 of 2): needs 8 GPUs on one node; ")


def test_what_waits_ahead_and_has_room_is_placed_first():
    world = cluster(machine(1), machine(2), placement_groups=(pending(8, "room"),))
    result = of(world, ACTOR, VLLM)
    assert result.verdict == "later"
    assert "by what waits ahead of it (group group7)" in result.reason.text
    assert of(world, ACTOR).verdict == "now"


def test_actors_that_wait_take_as_much_as_there_is():
    waiting = tuple(actor(n, state="PENDING_CREATION", node=None, needs={"GPU": 3.0}, since=NOW, wait=None) for n in range(20, 24))
    result = of(cluster(machine(1), actors=waiting), group("actor", 3))
    assert result.verdict == "later"
    assert "3 x 1 GPU; 2 of 8 GPUs are free" in result.reason.text


@pytest.mark.parametrize("wait", ["never", "starting", "group", "removed"])
def test_what_waits_in_vain_or_for_no_resources_takes_nothing(wait):
    assert exit_code(of(cluster(machine(1), placement_groups=(pending(8, wait),)), ACTOR)) == 0


def test_what_would_be_overtaken_is_a_doubt():
    late = of(cluster(machine(1, 4), placement_groups=(pending(16, "held"),)), ACTOR)
    assert lines_of(late, "doubt") == ["other work already waits for the same resources: group group7 (16 GPUs)"]
    result = of(cluster(machine(1), placement_groups=(pending(16, "held"),)), ACTOR)
    assert (result.verdict, exit_code(result)) == ("now", 1)
    assert lines_of(result, "doubt") == ["it would start before others that already wait for the same resources: group group7 (16 GPUs)"]


def test_what_an_autoscaler_could_add_is_never_impossible_and_who_holds_the_rest_is_named():
    result = of(replace(cluster(machine(1)), growing=True), ACTOR, VLLM)
    assert result.verdict == "later"
    assert result.reason.text.endswith(" (current nodes only); the autoscaler may add nodes")
    critic = actor(1, class_="Critic", node=f"{1:056x}", needs={"GPU": 6.0})
    world = cluster(machine(1, 6), actors=(critic,), jobs=(Job("train1", "02000000", status="RUNNING"),))
    held = "actor: needs 4 x 1 GPU; 2 of 8 GPUs are free, 6 are reserved by job train1 (actor Critic)"
    assert of(world, group("actor", 4)).reason.text == held


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (cluster(machine(1, resources={"GPU": Quantity(None, 8), "CPU": Quantity(None, 16)})), UNREPORTED),
        (cluster(machine(1), faults=(Fault("ray.nodes", "silent", NOW - 60),)), "Ray's node list is old"),
        (cluster(machine(1), faults=(Fault("ray.status", "silent", NOW - 60),)), UNREPORTED),
        (cluster(machine(1, resources={})), "Ray has not reported its nodes' resources yet"),
        (cluster(machine(1, resources={"GPU": Quantity(0, None), "CPU": Quantity(0, 16)})), "Ray does not report how much GPU there is"),
        (replace(cluster(), nodes=None), "Ray has not reported its nodes"),
        (replace(cluster(), cluster=replace(cluster().cluster, reachable=False)), "no Ray dashboard answers at http://10.0.0.1:8265"),
    ],
)  # fmt: skip
def test_what_nobody_knows_is_unknown(world, words):
    result = of(world, ACTOR)
    assert (result.verdict, exit_code(result)) == ("unknown", 3)
    assert words in result.reason.text


def test_a_group_that_cannot_be_read_is_unknown_and_those_before_it_are_judged():
    result = of(cluster(machine(1)), ACTOR, Group("vLLM", None))
    assert result.verdict == "unknown"
    assert lines_of(result, "fine")[0].startswith("actor: ")
    assert of(cluster(machine(1)), group("actor", 9), Group("vLLM", None)).verdict == "never"
    unreported = cluster(machine(1), faults=(Fault("ray.status", "silent", NOW - 60),))
    assert of(unreported, ACTOR, VLLM).verdict == "never", "also where what is free is unknown"


def test_a_command_that_cannot_be_read_is_unknown_unless_the_preset_says_what_it_needs():
    budget = asked().__class__(None, unread=("train.py is not known here",))
    nothing = check(preset(), budget, cluster(machine(1)))
    assert (nothing.verdict, nothing.reason.text) == ("unknown", "train.py is not known here")
    assert nothing.budget.amount("GPU") is None
    assert check(preset(needs=Needs(gpus=8)), budget, cluster(machine(1))).verdict == "now"
    assert check(preset(needs=Needs(gpus=8, cpus=17)), budget, cluster(machine(1))).verdict == "never"
    own = check(preset(needs=Needs(gpus=8), entrypoint_num_gpus=1), budget, cluster(machine(1)))
    assert (own.verdict, own.budget.amount("GPU")) == ("never", 9)
    packed = Needs(bundles=(({"GPU": 1.0}, 8),), strategy="STRICT_PACK")
    assert check(preset(needs=packed), budget, cluster(machine(1, 4), machine(2, 4))).verdict == "later"


def test_needs_count_where_a_framework_leaves_its_number_open_and_that_is_said():
    budget = Budget("veRL", groups=(Group("actor", None),), unread=("trainer.nnodes is not set",))
    result = check(preset(needs=Needs(gpus=8)), budget, cluster(machine(1)))
    assert (result.verdict, result.budget.gpus, result.budget.mark) == ("now", 8, "likely")
    assert lines_of(result, "doubt") == ["counted as its needs say, because trainer.nnodes is not set"]


def test_a_plain_job_of_which_only_the_command_is_known_is_a_doubt():
    alone = check(preset(), asked(group("entrypoint", 1, None, CPU=1.0), framework="Ray"), cluster(machine(1)))
    assert exit_code(alone) == 1
    assert "only the command itself is counted" in lines_of(alone, "doubt")[0]
    said = check(preset(needs=Needs(gpus=1)), asked(group("entrypoint", 1, None, CPU=1.0), framework="Ray"), cluster(machine(1)))
    assert exit_code(said) == 0


def test_parts_that_were_not_read_and_needs_that_say_otherwise_are_doubts():
    result = check(preset(needs=Needs(gpus=16)), asked(ACTOR, doubts=("--foo is not known",)), cluster(machine(1)))
    assert (result.verdict, exit_code(result)) == ("now", 1)
    assert lines_of(result, "doubt") == ["--foo is not known", "needs.gpus is 16, but the command asks for 8 GPUs"]


def test_what_depends_on_the_release_alone_is_never_called_impossible():
    open_ = replace(VERL, unsure=("CPU",))
    result = of(cluster(machine(1)), open_)
    assert result.verdict == "unknown"
    assert result.reason.text.endswith("the amount of CPU depends on the framework's release: a release that asks for fewer would fit")
    assert result.budget.amount("CPU") is None
    assert of(cluster(machine(1, cores=24)), open_).verdict == "now"
    assert of(cluster(machine(1, busy=10, cores=24)), open_).verdict == "unknown"
    assert of(cluster(machine(1, 1, cores=24)), open_).verdict == "later"
    assert of(cluster(machine(1)), replace(open_, bundles=(({"GPU": 1.0, "CPU": 3.0}, 9),))).verdict == "never"


NODES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 16)), min_size=1, max_size=4)
BUNDLE = st.fixed_dictionaries({"GPU": st.integers(0, 6), "CPU": st.integers(0, 8)}).filter(lambda needs: any(needs.values()))
BUNDLES = st.lists(st.tuples(BUNDLE, st.integers(1, 4)), min_size=1, max_size=3)
STRATEGIES = st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
GROUPS = st.lists(st.tuples(BUNDLES, STRATEGIES), min_size=1, max_size=3)


@settings(max_examples=200)
@given(NODES, GROUPS)
def test_what_fits_now_is_what_ray_places_and_what_never_fits_no_empty_nodes_hold(used, groups):
    world = cluster(*(machine(number, *each) for number, each in enumerate(used, 1)))
    wanted = [Group(f"g{number}", tuple(bundles), strategy) for number, (bundles, strategy) in enumerate(groups)]
    result = of(world, *wanted)
    first = make_request([shape(needs) for needs, number in wanted[0].bundles for _ in range(number)], wanted[0].strategy)
    if result.verdict == "now":
        slots = {Slot((8 - gpus, 16 - cpus), -1): used.count((gpus, cpus)) for gpus, cpus in used}
        bundles = [
            ((dict(each.amounts).get("GPU", 0) // 10_000, dict(each.amounts).get("CPU", 0) // 10_000), n) for each, n in first.shapes
        ]
        assert greedy_moves(slots, bundles, first.strategy) is not None
    if result.verdict == "never":
        empty = of(cluster(*(machine(number) for number in range(1, len(used) + 1))), *wanted)
        assert empty.verdict == "never"
    if len(wanted) == 1 and result.verdict == "later":
        assert of(cluster(*(machine(number) for number in range(1, len(used) + 1))), *wanted).verdict != "never"
