from __future__ import annotations

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from cockpit.model import (
    Bundle,
    Cluster,
    Demand,
    Disk,
    Failure,
    Fault,
    FilledDisk,
    Filler,
    Gpu,
    GpuLinks,
    Hold,
    Host,
    HostMemory,
    Job,
    PlacementGroup,
    Quantity,
    RayProcess,
    Session,
    Snapshot,
    Xid,
)
from cockpit.monitor.history import STEP_S, STEPS_KEPT, History
from cockpit.ui import cells
from cockpit.ui.block import lay_out
from cockpit.ui.pages.actors import ActorsPage
from cockpit.ui.pages.details import clipboard_text, detail_of
from cockpit.ui.pages.findings import FaultsPage
from cockpit.ui.pages.jobs import JobsPage
from cockpit.ui.pages.nodes import NodePage, NodesPage
from cockpit.ui.pages.overview import JOB_PAST_CELLS, OverviewPage
from cockpit.ui.pages.processes import ProcessesPage, tree_rows
from cockpit.ui.section import facts, fit_columns
from cockpit.ui.view import Index, View
from tests.ui.page_text import drawn, section, text
from tests.world import GIB, NOW, OTHER_RAY, actor, finding, gpu, node, process, snapshot, theirs

PAGES = (OverviewPage, NodesPage, ActorsPage, ProcessesPage, JobsPage, FaultsPage)
NOTHING = Snapshot(taken=NOW)


def view(of=None, *, plain=False, **facts):
    made = of or snapshot(**facts)
    return View(made, Index(made), now=NOW, width=120, ascii=plain)


def rows(page, key, **facts):
    seen = view(**facts)
    return drawn(section(page, key, seen), seen)


def told(page, seen):
    """Names and values of a page about one thing."""
    found = {}
    for row in page.sections(seen)[0].rows:
        found[row.name] = found.get(row.name, "") + text(row.value)
    return found


# Unknown, none and old


@pytest.mark.parametrize("page", PAGES)
def test_before_the_first_answer_each_list_is_unknown_and_not_empty(page):
    for shown in page().sections(view(NOTHING)):
        assert shown.rows is None or shown.key == "faults", shown.key
        assert "unknown" in shown.sentence or shown.sentence == "not watched yet" or shown.key == "faults", shown.key


@pytest.mark.parametrize("page", PAGES)
def test_a_list_that_is_known_to_be_empty_is_called_none(page):
    empty = snapshot(nodes=(), actors=(), placement_groups=(), jobs=(), processes=(), sessions=(), faults=())
    for shown in page().sections(view(empty)):
        assert not shown.rows
        assert "unknown" not in shown.sentence or shown.key == "left", shown.key


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_every_cell_sort_and_search_can_be_made_of_every_row_and_no_two_rows_have_one_key(page, tree, plain):
    hostile, bare = (
        snapshot("\x1b[31m[/]"),
        snapshot(nodes=(node(1, gpus=None, seen=None, memory=HostMemory(), disks=()),), jobs=(Job("x"),)),
    )
    for of in (hostile, bare):
        made, seen = page(), view(of, plain=plain)
        made.tree = tree
        for shown in made.sections(seen):
            keys = [row.key for row in shown.rows or ()]
            assert all(keys)
            assert len(keys) == len(set(keys)), shown.key
            for row in shown.rows or ():
                assert isinstance(shown.search(row), str)
                for column in shown.columns:
                    assert isinstance(text(column.cell(row, seen)), str)
                    assert column.sort is None or column.sort(row, seen) != NotImplemented


def test_a_node_that_nobody_could_look_at_is_all_dashes():
    unseen = node(1, probed=False, gpus=None, seen=None, memory=HostMemory(), disks=(), resources={}, cpu=None)
    (bare,) = rows(OverviewPage(), "nodes", nodes=(unseen,))
    for title in ("GPU MEM", "MEM%", "UTIL", "UTL%", "RESV", "HOST", "DISK", "SEEN"):
        assert bare[title].strip() == "–", title


def test_no_gpus_are_not_unknown_gpus_and_a_lost_one_is_marked_and_not_counted_as_empty():
    (none,) = rows(OverviewPage(), "nodes", nodes=(node(1, gpus=()),))
    assert none["GPU MEM"] == "none"
    (lost,) = rows(OverviewPage(), "nodes", nodes=(node(1, gpus=(Gpu(0, fault="lost"), gpu(1, 40))),))
    assert (lost["GPU MEM"][0], lost["MEM%"]) == ("✖", "50%")


def test_old_facts_are_dimmed_and_those_of_the_dead_are_old():
    seen = view(nodes=(node(1), node(2, seen=NOW - 60), node(3, state="DEAD", seen=NOW)))
    nodes = section(OverviewPage(), "nodes", seen)
    assert [nodes.is_old(row, seen) for row in nodes.rows] == [False, True, True]


def test_a_dead_node_comes_last_and_reserves_nothing():
    found = rows(OverviewPage(), "nodes", nodes=(node(3, state="DEAD"), node(2), node(1)))
    assert [row["NODES"] for row in found] == ["● node1*", "● node2", "✖ node3"]
    assert found[-1]["RESV"] == "–"


# What waits


def test_waiting_actors_of_one_kind_are_folded_into_one_row():
    found = {row["NAME"]: row for row in rows(OverviewPage(), "waits")}
    assert set(found) == {"vllm", "CriticModelActor x 4", "actor3"}
    assert found["CriticModelActor x 4"]["NEEDS"] == "1 GPU"
    assert [found["vllm"][title] for title in ("NEEDS", "FOR")] == ["16 x {1 GPU, 1 CPU} STRICT_PACK", "6m40s"]
    assert found["actor3"]["WAITS"] == "restart"
    pair = (actor(1, state="PENDING_CREATION"), actor(2, state="PENDING_CREATION", needs={"GPU": 8.0}))
    assert len(rows(OverviewPage(), "waits", actors=pair, placement_groups=())) == 2, "they need different things"


REASON = "never fits on these nodes: needs 16 GPUs on one node; 2 nodes have 8 each, and no other node could be started"


