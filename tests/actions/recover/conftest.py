from __future__ import annotations

import pytest

from tests.loop import Loop


@pytest.fixture(autouse=True)
def deadlines_come_with_the_pauses(seconds_of_the_loop):
    """Lets deadlines pass together with the pauses of the steps."""


def pytest_asyncio_loop_factories() -> dict[str, type[Loop]]:
    """These tests wait only for this process: their loop skips idle time."""
    return {"skips": Loop}
