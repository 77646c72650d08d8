"""Why something waits, as cockpit says it, against what Ray then places or doesn't."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from cockpit.placement import Place, World, ask, fixed, shape
from tests.lab.cluster import Cluster, eventually
from tests.lab.eyes import COCKPIT, Facts, Watcher, lay_config, once

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

BEGIN = """
import pathlib, ray, sys, time
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as In
ray.init(address="auto", log_to_driver=False)

class Worker:
    def ready(self): return True

def named(name, **more):
    return ray.remote(type(name, (Worker,), {})).options(name=name, **more)

def wait(name):
    while not pathlib.Path(f"/tmp/{name}").exists(): time.sleep(0.1)
"""
END = "\ntime.sleep(10000)\n"


class Asked:
    """The jobs of a test, and what has come of what they asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.told: list[Any] = []

    def run(self, job: str, script: str) -> None:
        """Submit a job."""
        file = self.cluster.head.tmp / "jobs" / f"{job}.py"
        file.write_text(BEGIN + script + END)
        self.cluster.submit(job, f"python {job}.py")

    def tell(self, what: str) -> None:
        """Let a job go on that waits for this."""
        file = self.cluster.head.tmp / what
        file.write_text("")
        self.told.append(file)

    def ray(self, kind: str) -> dict[str, dict[str, Any]]:
        """What Ray lists of it, by name; those that are no more left out."""
        rows = self.cluster.http.get(f"/api/v0/{kind}", params={"limit": 1000, "detail": 1}).json()["data"]["result"]["result"]
        return {row["name"]: row for row in rows if row["state"] not in ("DEAD", "REMOVED")}

    def state(self, kind: str, name: str) -> str | None:
        """What Ray has made of it."""
        row = self.ray(kind).get(name)
        return row["state"] if row else None

    def why(self) -> dict[str, str | None]:
        """Why each of them waits, as one `cockpit status --json` says."""
        _, facts, _ = once(self.cluster.head)
        return reasons(self, facts)

    def finding(self, code: str) -> str:
        """What one `cockpit status --json` finds of this."""
        _, facts, _ = once(self.cluster.head)
        return next((str(each["text"]) for each in facts["findings"] if each["code"] == code), "")

    def reason(self, name: str, *words: str) -> str:
        """The reason that has all these words in it, as soon as it is told."""
        told: list[str | None] = []

        def right() -> str | None:
            told.append(self.why().get(name))
            return told[-1] if told[-1] and all(map(told[-1].__contains__, words)) else None

        try:
            return eventually(right, within=60) or ""
        except AssertionError as error:
            raise AssertionError(f"of {name} is said: {list(dict.fromkeys(told))}") from error


def reasons(asked: Asked, facts: Facts) -> dict[str, str | None]:
    names = {row["actor_id"]: name for name, row in asked.ray("actors").items()}
    found = {names.get(actor["id"], actor["id"]): actor["why"] for actor in facts["actors"]["pending"]}
    return found | {group["name"]: group["why"] for group in facts["placement_groups"]}


@pytest.fixture
def asked(cluster: Cluster) -> Iterator[Asked]:
    """A healthy cluster of two nodes, each with 8 GPUs and 16 CPUs."""
    made = Asked(cluster)
    yield made
    for file in made.told:
        file.unlink()


def test_what_can_never_be_placed_is_called_so_with_what_is_missing(asked: Asked):
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
    assert asked.reason("one-node", "needs 16 GPU on one node; 2 nodes have 8: never on these nodes (Ray: no nodes could hold")
    assert asked.reason("verl", "GPUs would do, but not CPU: needs 24 CPU on one node; 2 nodes have 16: never")
    assert asked.reason("wide", "needs 3 x 1 GPU, each on a node of its own; there are 2 nodes for it: never")
    assert asked.reason("odd", "needs 3 x 5 GPU; only 2 of them fit on empty nodes: 2 nodes have 8: never")
    assert asked.reason("bound", "its placement group waits: needs 16 GPU on one node")
    assert asked.reason("labelled", "needs 1 CPU on one node with gpu-type=h100: no node has a label gpu-type: never")
    assert asked.reason("special", "needs 1 tpu_pod on one node; no node has any: never")
    assert asked.reason("large", "needs 9 GPU on one node; 2 nodes have 8: never")
    groups = {name: row["state"] for name, row in asked.ray("placement_groups").items()}
    assert {groups[name] for name in ("one-node", "verl", "wide", "odd")} == {"PENDING"}


