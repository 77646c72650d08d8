"""The reason that cockpit gives for waiting, compared with what Ray then places or does not."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from cockpit.placement import LivingNodes, PlacementNode, make_request, scale_amount, shape
from tests.lab.cluster import Cluster, eventually
from tests.lab.observe import COCKPIT, Watcher, write_config
from tests.lab.placement_jobs import PlacementJobs, reasons

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@pytest.fixture
def asked(cluster: Cluster) -> Iterator[PlacementJobs]:
    """A healthy cluster of two nodes, each with 8 GPUs and 16 CPUs."""
    made = PlacementJobs(cluster)
    yield made
    for file in made.signals:
        file.unlink()


def test_impossible_requests_are_called_so_with_what_is_missing(asked: PlacementJobs):
    asked.run(
        "never",
        """
group = placement_group([{"GPU": 1}] * 16, strategy="STRICT_PACK", name="one-node")
cpus = placement_group([{"GPU": 1, "CPU": 3}] * 8, strategy="STRICT_PACK", name="verl")
wide = placement_group([{"GPU": 1}] * 3, strategy="STRICT_SPREAD", name="wide")
odd = placement_group([{"GPU": 5}] * 3, strategy="PACK", name="odd")
kept = [
    named("bound", num_gpus=1, num_cpus=0, scheduling_strategy=In(group, 0)).remote(),
    named("labelled", num_cpus=1, label_selector={"gpu-type": "h100"}).remote(),
    named("special", num_cpus=1, resources={"tpu_pod": 1}).remote(),
    named("large", num_cpus=1, num_gpus=9).remote(),
]
""",
    )
    assert asked.reason("one-node", "never fits on these nodes: needs 16 GPUs on one node; 2 nodes have 8 (Ray: its bundles do not fit")
    assert asked.reason("verl", "never fits on these nodes: enough GPUs, but not enough CPU: needs 24 CPUs on one node; 2 nodes have 16")
    assert asked.reason("wide", "never fits on these nodes: needs 3 x 1 GPU, each on a node of its own; only 2 nodes can take it")
    assert asked.reason("odd", "never fits on these nodes: needs 3 x 5 GPUs; only 2 bundles fit on empty nodes: 2 nodes have 8")
    assert asked.reason("bound", "its placement group waits: never fits on these nodes: needs 16 GPUs on one node")
    assert asked.reason("labelled", "never fits on these nodes: needs 1 CPU on one node with gpu-type=h100: no node has a label gpu-type")
    assert asked.reason("special", "never fits on these nodes: needs 1 tpu_pod on one node; no node has any")
    assert asked.reason("large", "never fits on these nodes: needs 9 GPUs on one node; 2 nodes have 8")
    groups = {name: row["state"] for name, row in asked.ray("placement_groups").items()}
    assert {groups[name] for name in ("one-node", "verl", "wide", "odd")} == {"PENDING"}


@pytest.mark.incident
def test_fragmented_resources_are_placed_once_the_named_blocker_is_gone(asked: PlacementJobs):
    asked.run(
        "train1",
        """
critics = [named(f"Critic{n}", num_gpus=2, num_cpus=0, scheduling_strategy="SPREAD").remote() for n in range(2)]
ray.get([critic.ready.remote() for critic in critics])
wait("free-one")
ray.kill(critics[0])
""",
    )
    eventually(lambda: asked.state("actors", "Critic1") == "ALIVE", within=120)
    asked.run("train2", 'engine = placement_group([{"GPU": 8}], name="engine")')
    assert asked.reason(
        "engine", "needs 8 GPUs on one node; 12 GPUs are free, but not on one node: ", "8 but 2 are reserved by job train1 (actor Critic"
    )
    assert asked.state("placement_groups", "engine") == "PENDING"
    asked.send_signal("free-one")
    eventually(lambda: asked.state("placement_groups", "engine") == "CREATED")


def test_too_few_cpus_for_free_gpus_are_the_only_thing_missing(asked: PlacementJobs):
    asked.run(
        "loader",
        """
