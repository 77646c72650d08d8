"""Disks, object stores and shared memory that are too full or too small for Ray."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings import Limits
from cockpit.findings.disks import full_disks, full_shm, full_stores, small_shm
from cockpit.model import Amount, Disk, Finding, Host, Quantity, Session, ShmUser
from tests.findings.detection import FreshTracker, after_silence, codes, detect, only
from tests.world import GIB, NOW, node, snapshot

ALONE = (full_disks, full_stores, small_shm)


def disk(share, path="/tmp/ray", total=1000):
    return Disk(path, None if share is None else int(share * total * GIB), total * GIB)


def full(*disks, sessions=(), **more):
    host = Host("node1", ("10.0.0.1",), NOW, nodes=(node(1).id,), sessions=sessions, disks=disks)
    return snapshot(nodes=(node(1, disks=disks, **more),), hosts={"node1": host})


def session(name, live, amount, **more):
    return Session(host="node1", name=name, path=f"/tmp/ray/{name}", live=live, owner="train", size=amount, **more)


SESSIONS = (
    session("session_live", True, 300 * GIB),
    session("session_small", False, 2 * GIB),
    session("session_large", False, 90 * GIB, keeps=("checkpoint-100/model.safetensors",)),
    session("session_new", None, None),
)


def test_a_full_disk_lists_its_sessions_dead_ones_first():
    found = only(detect(full(disk(0.961), sessions=SESSIONS), detectors=ALONE), "disk-full")
    assert found.text == (
        "The disk under /tmp/ray on node1 is 96% full (39G of 1.0T left): Ray no longer creates objects that may need to be spilled; "
        "2 dead sessions use 92G of the disk"
    )
    assert found.evidence == (
        "df /tmp/ray on node1: 961G of 1.0T",
        "du -sh /tmp/ray/session_large: 90G (dead, of train, protected: checkpoint-100/model.safetensors)",
        "du -sh /tmp/ray/session_small: 2.0G (dead, of train)",
        "du -sh /tmp/ray/session_live: 300G (live, of train)",
        "du -sh /tmp/ray/session_new: size still unknown (unknown whether live, of train)",
    )
    assert (found.level, found.subject, found.remedy.action) == ("critical", "node1 /tmp/ray", "clean")
    assert found.about == (node(1).key, SESSIONS[2].key, SESSIONS[1].key)


def test_a_filling_disk_is_a_warning_and_an_absurd_size_is_ignored():
    found = only(detect(full(disk(0.9), sessions=SESSIONS[:2]), detectors=ALONE), "disk-filling")
    assert found.text.startswith("The disk under /tmp/ray on node1 is 90% full (100G of 1.0T left): at 95% Ray stops creating objects")
    assert (found.level, found.remedy.action) == ("warning", None)
    found = only(
        detect(full(disk(0.97), sessions=(session("session_x", False, -5), session("session_y", False, 1 << 90))), detectors=ALONE),
        "disk-full",
    )
    assert "dead" not in found.text
    assert found.remedy.action is None


def test_a_disk_finding_ends_only_at_the_lower_mark():
    judge = FreshTracker(Limits(), ALONE)
    shares = [0.89, 0.9, 0.885, 0.95, 0.94, 0.929, 0.87]
    reported = [[found.code for found in judge(replace(full(disk(share)), taken=NOW + step)).findings] for step, share in enumerate(shares)]
    assert reported == [[], ["disk-filling"], ["disk-filling"], ["disk-full"], ["disk-full"], ["disk-filling"], []]


@pytest.mark.parametrize(
    "disks",
    [(), (disk(0.8),), (disk(None),), (disk(0.99, "/"), disk(0.1)), (Disk("/tmp/ray", 10, 0),), (Disk("/tmp/ray", -9, -9),), (disk(7.0),)],
)
def test_disks_with_room_unknown_absurd_or_elsewhere_are_not_reported(disks):
    assert detect(full(*disks), detectors=(full_disks,)) == ()


def test_a_disk_of_two_raylets_is_reported_once_and_the_only_known_disk_is_rays():
    both = (node(1, disks=(disk(0.97),)), node(1, id="f" * 56, disks=(disk(0.97),)))
    assert len(detect(snapshot(nodes=both), detectors=ALONE)) == 1
    assert only(detect(full(disk(0.97, "/"), sessions=SESSIONS), detectors=ALONE), "disk-full").subject == "node1 /"
    seen = snapshot(nodes=(node(1, disks=(disk(0.97),), seen=NOW),), hosts={})
    assert only(after_silence(seen, 90, detectors=ALONE), "disk-full").text.endswith(", as of 1m30s ago")


def store(used, total=100):
    return snapshot(nodes=(node(1, object_store=Amount(used * GIB, total * GIB)),))


def test_an_object_store_must_stay_full_to_be_reported():
    found = only(detect(store(97), detectors=ALONE), "object-store-full")
    assert found.text == "Ray's object store on node1 is 97% full (97G of 100G): new objects wait until others are spilled to disk"
    assert found.level == "warning"
    found = only(detect(store(85), detectors=ALONE), "object-store-filling")
    assert (found.level, found.text) == ("info", "Ray's object store on node1 is 85% full (85G of 100G): Ray spills objects to disk")
    assert detect(store(99), 55, detectors=ALONE) == ()
    assert only(FreshTracker(Limits(), ALONE, assumed=60.0)(store(97)).findings, "object-store-full").level == "info"


@pytest.mark.parametrize("fine", [store(79), store(0, 0), store(500), store(-5), snapshot(nodes=(node(1, object_store=Amount()),))])
def test_an_object_store_with_room_or_unknown_is_fine(fine):
    assert detect(fine, detectors=ALONE) == ()


def shared(*sizes, capacity=100):
    resources = {"object_store_memory": Quantity(0, capacity * GIB)}
    return snapshot(nodes=tuple(node(number, shm=Amount(0, total), resources=resources) for number, total in enumerate(sizes, 1)))


def test_shared_memory_too_small_for_the_object_store_is_reported_once_for_all_nodes():
    found = only(detect(shared(64 << 20, 200 * GIB, 64 << 20), detectors=ALONE), "shm-small")
    assert found.text == (
        "Shared memory (/dev/shm) is smaller than Ray's object store on node1 (64M, needs 100G), node3 (64M, needs 100G): "
        "Ray keeps it on disk, which is slow, and NCCL may lack shared memory"
    )
    assert (found.level, found.about) == ("warning", (node(1).key, node(3).key))


@pytest.mark.parametrize("fine", [shared(100 * GIB), shared(None), shared(0), shared(-5), shared(5, capacity=float("inf"))])
def test_sufficient_or_unknown_shared_memory_is_fine(fine):
    assert codes(detect(fine, detectors=ALONE)) == set()


SHM = (full_shm,)


def shm(used, total=100, users=None, **more):
    host = Host("node1", ("10.0.0.1",), NOW, nodes=(node(1).id,), shm_users=users)
    shm = Amount(None if used is None else int(used * GIB), total * GIB)
    return snapshot(nodes=(node(1, shm=shm, **more),), hosts={"node1": host})


def test_almost_full_shared_memory_is_reported():
    found = only(detect(shm(97, object_store=Amount(60 * GIB, 90 * GIB)), detectors=SHM), "shm-full")
    assert found.text == (
        "Shared memory (/dev/shm) on node1 is 97% full (3.0G of 100G left); Ray's object store holds 60G: "
        "the next process that writes there is killed by a bus error (NCCL, data loaders, engines)"
    )
    assert (found.level, found.about) == ("warning", (node(1).key,))


@pytest.mark.parametrize("fine", [shm(94.9), shm(None), shm(0), shm(5, 0), shm(101), snapshot(nodes=None), shm(97, state="DEAD")])
def test_shared_memory_with_room_or_unknown_is_fine(fine):
    assert detect(fine, detectors=SHM) == ()


def test_full_shared_memory_must_last_and_its_finding_ends_only_at_the_lower_mark():
    assert detect(shm(97), 55, detectors=SHM) == ()
    judge = FreshTracker(Limits(store_age=0.0), SHM)
    assert [bool(judge(shm(used)).findings) for used in (94, 95, 94, 92)] == [False, True, True, False]


def held(*users, used=97):
    return shm(used, users=users if users != (None,) else None)


def test_full_shared_memory_names_the_owners_of_its_files_and_the_nameless_rest():
    found = only(detect(held(ShmUser("alice", 5 * GIB), ShmUser("bob", 30 * GIB), ShmUser(None, 2 * GIB)), detectors=SHM), "shm-full")
    assert found.evidence == (
        "df /dev/shm on node1: 97G of 100G",
        "files in /dev/shm by user: bob 30G, alice 5.0G, – 2.0G",
        "60G is in deleted files that are still open, as Ray's object store is, or in files that the probe can't see",
    )
    assert only(detect(held(None), detectors=SHM), "shm-full").evidence == ("df /dev/shm on node1: 97G of 100G",)
    assert only(detect(held(), detectors=SHM), "shm-full").evidence[1].startswith("97G is in deleted files")
    assert detect(held(ShmUser("bob", 90 * GIB), used=90), detectors=SHM) == ()


def test_tiny_shares_are_not_listed_and_a_users_name_cannot_do_harm():
    found = only(
        detect(held(ShmUser("a\x1b[2J", 96 * GIB), ShmUser("b", 0), ShmUser("c", -5), ShmUser("d", 1 << 60)), detectors=SHM), "shm-full"
    )
    assert len(found.evidence) == 2
    assert found.evidence[1].startswith("files in /dev/shm by user: a")
    assert found.evidence[1].endswith("[2J 96G")
    assert "\x1b" not in found.evidence[1]


def test_paths_of_disks_and_sessions_are_printed_complete_and_quoted_or_not_printed():
    def find(temp: str) -> Finding:
        disk, session = Disk(temp, 96, 100), Session(host="host1", name="session_a", path=f"{temp}/session_a", live=True)
        host = Host("host1", ("10.0.0.1",), NOW, nodes=(node(1).id or "",), disks=(disk,), sessions=(session,))
        return only(detect(snapshot(nodes=(node(1, disks=(disk,)),), hosts={"host1": host}), detectors=(full_disks,)), "disk-full")

    long = f"/data/{'a' * 70}/x y"
    found = find(long)
    assert f"`du -xh --max-depth 2 '{long}' | sort -h`" in found.remedy.text
    assert found.evidence == (f"df '{long}' on node1: 96B of 100B", f"du -sh '{long}/session_a': size still unknown (live)")
    found = find("/data/\x1b[2J")
    assert "du " not in found.remedy.text
    assert [line.split()[0] for line in found.evidence] == ["the", "/data/\N{REPLACEMENT CHARACTER}[2J/session_a:"]