def group(number, **more):
    facts = {"name": f"g{number}", "state": "PENDING", "strategy": "PACK", "job": "02000000", "since": NOW - 60, "why": REASON, **more}
    bundles = (Bundle({"GPU": 1.0, "CPU": 1.0}), Bundle({"CPU": 1.0, "GPU": 1.0}))
    return PlacementGroup(f"{number:036x}", **{"bundles": bundles, **facts})


def bound(number, to):
    why = f"its placement group waits: {REASON}"
    return actor(
        number, state="PENDING_CREATION", class_=f"A{number}", name="", placement_group=to.id, since=NOW - 30, why=why, wait="group"
    )


def test_waiting_groups_of_the_same_needs_are_one_row_and_the_reason_is_told_once():
    groups = (group(1, since=NOW - 90), group(2), group(3, bundles=(Bundle({"GPU": 2.0}),), since=NOW - 50))
    found = rows(OverviewPage(), "waits", placement_groups=groups, actors=(bound(1, groups[0]),))
    assert [(row["NAME"], row["NEEDS"], row["WHY"]) for row in found] == [
        ("g1 and 1 more", "2 x {1 GPU, 1 CPU} PACK", REASON),
        ("g3", "1 x {2 GPUs} PACK", "see group g1"),
        ("A1", "0.2 GPU, 1 CPU", "its placement group waits: see group g1"),
    ]
    waits = section(OverviewPage(), "waits", view(placement_groups=groups, actors=()))
    assert all(REASON in waits.search(row) for row in waits.rows), "the filter still finds all that wait for it"


def test_on_the_page_of_actors_a_long_reason_is_told_by_the_group_and_in_full_on_the_actors_own():
    groups = (group(1), group(2))
    facts = {"placement_groups": groups, "actors": (bound(1, groups[0]), actor(2, state="PENDING_CREATION", why="Ray is placing it"))}
    assert [row["WHY"] for row in rows(ActorsPage(), "groups", **facts)] == [REASON, "see group g1"]
    assert [row["WHY"] for row in rows(ActorsPage(), "pending", **facts)] == [
        "its placement group waits: see group g1",
        "Ray is placing it",
    ]
    assert told(detail_of(facts["actors"][0]), view(**facts))["why"].startswith(
        "its placement group waits: never fits on these nodes: needs 16 GPUs on one node"
    )


def test_the_longest_wait_is_first_and_one_that_may_be_longer_says_so():
    long = actor(1, state="PENDING_CREATION", class_="Long", since=NOW - 900, at_least=True, name="")
    short = actor(2, state="PENDING_CREATION", since=NOW - 5, name="short")
    group = PlacementGroup("0123456789abcdef", state="PENDING")
    found = rows(OverviewPage(), "waits", actors=(short, long), placement_groups=(group,), jobs=(Job("x", status="PENDING"),))
    assert [(row["NAME"], row["FOR"]) for row in found] == [("Long", ">15m00s"), ("short", "5s"), ("0123456789ab", "–"), ("x", "–")]
    assert found[2]["WHY"] == "–"


@pytest.mark.parametrize("unheard", ["actors", "placement_groups", "jobs"])
def test_nothing_waits_only_where_all_that_could_wait_was_heard_of(unheard):
    heard = {"actors": (), "placement_groups": (), "jobs": ()}
    assert section(OverviewPage(), "waits", view(**heard)).sentence == "no actor, group or job waits"
    unsure = section(OverviewPage(), "waits", view(**heard | {unheard: None}))
    assert unsure.rows is None
    assert unsure.sentence == f"unknown: no answer from Ray about {unheard.removeprefix('placement_')} yet"
    assert section(OverviewPage(), "waits", view(NOTHING)).sentence == "unknown: no answer from Ray yet"
    known = rows(OverviewPage(), "waits", actors=None, jobs=(Job("x", status="PENDING"),), placement_groups=())
    assert [row["NAME"] for row in known] == ["x"], "what is known to wait is listed all the same"


# What is left over, what runs


TASKS = Demand({"CPU": 1.0, "GPU": 16.0}, 2, "never fits on these nodes: needs 16 GPUs on one node; 2 nodes have 8", "never")


def test_tasks_that_no_node_is_large_enough_for_wait_and_a_queue_that_moves_does_not():
    (row,) = rows(OverviewPage(), "waits", demand=(Demand({"CPU": 1.0}, 500), TASKS), actors=(), placement_groups=(), jobs=())
    assert (row["WAITS"], row["NAME"], row["NEEDS"], row["FOR"]) == ("task", "2 tasks", "16 GPUs, 1 CPU", "–")
    assert TASKS.why in "".join(row.values())
    opened = detail_of(TASKS)
    assert opened.heading == "Tasks 16 GPUs, 1 CPU"
    assert clipboard_text(TASKS) == "16 GPUs, 1 CPU"
    told = drawn(section(opened, "tasks", view(demand=(TASKS,))), view(demand=(TASKS,)))
    assert "`ray list tasks`" in str(told)


def test_the_process_left_over_that_holds_most_is_first():
    small, big, none = (process(pid, kind="orphan", gpus=gpus) for pid, gpus in ((1, (Hold(0, GIB),)), (2, (Hold(1, 9 * GIB),)), (3, ())))
    found = rows(OverviewPage(), "left", processes=(none, small, big))
    assert [(row["PID"], row["GPU MEM"]) for row in found] == [("2", "9.0G"), ("1", "1.0G"), ("3", "")]
    titles = [section(OverviewPage(), "left", view(processes=of)).title for of in ((small,), (small, process(4, kind="stale")))]
    assert titles == ["ORPHANS", "ORPHANS, STALE"]


def test_nothing_is_left_over_only_where_somebody_looked():
    unseen = section(OverviewPage(), "left", view(processes=()))
    assert unseen.rows is None
    assert "unknown" in unseen.sentence
    hosts = {"node1": Host("node1", processes=())}
    looked = section(OverviewPage(), "left", view(processes=(), hosts=hosts))
    assert (list(looked.rows), looked.sentence) == ([], "none (1 host probed)")
    barred = section(OverviewPage(), "left", view(processes=(process(1, kind="unknown", gpus=(Hold(0, GIB),)),), hosts=hosts))
    assert barred.rows is None, "its number is a dash"
    assert barred.sentence == "unknown (1 host probed; 1 process could not be classified; page 4)"


