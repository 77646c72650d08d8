"""The event loop of this folder's tests."""

from __future__ import annotations

from tests.loop import Loop


def pytest_asyncio_loop_factories() -> dict[str, type[Loop]]:
    """These tests wait only for this process: their loop skips idle time."""
    return {"skips": Loop}
