"""Runs published releases of frameworks, from a package index, on the words of commands (`make truth`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cockpit.budget.demand import Budget

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cockpit"
Asked = list[tuple[str | None, list[dict[str, float]]]]
"""The strategy and the bundles of each group; without a strategy, a single actor or task."""


def install(name: str, *packages: str) -> Path:
    """Install packages into a folder of their own, and return it."""
    folder = CACHE / name
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no index gives {packages}: {done.stderr.strip().splitlines()[-1]}")
    return folder


def truth(script: str, package: str, release: str, commands: list[list[str]], *arguments: str) -> list[dict[str, Any]]:
    """What a release asks Ray for, by command. `script` runs its code beside stand-ins of all other packages."""
    sources = install(f"truth-{package}-{release}", "--no-deps", f"{package}=={release}")
    hydra = install("truth-hydra-1.3.2", "hydra-core==1.3.2", "omegaconf==2.3.0", "numpy")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), str(sources), *arguments],
        input=json.dumps(commands), capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(hydra)},
    )  # fmt: skip
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def asked_there(real: dict[str, Any]) -> Asked:
    """What the release asked for, without resources of which it asked for none."""
    return [(each["strategy"], [_without_zeros(shape) for shape in each["bundles"]]) for each in real["asked"]]


def asked_here(budget: Budget, but: tuple[str, ...] = ()) -> Asked:
    """The same of a budget. Groups with some names can be left out."""
    found: Asked = []
    for group in budget.groups or ():
        shapes = [_without_zeros(shape) for shape, times in group.bundles or () for _ in range(times)]
        if not group.name.startswith(but):
            found += [(None, [shape]) for shape in shapes] if group.strategy is None else [(group.strategy, shapes)]
    return found


def _without_zeros(shape: Any) -> dict[str, float]:
    return {name: float(size) for name, size in shape.items() if size}
