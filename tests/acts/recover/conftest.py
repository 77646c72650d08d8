from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def deadlines_come_with_the_pauses(seconds_of_the_loop):
    """Let deadlines pass together with the pauses in which steps wait."""
