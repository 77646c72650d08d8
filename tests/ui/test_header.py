from __future__ import annotations

import pytest

from cockpit.ui.header import Header
from cockpit.ui.keys import PAGES
from tests.ui.screen import shown, until


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("number", range(len(PAGES)))
async def test_a_click_on_a_page_opens_it(make, number, width):
    app = make()
    async with app.run_test(size=(width, 40)) as pilot:
        await pilot.press("2" if number == 0 else "1")
        await until(pilot, lambda: app.table.count > 0)
        line = shown(app).splitlines()[1]
        await pilot.click(Header, offset=(line.index(f"{number + 1} {PAGES[number].title}") + 2, 1))
        await until(pilot, lambda: isinstance(app.page, PAGES[number]))


async def test_a_click_beside_the_pages_opens_none(make):
    app = make()
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: app.table.count > 0)
        await pilot.click(Header, offset=(150, 1))
        await pilot.click(Header, offset=(14, 0))
        assert isinstance(app.page, PAGES[0])
