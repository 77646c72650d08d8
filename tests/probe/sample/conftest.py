"""Fixtures of the tests that read this host."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def temp() -> Iterator[Path]:
    """A temp dir of Ray with a short path: the name of a Unix socket has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)
