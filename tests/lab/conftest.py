"""A lab of two hosts and a real Ray on it, made once and repaired after every test."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab import hosts
from tests.lab.cluster import Cluster
from tests.lab.hosts import Lab

RAY = Path(sys.executable).with_name("ray")
OLD_RAY = "2.44.1"
NO_RAY = "a cluster needs Ray beside this Python: pip install 'ray-cockpit[ray]'"


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Two hosts, `head` and `w1`, with eight simulated GPUs each and no Ray."""
    _or_skip(hosts.why_not())
    hosts.sweep()
    made = Lab(f"{os.getpid() % 100000}", ["head", "w1"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    yield made
    made.close()


@pytest.fixture(scope="session")
def running(lab: Lab) -> Iterator[Cluster]:
    """Ray on both hosts. Tests use `cluster`, which is repaired after each of them."""
    _or_skip(None if RAY.exists() else NO_RAY)
    cluster = Cluster(lab, ["head", "w1"], RAY)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    """A healthy Ray of two hosts and sixteen idle GPUs. A test may break it."""
    yield running
    running.heal()


@pytest.fixture(scope="module")
def token_cluster() -> Iterator[Cluster]:
    """A Ray that requires a token, on its own host. The token is its `token`."""
    _or_skip(hosts.why_not(), None if RAY.exists() else NO_RAY)
    with _own_cluster(f"t{os.getpid() % 100000}", "guarded", RAY, secrets.token_hex(32)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def old_ray() -> Path:
    """The `ray` command of an old Ray: in the environment COCKPIT_OLD_RAY, or in one that is installed here once."""
    given = os.environ.get("COCKPIT_OLD_RAY")
    folder = Path(given) if given else Path.home() / ".cache" / "cockpit-tests" / f"ray-{OLD_RAY}"
    ray = folder / "bin" / "ray"
    if not ray.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", f"ray[default]=={OLD_RAY}", "setuptools<80"]
        made = subprocess.run(pip, capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"no old Ray here: set COCKPIT_OLD_RAY to an environment with one ({made.stderr.strip().splitlines()[-1]})")
    return ray


@pytest.fixture(scope="module")
def old_cluster(old_ray: Path) -> Iterator[Cluster]:
    """An old Ray, on its own host."""
    _or_skip(hosts.why_not())
    with _own_cluster(f"o{os.getpid() % 100000}", "old", old_ray) as cluster:
        yield cluster


@contextmanager
def _own_cluster(name: str, host: str, ray: Path, token: str | None = None) -> Iterator[Cluster]:
    lab = Lab(name, [host])
    try:
        cluster = Cluster(lab, [host], ray, token)
        cluster.start()
        yield cluster
    finally:
        lab.close()


def _or_skip(*reasons: str | None) -> None:
    for reason in filter(None, reasons):
        pytest.skip(reason)
