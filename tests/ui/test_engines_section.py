"""The engines on a job's page."""

from __future__ import annotations

from typing import Any

from cockpit.model import Engine, Job
from cockpit.ui.pages.details import detail_of
from cockpit.ui.view import Index, View
from tests.ui.page_text import drawn, section
from tests.world import NOW, engine, snapshot

PPO = Job("ppo-7b", "02000000", "ppo-7b", "RUNNING")


def view(*engines: Engine) -> View:
    made = snapshot(engines=engines, jobs=(PPO,))
    return View(made, Index(made), now=NOW, width=160)


def listed(*engines: Engine) -> list[dict[str, str]]:
    page = detail_of(PPO)
    assert page is not None
    return drawn(section(page, "job-engines", view(*engines)), view(*engines))


def row(**more: Any) -> dict[str, str]:
    (found,) = listed(engine(**more))
    return found


def test_an_engine_has_its_numbers():
    assert row(waiting=12, kv_cache=0.974, preemptions_per_minute=3.0) == {
        "NODE": "node1",
        "ENGINE": "vLLM (pid 4711)",
        "RUNNING": "4",
        "WAITING": "12",
        "KV CACHE": "97%",
        "TOK/S": "800",
        "PREEMPTIONS": "3/min",
        "STATE": "qwen-7b",
    }


def test_unknown_numbers_are_dashes_not_zeros():
    found = row(by="processes", running=None, waiting=None, kv_cache=None, tokens_per_second=None, preemptions_per_minute=None)
    assert [found[name] for name in ("RUNNING", "WAITING", "KV CACHE", "TOK/S", "PREEMPTIONS")] == ["–"] * 5
    assert found["STATE"] == "reports no numbers"


def test_what_is_wrong_stands_in_place_of_the_model():
    assert row(ended=NOW - 190, unanswered=NOW - 5)["STATE"] == "ended 3m10s ago"
    assert row(unanswered=NOW - 65)["STATE"] == "no answer for 1m05s"


def test_a_job_without_known_engines_has_no_such_section():
    page = detail_of(PPO)
    assert page is not None
    for seen in (view(), view(engine(job="03000000"))):
        assert "job-engines" not in [each.key for each in page.sections(seen)]


def test_numbers_that_were_read_long_ago_are_marked_as_old():
    page = detail_of(PPO)
    assert page is not None
    fresh, old = engine(), engine(9, read=NOW - 60)
    found = section(page, "job-engines", view(fresh, old))
    assert [found.is_old(each, view(fresh, old)) for each in (fresh, old)] == [False, True]
