"""Xids are reported with their meaning, the most severe first, for some hours."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.findings.gpus import reported_xids
from cockpit.model import Gpu, Host, Snapshot, Xid
from tests.findings.detection import detect, only
from tests.world import NOW, gpu, node, snapshot

XIDS = (reported_xids,)
LINE = "NVRM: Xid (PCI:0000:b1:00): 79, pid=1234, name=python, GPU has fallen off the bus."


def world(*gpus: Gpu, **more: Any) -> Snapshot:
    host = Host("node1", ("10.0.0.1",), NOW, gpus=gpus, nodes=(f"{1:056x}",))
    return snapshot(nodes=(node(1, gpus=gpus),), hosts={"node1": host}, faults=(), **more)


def found(*gpus: Gpu) -> Any:
    return detect(world(*gpus), 0, detectors=XIDS)


def test_xids_are_reported_with_meaning_line_and_age_the_most_severe_first():
    reported = only(found(gpu(0, xids=()), gpu(3, xids=(Xid(79, NOW - 720, LINE),))), "gpu-xid")
    assert (reported.level, reported.subject, reported.about, reported.since) == ("critical", "node1", (f"{node(1).key}:3",), NOW - 720)
    assert reported.text == "The driver reported Xid 79 on GPU 3 of node1 12m00s ago: the GPU has fallen off the bus"
    assert reported.evidence == (f"GPU 3: Xid 79, the GPU has fallen off the bus, 12m00s ago (`dmesg -T | grep -i xid`: {LINE})",)
    assert "nvidia-smi -r" in reported.remedy.text
    reported = only(found(gpu(1, xids=(Xid(31, NOW - 60), Xid(74, NOW - 600))), gpu(2, xids=(Xid(45, NOW - 30),))), "gpu-xid")
    assert reported.level == "warning"
    assert reported.text.endswith("Xid 74 on GPU 1 of node1 10m00s ago: an NVLink error (and 2 more)")
    assert [line.partition(",")[0] for line in reported.evidence] == ["GPU 2: Xid 45", "GPU 1: Xid 31", "GPU 1: Xid 74"]


@pytest.mark.parametrize(
    ("code", "ago", "level"),
    [
        (79, 4 * 3600 - 1, "critical"), (79, 4 * 3600 + 1, None), (31, 1799, "info"), (31, 1801, None), (9999, 60, "warning"),
        (63, 60, None), (79, -60, "critical"), (79, -(10**6), None),
    ],
)  # fmt: skip
def test_an_application_xid_is_reported_for_less_long_than_a_hardware_xid(code, ago, level):
    reported = found(gpu(0, xids=(Xid(code, NOW - ago),)))
    assert [finding.level for finding in reported] == ([level] if level else [])


def test_unknown_and_empty_xids_give_nothing_and_log_lines_are_cleaned():
    assert found(gpu(0, xids=None), gpu(1, xids=()), gpu(2, xids=(Xid(79, None),)), gpu(3000, xids=(Xid(79, NOW),))) == ()
    reported = only(found(gpu(0, xids=(Xid(79, NOW, LINE + chr(27) + "[2J"),))), "gpu-xid")
    assert chr(27) not in reported.evidence[0]
