from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.report.incident.charts import LAYOUTS
from cockpit.report.incident.gather import make_account
from cockpit.report.incident.html import account_html
from cockpit.report.incident.markdown import account_markdown
from cockpit.report.incident.markup import VOID, tag
from cockpit.report.incident.style import DARK, LIGHT
from tests.report.incident.phase_recordings import long_run, two_sessions
from tests.report.incident.recordings import night

HOSTILE = "\"'><script>alert(1)</script><img src=http://evil/ onerror=x>&amp;</style></svg>"


class Outline(HTMLParser):
    """Collects tags with their attributes, and checks that each is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@cache
def make_night():
    return make_account(night())


@pytest.fixture
def account():
    return make_night()


@pytest.fixture
def page(account):
    return account_html(account)


def test_every_tag_is_closed(page):
    assert Outline(page).open == []


def test_it_has_no_script_and_loads_nothing(page):
    outline = Outline(page)
    assert not {"script", "link", "img", "iframe", "a", "object", "form"} & set(outline.tags)
    assert not [name for name, _ in outline.attributes if name in ("src", "href", "style") or name.startswith("on")]
    assert re.findall(r"url\(([^)]*)\)|@import", page) == [
        f"#hatch-{name}-{layout}" for name in ("what-happened-when", "gpus", "host-memory") for layout in ("wide", "narrow")
    ]
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in outline.attributes


def test_every_chart_says_the_same_in_words(page):
    charts = re.findall(r"<svg[^>]*>.*?</svg>", page)
    assert len(charts) == 2 * 3 + 2
    assert all("<title>" in chart or 'aria-labelledby="t-' in chart for chart in charts)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_the_latest_point_is_inside_each_chart_in_every_layout(page, layout):
    """No part of a chart is wider than the screen, because a chart has no width of its own."""
    charts = re.findall(rf'<div class="chart {layout.name}"><svg viewBox="0 0 {layout.width} [^>]*>(.*?)</svg>', page)
    assert len(charts) == 3
    for chart in charts:
        ends = [
            float(x) + float(width) for x, width in re.findall(r'<rect x="([\d.]+)"[^>]* width="([\d.]+)"[^>]*class="(?:bar|gap)', chart)
        ]
        ends += [float(x) for line in re.findall(r'points="([^"]*)"', chart) for x, _ in (point.split(",") for point in line.split())]
        assert max(ends) <= layout.width
        assert f'<text x="{layout.width - 10}' in chart, "the last moment is not at the right edge"
    assert "min-width:680px" not in page


def test_the_phases_of_a_job_are_a_lane_and_a_sentence():
    page = account_html(make_account(long_run(steps=5)))
    assert Outline(page).open == []
    wide = re.search(r'<svg[^>]*aria-labelledby="t-phases-of-jobs-wide.*?</svg>', page)
    assert wide is not None
    assert {kind: wide[0].count(f'class="bar {kind}"') for kind in ("rollout", "scoring", "training", "sync")} == dict.fromkeys(
        ("rollout", "scoring", "training", "sync"), 5
    )
    assert 'aria-label="ppo-7b: weight sync"' in wide[0]
    assert "<p>ppo-7b: rollout 50%, scoring 25%, training 16%, weight sync 8%; 5 steps of 2m00s.</p>" in page


def test_jobs_of_one_name_are_told_apart_by_their_session():
    page = account_html(make_account(two_sessions()))
    assert "<p>ppo-7b (Ray of Nov 21 01:17): rollout 100%.</p><p>ppo-7b: training 100%.</p>" in page
    text = account_markdown(make_account(two_sessions()))
    assert "(rollout 100%)" in text
    assert "(training 100%)" in text


def test_without_phases_there_is_no_chart_of_them(page):
    assert "Phases of jobs" not in page


def test_every_table_has_a_caption_and_headings(page):
    tables = re.findall(r"<table>.*?</table>", page)
    assert len(tables) == 6
    assert all("<caption>" in table and 'scope="col"' in table and 'scope="row"' in table for table in tables)


def test_nothing_is_drawn_for_a_time_without_a_recording(page):
    assert page.count('class="area busy"') == 2 * len(LAYOUTS)


def test_foreign_text_is_escaped(account):
    def spoil(values, **more):
        return tuple(replace(value, **more) for value in values)

    spoiled = replace(
        account,
        session=HOSTILE,
        findings=spoil(account.findings, text=HOSTILE, subject=HOSTILE, code=HOSTILE, evidence=(HOSTILE,), remedy=HOSTILE, action=HOSTILE),
        jobs=spoil(account.jobs, id=HOSTILE, entrypoint=HOSTILE, message=HOSTILE, error=HOSTILE, status=HOSTILE),
        actions=spoil(account.actions, text=HOSTILE, user=HOSTILE, host=HOSTILE),
        faults=spoil(account.faults, text=HOSTILE, source=HOSTILE),
        usage=spoil(account.usage, name=HOSTILE, user=HOSTILE),
        users=spoil(account.users, user=HOSTILE),
        phases=spoil(make_account(two_sessions()).phases, job=HOSTILE, session=HOSTILE),
        damage=(HOSTILE,),
    )
    outline = Outline(account_html(spoiled))
    assert set(outline.tags) == set(Outline(account_html(account)).tags)
    assert HOSTILE in outline.text
    assert not [name for name, _ in outline.attributes if name.startswith("on")]


@given(st.text(), st.text())
@settings(deadline=None)
def test_any_text_is_unchanged_after_parsing(inside, attribute):
    inside, attribute = inside.replace("\r", ""), attribute.replace("\r", "")
    outline = Outline(str(tag("p", inside, title=attribute)))
    assert "".join(outline.text) == inside
    assert outline.attributes == [("title", attribute)]


def test_an_empty_tag_closes_itself():
    assert {tag(name) for name in VOID} == {f"<{name}/>" for name in VOID}


@given(st.floats(), st.floats(), st.floats())
@settings(deadline=None, max_examples=50)
def test_a_page_is_written_for_any_dates(begin, end, other):
    account = make_night()
    dated = replace(
        account,
        begin=begin,
        end=end,
        gaps=((other, end),),
        findings=(replace(account.findings[0], begin=other, end=end),),
        jobs=(replace(account.jobs[0], started=other, ended=begin),),
        actions=(replace(account.actions[0], at=other, end=begin),),
    )
    assert Outline(account_html(dated)).open == []
    assert account_markdown(dated)


def test_a_page_is_written_for_an_empty_recording(account):
    nothing = dict.fromkeys(("findings", "actions", "jobs", "faults", "gaps", "damage", "usage", "users", "course"), ())
    text = "".join(Outline(account_html(replace(account, **nothing))).text)
    assert text.count("None.") >= 2
    assert "No job ran." in text


def _luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["text", "dim", "critical", "warning", "info", "accent"])  # what letters are drawn in
@pytest.mark.parametrize("ground", ["ground", "raised"])
def test_texts_have_enough_contrast(colours, name, ground):
    high, low = sorted((_luminance(colours[name]), _luminance(colours[ground])), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 4.5
