"""Fixtures: the probe as a program with simulated GPUs."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.demo import nvml

ROOT = Path(__file__).parents[2]
Sample = dict[str, Any]


class Running:
    """A running probe whose output is read line by line."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path) -> None:
        self.began = time.monotonic()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd)
        self._text = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self, timeout: float = 60) -> Sample:
        until = time.monotonic() + timeout
        assert self.process.stdout
        while b"\n" not in self._text:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"it said nothing for {timeout:.0f} s"
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            assert more, f"it has ended: {self.errors()}"
            self._text += more
        line, _, self._text = self._text.partition(b"\n")
        return json.loads(line)

    def errors(self) -> str:
        assert self.process.stderr
        return self.process.stderr.read().decode()

    def until(self, fact: Callable[[Sample], Any], timeout: float = 60) -> Sample:
        """The first sample for which the condition is true."""
        end = time.monotonic() + timeout
        while True:
            found = self.line(max(0.0, end - time.monotonic()))
            if "taken" in found and fact(found):
                return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a probe, with `environ` added to its environment, and ends it after the test."""
    started: list[Running] = []

    def begin(*words: str, python: str = sys.executable, module: str = "cockpit.probe", cwd: Path = ROOT, **environ: str) -> Running:
        env = {**os.environ, "RAY_TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", **environ}
        started.append(Running([python, "-m", module, *words], env, cwd))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return nvml.build(tmp_path_factory.mktemp("nvml"))
    except nvml.CompilerError as error:
        pytest.skip(str(error))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Eight idle H100s, until a test changes them."""
    path = tmp_path / "nvml.state"
    nvml.edit(path, lambda _: nvml.gpus())
    return path


@pytest.fixture
def gpus(library: Path, state: Path) -> dict[str, str]:
    """The environment with the simulated GPUs of `state`."""
    return nvml.environment(library, state)