@pytest.mark.parametrize(
    ("facts", "held"),
    [
        ({"nodes": (node(1),)}, (">2", ">110G")),
        ({"nodes": (node(1), node(2, gpus=None))}, (">2", ">110G")),
        ({"nodes": (node(1, gpus=()),)}, ("2", "110G")),
        ({"processes": None}, ("–", "–")),
    ],
)
def test_what_a_job_holds_is_a_lower_bound_while_a_holder_of_a_gpu_is_not_seen(facts, held):
    (runs,) = rows(OverviewPage(), "runs", **facts)
    assert (runs["RUNNING JOBS"], runs["ACTORS"]) == ("ppo-7b", "2")
    assert (runs["GPUS"], runs["GPU MEM"]) == held


# Nodes


def test_a_gpu_has_its_holders_under_it_with_their_owners():
    found = rows(NodePage(node(1)), "node-gpus")
    place = next(number for number, row in enumerate(found) if row["GPU"] == "0")
    assert found[place]["USED/ALL"] == "70G/80G"
    assert [found[place + 1][title] for title in ("GPU", "HELD BY", "JOB")] == ["  └", "worker 1001 actor1", "ppo-7b"]
    used = {row["HELD BY"].split("  ")[0]: row["USED/ALL"] for row in found[place + 1 :]}
    orphan, hidden = (next(value for name, value in used.items() if name.startswith(of)) for of in ("orphan 1200", "unknown 999999"))
    assert (orphan, hidden) == ("40G", "–"), "what NVML does not report is a dash"


def test_resources_have_one_order_whatever_order_ray_sends():
    """Its answers are maps, whose order changes from one to the next."""
    amounts = {"object_store_memory": Quantity(0, GIB), "GPU": Quantity(7, 8), "memory": Quantity(0, 21 * GIB), "CPU": Quantity(7, 32)}
    one, other = (replace(node(1), resources=dict(order)) for order in (amounts.items(), reversed(amounts.items())))
    seen = [told(NodePage(each), view(nodes=(each,)))["reserved"] for each in (one, other)]
    assert seen[0] == seen[1]
    assert seen[0].startswith("CPU 7/32, GPU 7/8")


def test_facts_of_a_gpu_that_are_not_told_are_dashes_and_a_mig_device_is_named_by_its_gpu_and_itself():
    (row, mig) = rows(NodesPage(), "gpus", nodes=(node(1, gpus=(Gpu(0), gpu(3001))),), processes=())
    assert (row["USED/ALL"], row["UTIL"], row["POWER"], row["TEMP"], row["ECC"]) == ("–/–", "–", "–", "–", "–")
    assert row["MEMORY"].strip() == "–"
    assert (row["XID"], row["CLOCK"], row["PCIE"], row["NVLINK"]) == ("–", "–", "–", "–")
    assert mig["GPU"] == "3.1"


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({}, ("", "1980", "gen5 x16", "18")),
        ({"nvlinks_active": 16, "pcie_width": 8}, ("", "1980", "gen5 x8/16", "16/18")),
        ({"nvlinks": 0, "nvlinks_active": 0}, ("", "1980", "gen5 x16", "none")),
        ({"nvlinks_active": None, "pcie_width": None}, ("", "1980", "–", "–")),
        ({"xids": (Xid(31), Xid(79))}, ("79", "1980", "gen5 x16", "18")),
    ],
)
def test_a_gpu_says_how_it_is_connected_and_which_error_was_its_last(facts, shown):
    xids = facts.pop("xids", ())
    links = GpuLinks(**{"pcie_generation": 5, "pcie_width": 16, "pcie_width_max": 16, "nvlinks": 18, "nvlinks_active": 18, **facts})
    (row,) = rows(NodesPage(), "gpus", nodes=(node(1, gpus=(gpu(0, links=links, clock=1980, xids=xids),)),), processes=())
    assert (row["XID"], row["CLOCK"], row["PCIE"], row["NVLINK"]) == shown


def test_a_node_says_at_what_ray_begins_to_kill_or_that_nobody_knows():
    assert "Ray kills workers above 950G" in told(NodePage(node(1)), view())["kill line"]
    unknown = view(nodes=(node(1, memory=HostMemory(GIB, 4 * GIB)),))
    assert told(NodePage(node(1)), unknown)["kill line"].endswith("(its default; the real setting is unknown), 2.8G left")


def test_a_fact_in_wide_characters_is_broken_into_lines_of_the_width_that_there_is():
    lines = [line.value for line in facts("job", "JOB", [("message", "显存不足 " * 30)], 60).rows]
    assert max(map(cell_len, lines)) <= 40
    assert "".join(lines).replace(" ", "") == "显存不足" * 30


def test_a_dead_node_says_why_it_died_and_one_that_is_gone_that_it_is_gone():
    assert told(NodePage(node(3)), view())["state"] == "✖ DEAD  health check failed"
    assert told(NodePage(node(3)), view(plain=True))["state"] == "x DEAD  health check failed"
    silent = view(nodes=(node(3, state="DEAD"),))
    assert told(NodePage(node(3)), silent)["state"].endswith("Ray gave no reason")
    assert "no longer listed" in told(NodePage(node(9)), view())["gone"]


def test_the_sessions_of_a_host_without_a_probe_are_unknown():
    assert section(NodePage(node(2)), "sessions", view()).rows is None
    assert len(section(NodePage(node(1)), "sessions", view()).rows) == 2


# Actors


def test_pending_actors_stand_apart_and_the_pid_of_a_dead_process_is_not_shown():
    assert {row["STATE"] for row in rows(ActorsPage(), "pending")} == {"◌ PENDING", "◌ RESTARTING"}
    assert {row["STATE"] for row in rows(ActorsPage(), "scheduled")} == {"● ALIVE"}
    restarting = actor(3, state="RESTARTING", pid=1003)
    seen = view(actors=(restarting, actor(1)))
    assert [row["PID"] for row in drawn(section(ActorsPage(), "pending", seen), seen)] == ["–"]
    assert [row["PID"] for row in drawn(section(ActorsPage(), "scheduled", seen), seen)] == ["1001"]
    assert told(detail_of(restarting), seen)["node"] == "node1, pid –"


