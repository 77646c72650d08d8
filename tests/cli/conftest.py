"""Gives each test of a command a home of its own, and an environment that says nothing of Ray, Slurm or cockpit."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("COCKPIT_", "RAY_", "SLURM_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path