loaders = [named(f"Loader{n}", num_cpus=10, scheduling_strategy="SPREAD").remote() for n in range(2)]
ray.get([loader.ready.remote() for loader in loaders])
wait("free-cpus")
ray.kill(loaders[0])
""",
    )
    eventually(lambda: asked.state("actors", "Loader1") == "ALIVE", within=120)
    asked.run("verl", 'pool = placement_group([{"GPU": 1, "CPU": 2}] * 8, name="pool")')
    why = asked.reason("pool", "enough GPUs, but not enough CPU: needs 8 x 2 CPUs; 12 of 32 CPUs are free, 20 are reserved by job loader")
    assert "Loader0" in why
    assert asked.state("placement_groups", "pool") == "PENDING"
    asked.send_signal("free-cpus")
    eventually(lambda: asked.state("placement_groups", "pool") == "CREATED")


HALF = """
first = placement_group([{"GPU": 8}], name="%(job)s-first")
ray.get(first.ready())
wait("both-have-half")
second = placement_group([{"GPU": 8}], name="%(job)s-second")
"""


@pytest.mark.incident
def test_two_jobs_that_each_hold_half_are_a_deadlock_until_one_ends(asked: PlacementJobs):
    for job in ("left", "right"):
        asked.run(job, HALF % {"job": job})
    eventually(lambda: {asked.state("placement_groups", f"{job}-first") for job in ("left", "right")} == {"CREATED"}, within=120)
    asked.send_signal("both-have-half")
    for job in ("left", "right"):
        why = asked.reason(
            f"{job}-second", "deadlock, none continues until one releases its resources: needs ", "has 8 but 8 are reserved by job "
        )
        assert all(f"8 are reserved by job {each} " in why for each in ("left", "right"))
        assert asked.state("placement_groups", f"{job}-second") == "PENDING"
    found = eventually(lambda: asked.finding("deadlock"))
    assert all(f"{each} holds 8 GPUs and waits for 8 GPUs" in found for each in ("left", "right"))
    asked.cluster.http.post("/api/jobs/right/stop")
    eventually(lambda: asked.state("placement_groups", "left-second") == "CREATED")


def test_a_job_that_holds_what_it_waits_for_is_reported(asked: PlacementJobs):
    asked.run(
        "ppo",
        """
actor, critic, vllm = (placement_group([{"GPU": 6}], name=name) for name in ("actor", "critic", "vllm"))
ray.get([actor.ready(), critic.ready()])
""",
    )
    assert asked.reason("vllm", "its own job holds what it needs: needs 6 GPUs on one node")
    assert asked.state("placement_groups", "vllm") == "PENDING"


@pytest.mark.incident
def test_a_placed_actor_is_starting_and_then_in_its_constructor(asked: PlacementJobs):
    slow = asked.cluster.head.tmp / "jobs" / "slow-python"
    slow.write_text('#!/bin/bash\nwhile [ ! -e /tmp/start ]; do sleep 0.2; done\nexec python "$@"\n')
    slow.chmod(0o755)
    asked.run(
        "starts",
        """
class Slow:
    def __init__(self): wait("constructed")
here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
slowly = {"py_executable": "/tmp/jobs/slow-python"}
slow = ray.remote(Slow).options(name="Slow", num_gpus=1, label_selector=here, runtime_env=slowly).remote()
""",
    )
    eventually(lambda: asked.state("actors", "Slow") == "PENDING_CREATION", within=120)
    watcher = Watcher(asked.cluster.head)
    try:
        starting = "resources are reserved; the runtime environment or the worker process is starting"
        watcher.until(lambda facts: reasons(asked, facts).get("Slow") == starting, within=120)
        asked.send_signal("start")
        watcher.until(
            lambda facts: (reasons(asked, facts).get("Slow") or "").startswith("its constructor is running on head, pid "), within=120
        )
    finally:
        watcher.end()
    asked.send_signal("constructed")
    eventually(lambda: asked.state("actors", "Slow") == "ALIVE")


@pytest.mark.incident
def test_an_actor_in_a_placed_group_waits_for_its_neighbour_there(asked: PlacementJobs):
    asked.run(
        "crowd",
        """