def test_a_column_of_names_takes_no_more_room_than_its_longest_name_needs():
    for key, title, name in (("classes", "CLASSES", "c" * 33), ("scheduled", "SCHEDULED", "n" * 33)):
        seen = view(actors=(replace(actor(1), name="n" * 33, class_="c" * 33),))
        (block,) = lay_out([(shown := section(ActorsPage(), key, seen), shown.rows, 0)], 300, 40, seen)
        assert {column.title: width for column, width in block.columns}[title] == len(name)


def test_actors_begin_with_the_worst_that_waits():
    waits = replace(actor(1), state="PENDING_CREATION", since=NOW - 60)
    groups = tuple(PlacementGroup(f"{number:036x}", name, "PENDING", None, ()) for number, name in enumerate(("small", "huge")))
    bad = finding(level="critical", about=(groups[1].key,))
    minor = finding(level="info", about=(waits.key,))

    def order(*findings):
        return [shown.key for shown in ActorsPage().sections(view(actors=(waits,), placement_groups=groups, findings=findings))][:2]

    assert order() == ["pending", "groups"]
    assert order(minor) == ["pending", "groups"]
    assert order(bad, minor) == ["groups", "pending"]
    seen = view(actors=(waits,), placement_groups=groups, findings=(bad,))
    assert [row.about.name for row in section(ActorsPage(), "groups", seen).rows] == ["huge", "small"]


def test_rays_own_actors_are_not_the_users():
    seen = view(actors=(actor(1, internal=True),))
    scheduled = section(ActorsPage(), "scheduled", seen)
    assert scheduled.rows == []
    assert "1 internal to Ray" in scheduled.sentence


@pytest.mark.parametrize(("complete", "said"), [(False, True), (True, False), (None, False)])
def test_a_list_that_ray_cut_says_so(complete, said):
    titles = [section.title for section in ActorsPage().sections(view(actors_complete=complete))]
    assert any("incomplete" in title for title in titles) is said


def test_dead_actors_are_shown_only_on_demand():
    page = ActorsPage()
    assert "dead" not in [section.key for section in page.sections(view())]
    page.wants_dead = True
    assert section(page, "dead", view()).rows is None
    assert section(page, "dead", view()).sentence == "loading"
    page.dead = (actor(50, state="DEAD", why="killed by the memory monitor"),)
    assert drawn(section(page, "dead", view()), view())[0]["WHY"] == "killed by the memory monitor"


def test_a_group_has_its_bundles_in_the_tree_alone():
    page, seen = ActorsPage(), view()
    waits, placed = drawn(section(page, "groups", seen), seen)
    assert (waits["BUNDLES"], waits["PLACED"]) == ("16 x 1 GPU 1 CPU", "not placed")
    assert (placed["PLACED"], placed["STRATEGY"]) == ("node1:1", "–")
    page.tree = True
    assert len(section(page, "groups", seen).rows) == 2 + 16 + 1
    assert drawn(section(page, "groups", seen), seen)[-1]["GROUPS"] == "  └ bundle 0"
    assert rows(ActorsPage(), "groups", placement_groups=(PlacementGroup("a", state="REMOVED", bundles=(Bundle({}),)),)) == []


@pytest.mark.parametrize("width", [80, 160])
def test_actors_of_one_class_are_told_apart_by_the_names_that_reasons_use(width):
    waiting = [replace(actor(number), state="PENDING_CREATION", class_="LLMRayActor", name=f"judge-{number}") for number in (1, 2)]
    shown = section(ActorsPage(), "pending", view(actors=(*waiting, replace(waiting[0], id="3" * 32, name=""))))
    columns = [column for column, _ in fit_columns(shown.columns, width)]
    assert [text(columns[0].cell(row, view())) for row in shown.rows] == ["judge-1", "judge-2", "LLMRayActor"]


def test_a_class_counts_its_actors_and_an_actor_holds_what_it_and_its_children_hold():
    classes = {row["CLASSES"]: row for row in rows(ActorsPage(), "classes")}
    assert [classes["CriticModelActor"][title] for title in ("ALIVE", "PENDING")] == ["0", "4"]
    assert [classes["PolicyModelActor"][title] for title in ("PENDING", "RST")] == ["1", "3"]
    found = {row["SCHEDULED"]: row for row in rows(ActorsPage(), "scheduled", nodes=(node(1, gpus=()),))}
    assert [found[name]["GPU MEM"] for name in ("actor1", "actor2")] == ["110G", ""]
    blind = {row["SCHEDULED"]: row for row in rows(ActorsPage(), "scheduled", nodes=(node(1, gpus=None),))}
    assert blind["actor2"]["GPU MEM"] == "–"


def test_gpu_memory_that_is_held_but_not_reported_is_a_dash_for_the_actor_and_for_its_class():
    held = (process(1001, actor=actor(1).id, gpus=(Hold(0, None),)),)
    facts = {"nodes": (node(1, gpus=()),), "actors": (actor(1),), "processes": held}
    assert [rows(ActorsPage(), key, **facts)[0]["GPU MEM"] for key in ("scheduled", "classes")] == ["–", "–"]


# Processes


def kinds(page, **facts):
    return [row.about.kind for row in section(page, "processes", view(**facts)).rows]


def test_orphan_and_stale_processes_are_on_top():
    assert kinds(ProcessesPage())[:2] == ["orphan", "stale"]
    tree = ProcessesPage()
    tree.tree = True
    assert set(kinds(tree)[:2]) == {"orphan", "stale"}


@pytest.mark.parametrize(
    ("forest", "drawn"),
    [
        (
            (process(1, parent=0), process(2, parent=1), process(3, parent=2), process(4, parent=1), process(9, parent=77)),
            [(1, 0), (2, 1), (3, 2), (4, 1), (9, 0)],
        ),
        ((process(1, parent=0), process(2, parent=1, host="node2")), [(1, 0), (2, 0)]),  # the same pid on another host is no parent
        ((process(1, parent=0), process(2, parent=0, kind="foreign"), process(3, parent=2, kind="orphan")), [(2, 0), (3, 1), (1, 0)]),
        (tuple(process(pid, parent=pid - 1) for pid in range(1, 10_000)), [(pid, pid - 1) for pid in range(1, 10_000)]),
    ],
    ids=["children", "another host", "what is left over is on top", "no recursion"],
)
def test_the_tree_hangs_children_below_their_parents(forest, drawn):
    assert [(leaf.about.pid, leaf.depth) for leaf in tree_rows(forest)] == drawn


