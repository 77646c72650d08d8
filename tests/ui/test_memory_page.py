"""The memory of one node: its past, the line, what lies ahead, and who holds it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.memory_trend import STEP_S
from cockpit.model import HostMemory, MemoryUser, Process, RayProcess
from cockpit.monitor.history import History
from cockpit.ui import cells
from cockpit.ui.pages.jobs import JobsPage
from cockpit.ui.pages.memory import OWNERS, MemoryPage, downsample, fullest_node, memory_node
from cockpit.ui.pages.nodes import NodePage, NodesPage
from cockpit.ui.view import Index, View
from tests.ui.page_text import drawn, text
from tests.ui.screen import pages_of, press, shown, table_of, until
from tests.world import GIB, NOW, actor, node, process, snapshot

HOG = f"{1:032x}"


def at(moment, used, kill_at=950 * GIB, **more):
    """A node of which an actor holds all but 300 GiB."""
    memory = HostMemory(int(used * GIB), 1000 * GIB, kill_at)
    own = (
        process(1001, actor=HOG, job="02000000", rss=int((used - 300) * GIB)),
        process(1003, kind="driver", job="02000000", rss=3 * GIB),
        process(1200, kind="orphan", name="VLLM::EngineCore", rss=80 * GIB),
    )
    host = replace(snapshot().hosts["node1"], taken=moment, processes=own, memory_users=())
    facts = {"nodes": (node(1, seen=moment, memory=memory),), "processes": own, "hosts": {"node1": host}, **more}
    return snapshot(taken=moment, **facts)


def seen(*used, width=160, plain=False, **more):
    """The page's view after these, five seconds apart."""
    history = History()
    for step, gib in enumerate(used):
        now = at(NOW - STEP_S * (len(used) - 1 - step), gib, **more)
        history.record(now)
        history.memory.record(now)
    return View(now, Index(now), history, NOW, width, plain)


def sections(view):
    return {section.key: section for section in MemoryPage(node(1)).sections(view)}


def told(view):
    return {row.name: text(row.value) for row in sections(view)["memory"].rows}


def chart(view):
    return [(row.name, text(row.value)) for row in sections(view)["memory-past"].rows]


def owners(view):
    return drawn(sections(view)["memory-owners"], view)


def test_the_memory_page_says_when_ray_will_kill():
    facts = told(seen(*range(560, 800, 10)))
    assert "killed first" in facts
    assert facts["growth"] == "+120G/min in the last two minutes"
    assert facts["forecast"] == "at +120G/min Ray starts killing workers in ~1 min"
    assert facts["kill line"] == "Ray kills workers above 950G, 160G left"
    unknown = told(seen(700, kill_at=None))["kill line"]
    assert unknown == "Ray kills workers above 950G (its default; the real setting is unknown), 250G left"


def with_raylet(view, **facts):
    """The page's view with a raylet that counts something else than the host's memory."""
    raylet = RayProcess("raylet", 21, node=node(1).id, **facts)
    now = replace(view.snapshot, hosts={"node1": replace(view.snapshot.hosts["node1"], rays=(raylet,))})
    return View(now, Index(now), view.history, NOW, view.width, view.ascii)


def test_isolated_workers_are_compared_with_their_own_limit_and_the_host_is_named_beside():
    sizes = {"kill_at": 800 * GIB, "kill_used": 600 * GIB, "charged": 650 * GIB}
    view = with_raylet(seen(900, kill_at=None), isolation="/sys/fs/cgroup/ray-node_1", **sizes)
    facts = told(view)
    assert facts["in use"].endswith(" 600G/1.0T by Ray's workers, which are isolated; 650G with file cache")
    assert facts["host"] == "900G/1.0T in use"
    assert facts["kill line"] == "Ray kills workers above 800G, 150G left"
    assert sum(row.holding.used for row in sections(view)[OWNERS].rows) == 1000 * GIB, "the rows add up to the host's memory"
    assert drawn_bar(view) == drawn_bar(seen(600, kill_at=800 * GIB))


def test_swap_that_ray_counts_is_in_the_use_and_in_the_line():
    facts = told(with_raylet(seen(900, kill_at=None), kill_at=1400 * GIB, kill_used=1000 * GIB, kill_total=1500 * GIB))
    assert facts["in use"].endswith(" 1.0T/1.5T with swap, which Ray counts")
    assert (facts["host"], facts["kill line"]) == ("900G/1.0T in use", "Ray kills workers above 1.4T, 400G left")


def drawn_bar(view):
    """The bar of the overview."""
    return cells.host_memory(view.snapshot.nodes[0], 20, view)


@pytest.mark.parametrize(
    ("past", "forecast"),
    [
        ([700] * 24, "Ray kills no worker within 60 min at this rate"),
        ([700], "–"),
        ([600] * 12 + [700] * 12, "unknown: the growth is not steady"),
        ([960] * 24, "above the kill line: Ray kills workers"),
    ],
)
def test_what_does_not_grow_has_no_forecast_and_too_short_a_past_neither(past, forecast):
    assert told(seen(*past))["forecast"] == forecast
    assert not any("░" in row for _, row in chart(seen(*past)))