group = placement_group([{"GPU": 1}], name="shared")
ray.get(group.ready())
first = named("Rollout", num_gpus=1, num_cpus=0, scheduling_strategy=In(group, 0)).remote()
ray.get(first.ready.remote())
second = named("Reward", num_gpus=1, num_cpus=0, scheduling_strategy=In(group, 0)).remote()
wait("leave")
ray.kill(first)
""",
    )
    assert asked.reason(
        "Reward", "in its placement group it needs 1 GPU on one node; bundle 0 has 1 but 1 is reserved by job crowd (actor Rollout)"
    )
    asked.send_signal("leave")
    eventually(lambda: asked.state("actors", "Reward") == "ALIVE")


@pytest.mark.incident
def test_the_removed_group_of_an_actor_is_named(asked: PlacementJobs):
    asked.run(
        "gone",
        """
group = placement_group([{"GPU": 9}], name="removed")
left = named("Left", num_gpus=9, num_cpus=0, scheduling_strategy=In(group, 0), lifetime="detached").remote()
wait("remove")
remove_placement_group(group)
""",
    )
    assert asked.reason("Left", "its placement group waits: never fits on these nodes: needs 9 GPUs on one node; 2 nodes have 8")
    watcher = Watcher(asked.cluster.head)
    try:
        asked.send_signal("remove")
        watcher.until(lambda facts: reasons(asked, facts).get("Left") == "its placement group was removed", within=120)
    finally:
        watcher.end()
    assert asked.state("placement_groups", "removed") is None
    assert asked.state("actors", "Left") == "PENDING_CREATION", "Ray has noticed that it can never start"


CHECKED = {
    "fits": ("[{GPU: 1, count: 8}]", "STRICT_PACK", [{"GPU": 1}] * 8, 0),
    "later": ("[{GPU: 1, count: 9}]", "PACK", [{"GPU": 1}] * 9, 1),
    "never": ("[{GPU: 1, CPU: 3, count: 8}]", "STRICT_PACK", [{"GPU": 1, "CPU": 3}] * 8, 2),
}
"""Presets: their settings, the request to Ray, and the exit code of the check."""


def checked(asked: PlacementJobs, name: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON of `cockpit check`."""
    bundles, strategy, _, _ = CHECKED[name]
    file = asked.cluster.head.tmp / f"{name}.yaml"
    file.write_text(f"job: {{entrypoint: python train.py}}\nneeds: {{bundles: {bundles}, strategy: {strategy}}}\n")
    answer, _, code = asked.cluster.head.ssh(f"{COCKPIT} check /tmp/{name}.yaml --json; echo $?").strip().rpartition("\n")
    return int(code), json.loads(answer)


def test_a_check_of_presets_predicts_what_ray_does_with_their_groups(asked: PlacementJobs):
    write_config(asked.cluster.lab)
    asked.run("holder", 'held = placement_group([{"GPU": 8}], name="held")')
    eventually(lambda: asked.state("placement_groups", "held") == "CREATED", within=120)
    held = "8 are reserved by job holder (group held)"
    later = eventually(lambda: answer if (answer := checked(asked, "later"))[0] == 1 and held in json.dumps(answer) else None)
    found = {"fits": checked(asked, "fits"), "later": later, "never": checked(asked, "never")}
    assert {name: code for name, (code, _) in found.items()} == {name: code for name, (*_, code) in CHECKED.items()}, found
    assert any(held in line["text"] for line in found["later"][1]["lines"])
    assert any("needs 24 CPUs on one node; 2 nodes have 16" in line["text"] for line in found["never"][1]["lines"])
    groups = [f"placement_group({wanted}, strategy={strategy!r}, name={name!r})" for name, (_, strategy, wanted, _) in CHECKED.items()]
    asked.run("groups", f"groups = [{', '.join(reversed(groups))}]")
    eventually(lambda: asked.state("placement_groups", "fits") == "CREATED", within=120)
    assert [asked.state("placement_groups", name) for name in ("later", "never")] == ["PENDING", "PENDING"]


