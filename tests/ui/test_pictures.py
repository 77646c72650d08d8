"""Pictures of the pages, compared cell by cell with those that a person has looked at.

After a change that is meant: `pytest tests/ui/test_pictures.py --snapshot-update`, then look at each picture that git shows as changed.
"""

from __future__ import annotations

import time

import pytest

from tests.report.phase_worlds import lagging
from tests.ui.conftest import FakeExecutor
from tests.world import snapshot

pytestmark = pytest.mark.screen
PAGES = {"overview": "1", "nodes": "2", "actors": "3", "processes": "4", "jobs": "5", "findings": "6", "presets": "7"}
DIALOGS = {"help": ("question_mark",), "details": ("2", "enter"), "memory": ("m",), "plan": ("4", "K"), "raw": ("2", "y")}
SMALL, LARGE = (80, 24), (160, 45)
SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "160x45"])


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """The same picture on every machine."""
    for name in ("NO_COLOR", "COLORTERM", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for pause in ("live.MIN_SIGHT_S", "plan.READING_S"):  # on a busy machine they would be over before the picture
        monkeypatch.setattr(f"cockpit.ui.screens.{pause}", 1000)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@SIZES
@pytest.mark.parametrize("page", PAGES)
def test_a_page_looks_as_it_was_agreed(make, snap_compare, page, size):
    assert snap_compare(make(snapshot()), press=[PAGES[page]], terminal_size=size)


@SIZES
@pytest.mark.parametrize("dialog", DIALOGS)
def test_a_dialog_looks_as_it_was_agreed(make, snap_compare, dialog, size):
    assert snap_compare(make(snapshot(), executor=FakeExecutor()), press=DIALOGS[dialog], terminal_size=size)


@pytest.mark.parametrize("page", ["overview", "nodes", "findings"])
def test_a_page_looks_as_it_was_agreed_in_the_light_theme(make, snap_compare, page):
    assert snap_compare(make(snapshot(), theme="daylight"), press=[PAGES[page]], terminal_size=LARGE)


def test_a_page_looks_as_it_was_agreed_without_colours_and_signs(make, snap_compare):
    assert snap_compare(make(snapshot(), ascii=True), press=["1"], terminal_size=SMALL)


@SIZES
@pytest.mark.parametrize("keys", [("1",), ("5",), ("5", "enter")], ids=["overview", "jobs", "job"])
def test_the_phases_of_a_job_look_as_they_were_agreed(make, snap_compare, keys, size):
    assert snap_compare(make(lagging(steps=12)), press=keys, terminal_size=size)