def test_the_newest_worker_is_named_as_the_first_that_ray_kills():
    worker = process(1004, actor=HOG, kind="worker", rss=9 * GIB, started=NOW - 60)
    host = replace(snapshot().hosts["node1"], processes=(worker,), memory_users=())
    first = told(seen(700, width=400, processes=(worker,), hosts={"node1": host}))["killed first"]
    assert first == (
        "newest worker: pid 1004, actor actor1, 9.0G, 1m00s old. Ray's order: "
        "idle workers that hold much memory, then retriable work, the newest first, even if it holds little; never a driver"
    )
    narrow = told(seen(700, width=80, processes=(worker,), hosts={"node1": host}))["killed first"]
    assert narrow == "newest worker: pid 1004, actor actor1, 9.0G, 1m00s old"
    assert "newest worker" not in told(seen(700, width=400, nodes=(node(1, probed=False),)))["killed first"]


@pytest.mark.parametrize(("width", "columns"), [(80, 60), (160, 120)])
def test_the_chart_fills_the_room_and_has_the_line_in_it(width, columns):
    drawn = chart(seen(*range(560, 800, 10), width=width))
    assert [name for name, _ in drawn if name] == ["kill 950G", "0"]
    assert {len(row) for _, row in drawn} == {columns}
    assert drawn[0][1].startswith("──")
    assert drawn[0][1].endswith("░")
    assert drawn[-1][1].split() == ["-15", "min", "now", "+5", "min"]


def test_the_chart_is_ascii_in_an_ascii_terminal():
    view = seen(*range(560, 800, 10), width=80, plain=True)
    assert all(row.isascii() for _, row in chart(view))
    assert all(row["LAST 15 MIN"].isascii() for row in owners(view))


def test_holders_are_listed_by_actor_job_and_program_the_greatest_first():
    rows = owners(seen(*range(560, 800, 10)))
    assert [row["BY JOB AND ACTOR"] for row in rows][:3] == ["actor actor1", "VLLM::EngineCore of train", "job ppo-7b"]
    assert [row["HOLDS"] for row in rows][:3] == ["490G", "80G", "3.0G"]
    assert [row["GROWTH"] for row in rows][:3] == ["+120G/min", "0", "0"]
    assert rows[0]["JOB"] == "ppo-7b"
    assert rows[0]["LAST 15 MIN"].strip()[-1] == "█"


def test_a_supervisor_belongs_to_the_job_that_it_started():
    supervisor = actor(5, name="_ray_internal_job_actor_rm-72b", job="01000000", internal=True)
    own = (process(1005, actor=supervisor.id, job="01000000", rss=GIB),)
    host = replace(snapshot().hosts["node1"], taken=NOW, processes=own, memory_users=())
    (row, *_) = owners(seen(700, 700, actors=(supervisor,), processes=own, hosts={"node1": host}))
    assert (row["BY JOB AND ACTOR"], row["JOB"]) == ("supervisor of job rm-72b", "rm-72b")


def shares(view, used=700, shared=100):
    """The same, where actors and drivers have mapped 100 GiB of one object store."""
    memory = HostMemory(used * GIB, 1000 * GIB, 950 * GIB, None, shared * GIB)
    own = (
        process(1001, actor=HOG, job="02000000", rss=350 * GIB, shared=100 * GIB),
        process(1003, kind="driver", job="02000000", rss=103 * GIB, shared=100 * GIB),
    )
    users = tuple(MemoryUser(one.pid, one.rss, "train", "python train.py", one.shared) for one in own)
    host = replace(view.snapshot.hosts["node1"], memory=memory, processes=own, memory_users=users)
    made = replace(view.snapshot, nodes=(node(1, seen=NOW, memory=memory),), processes=own, hosts={"node1": host})
    history = History()
    history.memory.record(made)
    return View(made, Index(made), history, NOW, view.width)


def test_shared_memory_is_counted_once_and_all_rows_add_up_to_the_total():
    view = shares(seen(700))
    rows = {row["BY JOB AND ACTOR"]: row["HOLDS"] for row in owners(view)}
    assert rows == {
        "actor actor1": "250G",
        "shared memory: Ray's object store, /dev/shm": "100G",
        "job ppo-7b": "3.0G",
        "not attributed: kernel, drivers, other processes": "347G",
        "available: free, or file cache": "300G",
    }
    assert sum(row.holding.used for row in sections(view)["memory-owners"].rows) == 1000 * GIB
    assert told(view)["shared memory"].startswith("100G, including ")
    twice = {row["BY JOB AND ACTOR"]: row["HOLDS"] for row in owners(shares(seen(700), used=340))}
    assert twice["counted twice: pages that forked processes share"] == "-13G"


def test_the_processes_of_a_nodes_page_add_up_too():
    view = shares(seen(700))
    section = next(each for each in NodePage(node(1)).sections(view) if each.key == "node-memory")
    rows = [{column.title: text(column.cell(row, view)) for column in section.columns} for row in section.rows]
    assert [(row["HOST MEMORY"], row["PID"]) for row in rows] == [
        ("250G", "1001"),
        ("3.0G", "1003"),
        ("100G", ""),
        ("347G", ""),
        ("300G", ""),
    ]
    assert sum(row.used for row in section.rows) == 1000 * GIB


