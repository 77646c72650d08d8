"""The demo writes a preset that restarts its own Ray."""

from __future__ import annotations

import socket

import pytest

from cockpit.actions.recover.steps import is_demo
from cockpit.budget import budget_of
from cockpit.demo.preset import NAME, write_preset
from cockpit.demo.processes import MARK
from cockpit.presets import RayStart, doubts, read_preset

pytestmark = pytest.mark.process


def test_the_preset_has_the_ports_of_the_demo_and_fits_its_node(tmp_path):
    write_preset(tmp_path, "/env/bin/python", "127.0.0.1:40123", 8299, (20001, 20002), {MARK: str(tmp_path)})
    preset = read_preset(tmp_path / "presets" / f"{NAME}.yaml")
    assert isinstance(preset.ray, RayStart)
    assert is_demo(preset.ray)
    assert [node.host for node in preset.ray.nodes] == [socket.gethostname()]
    flags = preset.ray.head.flags
    assert (flags["port"], flags["dashboard_port"], flags["dashboard_host"]) == (40123, 8299, "127.0.0.1")
    assert flags["temp_dir"] == str(tmp_path / "ray")
    assert preset.job is not None
    budget = budget_of(preset.job.entrypoint)
    assert budget.lines == ()
    assert budget.amount("GPU") == 6, "the reward server takes one more"
    assert not doubts(preset)