@pytest.mark.parametrize("parents", [{1: 2, 2: 1}, {1: 1}, {1: 2, 2: 3, 3: 1, 4: 3}, {1: None}])
def test_a_loop_of_parents_ends_and_hides_nobody(parents):
    forest = [process(pid, parent=parent) for pid, parent in parents.items()]
    assert sorted(leaf.about.pid for leaf in tree_rows(forest)) == sorted(parents)


# Jobs and faults


def test_jobs_that_run_come_first_then_the_newest_and_unknown_facts_are_dashes():
    of = (
        Job("old", status="SUCCEEDED", started=1.0),
        Job("new", status="FAILED", started=2.0),
        Job("runs", status="RUNNING", started=0.5),
        Job("odd", status="STOPPED"),
    )
    found = rows(JobsPage(), "jobs", jobs=of)
    assert [row["JOBS"] for row in found] == ["runs", "new", "old", "odd"]
    assert [found[-1][title] for title in ("STARTED", "RUNTIME", "ENTRYPOINT")] == ["–", "–", "–"]


def test_a_failed_job_has_its_reason_and_a_running_one_only_what_is_news():
    failure = Failure("job:bad", NOW, text="ValueError: x", cause="The batch is too large")
    jobs = (
        Job("bad", status="FAILED", ended=NOW, message="exit code 1"),
        Job("runs", status="RUNNING", message="Job is currently running."),
        Job("waits", status="PENDING", message="Job has not started yet. It may be waiting for resources."),
    )
    found = {row["JOBS"]: row["REASON"] for row in rows(JobsPage(), "jobs", jobs=jobs, failures=(failure,))}
    assert found == {
        "bad": "The batch is too large",
        "runs": "",
        "waits": "Job has not started yet. It may be waiting for resources.",
    }


@pytest.mark.parametrize("width", [80, 120])
def test_the_reason_of_a_failed_job_has_room_on_a_narrow_screen(width):
    (section, *_) = JobsPage().sections(view(jobs=(Job("bad", status="FAILED", ended=NOW, message="ValueError: x"),)))
    widths = {column.title: cells for column, cells in fit_columns(section.columns, width)}
    assert widths["REASON"] >= 22


def test_the_page_of_a_failed_job_tells_what_its_log_shows():
    failure = Failure(
        "job:bad",
        NOW,
        text="torch.OutOfMemoryError: CUDA out of memory",
        cause="GPU memory is full",
        remedy="use a smaller batch",
        raised_at="trainer.py:210 in fit",
        ip="10.0.0.2",
        pid=77,
        rank=3,
        also=30,
        others="NCCL timeout",
        others_count=31,
        earlier_s=4.0,
    )
    bad = Job("bad", status="FAILED", ended=NOW, exit_code=1)
    shown = told(detail_of(bad), view(jobs=(bad,), failures=(failure,)))
    assert shown["reason"] == "GPU memory is full"
    assert shown["error"] == "torch.OutOfMemoryError: CUDA out of memory"
    assert shown["raised at"] == "trainer.py:210 in fit"
    assert shown["reported by"] == "rank 3 pid 77 on node2"
    assert shown["also by"] == "30 other processes"
    assert shown["others report"] == "NCCL timeout (31 processes, 4 s later)"
    assert shown["what to do"] == "use a smaller batch"
    unread = told(detail_of(bad), view(jobs=(bad,), failures=(Failure("job:bad", NOW, unread="no such file"),)))
    assert (unread["reason"], unread["its log"]) == ("–", "was not read: no such file")
    assert told(detail_of(bad), view(jobs=(bad,)))["reason"] == "–", "no log was read yet"
    read = Failure("job:bad", NOW, file="job-driver-bad.log")
    assert told(detail_of(bad), view(jobs=(bad,), failures=(read,)))["reason"] == "its log shows none"
    assert "reason" not in told(detail_of(Job("x", status="RUNNING")), view(jobs=(Job("x", status="RUNNING"),)))


def test_a_process_that_cannot_be_seen_is_dashes_and_a_session_may_be_unknown():
    unseen = next(row for row in rows(ProcessesPage(), "processes") if row["PID"] == "999999")
    assert (unseen["GPU MEM"], unseen["COMMAND"]) == ("–", "–")
    of = [Session(host="node1", name=name, path=f"/tmp/ray/{name}", live=live) for name, live in (("a", True), ("b", False), ("c", None))]
    assert [row["SESSIONS"] for row in rows(ProcessesPage(), "sessions", sessions=tuple(of))] == ["live", "dead", "–"]


def test_a_fault_names_its_source_its_host_and_since_when():
    silent = tuple(Fault(f"ray.{name}", "nothing listens there", NOW, cause="silent") for name in ("jobs", "identity"))
    (cause,) = rows(FaultsPage(), "faults", faults=silent)
    assert (cause["FAILING SOURCES"], cause["WHAT"]) == ("ray.identity", "nothing listens there; no new data on: jobs")
    whole = told(detail_of(section(FaultsPage(), "faults", view(faults=silent)).rows[0]), view(faults=silent))
    assert whole["affects"] == "ray.identity, ray.jobs"
    (row,) = rows(FaultsPage(), "faults", faults=(Fault("ray.jobs", "HTTP 500", NOW - 61),))
    assert (row["FAILING SOURCES"], row["HOST"], row["SINCE"], row["WHAT"]) == ("ray.jobs", "–", "1m01s", "HTTP 500")


# Details

THINGS = (
    node(1),
    actor(1),
    process(1001),
    snapshot().jobs[1],
    snapshot().placement_groups[0],
    snapshot().sessions[1],
    snapshot().faults[0],
)


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: type(thing).__name__)
def test_everything_that_a_row_is_about_opens_and_says_when_it_has_gone(thing):
    page = detail_of(thing)
    assert page.heading
    assert "no longer listed" not in " ".join(told(page, view()).values())
    assert len(told(page, view())) >= 4
    gone = detail_of(thing).sections(view(Snapshot(taken=NOW, cluster=Cluster())))
    assert "no longer listed" in " ".join(text(row.value) for row in gone[0].rows)


