"""One real Ray on a virtual host, on which jobs fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import hosts
from tests.lab.cluster import Cluster
from tests.lab.hosts import Lab
from tests.lab.observe import write_config

RAY = Path(sys.executable).with_name("ray")


@pytest.fixture(scope="session")
def ray() -> Iterator[Cluster]:
    """A Ray of one host with 16 CPUs."""
    if (reason := hosts.why_not() or (None if RAY.exists() else "needs Ray beside this Python")) is not None:
        pytest.skip(reason)
    lab = Lab(f"c{os.getpid() % 100000}", ["head"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    try:
        cluster = Cluster(lab, ["head"], RAY)
        cluster.start()
        write_config(lab)
        yield cluster
    finally:
        lab.close()
