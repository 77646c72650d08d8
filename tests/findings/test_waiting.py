"""Waiting actors and groups are reported by class and job with the reason; impossible ones are critical, starting ones are not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Limits
from cockpit.model import DEADLOCK, Bundle, Fault, Job, Remedy, StartTrouble
from tests.findings.detection import FreshTracker, after_silence, detect, only
from tests.findings.waits import ALONE, HELD, JOBS, NODE, group, seen, waits
from tests.world import NOW, actor, node, snapshot


def test_actors_of_one_class_and_job_are_one_finding_with_count_and_reason():
    found = only(seen(*map(waits, range(1, 5))), "actor-pending")
    assert found.subject == "Critic of job train2"
    assert found.text == f"4 actors Critic of job train2 wait: {HELD}"
    assert HELD not in "".join(found.evidence), "the sentence already contains it"
    assert found.evidence[-1] == "`ray list actors --filter state=PENDING_CREATION` lists actor1, actor2, actor3 and 1 more"
    assert (found.level, found.since, len(found.about)) == ("info", NOW - 60, 4)
    assert only(seen(waits()), "actor-pending").text == f"Actor Critic of job train2 waits: {HELD}"
    found = seen(waits(1), waits(2, class_="Reward"), waits(3, job="01000000"), waits(4, job=None))
    subjects = {finding.subject for finding in found}
    assert subjects == {"Critic of job train2", "Reward of job train2", "Critic of job train1", "Critic of an unknown job"}


def test_the_worst_of_several_reasons_is_reported():
    found = only(seen(*map(waits, range(1, 4)), waits(4, why="never fits on these nodes: needs 9 GPUs", wait="never")), "actor-pending")
    assert found.text == (
        "1 of 4 actors Critic of job train2 waits: never fits on these nodes: needs 9 GPUs; 3 more wait for other reasons"
    )
    assert found.evidence[0] == f"3 of these 4: {HELD}"
    assert "needs 9 GPUs" not in "".join(found.evidence)
    assert found.level == "critical"
    silent, find = [waits(number, why=None, wait=None) for number in (1, 2)], [waits(3), waits(4)]
    assert only(seen(*silent, *find), "actor-pending").text == (
        f"2 of 4 actors Critic of job train2 wait: {HELD}; 2 more wait for other reasons"
    )
    more = only(seen(*silent, find[0]), "actor-pending")
    assert more.text == "2 of 3 actors Critic of job train2 wait, and Ray gives no reason; 1 more waits for another reason"


@pytest.mark.parametrize(
    ("wait", "seconds", "level"),
    [
        ("held", 9, None),
        ("held", 11, "info"),
        ("held", 119, "info"),
        ("fragmented", 121, "warning"),
        ("short", 121, "warning"),
        ("label", 121, "warning"),
        ("itself", 121, "warning"),
        ("room", 121, "warning"),
        (None, 121, "warning"),
        ("held", 86400, "warning"),
        ("never", 11, "info"),
        ("never", 31, "critical"),
        ("removed", 31, "critical"),
        ("starting", 1700, "info"),
        ("starting", 1801, "warning"),
    ],
)
def test_the_level_depends_on_the_reason_and_its_duration(wait, seconds, level):
    found = seen(waits(seconds=seconds, wait=wait))
    assert [finding.level for finding in found] == [level] * (level is not None)


def test_groups_with_several_reasons_are_named_with_each_and_a_holder_is_named_once():
    wants = [f"needs {number} GPUs; node1 has 8 but 2 are reserved by job train1 (actor Critic)" for number in (4, 6, 8)]
    groups = [group(number, why=why) for number, why in enumerate(wants, 1)]
    found = only(seen(groups=(*groups, group(4, why="never fits on these nodes: needs 9 GPUs", wait="never"))), "placement-group-pending")
    assert found.text == (
        "Placement group vllm4 of job train2 waits: never fits on these nodes: needs 9 GPUs; 3 more wait for other reasons"
    )
    assert found.evidence[:3] == (
        f"1 of these 4 (vllm1): {wants[0]}",
        "1 of these 4 (vllm2): needs 6 GPUs",
        "1 of these 4 (vllm3): needs 8 GPUs",
    )
    find = "\n".join((found.text, *found.evidence, found.remedy.text))
    assert find.count("job train1") == 1


def test_only_the_rows_with_the_worst_level_are_marked():
    never, merely = group(1, seconds=290, why="never fits on these nodes: needs 9 GPUs", wait="never"), group(2)
    mine, other = (actor(number, placement_group=each.id, state="PENDING_CREATION") for number, each in ((1, never), (2, merely)))
    found = only(seen(mine, other, groups=(never, merely)), "placement-group-pending")
    assert found.level == "critical"
    assert set(found.about) == {never.key, mine.key, JOBS[1].key}


def test_things_have_their_names_and_equal_names_are_distinguished():
    nameless, alike = group(0x5, name=""), [group(number << 120, name="vllm") for number in (0xAB, 0xCD)]
    (found,) = seen(groups=(nameless, *alike))
    assert found.evidence[-1].endswith(f"lists {nameless.id[:12]}, vllm ({alike[0].id[:8]}) and vllm ({alike[1].id[:8]})")


def test_without_a_reason_or_while_arguments_are_made_it_stays_an_info_for_long():
    silent = only(seen(waits(seconds=600, why=None, wait=None)), "actor-pending")
    assert (silent.level, silent.text) == ("info", "Actor Critic of job train2 waits, and Ray gives no reason")
    unready = waits(seconds=600, state="DEPENDENCIES_UNREADY", why="its constructor's arguments are not ready", wait=None)
    assert only(seen(unready), "actor-pending").level == "info"


def test_an_earlier_wait_counts_as_long_as_its_job_allows():
    def level(age, **more):
        jobs = () if age is None else (Job("train2", "02000000", "train2", "RUNNING", started=NOW - age),)
        return only(seen(waits(seconds=0, at_least=True, **more), jobs=jobs), "actor-pending").level

    assert [level(age) for age in (5, 119, 121, None)] == ["info", "info", "warning", "warning"]
    assert [level(age, wait="never") for age in (5, 29, 31, None)] == ["info", "info", "critical", "critical"]
    assert level(9000, why="its constructor is running", wait="starting") == level(9000, why=None, wait=None) == "info"
    assert seen(waits(seconds=0)) == ()


@pytest.mark.parametrize("wait", ["held", "never", "starting", "room", None])
@pytest.mark.parametrize("age", [20, 100, 900])
def test_the_level_is_the_same_in_one_sample_and_a_minute_later(wait, age):
    jobs = (Job("train2", "02000000", "train2", "RUNNING", started=NOW - age),)
    waiting = snapshot(actors=(waits(seconds=0, at_least=True, wait=wait),), placement_groups=(), jobs=jobs)
    once = FreshTracker(Limits(), ALONE, assumed=60.0)(waiting).findings
    watch = FreshTracker(Limits(), ALONE)(waiting).findings
    assert [each.level for each in once] == [each.level for each in watch]


def test_while_nodes_join_tasks_may_wait_for_them():
    def find(joined: float, judge: FreshTracker, at: float = 0.0) -> str:
        nodes = (node(1, started=NOW - 600), node(2, started=NOW - joined))
        never = waits(seconds=60, at_least=True, wait="never")
        return only(
            judge(snapshot(taken=NOW + at, nodes=nodes, actors=(never,), placement_groups=(), jobs=JOBS)).findings, "actor-pending"
        ).level

    judge = FreshTracker(Limits(), ALONE)
    assert [find(5, judge), find(25, judge), find(35, judge)] == ["info", "info", "critical"]
    assert find(1, judge) == "critical", "a joining node does not make an old impossible request better"
    assert find(5, FreshTracker(Limits(), ALONE, assumed=60.0)) == "info"


def test_living_dead_and_rays_own_actors_do_not_wait():
    supervisor = waits(3, internal=True, name="_ray_internal_job_actor_x")
    assert seen(actor(1), actor(2, state="DEAD"), supervisor, groups=(group(state="CREATED"), group(2, state="REMOVED"))) == ()
    assert detect(snapshot(actors=None, placement_groups=None, jobs=None), 0, detectors=ALONE) == (), "unknown"


def test_a_group_is_reported_with_its_waiting_actors_which_have_no_own_finding():
    bound = [waits(number, placement_group=group().id, wait=wait) for number, wait in ((1, "group"), (2, "group"), (3, None))]
    (found,) = seen(*bound, groups=(group(seconds=400),))
    assert (found.code, found.subject, found.level) == ("placement-group-pending", "job train2", "warning")
    assert found.text == f"Placement group vllm1 of job train2 waits: {HELD}"
    assert "3 actors wait for this placement group: 3 x Critic" in found.evidence
    assert found.about == (group().key, *(each.key for each in bound))
    assert found.since == NOW - 400


def test_groups_of_one_job_are_one_finding():
    found = only(seen(groups=tuple(map(group, range(1, 6)))), "placement-group-pending")
    assert found.text == f"5 placement groups of job train2 (vllm1, vllm2, vllm3 and 2 more) wait: {HELD}"
    assert {each.subject for each in seen(groups=(group(1), group(2, job="01000000")))} == {"job train1", "job train2"}


def test_a_hopeless_job_can_be_stopped_if_ray_can_stop_it():
    def remedy(jobs):
        found = only(seen(groups=(group(wait="never"),), jobs=jobs), "placement-group-pending")
        return found.remedy.action, JOBS[1].key in found.about

    assert remedy(JOBS) == ("stop-job", True)
    driver = Job("02000000", "02000000", None, "RUNNING")
    assert remedy((driver,)) == (None, False)
    assert remedy(None) == (None, False)


def test_an_actor_with_a_removed_group_should_be_killed():
    found = only(seen(waits(why="its placement group was removed", wait="removed", placement_group="ab")), "actor-pending")
    assert (found.level, found.remedy.action) == ("critical", "kill-actor")


def test_old_facts_have_a_date_and_their_waits_do_not_grow():
    known = snapshot(actors=(waits(seconds=60),), placement_groups=(), jobs=JOBS, as_of={"ray.actors": NOW})
    (found,) = after_silence(known, 500, detectors=ALONE, faults=(Fault("ray.actors", "silent", NOW + 5),))
    assert (found.level, found.seen) == ("info", NOW)
    assert found.text.endswith("as of 8m20s ago")


@pytest.mark.parametrize("source", ["ray.identity", "ray.gcs"])
def test_a_hopeless_wait_stays_critical_when_ray_falls_silent(source):
    silent = {"faults": (Fault(source, "silent", NOW - 500),), "as_of": {source: NOW - 500}}
    for found in seen(waits(seconds=560, wait="never"), groups=(group(seconds=560, wait="never"),), **silent):
        assert (found.level, found.seen) == ("critical", NOW - 500)
        assert found.text.endswith("as of 8m20s ago")


def test_jobs_that_hold_what_the_others_wait_for_are_one_finding():
    held = [group(number, state="CREATED", bundles=(Bundle({"GPU": 8.0, "CPU": 1.0}, NODE),), job=f"0{number}000000") for number in (1, 2)]
    wanted = [group(number, number * 100, job=f"0{number - 2}000000", why="deadlock, …", wait="deadlock") for number in (3, 4)]
    (found,) = seen(groups=(*held, *wanted))
    assert (found.code, found.subject, found.level) == ("deadlock", "jobs train1 and train2", "critical")
    assert found.text == (
        "Deadlock: train1 and train2 wait for each other; none can continue until one of them releases its resources; "
        "train1 holds 8 GPUs and waits for 8 GPUs; train2 holds 8 GPUs and waits for 8 GPUs"
    )
    assert (found.remedy.text, found.remedy.action) == ("stop job train2, which started last: then the others continue", "stop-job")
    assert found.about == (wanted[0].key, wanted[1].key, JOBS[1].key)
    assert found.since == NOW - 300


def test_actors_can_be_in_a_deadlock_too_with_a_late_alarm():
    alive = [actor(number, job=f"0{number}000000", needs={"GPU": 4.0}) for number in (1, 2)]
    wanted = [waits(number, 20, job=f"0{number - 2}000000", needs={"GPU": 8.0}, why="deadlock, …", wait="deadlock") for number in (3, 4)]
    (found,) = seen(*alive, *wanted)
    assert found.level == "info"
    assert "train1 holds 4 GPUs and waits for 8 GPUs; train2 holds 4 GPUs and waits for 8 GPUs" in found.text
    assert seen(*alive, *[waits(number, 5, job=f"0{number - 2}000000", wait="deadlock") for number in (3, 4)]) == ()


def test_a_deadlock_names_its_stoppable_jobs_and_each_holder_once():
    drivers = tuple(Job(f"0{number}000000", f"0{number}000000", None, "RUNNING") for number in (1, 2))
    wanted = [waits(number, 60, job=f"0{number}000000", wait="deadlock") for number in (1, 2)]
    (found,) = seen(*wanted, jobs=drivers)
    assert (found.remedy.action, found.remedy.text) == (None, "kill the driver of one of them: then the others continue")
    why = f"{DEADLOCK}needs 8 GPUs on one node; node1 has 8 but 8 are reserved by job train1 (group vllm1)"
    wanted = [group(number, 100, job=f"0{number}000000", why=why, wait="deadlock") for number in (1, 2)]
    (found,) = seen(groups=tuple(wanted))
    assert found.evidence[0] == why.removeprefix(DEADLOCK)


def test_hostile_names_and_times_make_no_nonsense():
    odd = waits(1, class_="\x1b[31mX\n" * 99, since=NOW + 1e9, at_least=True, job="02000000")
    never = waits(2, class_="", since=float("nan"), wait="never", needs={"GPU": float("nan")})
    for found in seen(odd, never, groups=(group(name="\x00", since=-5.0, bundles=()),)):
        assert "\x1b" not in found.text
        assert "nan" not in found.text
        assert found.since is None or 0 < found.since <= NOW


def test_one_sample_reports_no_wait_of_which_it_saw_only_the_end():
    def since(**more):
        waiting = snapshot(actors=(waits(seconds=30, **more),), placement_groups=(), jobs=JOBS)
        return only(FreshTracker(Limits(), ALONE, assumed=60.0)(waiting).findings, "actor-pending").since

    assert (since(at_least=True), since()) == (None, NOW - 30)


@pytest.mark.parametrize("assumed", [0.0, 60.0])
def test_an_earlier_deadlock_is_critical_at_once(assumed):
    wanted = [waits(number, 1, job=f"0{number}000000", at_least=True, wait="deadlock") for number in (1, 2)]
    (found,) = FreshTracker(Limits(), ALONE, assumed=assumed)(snapshot(actors=tuple(wanted), placement_groups=(), jobs=JOBS)).findings
    assert (found.code, found.level) == ("deadlock", "critical")


PORTS = StartTrouble(
    (waits().key,),
    "node node1 has 4 worker ports (20000-20003) and all are taken",
    "start Ray on node1 again with a wider range (`--min-worker-port`, `--max-worker-port`)",
    fails=True,
)
BUILDS = StartTrouble(
    (waits().key,),
    "its runtime environment is being built on node1: pip install has written nothing since 11:08:39 by that host's clock",
    "see whether its package index answers from node1; runtime_env_setup-02000000.log there has what it has done",
    silent_since=NOW - 240,
)


def test_what_fails_at_its_start_is_a_warning_with_the_reason_and_the_remedy_of_the_logs():
    found = only(seen(waits(why=PORTS.text, wait="starting"), starts=(PORTS,)), "actor-pending")
    assert found.text == f"Actor Critic of job train2 waits: {PORTS.text}"
    assert (found.level, found.remedy) == ("warning", Remedy(PORTS.remedy))
    assert only(seen(waits(why=PORTS.text, wait="starting", seconds=12), starts=(PORTS,)), "actor-pending").level == "info"


def test_what_is_being_built_is_an_info_with_for_how_long_it_has_said_nothing():
    found = only(seen(waits(why=BUILDS.text, wait="starting"), starts=(BUILDS,)), "actor-pending")
    assert (found.level, found.text) == ("info", f"Actor Critic of job train2 waits: {BUILDS.text} (4m00s)")
    assert found.remedy == Remedy(BUILDS.remedy)


def test_a_trouble_of_another_actor_changes_nothing():
    other = replace(PORTS, about=(waits(2).key,))
    found = only(seen(waits(why="its constructor is running", wait="starting"), starts=(other,)), "actor-pending")
    assert found.level == "info"
    assert "wider range" not in found.remedy.text
