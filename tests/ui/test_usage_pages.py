from __future__ import annotations

from msgspec.structs import replace

from cockpit.model import Hold, Job, Snapshot
from cockpit.monitor.history import History
from cockpit.ui.pages.details import detail_of
from cockpit.ui.pages.jobs import JobsPage
from cockpit.ui.view import Index, View
from cockpit.usage import Usage
from tests.ui.page_text import drawn, section, text
from tests.usage.worlds import JOB, group, holder, placed, world
from tests.world import GIB, NOW, process, with_figures

PPO = Job("ppo-7b", JOB, "ppo-7b", "RUNNING")


def watched(*snapshots):
    """As the screen sees it, an hour after the first look, with a look every minute."""
    usage, of = Usage(), snapshots[0]
    for minute in range(61):
        of = snapshots[min(len(snapshots) - 1, minute)]
        now = NOW + 60 * minute
        of = replace(of, taken=now, nodes=tuple(with_figures(each, seen=now) for each in of.nodes or ()))
        usage.add(of)
    return View(of, Index(of), History(usage=usage), now=of.taken, width=160)


def listed(key, view):
    return drawn(section(JobsPage(), key, view), view)


def test_a_jobs_page_says_what_it_has_used_and_why_gpus_were_idle():
    seen = watched(world(holder(0, 1), rates=(90.0, 0.0), groups=[group(placed(2.0))]))
    lines = {row.name: text(row.value) for row in section(detail_of(PPO), "job-usage", seen).rows if row.name}
    assert (lines["reserved"], lines["held"], lines["busy"]) == ("2.0", "2.0", "1.0  50%")
    assert lines["idle"] == "1.0  50%  (1.0 other GPUs of the job are busy)"
    assert lines["fullest host"] == "700G of 1.0T on node1, Ray kills at 950G"


def test_a_job_of_which_nothing_has_been_watched_says_nothing_of_it():
    of = world()
    assert "job-usage" not in [each.key for each in detail_of(PPO).sections(View(of, Index(of), now=NOW))]


def test_jobs_have_their_gpus_and_hours():
    (row,) = listed("jobs", watched(world(holder(0, 1), rates=(90.0, None))))
    assert (row["GPUS"], row["GPU-H"], row["BUSY"]) == ("2", "2.0", "100%")


def test_a_job_without_a_look_at_it_has_unknown_gpus():
    of = Snapshot(taken=NOW, jobs=(PPO, Job("old", "01000000", "old", "FAILED")))
    told = [(row["GPUS"], row["GPU-H"], row["BUSY"]) for row in listed("jobs", View(of, Index(of), now=NOW))]
    assert told == [("–", "", ""), ("", "", "")]


def test_users_are_listed_with_what_they_have_and_have_used():
    alien = process(77, user="bob", kind="foreign", gpus=(Hold(3, 2 * GIB),), rss=GIB)
    ann, bob = listed("users", watched(world(holder(0, 1, user="ann"), alien)))
    assert (ann["USERS"], ann["JOBS"], ann["GPUS"], ann["GPU-H"], ann["GPU MEM"]) == ("ann", "1", "2", "2.0", "100G")
    assert (bob["USERS"], bob["JOBS"], bob["GPUS"], bob["BUSY"], bob["HOST MEM"]) == ("bob", "0", "1", "100%", "1.0G")


def test_before_anybody_has_watched_users_are_not_known():
    of = Snapshot(taken=NOW)
    users = section(JobsPage(), "users", View(of, Index(of), now=NOW))
    assert (users.rows, users.sentence) == (None, "not watched yet")
