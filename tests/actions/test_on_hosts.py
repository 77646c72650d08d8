"""Several things that end with one plan: all losses are listed, and one word confirms all."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.actions.action import session_word
from cockpit.actions.on_hosts import with_gpus, with_names, with_owners
from cockpit.actions.plan import Plan, Target
from cockpit.actions.table import find_action
from cockpit.model import Actor, Bundle, Cluster, Hold, Job, PlacementGroup, Process, Snapshot
from tests.world import OTHER_RAY, process, theirs

WORLD = Snapshot(
    jobs=(Job("train1", "02000000", "train1", "RUNNING"),),
    actors=tuple(
        Actor(str(number), class_=kind, state="ALIVE", job="02000000", needs={}) for number, kind in enumerate(("Critic", "Policy"))
    ),
    actors_complete=True,
    placement_groups=tuple(
        PlacementGroup(str(number), name=f"g{number}", state="CREATED", bundles=(Bundle({"GPU": 4.0}),), job="02000000")
        for number in range(2)
    ),
)


def plan(action: str, what: str, *names: str, leaked: bool = False) -> Plan:
    return Plan(action, action, tuple(Target(what, "head", id=name, name=f"n{name}", leaked=leaked) for name in names))  # type: ignore[arg-type]


def weigh(world: Snapshot, plan: Plan) -> tuple[tuple[str, ...], str | None]:
    impact = find_action(plan.action).impact(plan, world, {})
    return impact.ends, impact.word


def test_one_actor_is_named_and_several_are_counted():
    assert weigh(WORLD, plan("kill-actor", "actor", "0"))[1] == "n0"
    ends, word = weigh(WORLD, plan("kill-actor", "actor", "0", "1"))
    assert ends == (
        "actor Critic of job train1 ends; Ray will not restart it",
        "job train1 uses it and will probably fail",
        "actor Policy of job train1 ends; Ray will not restart it",
    )
    assert word == "2 actors"


def test_unused_groups_need_no_word():
    assert weigh(WORLD, plan("remove-placement-group", "placement_group", "0", "1", leaked=True))[1] is None
    assert weigh(WORLD, plan("remove-placement-group", "placement_group", "0", "1"))[1] == "2 groups"
    assert weigh(WORLD, plan("remove-placement-group", "placement_group", "0"))[1] == "n0"


MINE, THEIRS = "session_a", "session_b"


def killing(*targets: Target) -> Plan:
    return Plan("kill", "Kill", targets)


def worker(pid: int, session: str | None, **more: Any) -> Target:
    facts = {"ticks": 5, "kind": "worker", "job": "02000000", "session": session, **more}
    return Target("process", "head", pid=pid, **facts)


def followed(*processes: Process) -> Snapshot:
    return replace(WORLD, cluster=Cluster(session=MINE), processes=processes)


def test_a_live_worker_of_another_ray_is_named_by_its_pid_and_never_by_a_job_of_ours():
    world = followed(theirs(7, host="head", ticks=5))
    ends, word = weigh(world, killing(worker(7, THEIRS)))
    assert word == "7"
    assert ends == (f"process 7 on head works for job 02000000 of another Ray session ({OTHER_RAY}): what ends with it is unknown",)
    assert weigh(followed(), killing(worker(7, THEIRS)))[1] == "7", "no probe has reported it before"
    assert weigh(followed(), killing(worker(7, None)))[1] == "7", "its Ray is unknown"
    assert weigh(followed(), killing(worker(7, MINE)))[1] == "train1"


def test_a_process_of_another_ray_among_ours_needs_its_pid():
    assert weigh(followed(), killing(worker(6, MINE), worker(7, THEIRS)))[1] == "7"


def test_a_raylet_of_another_ray_is_named_by_its_session_and_ends_no_job_of_ours():
    raylet = theirs(7, host="head", ticks=5, kind="ray", name="raylet", other_job=None)
    ends, word = weigh(followed(raylet), killing(worker(7, OTHER_RAY, kind="ray", job=None)))
    assert word == "896130_410"
    assert ends == (f"process 7 on head is a part of another Ray session ({OTHER_RAY}): what ends with it is unknown",)


def test_a_plan_names_the_owner_of_another_rays_process_first():
    plan = with_owners(killing(worker(6, MINE, why=("a",)), worker(7, THEIRS, why=("b",)), worker(8, None, kind="orphan")), followed())
    assert [target.why for target in plan.targets] == [
        ("a",),
        ("job 02000000 of another Ray session (session_b)", "b"),
        ("job 02000000 of an unknown Ray session",),
    ]
    known = followed(process(8, host="head", ticks=5, job="02000000", ours=True))
    assert with_owners(killing(worker(8, None, kind="orphan")), known).targets[0].why == ()
    assert with_owners(Plan("kill", "Kill", (Target("process", "head", pid=9, kind="foreign"),)), followed()).targets[0].why == ()


def test_a_plan_names_our_job_and_omits_another_rays():
    why = ("its worker 6 is gone and its job 02000000 has ended; nothing alive owns it",)
    ours, others = with_names((worker(7, MINE, why=why, reason=why[0]), worker(8, THEIRS, why=why)), followed())
    reason = "its worker 6 is gone and its job train1 has ended; nothing alive owns it"
    assert (ours.why, ours.reason, ours.job) == ((reason,), reason, "02000000")
    assert others.why == why
    made = ("its job 02000000 has ended, but the actor 0000000000000000000000000000000a that made it is alive",)
    world = replace(followed(), actors=(Actor(f"{10:032x}", class_="Critic"),))
    (group,) = with_names((Target("placement_group", "head", made, session=MINE),), world)
    assert group.why == ("its job train1 has ended, but the actor Critic that made it is alive",)


def test_memory_that_only_rays_agents_report_is_counted():
    """Two raylets on one host, each with its own GPUs: the host's probe sees only one raylet's."""
    seen, unseen = worker(7, MINE, gpus=(Hold(0, 5),)), worker(8, MINE)
    world = followed(*(process(pid, host="head", ticks=5, gpus=(Hold(0, 9),)) for pid in (7, 8)), process(9, host="head", ticks=5))
    assert [target.gpu_memory for target in with_gpus(killing(seen, unseen, worker(9, MINE)), world).targets] == [5, 9, None]


@pytest.mark.parametrize(
    ("session", "word"),
    [
        ("session_2026-11-21_08-02-10_714202_8139", "8139"),
        ("session_2026-11-21_08-02-10_714202_12", "714202_12"),
        ("session_2026-11-21_08-02-10_714202_", "714202_"),
        ("named", "named"),
        ("a_b", "a_b"),
        ("", ""),
    ],
)
def test_the_word_for_a_session_is_short_but_never_typed_by_accident(session, word):
    assert session_word(session) == word
