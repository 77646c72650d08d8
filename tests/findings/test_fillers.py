"""Logs, caches and checkpoints that fill a disk, their owners, and the remedies."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.disks import full_disks, full_shm
from cockpit.model import Amount, Cluster, Disk, FilledDisk, Filler, Host, Job, Process, Session
from cockpit.secrets import HIDDEN
from tests.findings.detection import detect, only
from tests.world import GIB, NOW, node, snapshot

SESSION = "session_2026-11-27_10-00-00_123456_789"
LOGS = f"/tmp/ray/{SESSION}/logs"
LOG = Filler(kind="driver_log", path=f"{LOGS}/job-driver-train1.log", size=610 * GIB, job="train1", session=SESSION, user="alice")
CACHE = Filler(kind="cache", path="/home/train/.cache/huggingface", size=200 * GIB, files=12, name="Hugging Face")
RUN = Filler(kind="checkpoints", path="/data/ppo/run1", size=90 * GIB, files=40, name="ppo/run1", pid=7)
SMALL = Filler(kind="file", path="/data/small.bin", size=11 * GIB)
OURS = Cluster(session=SESSION)
TRAIN = Job("train1", "02000000", "train1", "RUNNING")
TRAINER = Process(host="host1", pid=7, ticks=1, command="/opt/venv/bin/python /home/a/train.py x", job="02000000")


def filled(*fillers, whole=True, jobs=(TRAIN,), processes=(TRAINER,), path="/tmp/ray", sessions=(), cluster=OURS, seen=None):
    disk = Disk("/tmp/ray", 961 * GIB, 1000 * GIB)
    found = (FilledDisk(path, fillers, whole, seen),)
    host = Host("host1", ("10.0.0.1",), NOW, nodes=(node(1).id,), disks=(disk,), sessions=sessions, filled=found)
    reported = snapshot(nodes=(node(1, probe="host1"),), hosts={"host1": host}, jobs=jobs, processes=processes)
    return only(detect(replace(reported, cluster=cluster), detectors=(full_disks,)), "disk-full")


def test_the_three_largest_are_named_with_their_owners():
    found = filled(SMALL, RUN, LOG, CACHE)
    assert found.text == (
        "The disk under /tmp/ray on node1 is 96% full (39G of 1.0T left): Ray no longer creates objects that may need to be spilled; "
        "largest: driver log of job train1 (610G), cache of Hugging Face (200G), checkpoints of run ppo/run1 of job train1 (90G)"
    )
    assert found.evidence == (
        "df /tmp/ray on node1: 961G of 1.0T",
        f"du -sh {LOG.path} on node1: 610G (driver log of job train1, of alice)",
        "du -sh /home/train/.cache/huggingface on node1: 200G in 12 files (cache of Hugging Face)",
        "du -sh /data/ppo/run1 on node1: 90G in 40 files (checkpoints of run ppo/run1 of job train1; used by pid 7 python train.py x)",
        "du -sh /data/small.bin on node1: 11G (/data/small.bin)",
    )
    assert found.about == (node(1).key, TRAIN.key, TRAINER.key)


def test_a_logs_job_can_be_stopped_and_no_command_writes_through_a_shared_folder():
    how = "but see first that no folder of that path is a link: others can put one there; then let the job print less"
    assert filled(LOG).remedy.text == (
        f"`cockpit stop-job train1` ends the job; or empty the log {LOG.path} on node1 "
        f"(also while it is written, for Ray appends to it), {how}"
    )
    ended = filled(LOG, jobs=(replace(TRAIN, status="FAILED"),))
    assert "driver log of ended job train1 (610G)" in ended.text
    assert ended.remedy.text == f"empty the log {LOG.path} on node1 (its job is over), {how}"


@pytest.mark.parametrize(
    ("filler", "words", "remedy"),
    [
        (
            CACHE,
            "cache of Hugging Face",
            "remove from /home/train/.cache/huggingface on node1 what no job uses; set HF_HOME to a larger disk for the next start",
        ),
        (replace(CACHE, name="uv"), "cache of uv", "`uv cache prune` on node1 makes room"),
        (
            RUN,
            "checkpoints of run ppo/run1 of job train1",
            "move old checkpoints out of /data/ppo/run1 on node1, and keep fewer (OpenRLHF: ",
        ),
        (replace(LOG, kind="spilled", path="/s", job=None), "objects that Ray spilled", "`ray memory` lists who refers to the objects"),
        (
            replace(LOG, kind="ray_log", path=f"{LOGS}/raylet.out", job=None),
            "Ray's log raylet.out",
            f"empty the log {LOGS}/raylet.out on node1 (also while it is written",
        ),
        (
            replace(LOG, kind="worker_log", path=f"{LOGS}/w.out", job="02000000", worker=7),
            "log of worker 7 of job train1",
            f"`cockpit stop-job train1` ends the job; or empty the log {LOGS}/w.out on node1 (",
        ),
        (
            replace(RUN, kind="deleted"),
            "a deleted file of job train1 that pid 7 python train.py x has open",
            "the room comes back when process 7 on",
        ),
        (
            replace(RUN, kind="core", path="/a/core.1", pid=None),
            "core dump /a/core.1",
            "remove the core dump /a/core.1 on node1 after you have looked at it",
        ),
        (
            replace(SMALL, size=99 * GIB),
            "/data/small.bin",
            "see what of it can go: `du -xh --max-depth 3 /data/small.bin | sort -h` on node1",
        ),
    ],
)
def test_each_kind_has_its_text_and_remedy(filler, words, remedy):
    found = filled(filler)
    assert f"; largest: {words} (" in found.text
    assert found.remedy.text.startswith(remedy)


def test_dead_sessions_are_cleaned_first_and_their_files_named_once():
    dead = Session(host="host1", name="session_dead", path="/tmp/ray/session_dead", live=False, size=300 * GIB)
    found = filled(replace(LOG, session="session_dead", size=290 * GIB), CACHE, sessions=(dead,))
    assert found.text.endswith("; largest: cache of Hugging Face (200G); 1 dead session uses 300G of the disk")
    assert (found.remedy.action, found.remedy.text) == (
        "clean",
        "remove the files of dead sessions; files that look like checkpoints or core dumps stay",
    )
    also = filled(LOG, sessions=(dead,))
    assert also.remedy.action == "clean"
    assert f" stay; then `cockpit stop-job train1` ends the job; or empty the log {LOG.path} on node1 (" in also.remedy.text


def test_a_log_of_another_or_unknown_session_is_not_our_jobs():
    found = filled(LOG, cluster=Cluster(session="session_ours"))
    assert f"driver log of job train1 of {SESSION} (610G)" in found.text
    assert "stop-job" not in found.remedy.text
    found = filled(replace(LOG, session=None))
    assert TRAIN.key not in found.about
    assert "stop-job" not in found.remedy.text


def test_files_elsewhere_named_like_a_dead_sessions_are_reported():
    dead = Session(host="host1", name=SESSION, path=f"/tmp/ray/{SESSION}", live=False)
    elsewhere = replace(SMALL, path=f"/data/{SESSION}/logs/x.log", size=300 * GIB)
    assert f"; largest: /data/{SESSION}/logs/x.log (300G)" in filled(elsewhere, sessions=(dead,)).text
    living = replace(dead, path=f"/data/{SESSION}", live=True)
    assert "; largest: driver log of job train1 (610G)" in filled(LOG, sessions=(dead, living)).text


def test_an_incomplete_or_old_count_says_so():
    assert filled(CACHE, whole=False).evidence[-1].startswith("not all of it was counted")
    assert filled(whole=False).evidence[-1].startswith("not all of it was counted")
    assert len(filled().evidence) == 1
    assert "; largest: cache of Hugging Face (200G)" in filled(CACHE, seen=NOW - 59).text
    assert "; largest, as of 3 min ago: cache of Hugging Face (200G)" in filled(CACHE, seen=NOW - 200).text


def test_a_harmful_name_is_neither_shown_nor_printed_in_a_command_and_a_long_path_is_complete():
    bad = replace(LOG, path=f"{LOGS}/job-driver-a\x1b[2J'; reboot.log", job="a\x1b[2J")
    found = filled(bad, jobs=())
    assert "\x1b" not in found.text + "".join(found.evidence) + found.remedy.text
    assert "du " not in "".join(found.evidence) + found.remedy.text.replace("du -xh --max-depth 2 /tmp/ray", "")
    quoted = filled(replace(SMALL, path="/tmp/a'; reboot.log", size=99 * GIB))
    assert """`du -xh --max-depth 3 '/tmp/a'"'"'; reboot.log' | sort -h` on node1""" in quoted.remedy.text
    assert """du -sh '/tmp/a'"'"'; reboot.log' on node1: 99G""" in quoted.evidence[1]
    hidden = filled(replace(SMALL, path=f"/tmp/{HIDDEN}.log", size=99 * GIB))
    assert hidden.evidence[1].startswith(f"/tmp/{HIDDEN}.log on node1: 99G")
    assert "du -xh --max-depth 3" not in hidden.remedy.text
    path = f"/data/{'a' * 70}/x.bin"
    found = filled(replace(SMALL, path=path, size=99 * GIB))
    assert f"`du -xh --max-depth 3 {path} | sort -h`" in found.remedy.text
    assert found.evidence[1].startswith(f"du -sh {path} on node1: 99G")


@pytest.mark.parametrize(("filler", "path"), [*((replace(CACHE, size=size), "/tmp/ray") for size in (-5, 1 << 60, 0)), (CACHE, "/other")])
def test_an_absurd_size_or_another_disk_is_no_filler(filler, path):
    assert "largest" not in filled(filler, path=path).text


def test_full_shared_memory_names_its_files():
    store = Filler(kind="shm", path="/dev/shm/plasma*", size=60 * GIB, name="Ray's object store", pid=7)
    filled = (FilledDisk("/dev/shm", (store,), True),)
    host = Host("host1", ("10.0.0.1",), NOW, nodes=(node(1).id,), filled=filled)
    reported = snapshot(nodes=(node(1, probe="host1", shm=Amount(97 * GIB, 100 * GIB)),), hosts={"host1": host})
    found = only(detect(reported, detectors=(full_shm,)), "shm-full")
    assert found.text.startswith(
        "Shared memory (/dev/shm) on node1 is 97% full (3.0G of 100G left); largest: Ray's object store (/dev/shm/plasma*) (60G): "
    )
