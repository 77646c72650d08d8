"""Forests of real processes by seed: every orphan is found and ended, and nothing else is ever signalled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ROUNDS = int(os.environ.get("COCKPIT_ROUNDS", "60"))
"""A round takes a tenth of a second; `make proof` plays ten thousand."""
REAL_ROUNDS = int(os.environ.get("COCKPIT_REAL_ROUNDS", "0"))
"""Rounds with a real Ray; each takes some seconds."""
AT_ONCE = 2


@pytest.fixture(scope="module")
def actor(tmp_path_factory):
    """The program of all these processes."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang) here to build the processes with")
    built = tmp_path_factory.mktemp("actor") / "actor"
    subprocess.run([compiler, "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-o", built, HERE / "actor.c"], check=True)
    return built


def rounds(actor: Path, first: int, count: int, *real: str) -> list[dict]:
    """Runs rounds in namespaces of their own, where no other process can be hit."""
    apart = ["unshare", "--pid", "--mount", "--net", "--fork", "--kill-child"]
    tried = subprocess.run([*apart, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no namespaces here: {tried.stderr.strip()}")
    environ = {name: value for name, value in os.environ.items() if name not in ("RAY_TMPDIR", "TMPDIR")}
    with actor.open("rb") as program:
        played = subprocess.run(
            [*apart, sys.executable, HERE / "rounds.py", str(first), str(count), *real],
            stdin=program, capture_output=True, text=True, check=False,
            env={**environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
    assert played.returncode == 0, played.stderr
    return [json.loads(line) for line in played.stdout.splitlines()]


def is_right(played: Sequence[dict], count: int) -> None:
    wrong = [f"seed {one['seed']}: {one['wrong']}\n{one['forest']}" for one in played if "wrong" in one]
    seeds = [one["seed"] for one in played if "wrong" in one]
    assert not wrong, f"{len(wrong)} of {count} rounds went wrong ({seeds}), the first: {wrong[0]}"
    assert len(played) == count
    assert sum(one["ended"] for one in played) > 3 * count
    processes, ended, refused = (sum(one[what] for one in played) for what in ("processes", "ended", "refused"))
    print(f"\n{count} forests, {processes} processes: {ended} left over and ended, {refused} refused, 0 wrong")


@pytest.mark.timeout(60 + 3 * ROUNDS)
def test_every_orphan_is_ended_and_nothing_else_is_signalled(actor):
    share = ROUNDS // AT_ONCE
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = pool.map(lambda number: rounds(actor, 1 + number * share, share), range(AT_ONCE))
        is_right([one for part in parts for one in part], share * AT_ONCE)


@pytest.mark.skipif(not REAL_ROUNDS, reason="COCKPIT_REAL_ROUNDS says in how many forests a real Ray takes part: `make proof` does")
@pytest.mark.timeout(300 + 10 * REAL_ROUNDS)
def test_beside_a_real_ray_its_processes_are_spared_and_its_orphans_are_found(actor):
    ray = Path(sys.executable).with_name("ray")
    is_right(rounds(actor, 100_001, REAL_ROUNDS, str(ray)), REAL_ROUNDS)