@pytest.mark.incident
def test_what_is_free_in_pieces_is_placed_once_what_the_sentence_names_is_gone(asked: Asked):
    asked.run(
        "train1",
        """
critics = [named(f"Critic{n}", num_gpus=2, num_cpus=0, scheduling_strategy="SPREAD").remote() for n in range(2)]
ray.get([critic.ready.remote() for critic in critics])
wait("free-one")
ray.kill(critics[0])
""",
    )
    eventually(lambda: asked.state("actors", "Critic1") == "ALIVE", within=60)
    asked.run("train2", 'engine = placement_group([{"GPU": 8}], name="engine")')
    assert asked.reason(
        "engine", "needs 8 GPU on one node; of 12 GPU free no node has so much: ", "8 but 2 are held by job train1 (actor Critic"
    )
    assert asked.state("placement_groups", "engine") == "PENDING"
    asked.tell("free-one")
    eventually(lambda: asked.state("placement_groups", "engine") == "CREATED")


def test_too_few_cpus_for_free_gpus_are_told_and_are_all_that_is_missing(asked: Asked):
    asked.run(
        "loader",
        """
loaders = [named(f"Loader{n}", num_cpus=10, scheduling_strategy="SPREAD").remote() for n in range(2)]
ray.get([loader.ready.remote() for loader in loaders])
wait("free-cpus")
ray.kill(loaders[0])
""",
    )
    eventually(lambda: asked.state("actors", "Loader1") == "ALIVE", within=60)
    asked.run("verl", 'pool = placement_group([{"GPU": 1, "CPU": 2}] * 8, name="pool")')
    why = asked.reason("pool", "GPUs would do, but not CPU: needs 8 x 2 CPU; 12 of 32 CPU are free, 20 are held by job loader")
    assert "Loader0" in why
    assert asked.state("placement_groups", "pool") == "PENDING"
    asked.tell("free-cpus")
    eventually(lambda: asked.state("placement_groups", "pool") == "CREATED")


HALF = """
first = placement_group([{"GPU": 8}], name="%(job)s-first")
ray.get(first.ready())
wait("both-have-half")
second = placement_group([{"GPU": 8}], name="%(job)s-second")
"""


@pytest.mark.incident
def test_two_jobs_that_each_hold_half_are_a_deadlock_until_one_ends(asked: Asked):
    for job in ("left", "right"):
        asked.run(job, HALF % {"job": job})
    eventually(lambda: {asked.state("placement_groups", f"{job}-first") for job in ("left", "right")} == {"CREATED"}, within=60)
    asked.tell("both-have-half")
    for job in ("left", "right"):
        told = "deadlock, none goes on until one lets go (job left holds 8 GPU and waits for 8; job right holds 8 GPU and waits for 8): "
        assert asked.reason(f"{job}-second", told, "has 8 but 8 are held by job ")
        assert asked.state("placement_groups", f"{job}-second") == "PENDING"
    holding = "left holds 8 GPU and waits for 8 GPU; right holds 8 GPU and waits for 8 GPU"
    assert eventually(lambda: asked.finding("deadlock"), within=60).endswith(f"none goes on until one lets go; {holding}")
    asked.cluster.http.post("/api/jobs/right/stop")
    eventually(lambda: asked.state("placement_groups", "left-second") == "CREATED")


def test_a_job_that_holds_what_it_waits_for_is_told_so(asked: Asked):
    asked.run(
        "ppo",
        """
actor, critic, vllm = (placement_group([{"GPU": 6}], name=name) for name in ("actor", "critic", "vllm"))
ray.get([actor.ready(), critic.ready()])
""",
    )
    assert asked.reason("vllm", "its own job holds what it waits for (holds 12 GPU and waits for 6): needs 6 GPU on one node")
    assert asked.state("placement_groups", "vllm") == "PENDING"


