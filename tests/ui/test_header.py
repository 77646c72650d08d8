from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from cockpit.model import Cluster, Session
from cockpit.recording.recorder import RecorderState
from cockpit.ui.header import Header, page_line, summary
from cockpit.ui.pages import PAGES
from cockpit.ui.pages.findings import FindingsPage
from cockpit.ui.view import Index, View
from tests.ui.screen import at, pages_of, running, shown, until
from tests.world import NOW, snapshot, with_figures


@pytest.mark.parametrize("width", [80, 160])
async def test_a_click_on_a_page_opens_it_and_one_beside_them_opens_none(make, width):
    async with at(make(), size=(width, 40)) as (app, pilot):
        for number in (*range(1, len(PAGES)), 0):
            line = shown(app).splitlines()[1]
            await pilot.click(Header, offset=(line.index(f"{number + 1} {PAGES[number].title}"[:6]) + 2, 1))
            await until(pilot, lambda number=number: isinstance(pages_of(app).page, PAGES[number]))
        await pilot.click(Header, offset=(width - 2, 1))
        await pilot.click(Header, offset=(14, 0))
        assert isinstance(pages_of(app).page, PAGES[0])


def glance(width, several=False, **cluster):
    facts = {"address": "http://127.0.0.1:8265", "ray_version": "2.60.0", "session": "session_2026-11-21_01-17-58_164160_11638"}
    cluster = Cluster(**{"reachable": True, **facts, **cluster})
    sessions = [Session(host="node1", name=f"session_{number}", path=f"/tmp/ray/{number}", live=True) for number in range(1 + several)]
    first = snapshot(cluster=cluster, sessions=tuple(sessions))
    line = "".join(" " + "".join(text for text, _ in group) + " " for group in summary(View(first, Index(first), now=NOW), width))
    assert cell_len(line) <= width
    return line


@pytest.mark.parametrize(
    ("address", "width", "narrow"),
    [
        ("http://127.0.0.1:8265", 80, " Ray 127.0.0.1:8265 "),
        ("http://127.0.0.1:8265", 75, " Ray :8265 "),
        ("http://gpu-17.cluster.local:8265", 80, " Ray gpu-17:8265 "),
        ("http://10.0.0.1:8265", 80, " Ray 10.0.0.1:8265 "),
    ],
)
def test_the_address_is_shown_from_80_columns_on_whole_where_it_fits(address, width, narrow):
    assert narrow in glance(width, address=address)
    assert f" Ray 2.60.0 {address[7:]} 2026-11-21_01-17-58 " in glance(220, address=address)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_header_of_the_past_is_one_line_too(width):
    first = snapshot()
    line = "".join(" " + "".join(text for text, _ in group) + " " for group in summary(View(first, Index(first), now=NOW, ago=3700), width))
    assert cell_len(line) <= width
    assert line.startswith("  PAST ")
    assert " 1h01m" in line
    assert " jobs 1" in line


def test_the_session_comes_before_other_words_only_where_several_live_here():
    assert "Ray 127.0.0.1:8265 01-17-58 " in glance(100, several=True)
    assert "01-17-58" not in glance(100)
    assert "✖ no dashboard at 127.0.0.1:8265 " in glance(160, reachable=False)
    long = glance(80, address="http://a-very-long-name-of-a-host-0017.cluster:8265")
    assert long.startswith(" Ray …")
    assert long.split()[1].endswith("8265")


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (40, " Ray :8265  nodes 2/3  GPUs 12/16  2s "),
        (50, " Ray :8265  nodes 2/3  GPUs 12/16  actors 2/7  2s "),
        (60, " Ray :8265  nodes 2/3  GPUs 12/16  actors 2/7  jobs 1  2s "),
    ],
)
def test_the_header_leaves_out_whole_groups_and_the_address_last(width, line):
    assert glance(width) == line


def test_unseen_gpus_are_counted_beside_the_memory_of_the_others():
    assert "unseen" not in glance(160)
    shot = snapshot()
    first, *others = shot.nodes
    hidden = replace(shot, nodes=(with_figures(first, gpus=None), *others), hosts={})
    groups = [summary(View(hidden, Index(hidden), now=NOW), width) for width in (200, 60)]
    long, short = ["".join(text for group in each for text, _ in group) for each in groups]
    assert re.search(r"GPU memory 52% \S+, 8 unseen", long)
    assert "GPU mem" not in short, "what has no room is left out whole"


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (RecorderState(Path("/state/a.cockpit")), "  rec"),
        (RecorderState(None, "recorded by another cockpit, pid 7 on head"), "  recorded by another cockpit, pid 7 on head"),
        (RecorderState(None, "not recorded: the disk is full", is_failure=True), "  not recorded: the disk is full"),
        (RecorderState(), ""),
    ],
)
async def test_the_header_says_whether_cockpit_records_or_why_not(make, state, text):
    app = make()
    app.services.recorder = SimpleNamespace(state_of=lambda _: state)
    async with running(app, size=(160, 40)):
        assert shown(app).splitlines()[1].rstrip().endswith(f"{PAGES[-1].title} {text}".rstrip())


def line_of_pages(width, *notes, plain=False):
    pieces = page_line([FindingsPage()], width, notes, [(" !1", "bad"), (" ^12", "warn")], ascii=plain)
    line = "".join(text for text, _ in pieces)
    assert cell_len(line) <= width
    return line


def test_without_room_pages_have_short_names_or_numbers_and_the_open_page_keeps_its_name():
    assert line_of_pages(80).startswith(" 1 Overview 2 Nodes 3 Actors 4 Processes 5 Jobs 6 Findings  7 Presets")
    assert (
        line_of_pages(80, ("rec", "dim"), ("tree", "dim"))
        == " 1 Over 2 Nodes 3 Actors 4 Procs 5 Jobs 6 Findings  7 Presets  rec  tree !1 ^12"
    )
    assert line_of_pages(60) == " 1 2 3 4 5 6 Findings  7 !1 ^12"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_filter_is_cut_with_dots_and_never_the_counts_of_findings(width):
    line = line_of_pages(width, ("filter " + "ppo" * 50, "accent"))
    assert " 7" in line
    assert line.endswith("… !1 ^12")
    assert line_of_pages(width, ("filter " + "ppo" * 50, "accent"), plain=True).endswith(".. !1 ^12")
