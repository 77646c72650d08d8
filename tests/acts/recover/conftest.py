from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def deadlines_come_with_the_pauses(seconds_of_the_loop):
    """Steps wait in pauses for what they began, until a deadline."""