@pytest.mark.incident
def test_an_actor_with_a_place_is_starting_and_then_in_its_constructor(asked: Asked):
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
    eventually(lambda: asked.state("actors", "Slow") == "PENDING_CREATION", within=60)
    watcher = Watcher(asked.cluster.head)
    try:
        starting = "it has its place: its runtime environment or its worker process is being started"
        watcher.until(lambda facts: reasons(asked, facts).get("Slow") == starting, within=60)
        asked.tell("start")
        watcher.until(
            lambda facts: (reasons(asked, facts).get("Slow") or "").startswith("its constructor is running on head, pid "), within=60
        )
    finally:
        watcher.end()
    asked.tell("constructed")
    eventually(lambda: asked.state("actors", "Slow") == "ALIVE")


@pytest.mark.incident
def test_an_actor_in_a_placed_group_waits_for_its_neighbour_there(asked: Asked):
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
        "Reward", "in its placement group it needs 1 GPU on one node; bundle 0 has 1 but 1 is held by job crowd (actor Rollout)"
    )
    asked.tell("leave")
    eventually(lambda: asked.state("actors", "Reward") == "ALIVE")


@pytest.mark.incident
def test_the_group_of_an_actor_was_removed(asked: Asked):
    asked.run(
        "gone",
        """
group = placement_group([{"GPU": 9}], name="removed")
left = named("Left", num_gpus=9, num_cpus=0, scheduling_strategy=In(group, 0), lifetime="detached").remote()
wait("remove")
remove_placement_group(group)
""",
    )
    assert asked.reason("Left", "its placement group waits: needs 9 GPU on one node; 2 nodes have 8: never on these nodes")
    watcher = Watcher(asked.cluster.head)
    try:
        asked.tell("remove")
        watcher.until(lambda facts: reasons(asked, facts).get("Left") == "its placement group was removed", within=60)
    finally:
        watcher.end()
    assert asked.state("placement_groups", "removed") is None
    assert asked.state("actors", "Left") == "PENDING_CREATION", "Ray has understood that it waits in vain"


CHECKED = {
    "fits": ("[{GPU: 1, count: 8}]", "STRICT_PACK", [{"GPU": 1}] * 8, 0),
    "later": ("[{GPU: 1, count: 9}]", "PACK", [{"GPU": 1}] * 9, 1),
    "never": ("[{GPU: 1, CPU: 3, count: 8}]", "STRICT_PACK", [{"GPU": 1, "CPU": 3}] * 8, 2),
}
"""Presets, what they say of themselves, what Ray is asked for, and what a check ends with."""