TRY = """
import json
from ray.util.placement_group import placement_group_table
at = {node["NodeName"]: {"ray.io/node-id": node["NodeID"]} for node in ray.nodes()}
head = named("OnHead", num_gpus=3, num_cpus=12, label_selector=at[HEAD]).remote()
other = named("OnSecond", num_gpus=1, num_cpus=2, label_selector=at[OTHER]).remote()
ray.get([head.ready.remote(), other.ready.remote()])
results = []
for bundles, strategy in json.load(open("/tmp/jobs/asks.json")):
    group = placement_group(bundles, strategy=strategy)
    placed = group.wait(3)
    results.append("CREATED" if placed else placement_group_table(group)["stats"]["scheduling_state"])
    remove_placement_group(group)
pathlib.Path("/tmp/jobs/results.json").write_text(json.dumps(results))
"""
MISSED = ([{"GPU": 4, "CPU": 1}, {"CPU": 14}], "PACK")
"""Both fit, but Ray puts the first on the node with most room, the only one for the second."""


def some(chance: random.Random) -> tuple[list[dict[str, int]], str]:
    bundles = [{"GPU": chance.randint(0, 6), "CPU": chance.randint(1, 10)} for _ in range(chance.randint(1, 4))]
    return bundles, chance.choice(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])


@pytest.mark.incident
def test_ray_places_the_random_groups_that_can_be_placed(asked: PlacementJobs):
    chance = random.Random(60)
    asks = [MISSED, *(some(chance) for _ in range(30))]
    jobs = asked.cluster.head.tmp / "jobs"
    (jobs / "asks.json").write_text(json.dumps(asks))
    (jobs / "results.json").unlink(missing_ok=True)
    head, other = (host.address for host in asked.cluster.hosts)
    asked.run("tries", f"HEAD, OTHER = {head!r}, {other!r}\n{TRY}")
    results = eventually(lambda: (jobs / "results.json").exists() and json.loads((jobs / "results.json").read_text()), within=200)
    total = {"GPU": scale_amount(8), "CPU": scale_amount(16)}
    world = LivingNodes(
        [
            PlacementNode("head", "head", total, {"GPU": scale_amount(3), "CPU": scale_amount(12)}),
            PlacementNode("w1", "w1", total, {"GPU": scale_amount(1), "CPU": scale_amount(2)}),
        ]
    )
    kinds = [world.judge(make_request([shape(bundle) for bundle in bundles], strategy)).kind for bundles, strategy in asks]
    differ = [
        (kind, *each, state)
        for kind, each, state in zip(kinds, asks, results, strict=True)
        if (kind == "now") != (state == "CREATED") or (state == "INFEASIBLE" and kind != "never")
    ]
    assert differ == []
    assert kinds[0] == "missed"
    assert {"now", "never", "held", "fragmented", "short"} & set(kinds) >= {"now", "never", "held"}


@pytest.mark.incident
def test_an_actor_of_a_dead_node_waits_for_resources_held_on_others(asked: PlacementJobs):
    asked.run(
        "lost",
        """
here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
keeper = named("Keeper", num_gpus=8, num_cpus=0, label_selector=here).remote()
ray.get(keeper.ready.remote())
again = named("Again", num_gpus=6, num_cpus=0, max_restarts=5).remote()
wait("make-room")
ray.kill(keeper)
""",
    )
    eventually(lambda: asked.state("actors", "Again") == "ALIVE", within=120)
    watcher = Watcher(asked.cluster.head)
    reason = "needs 6 GPUs on one node; head has 8 but 8 are reserved by job lost (actor Keeper)"
    try:
        asked.cluster.part("raylet", "w1").outer.kill()
        watcher.until(lambda facts: reason in (reasons(asked, facts).get("Again") or ""), within=120)
    finally:
        watcher.end()
    asked.send_signal("make-room")
    eventually(lambda: asked.state("actors", "Again") == "ALIVE")
