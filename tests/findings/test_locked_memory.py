"""Limits of locked memory on hosts with RDMA devices."""

from __future__ import annotations

import pytest

from cockpit.findings.locked_memory import low_locked_memory
from tests.findings.detection import detect, only
from tests.findings.raylets import cluster, place

ALONE = (low_locked_memory,)
DEVICES = ("mlx5_0", "mlx5_1")


def find(*places):
    return detect(cluster(*places), detectors=ALONE)


def test_a_low_limit_is_reported_for_all_hosts_together():
    low = place(2, locked_memory=65536, rdma=DEVICES)
    found = only(find(place(1, locked_memory=65536, rdma=DEVICES), place(2, locked_memory=8 << 20, rdma=DEVICES)), "locked-memory-low")
    assert found.text == (
        "Workers may lock only 64K of memory on node1, node2 (ulimit -l; wanted: at least 1.0G), which have RDMA devices: "
        "NCCL fails there with `Call to ibv_reg_mr failed`"
    )
    assert (found.level, found.about) == ("warning", (place(1)[0].key, place(2)[0].key))
    assert found.evidence[0] == "/proc/21/limits on node1: Max locked memory 65536; /sys/class/infiniband: mlx5_0, mlx5_1"
    assert found.remedy
    assert found.remedy.text.startswith("`ulimit -l unlimited` before `ray start`")
    assert " on node2 (ulimit -l; wanted: at least 1.0G), which has " in only(find(place(1, rdma=DEVICES), low), "locked-memory-low").text
    assert find(low) == (), "a cluster on one host needs no network"


@pytest.mark.parametrize(
    "fine",
    [
        {"rdma": DEVICES, "locked_memory": 1 << 30}, {"rdma": DEVICES, "locked_memory": None}, {"rdma": DEVICES, "locked_memory": -1},
        {"rdma": (), "locked_memory": 65536}, {"rdma": None, "locked_memory": 65536}, {"rdma": DEVICES, "locked_memory": 10**30},
    ],
)  # fmt: skip
def test_sufficient_unneeded_and_unknown_limits_are_not_reported(fine):
    assert find(place(1), place(2, **fine)) == ()
