"""How the tests share two cores: those on virtual hosts one after the other, all others beside them."""

from __future__ import annotations

import pytest

ALONE = pytest.mark.xdist_group("hosts")
"""Real clusters: two of them at once would be slower than one after the other."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("lab") or "demo" in item.path.parts[-2:]:
            item.add_marker(ALONE)
