from __future__ import annotations

import pytest

from tests.loop import Loop


@pytest.fixture(autouse=True)
def deadlines_come_with_the_pauses(seconds_of_the_loop):
    """Let deadlines pass together with the pauses in which steps wait."""


def pytest_asyncio_loop_factories() -> dict[str, type[Loop]]:
    """All that these tests wait for is in this process: no time passes unused in their loop."""
    return {"skips": Loop}