def test_a_detail_calls_jobs_groups_and_actors_by_their_names():
    job, group = Job("ppo", "02000000", "ppo", "RUNNING"), PlacementGroup(f"{7:036x}", "vllm")
    actors = (actor(1, placement_group=group.id, name=""), actor(2, name="critic"))
    worker = process(1002, actor=actors[1].id)
    seen = view(jobs=(job,), placement_groups=(group,), actors=actors, processes=(worker,))
    first = detail_of(actors[0])
    assert first.heading == "Actor PolicyModelActor"
    assert (told(first, seen)["group"], told(first, seen)["job"]) == ("vllm", "ppo")
    assert told(detail_of(worker), seen)["actor"] == "PolicyModelActor critic"
    assert told(first, view(placement_groups=(PlacementGroup(f"{7:036x}"),), actors=actors[:1]))["group"] == group.id
    assert {"why", "since"}.isdisjoint(told(first, seen)), "an actor that lives needs no reason"
    waits = replace(actors[0], state="PENDING_CREATION", why=None, since=None)
    assert {"why", "since"} <= set(told(detail_of(waits), view(actors=(waits,))))


def test_an_actor_that_waits_lists_those_that_wait_with_it():
    waits = {"class_": "Judge", "state": "PENDING_CREATION", "node": None, "pid": None}
    actors = (actor(1, name="judge-0", **waits), actor(2, name="judge-1", **waits), actor(3, class_="Judge"))
    (row,) = section(detail_of(actors[0]), "actor-alike", view(actors=actors)).rows
    assert row.name == "judge-1"
    assert "actor-alike" not in [each.key for each in detail_of(actors[2]).sections(view(actors=actors))]


def test_a_pending_group_says_what_helps_and_when_its_engine_gives_up():
    bound = (Bundle({"GPU": 1.0, "node:10.0.0.1": 0.001}),)
    group = PlacementGroup(f"{7:036x}", "vllm", "PENDING", bundles=bound, since=NOW - 600, why="needs 1 GPU", wait="held")
    facts = told(detail_of(group), view(placement_groups=(group,)))
    assert facts["what to do"] == "wait until the resources are free, or stop what holds them"
    limit = " ".join(text(row.value) for row in detail_of(group).sections(view(placement_groups=(group,)))[0].rows)
    assert "the engine gives up in 20m00s: vLLM's executor waits 1800 s (PG_WAIT_TIMEOUT); then its job fails" in limit
    placed = replace(group, state="CREATED", why=None, wait=None)
    assert {"what to do", "limit"}.isdisjoint(told(detail_of(placed), view(placement_groups=(placed,))))


def test_a_detail_shows_the_newest_facts_and_keeps_them_when_they_go():
    page = detail_of(Job("x", status="RUNNING"))
    assert told(page, view(jobs=(Job("x", status="FAILED", message="boom"),)))["message"] == "boom"
    later = page.sections(view(jobs=()))
    assert "boom" in [text(row.value) for row in later[1].rows]


def test_a_long_value_is_broken_and_never_cut():
    command = "python " + " ".join(f"--flag{number}={number}" for number in range(100))
    page = detail_of(process(1, command=command))
    assert told(page, view(processes=(process(1, command=command),)))["command"] in command
    lines = [text(row.value) for row in page.sections(view(processes=(process(1, command=command),)))[0].rows]
    assert command in " ".join(lines)
    assert max(map(len, lines)) <= 120 - 20


def test_a_process_in_a_loop_of_parents_has_an_end_and_is_not_its_own_child():
    loop = (process(1, parent=2), process(2, parent=3), process(3, parent=2))
    assert [row.pid for row in section(detail_of(loop[0]), "above", view(processes=loop)).rows] == [2, 3]
    own = process(1, parent=1)
    assert section(detail_of(own), "below", view(processes=(own,))).rows == []


def test_the_gpus_of_all_nodes_are_listed_node_by_node():
    nodes = (node(1), node(2, gpus=None), node(3))
    rows = section(NodesPage(), "gpus", view(nodes=nodes)).rows
    assert [row.key for row in rows] == [f"{each.key}:{index}" for each in (nodes[0], nodes[2]) for index in range(8)]


# Another Ray on the same host


def test_processes_of_another_ray_are_listed_below_ours_under_its_name():
    mine = process(1, job="02000000", kind="ray")
    left = theirs(4, kind="orphan")
    found = rows(
        ProcessesPage(), "processes", processes=(theirs(2), theirs(3, kind="ray", other_job=None), mine, left, process(5, kind="foreign"))
    )
    assert [row["PROCESSES"] for row in found] == ["orphan", "ray", "other Ray", "other Ray", "foreign"]
    assert [row["OWNER"] for row in found] == ["job 02000000 of 08-06-42", "ppo-7b", "job 02000000 of 08-06-42", "08-06-42", ""]


def test_the_filter_finds_what_is_of_another_ray_by_these_words_and_by_its_session():
    seen = view(processes=(theirs(2), process(1, job="02000000")))
    listed = section(ProcessesPage(), "processes", seen)
    for words in ("other Ray", OTHER_RAY, "worker"):
        assert words in listed.search(listed.rows[-1])
    assert "other Ray" not in listed.search(listed.rows[0])


def test_a_gpu_that_another_ray_holds_has_its_holders_at_our_node_of_that_host():
    worker = theirs(7, gpus=(Hold(5, 9 * GIB),))
    found = rows(NodePage(node(1)), "node-gpus", processes=(worker, theirs(8, gpus=(Hold(5, GIB),))))
    place = next(number for number, row in enumerate(found) if row["GPU"] == "5")
    assert found[place]["HELD BY"] == "other Ray: job 02000000 of 08-06-42"
    assert [found[place + 1][title] for title in ("HELD BY", "JOB")] == ["other Ray 7 job 02000000 of 08-06-42", ""]


def test_gpus_that_another_ray_holds_belong_to_no_job_of_ours():
    seen = view(processes=(theirs(7, gpus=(Hold(0, GIB),)), process(1, job="02000000", gpus=(Hold(1, GIB),))))
    held = seen.cluster.gpus_by_job
    assert (list(held), held["02000000"].memory, held["02000000"].places) == (["02000000"], GIB, {(node(1).key, 1)})


