"""What the screen shows of the phases of jobs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.model import Job, PhaseSpan
from cockpit.recording.frames import PLAIN, snapshot_of, tables_of
from cockpit.ui.pages.details import detail_of
from cockpit.ui.pages.jobs import JobsPage
from cockpit.ui.pages.overview import OverviewPage
from cockpit.ui.section import fit_columns
from cockpit.ui.view import Index, View
from tests.report.phase_worlds import JOB, lagging, phased, rank
from tests.ui.page_text import drawn, section, text
from tests.ui.screen import at, press, shown
from tests.world import NOW

ROLLOUT = [rank(number, "generate_responses", "RolloutRayActor") for number in range(4)]


def view_of(snapshot, width=160, **more):
    return View(snapshot, Index(snapshot), now=NOW, width=width, **more)


def listed(page, key, view):
    return drawn(section(page, key, view), view)


def titles(page, key, view, width):
    return [column.title for column, _ in fit_columns(section(page, key, view).columns, width - 2)]


def job_page(view):
    return {each.key: each for each in detail_of(view.snapshot.jobs[0]).sections(view)}


def test_jobs_have_phase_step_and_step_time():
    (row,) = listed(JobsPage(), "jobs", view_of(phased(total_steps=1000)))
    assert (row["PHASE"], row["STEP"], row["STEP TIME"]) == ("rollout", "412/1000", "2m00s")


def test_a_running_job_of_which_nothing_is_known_has_dashes_and_an_ended_one_nothing():
    jobs = (JOB, Job("other", "03000000", "other", "RUNNING"), Job("done", "01000000", "done", "SUCCEEDED"))
    told = [(row["PHASE"], row["STEP"], row["STEP TIME"]) for row in listed(JobsPage(), "jobs", view_of(phased(jobs=jobs)))]
    assert told[1:] == [("–", "–", "–"), ("", "", "")]


def test_where_no_job_has_a_phase_there_is_no_column_for_it():
    nothing = view_of(phased(activities=()))
    assert "PHASE" not in titles(JobsPage(), "jobs", nothing, 160)
    assert "PHASE" not in titles(OverviewPage(), "runs", nothing, 160)


@pytest.mark.parametrize("failed", [False, True])
def test_on_80_columns_phase_and_step_stay_beside_the_reason(failed):
    jobs = (JOB, *([Job("bad", "01000000", "bad", "FAILED")] if failed else []))
    there = titles(JobsPage(), "jobs", view_of(phased(jobs=jobs), width=80), 80)
    assert there == ["JOBS", "STATUS", "RUNTIME", "PHASE", "STEP", *(["REASON"] if failed else ["STEP TIME", "GPUS"])]


def test_the_overview_has_the_line_of_the_phase():
    (row,) = listed(OverviewPage(), "runs", view_of(phased()))
    assert row["PHASE"] == "step 412 · rollout 40s (usual 1m00s ± 0s) · 30.0 steps/h"
    assert "PHASE" in titles(OverviewPage(), "runs", view_of(phased(), width=80), 80)


def test_the_last_hour_is_a_band_from_140_columns_on():
    assert "PHASES OF THE LAST HOUR" not in titles(OverviewPage(), "runs", view_of(phased(), width=139), 139)
    assert "PHASES OF THE LAST HOUR" in titles(OverviewPage(), "runs", view_of(phased(), width=140), 140)
    spans = (PhaseSpan(JOB.key, "rollout", NOW - 600, NOW - 300), PhaseSpan(JOB.key, "training", NOW - 300, None))
    (row,) = listed(OverviewPage(), "runs", view_of(phased(spans=spans)))
    band = row["PHASES OF THE LAST HOUR"]
    assert len(band) == 60
    assert band.strip() in ("R" * 5 + "T" * 5, "R" * 5 + "T" * 6, "R" * 6 + "T" * 5)
    assert band.endswith("T"), "the newest is at the right"


def test_a_jobs_page_says_the_phase_and_who_waits():
    facts = {row.name: text(row.value) for row in job_page(view_of(lagging()))["job"].rows if row.name}
    assert facts["phase"] == "step 412 · training (usual 20s ± 0s) · 30.0 steps/h"
    assert facts["who waits"] == "7 of 8 PolicyModelActor have waited for 4m00s; node1 GPU 3 (pid 2003) is still in fit"


def test_the_usual_time_of_each_phase_stands_beside_the_running_step():
    view = view_of(phased())
    rows = drawn(job_page(view)["job-phases"], view)
    assert [(row["PHASES"], row["THIS STEP"], row["USUAL"], row["SHARE"]) for row in rows] == [
        ("R rollout", "now 40s", "1m00s ± 0s", "50%"),
        ("S scoring", "", "30s ± 0s", "25%"),
        ("T training", "", "20s ± 0s", "17%"),
        ("W weight sync", "", "10s ± 0s", "8%"),
    ]


def test_the_last_twenty_steps_are_bars_as_long_as_they_took():
    view = view_of(phased(steps=30))
    rows = drawn(job_page(view)["job-steps"], view)
    assert [row["STEPS"] for row in rows] == ["412", *(str(number) for number in range(411, 391, -1))]
    running, last = rows[0]["ITS PHASES"], rows[1]["ITS PHASES"]
    assert (rows[0]["TIME"], set(running)) == ("40s", {"R"})
    assert len(running) == pytest.approx(len(last) / 3, abs=1)
    assert "".join(dict.fromkeys(last)) == "RSTW"


def test_a_rank_is_a_cell_and_the_one_behind_is_marked():
    view = view_of(lagging())
    (row,) = drawn(job_page(view)["job-ranks"], view)
    assert (row["RANKS"], row["NODES"], row["ONE CELL EACH"], row["NOW"]) == ("PolicyModelActor", "node1", "···!····", "7 idle, 1 fit")
    (line,) = job_page(view)["job-ranks"].rows
    assert line.about.pid == 2003, "Enter opens it"
    ascii = view_of(lagging(), ascii=True)
    assert drawn(job_page(ascii)["job-ranks"], ascii)[0]["ONE CELL EACH"] == "...!...."


def test_ranks_show_the_phase_of_their_method_class_by_class():
    workers = (rank(0, "fit"), rank(1, "unheard_of"), rank(2), rank(3, "execute_batch", "ReferenceModelActor"))
    view = view_of(phased(*workers))
    rows = drawn(job_page(view)["job-ranks"], view)
    assert [(row["RANKS"], row["ONE CELL EACH"]) for row in rows] == [("PolicyModelActor", "Tm·"), ("ReferenceModelActor", "S")]


@pytest.mark.parametrize("width", [80, 160])
def test_a_thousand_ranks_fill_few_lines_node_by_node(width):
    view = view_of(phased(*(rank(number, "fit") for number in range(1000))), width=width)
    rows = drawn(job_page(view)["job-ranks"], view)
    assert "".join(row["ONE CELL EACH"] for row in rows).count("T") == 1000
    assert all(set(row["ONE CELL EACH"].split()) == {"TTTTTTTT"} for row in rows)
    assert len(rows) <= {80: 65, 160: 16}[width]
    assert [bool(row["RANKS"]) for row in rows] == [True] + [False] * (len(rows) - 1), "the class is named once"


def test_a_job_that_has_ended_keeps_its_steps_but_has_no_ranks():
    ended = phased(activities=(), jobs=(replace(JOB, status="SUCCEEDED", ended=NOW),))
    page = job_page(view_of(ended))
    assert "job-steps" in page
    assert "job-ranks" not in page


def test_hidden_jobs_cost_no_look_at_their_workers(monkeypatch):
    monkeypatch.setattr("cockpit.phases.ranks.workers_of", pytest.fail)
    for page in (JobsPage(), OverviewPage()):
        view = view_of(lagging())
        for each in page.sections(view):
            drawn(each, view)


def test_hostile_names_of_methods_are_drawn_clean():
    view = view_of(phased(rank(0, "a\x1b[2Jb"), phase=None, method="X.a\x1b[2Jb"))
    facts = {row.name: text(row.value) for row in job_page(view)["job"].rows if row.name}
    assert "\x1b" not in facts["phase"]


async def test_the_screen_shows_phases_and_the_rank_that_is_behind_on_80_columns(make):
    async with at(make(lagging()), "5", then="training", size=(80, 24)) as (app, pilot):
        await press(pilot, "enter", then="7 of 8 PolicyModelActor have waited for 4m00s")
        await press(pilot, "end", then="RANKS 8")
        assert "···!····" in shown(app)


def test_a_recorded_moment_has_the_same_phases():
    now = lagging()
    recorded = snapshot_of({name: getattr(now, name) for name in PLAIN}, tables_of(now).rows, now.taken)
    for page in (JobsPage(), OverviewPage(), detail_of(JOB)):
        there, then = view_of(now), view_of(recorded, ago=600.0)
        assert [drawn(each, there) for each in page.sections(there) if each.key != "log"] == [
            drawn(each, then) for each in page.sections(then) if each.key != "log"
        ]
