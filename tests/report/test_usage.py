from __future__ import annotations

import pytest

from cockpit.report.usage import gpu_hours, idle_words, known_hours, memory_words, usage_pairs
from cockpit.usage import HourSums, MemoryMark, Owner, OwnerUsage
from tests.world import GIB, NOW

TRAIN = Owner("job", "02000000")


@pytest.mark.parametrize(("seconds", "words"), [(0, "0"), (36, "0.01"), (3600, "1.0"), (40_000, "11.1"), (4e6, "1111")])
def test_gpu_hours_are_short(seconds, words):
    assert gpu_hours(seconds) == words


def test_partly_known_hours_are_marked_and_unknown_hours_are_no_zero():
    assert [known_hours(3600, known, 100) for known in (100, 50, 0)] == ["1.0", ">1.0", "–"]


def test_idle_causes_are_sorted_and_empty_ones_left_out():
    assert idle_words({"unseen": 360.0, "placement": 7200.0, "dead": 0.0}) == "2.0 the job waits for placement, 0.10 cause not seen"


@pytest.mark.parametrize(("kill_at", "words"), [(950 * GIB, "Ray kills at 950G"), (None, "Ray's kill line is unknown")])
def test_memory_is_shown_with_rays_kill_line(kill_at, words):
    used = OwnerUsage(TRAIN, memory_mark=MemoryMark("w1", NOW, 900 * GIB, 1000 * GIB, kill_at))
    assert memory_words(used) == f"900G of 1.0T on w1, {words}"


def test_facts_about_a_job_distinguish_known_and_unknown():
    sums = HourSums(1800.0, {"turn": 3600.0}, 1800.0, reserved=7200.0, held=3600.0)
    told = dict(usage_pairs(OwnerUsage(TRAIN, sums=sums, seen_s=3600.0, unwatched_s=600.0, held_s=3600.0, kills=1, restarts=2)))
    assert told == {
        "watched": "1h00m; not recorded for 10m00s",
        "reserved": "–",
        "held": "1.0",
        "busy": "0.50  25%",
        "idle": "1.0  50%  (1.0 other GPUs of the job are busy)",
        "unknown": "0.50  25%",
        "fullest host": "–",
        "most memory": "– of GPU memory, – of host memory",
        "restarts, kills": "2 restarts of actors, 1 out-of-memory kill",
    }
