"""How the tests share two cores: real clusters that act first, in two rows; then those that look, beside all the rest."""

from __future__ import annotations

import pytest

ROWS = {
    "acts": ("test_act.py", "test_clean.py", "test_lab_launch.py", "test_lab_ray_acts.py", "test_recover.py"),
    "places": (
        "test_placement.py",
        "test_endings.py",
        "test_incidents_hosts.py",
        "test_incidents_ray.py",
        "test_incidents_waits.py",
        "test_reach.py",
        "test_stop.py",
        "test_cluster.py",
        "test_nvml.py",
        "test_processes.py",
    ),
    "looks": ("test_lab.py", "test_screen.py", "test_see.py", "test_trouble.py"),
}
"""The last are also about how soon something is seen: no other cluster starts meanwhile."""
LOOK_ALIKES = "processes"
"""Probes see all processes of a machine: raylets that one test makes up would be another one's."""


def _row(item: pytest.Item) -> str | None:
    if "lab" in item.path.parts or "demo" in item.path.parts[-2:]:
        return next(name for name, files in ROWS.items() if item.path.name in files)
    return LOOK_ALIKES if "probe" in item.path.parts or item.path.name == "test_commands.py" else None


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = [*ROWS, LOOK_ALIKES, None]
    items.sort(key=lambda item: order.index(_row(item)))
    for item in items:
        if row := _row(item):
            item.add_marker(pytest.mark.xdist_group(row))