def checked(asked: Asked, name: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON of `cockpit check`."""
    bundles, strategy, _, _ = CHECKED[name]
    file = asked.cluster.head.tmp / f"{name}.yaml"
    file.write_text(f"job: {{entrypoint: python train.py}}\nneeds: {{bundles: {bundles}, strategy: {strategy}}}\n")
    told, _, code = asked.cluster.head.ssh(f"{COCKPIT} check /tmp/{name}.yaml --json; echo $?").strip().rpartition("\n")
    return int(code), json.loads(told)


def test_what_a_check_says_of_presets_is_what_ray_then_does_with_their_groups(asked: Asked):
    lay_config(asked.cluster.lab)
    asked.run("holder", 'held = placement_group([{"GPU": 8}], name="held")')
    eventually(lambda: asked.state("placement_groups", "held") == "CREATED", within=60)
    later = eventually(lambda: told if (told := checked(asked, "later"))[0] == 1 else None, within=40)
    found = {"fits": checked(asked, "fits"), "later": later, "never": checked(asked, "never")}
    assert {name: code for name, (code, _) in found.items()} == {name: code for name, (*_, code) in CHECKED.items()}, found
    assert any("8 are held by job holder (group held)" in line["text"] for line in found["later"][1]["lines"])
    assert any("needs 24 CPU on one node; 2 nodes have 16" in line["text"] for line in found["never"][1]["lines"])
    groups = [f"placement_group({wanted}, strategy={strategy!r}, name={name!r})" for name, (_, strategy, wanted, _) in CHECKED.items()]
    asked.run("groups", f"groups = [{', '.join(reversed(groups))}]")
    eventually(lambda: asked.state("placement_groups", "fits") == "CREATED", within=60)
    assert [asked.state("placement_groups", name) for name in ("later", "never")] == ["PENDING", "PENDING"]


TRY = """
import json
from ray.util.placement_group import placement_group_table
at = {node["NodeName"]: {"ray.io/node-id": node["NodeID"]} for node in ray.nodes()}
head = named("OnHead", num_gpus=3, num_cpus=12, label_selector=at[HEAD]).remote()
other = named("OnSecond", num_gpus=1, num_cpus=2, label_selector=at[OTHER]).remote()
ray.get([head.ready.remote(), other.ready.remote()])
said = []
for bundles, strategy in json.load(open("/tmp/jobs/asks.json")):
    group = placement_group(bundles, strategy=strategy)
    placed = group.wait(3)
    said.append("CREATED" if placed else placement_group_table(group)["stats"]["scheduling_state"])
    remove_placement_group(group)
pathlib.Path("/tmp/jobs/said.json").write_text(json.dumps(said))
"""
MISSED = ([{"GPU": 4, "CPU": 1}, {"CPU": 14}], "PACK")
"""There is a place for both, but Ray puts the first where there is most, and that is where only the second could go."""


def some(chance: random.Random) -> tuple[list[dict[str, int]], str]:
    bundles = [{"GPU": chance.randint(0, 6), "CPU": chance.randint(1, 10)} for _ in range(chance.randint(1, 4))]
    return bundles, chance.choice(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])


@pytest.mark.incident
def test_of_groups_of_all_kinds_ray_places_those_that_can_be_placed(asked: Asked):
    chance = random.Random(60)
    asks = [MISSED, *(some(chance) for _ in range(30))]
    jobs = asked.cluster.head.tmp / "jobs"
    (jobs / "asks.json").write_text(json.dumps(asks))
    (jobs / "said.json").unlink(missing_ok=True)
    head, other = (host.address for host in asked.cluster.hosts)
    asked.run("tries", f"HEAD, OTHER = {head!r}, {other!r}\n{TRY}")
    said = eventually(lambda: (jobs / "said.json").exists() and json.loads((jobs / "said.json").read_text()), within=200)
    total = {"GPU": fixed(8), "CPU": fixed(16)}
    world = World(
        [Place("head", "head", total, {"GPU": fixed(3), "CPU": fixed(12)}), Place("w1", "w1", total, {"GPU": fixed(1), "CPU": fixed(2)})]
    )
    kinds = [world.judge(ask([shape(bundle) for bundle in bundles], strategy)).kind for bundles, strategy in asks]
    differ = [
        (kind, *each, state)
        for kind, each, state in zip(kinds, asks, said, strict=True)
        if (kind == "now") != (state == "CREATED") or (state == "INFEASIBLE" and kind != "never")
    ]
    assert differ == []
    assert kinds[0] == "missed"
    assert {"now", "never", "held", "fragmented", "short"} & set(kinds) >= {"now", "never", "held"}


@pytest.mark.incident
def test_an_actor_whose_node_has_died_waits_for_what_is_held_on_the_others(asked: Asked):
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
    eventually(lambda: asked.state("actors", "Again") == "ALIVE", within=60)
    watcher = Watcher(asked.cluster.head)
    told = "needs 6 GPU on one node; head has 8 but 8 are held by job lost (actor Keeper)"
    try:
        asked.cluster.part("raylet", "w1").outer.kill()
        watcher.until(lambda facts: told in (reasons(asked, facts).get("Again") or ""), within=90)
    finally:
        watcher.end()
    asked.tell("make-room")
    eventually(lambda: asked.state("actors", "Again") == "ALIVE")
