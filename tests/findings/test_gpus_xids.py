"""Xids are reported with their meaning, the most severe first, for some hours."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.findings.gpus import reported_xids
from cockpit.model import Gpu, Host, Snapshot, Xid
from tests.findings.detection import looked, only
from tests.world import NOW, gpu, node, snapshot

XIDS = (reported_xids,)
LINE = "NVRM: Xid (PCI:0000:b1:00): 79, pid=1234, name=python, GPU has fallen off the bus."


def world(*gpus: Gpu, **more: Any) -> Snapshot:
    host = Host("node1", ("10.0.0.1",), NOW, gpus=gpus, nodes=(f"{1:056x}",))
    return snapshot(nodes=(node(1, gpus=gpus),), hosts={"node1": host}, faults=(), **more)


def found(*gpus: Gpu) -> Any:
    return looked(world(*gpus), 0, detectors=XIDS)


def test_an_xid_is_told_with_its_meaning_its_line_and_its_age_and_the_worst_first():
    told = only(found(gpu(0, xids=()), gpu(3, xids=(Xid(79, NOW - 720, LINE),))), "gpu-xid")
    assert (told.level, told.subject, told.about, told.since) == ("critical", "node1", (f"{node(1).key}:3",), NOW - 720)
    assert told.text == "The driver reported Xid 79 on GPU 3 of node1 12m00s ago: the GPU has fallen off the bus"
    assert told.evidence == (f"GPU 3: Xid 79, the GPU has fallen off the bus, 12m00s ago (`dmesg -T | grep -i xid`: {LINE})",)
    assert "nvidia-smi -r" in told.remedy.text
    told = only(found(gpu(1, xids=(Xid(31, NOW - 60), Xid(74, NOW - 600))), gpu(2, xids=(Xid(45, NOW - 30),))), "gpu-xid")
    assert told.level == "warning"
    assert told.text.endswith("Xid 74 on GPU 1 of node1 10m00s ago: an NVLink error (and 2 more)")
    assert [line.partition(",")[0] for line in told.evidence] == ["GPU 2: Xid 45", "GPU 1: Xid 31", "GPU 1: Xid 74"]


@pytest.mark.parametrize(
    ("code", "ago", "level"),
    [
        (79, 4 * 3600 - 1, "critical"), (79, 4 * 3600 + 1, None), (31, 1799, "info"), (31, 1801, None), (9999, 60, "warning"),
        (63, 60, None), (79, -60, "critical"), (79, -(10**6), None),
    ],
)  # fmt: skip
def test_a_job_s_mistake_is_told_for_less_long_than_a_sick_gpu(code, ago, level):
    told = found(gpu(0, xids=(Xid(code, NOW - ago),)))
    assert [finding.level for finding in told] == ([level] if level else [])


def test_unknown_and_empty_tell_nothing_and_a_line_of_the_log_is_made_fit_for_a_terminal():
    assert found(gpu(0, xids=None), gpu(1, xids=()), gpu(2, xids=(Xid(79, None),)), gpu(3000, xids=(Xid(79, NOW),))) == ()
    told = only(found(gpu(0, xids=(Xid(79, NOW, LINE + chr(27) + "[2J"),))), "gpu-xid")
    assert chr(27) not in told.evidence[0]
