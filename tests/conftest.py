"""How the tests share two cores: real clusters one after the other, look-alikes of Ray too, all others beside them."""

from __future__ import annotations

import pytest

ALONE = pytest.mark.xdist_group("hosts")
"""Real clusters: two of them at once would be slower than one after the other."""
LOOK_ALIKES = pytest.mark.xdist_group("processes")
"""Probes see all processes of a machine: raylets that one test makes up would be another one's."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("lab") or "demo" in item.path.parts[-2:]:
            item.add_marker(ALONE)
        elif "probe" in item.path.parts or item.path.name == "test_commands.py":
            item.add_marker(LOOK_ALIKES)
