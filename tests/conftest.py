"""How the tests share two cores: real clusters in two rows, look-alikes of Ray one after the other, all others beside them."""

from __future__ import annotations

import pytest

CLUSTERS = (pytest.mark.xdist_group("clusters"), pytest.mark.xdist_group("broken clusters"))
"""Real clusters: at most two at once. What ends, cleans and reaches is one half of their tests, what looks the other."""
ACTING = ("test_act.py", "test_clean.py", "test_stop.py", "test_reach.py", "test_lab_ray_acts.py")
LOOK_ALIKES = pytest.mark.xdist_group("processes")
"""Probes see all processes of a machine: raylets that one test makes up would be another one's."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("lab") or "demo" in item.path.parts[-2:]:
            item.add_marker(CLUSTERS[item.path.name in ACTING])
        elif "probe" in item.path.parts or item.path.name == "test_commands.py":
            item.add_marker(LOOK_ALIKES)
