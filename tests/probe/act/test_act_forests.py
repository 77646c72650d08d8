"""Forests of real processes by seed: every orphan is found and ended, and nothing else is ever signalled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ROUNDS = int(os.environ.get("COCKPIT_ROUNDS", "60"))
"""A round takes a tenth of a second; COCKPIT_ROUNDS=1000 is the whole proof."""


@pytest.fixture(scope="module")
def actor(tmp_path_factory):
    """The program that all these processes run."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang) here to build the processes with")
    built = tmp_path_factory.mktemp("actor") / "actor"
    subprocess.run([compiler, "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-o", built, HERE / "actor.c"], check=True)
    return built


def rounds(actor: Path, first: int, count: int) -> list[dict]:
    """In namespaces of their own: there is nothing else that could be hit."""
    apart = ["unshare", "--pid", "--mount", "--fork", "--kill-child"]
    tried = subprocess.run([*apart, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no namespaces here: {tried.stderr.strip()}")
    environ = {name: value for name, value in os.environ.items() if name not in ("RAY_TMPDIR", "TMPDIR")}
    with actor.open("rb") as program:
        played = subprocess.run(
            [*apart, sys.executable, HERE / "rounds.py", str(first), str(count)],
            stdin=program, capture_output=True, text=True, check=False,
            env={**environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
    assert played.returncode == 0, played.stderr
    return [json.loads(line) for line in played.stdout.splitlines()]


@pytest.mark.timeout(60 + 3 * ROUNDS)
def test_every_orphan_is_ended_and_nothing_else_is_signalled(actor):
    played = rounds(actor, 1, ROUNDS)
    wrong = [f"seed {one['seed']}: {one['wrong']}\n{one['forest']}" for one in played if "wrong" in one]
    assert not wrong, f"{len(wrong)} of {ROUNDS} rounds went wrong, the first: {wrong[0]}"
    assert len(played) == ROUNDS
    assert sum(one["ended"] for one in played) > 3 * ROUNDS
    assert sum(one["refused"] for one in played) > 0