def test_a_process_of_another_ray_says_so_in_full_and_its_session_may_have_any_name():
    seen = told(detail_of(theirs(7)), view(processes=(theirs(7),)))
    assert (seen["kind"], seen["session"]) == ("other Ray: worker", OTHER_RAY)
    assert seen["job"] == f"job 02000000 of another Ray session ({OTHER_RAY})"
    (row,) = rows(ProcessesPage(), "processes", processes=(theirs(7, session="mine"),))
    assert row["OWNER"] == "job 02000000 of mine"
    (row,) = rows(ProcessesPage(), "processes", processes=(theirs(7, session=None, ours=None),))
    assert (row["PROCESSES"], row["OWNER"]) == ("worker", "job 02000000 of unknown session")


# Who has reserved a GPU


def reservations(used, *actors, groups=(), processes=()):
    one = node(1, resources={"GPU": Quantity(used, 8)})
    found = rows(NodesPage(), "gpus", nodes=(one,), actors=actors, placement_groups=groups, processes=processes)
    return [row["RESERVED BY"] for row in found]


def test_a_gpu_is_reserved_by_the_job_and_group_of_the_actors_that_hold_its_memory():
    group = PlacementGroup("a" * 36, "vllm", "CREATED", job="02000000")
    engine = actor(1, needs={}, placement_group=group.id)
    both = (engine, actor(2, needs={"GPU": 1.0}))
    held = (
        process(1001, actor=engine.id, gpus=(Hold(0, GIB),)),
        process(1100, kind="child", actor=engine.id, gpus=(Hold(0, GIB),)),
        process(1002, actor=both[1].id, gpus=(Hold(1, GIB),)),
    )
    assert reservations(2, *both, groups=(group,), processes=held)[:3] == ["ppo-7b vllm", "ppo-7b", "free"]


def test_a_gpu_is_free_only_where_every_reservation_is_found():
    worker = actor(2, needs={"GPU": 1.0})
    held = (process(1002, actor=worker.id, gpus=(Hold(1, GIB),)),)
    assert reservations(1, worker, processes=held)[:2] == ["free", "ppo-7b"]
    assert reservations(2, worker, processes=held)[:2] == ["–", "ppo-7b"], "another one is reserved, and nobody knows which"
    assert reservations(None, worker, processes=held)[0] == "–"
    astray = (process(1002, actor=worker.id, gpus=(Hold(1, GIB), Hold(2, GIB))),)
    assert reservations(2, worker, processes=astray)[0] == "–", "one of its two may be another's"
    assert reservations(8, worker, processes=held)[:2] == ["reserved", "ppo-7b"]
    idle = (process(1, kind="orphan", job="02000000", gpus=(Hold(0, GIB),)), process(2, actor=actor(1).id, gpus=(Hold(1, GIB),)))
    assert reservations(0, actor(1, needs={}), processes=idle)[:2] == ["free", "free"], "who holds memory has not reserved it"


def four_of_eight(used: float = 0.0) -> View:
    """Ray on node1 was started with CUDA_VISIBLE_DEVICES=1,2,4,5."""
    one = node(1, gpus=tuple(gpu(index) for index in range(8)), resources={"CPU": Quantity(0, 8), "GPU": Quantity(used, 4)})
    raylet = RayProcess("raylet", 5, node=one.id, visible="1,2,4,5", files=100)
    host = Host("node1", (one.ip,), NOW, gpus=one.agent.gpus, nodes=(one.id or "",), rays=(raylet,))
    return view(nodes=(one,), hosts={"node1": host}, actors=(), placement_groups=(), processes=())


def test_gpus_that_a_raylet_was_not_given_are_called_so_on_every_page_of_gpus():
    for used, rest in ((0.0, "free"), (4.0, "reserved")):
        seen = four_of_eight(used)
        expected = ["not given to Ray" if index in (0, 3, 6, 7) else rest for index in range(8)]
        assert [row["RESERVED BY"] for row in drawn(section(NodesPage(), "gpus", seen), seen)] == expected
    seen = four_of_eight()
    for page in (OverviewPage(), NodesPage()):
        assert [row["NOT GIVEN"] for row in drawn(section(page, "nodes", seen), seen)] == ["4"]
    [one] = seen.snapshot.nodes
    assert told(NodePage(one), seen)["not given"] == "GPU 0, 3, 6, 7: not given to Ray, so it never hands them out"
    assert all("NOT GIVEN" not in row for row in rows(NodesPage(), "nodes", nodes=(node(1),)))


def test_how_long_a_gpu_has_been_idle_is_told_where_it_is_known():
    history = History()
    for number, busy in enumerate((90.0, 0.0, 0.0)):
        one = node(1, seen=NOW + 5 * number, gpus=(gpu(0, utilization=busy), gpu(1, utilization=0.0), gpu(2, utilization=None)))
        of = snapshot(nodes=(one,), taken=NOW + 5 * number)
        history.record(of)
    seen = View(of, Index(of), history, now=NOW + 10, width=120)
    assert [row["IDLE"] for row in drawn(section(NodesPage(), "gpus", seen), seen)] == ["10s", ">15s", "–"]
    works = snapshot(nodes=(node(1, gpus=(gpu(0, utilization=82.0), gpu(1, utilization=5.0))),), taken=NOW + 12)
    seen = View(works, Index(works), history, now=NOW + 12, width=120)
    assert [row["IDLE"] for row in drawn(section(NodesPage(), "gpus", seen), seen)] == ["", ">15s"]


def test_the_page_of_a_process_says_its_node_and_its_host_where_they_are_called_otherwise():
    one = process(7, host="vm", node=node(1).id)
    for name, told in (("w1", {"node": "w1 (host vm)"}), ("vm", {"host": "vm"})):
        seen = view(nodes=(node(1, name=name),), processes=(one,))
        facts = {row.name: text(row.value) for row in detail_of(one).sections(seen)[0].rows}
        assert {key: facts[key] for key in ("node", "host") if key in facts} == told


def test_a_process_of_no_node_is_listed_under_the_first_node_of_its_host():
    one, two = node(1, name="head"), node(2, name="w1")
    for nodes in ((one,), (one, two)):
        host = Host("vm", nodes=tuple(each.id for each in nodes))
        (row,) = rows(ProcessesPage(), "processes", nodes=nodes, hosts={"vm": host}, processes=(process(7, host="vm", node=None),))
        assert row["NODE"] == "head"


# Running jobs over time


