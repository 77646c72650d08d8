"""How the tests of this folder wait."""

from __future__ import annotations

from tests.loop import Loop


def pytest_asyncio_loop_factories() -> dict[str, type[Loop]]:
    """All that these tests wait for is in this process: no time passes unused in their loop."""
    return {"skips": Loop}