UNKNOWN = [HostMemory(), *(HostMemory(amount, amount, amount, amount) for amount in (-1, 0, 2**70, float("nan"), float("inf")))]


@pytest.mark.parametrize("memory", UNKNOWN)
def test_unknown_and_absurd_amounts_are_drawn_as_unknown(memory):
    view = seen(700, nodes=(node(1, memory=memory),))
    assert told(view)["kill line"] == "–"
    assert chart(view) == [("", "–")]


def test_a_node_that_is_gone_has_a_page_and_without_a_probe_the_holders_are_unknown():
    assert list(sections(seen(700, nodes=()))) == ["gone"]
    view = seen(700, nodes=(node(1, memory=HostMemory(GIB, 10 * GIB), probed=False),))
    assert sections(view)["memory-owners"].rows is None


def test_columns_show_the_greatest_of_what_falls_into_them_and_gaps_stay():
    assert downsample([1, 2, None, None, 5, None], 3) == [2, None, 5]


def test_the_memory_page_opens_from_a_node_its_things_and_its_page():
    one, gpus = node(1), NodesPage().sections(seen(700))[1].rows
    assert memory_node(NodesPage(), one, snapshot()) is one
    assert memory_node(NodesPage(), gpus[0], snapshot()).key == one.key
    assert memory_node(NodePage(one), None, snapshot()) is one
    assert memory_node(NodesPage(), actor(1, node=one.id), snapshot()).key == one.key
    assert memory_node(NodesPage(), actor(1, node="gone"), snapshot()) is None
    assert memory_node(NodesPage(), Process(host="node1", pid=5), snapshot()) is None


def test_the_fullest_node_is_the_nearest_to_its_own_kill_line_and_alive():
    small, large, dead, unknown = (
        node(number, memory=memory, state=state, probed=False)
        for number, memory, state in (
            (1, HostMemory(used=80 * GIB, total=100 * GIB, kill_at=95 * GIB), "ALIVE"),
            (2, HostMemory(used=85 * GIB, total=200 * GIB), "ALIVE"),
            (3, HostMemory(used=99 * GIB, total=100 * GIB, kill_at=95 * GIB), "DEAD"),
            (4, HostMemory(), "ALIVE"),
        )
    )
    assert fullest_node(snapshot(nodes=(unknown, large, small, dead))) is small
    assert fullest_node(snapshot(nodes=(unknown, dead))) is None
    assert fullest_node(snapshot(nodes=None)) is None


async def test_without_a_node_under_the_cursor_m_opens_the_fullest(make):
    app = make()
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "5", then=lambda: isinstance(pages_of(app).page, JobsPage))
        await press(pilot, "m", then=lambda: isinstance(pages_of(app).page, MemoryPage))
        assert pages_of(app).page.node.key == fullest_node(app.live.snapshot).key


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_m_opens_the_memory_page_and_escape_leaves_it(make, size):
    app = make()
    async with app.run_test(size=size) as pilot:
        await press(pilot, "2", "m", then="Memory node1")
        assert "kill 950G" in shown(app)
        assert "BY JOB AND ACTOR" in shown(app)
        await press(pilot, "escape", then=lambda: "Memory node1" not in shown(app))


async def test_without_nodes_m_says_so(make):
    app = make(snapshot(nodes=()))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await press(pilot, "5", "m", then="Host memory is unknown on all nodes")


def test_of_two_nodes_on_one_host_the_processes_of_both_say_what_they_are():
    made = seen(700).snapshot
    own = (process(328, kind="ray", node=node(1).id), process(454, kind="ray", node=node(2).id))
    users = tuple(MemoryUser(one.pid, GIB, "root", "ray::DashboardAgent") for one in own)
    host = replace(made.hosts["node1"], nodes=(node(1).id, node(2).id), processes=own, memory_users=users)
    one = node(1, seen=NOW, probed=True)
    made = replace(made, nodes=(one, node(2, probed=True)), processes=own, hosts={"node1": host})
    view = View(made, Index(made), History(), NOW, 160)
    section = next(each for each in NodePage(one).sections(view) if each.key == "node-memory")
    kind = next(column for column in section.columns if column.title == "KIND")
    assert [text(kind.cell(row, view)).strip() for row in section.rows[:2]] == ["ray", "ray"]


async def test_on_the_memory_page_m_lists_the_fastest_growth_first_and_then_the_usual_order(make):
    app = make(at(NOW, 700))
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: table_of(app).count > 0)
        await press(pilot, "m", then="Memory node1")
        assert "m Growth" in shown(app)
        await press(pilot, "m", then=lambda: table_of(app).sorts.get(OWNERS) == ("GROWTH", False))
        assert "GROWTH" in {column.title for column in sections(app.page_screen.make_view())[OWNERS].columns}
        await press(pilot, "m", then=lambda: table_of(app).sorts[OWNERS] == ("", False))