def past_of(*moments, width=200, plain=False):
    """The Overview's row of a job whose one GPU was as busy (percent) and as full (GiB of 80) as this, step after step."""
    past = History()
    job = Job("ppo-7b", status="RUNNING", job="02000000", entrypoint="python train.py")
    of = snapshot(jobs=(job,), processes=(process(1100, gpus=(Hold(0, GIB),), job="02000000"),))
    for number, (busy, full) in enumerate(moments):
        now = NOW + number * STEP_S
        of = replace(of, taken=now, nodes=(node(1, probed=False, seen=now, gpus=(gpu(0, full, utilization=busy),)),))
        past.record(of)
    seen = View(of, Index(of), past, NOW, width, ascii=plain)
    return drawn(section(OverviewPage(), "runs", seen), seen)[0]


EACH = STEPS_KEPT // JOB_PAST_CELLS
BUSY = "BUSY OR IDLE"


def test_a_wide_overview_shows_how_a_jobs_gpus_were_used():
    row = past_of(*[(100.0, 80)] * EACH, *[(20.0, 40)] * EACH, *[(0.0, 40)] * EACH, *[(0.0, 0)] * EACH)
    assert row["GPU UTIL 15 MIN"].strip() == "█▂▁▁"
    assert row["GPU MEM 15 MIN"].strip() == "█▅▅▁"
    assert row[BUSY].strip() == "█▄▁·"
    assert {len(row[title]) for title in ("GPU UTIL 15 MIN", "GPU MEM 15 MIN", BUSY)} == {JOB_PAST_CELLS}
    assert past_of(*[(100.0, 80)] * EACH, *[(0.0, 40)] * EACH, plain=True)[BUSY].strip() == "#_"
    assert BUSY not in past_of((100.0, 80), width=179)


def test_unmeasured_steps_are_gaps_in_every_line_of_a_jobs_past():
    row = past_of(*[(90.0, 80)] * EACH, *[(None, 40)] * EACH)
    assert row[BUSY][-2:] == "█ "
    assert row["GPU UTIL 15 MIN"][-2:] == "▇ " or row["GPU UTIL 15 MIN"][-2:] == "█ "
    assert row["GPU MEM 15 MIN"][-2:] == "█▅"


def test_an_idle_gpu_of_unknown_memory_is_not_said_to_be_empty():
    view_ = View(Snapshot())
    assert cells.phases([0.0, 0.0, 49.9, 50.0], [None, 1.9, 0.0, 0.0], view_) == (
        ("▁", "warn"),
        ("·", "faint"),
        ("▄", "mid"),
        ("█", "high"),
    )


@pytest.mark.parametrize(
    ("names", "width"),
    [
        (("gpu-rack1-node-01", "gpu-rack2-node-01"), 19),
        (("gpu-r1-01", "gpu-r2-01"), 10),
        (("gpu-cluster-01", "gpu-cluster-02"), 10),
        ((), 10),
    ],
)
def test_nodes_whose_names_would_look_alike_where_they_are_cut_have_room_for_them(names, width):
    nodes = tuple(replace(node(number), host=name, name=name) for number, name in enumerate(names, 2))
    assert section(OverviewPage(), "nodes", view(nodes=nodes)).columns[0].width == width


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("page", PAGES)
def test_columns_that_are_never_dropped_have_room(page, width):
    for shown in page().sections(replace(view(), width=width)):
        assert sum(cells + 1 for _, cells in fit_columns(shown.columns, width)) <= width, shown.key


def test_below_a_disk_that_is_nearly_full_stands_what_fills_it():
    log = Filler(kind="driver_log", path="/tmp/ray/session_a/logs/job-driver-train1.log", size=610 * GIB, job="train1")
    cache = Filler(kind="cache", path="/home/train/.cache/vllm", size=9 * GIB, name="vLLM")
    disk = Disk("/tmp/ray", 961 * GIB, 1000 * GIB)
    full = node(1, disks=(disk,))
    host = Host("node1", ("10.0.0.1",), NOW, nodes=(full.id,), filled=(FilledDisk("/tmp/ray", (cache, log)),))
    section = next(each for each in NodePage(full).sections(view(nodes=(full,), hosts={"node1": host})) if each.key == "node")
    lines = [(row.name, text(row.value)) for row in section.rows]
    at = next(number for number, (name, _) in enumerate(lines) if name == "disk")
    assert lines[at + 1 : at + 4] == [
        ("", " 610G driver log of job train1  /tmp/ray/session_a/logs/job-driver-train1.log"),
        ("", " 9.0G cache of vLLM  /home/train/.cache/vllm"),
        ("", "      not all of it was counted: there may be more"),
    ]


def test_a_host_with_several_nodes_is_called_as_its_head_wherever_it_is_named():
    nodes = (node(1, name="head", host="vm"), node(2, name="w1", host="vm", ip="10.0.0.1"))
    host = Host("vm", ("10.0.0.1",), NOW, nodes=tuple(one.id or "" for one in nodes), sessions=())
    dead = Session(host="vm", name="session_x", path="/tmp/ray/session_x", live=False)
    lost = process(7, host="vm", node=None, kind="orphan")
    seen = view(nodes=nodes, hosts={"vm": host}, sessions=(dead,), processes=(lost,))
    assert cells.place(lost, seen) == "head"
    assert rows(ProcessesPage(), "sessions", nodes=nodes, hosts={"vm": host}, sessions=(dead,))[0]["HOST"] == "head"
    assert ("host", "head (host vm)") in [(row.name, text(row.value)) for row in detail_of(dead).sections(seen)[0].rows]


def test_the_rows_of_an_old_list_are_dimmed_and_their_ages_do_not_grow():
    def seen(ago: float):
        return view(taken=NOW, as_of=dict.fromkeys(("ray.jobs", "ray.actors", "ray.placement_groups"), NOW - ago))

    fresh, old = seen(5), seen(600)
    for page, key, title in ((OverviewPage(), "runs", "FOR"), (OverviewPage(), "waits", "FOR"), (JobsPage(), "jobs", "RUNTIME")):
        now, then = section(page, key, fresh), section(page, key, old)
        assert not any(now.is_old(row, fresh) for row in now.rows)
        assert all(then.is_old(row, old) for row in then.rows), key
        assert [row[title] for row in drawn(now, fresh)] != [row[title] for row in drawn(then, old)]
