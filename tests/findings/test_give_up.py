"""Of a waiting placement group it is told when the program that asked for it gives up, where its code says so."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.give_up import find_deadline, find_give_up
from cockpit.model import Bundle, Job
from tests.findings.detection import only
from tests.findings.waits import JOBS, group, seen
from tests.world import NOW

BOUND = (Bundle({"GPU": 1.0, "node:10.0.0.1": 0.001}), Bundle({"GPU": 1.0}))
SKYRL = "uv run --env-file .env -m skyrl.train.entrypoints.main_base"


def job(entrypoint):
    return Job("train2", "02000000", "train2", "RUNNING", entrypoint, NOW - 300)


def told(*groups, entrypoint="python serve.py"):
    return only(seen(groups=groups, jobs=(JOBS[0], job(entrypoint))), "placement-group-pending")


def test_a_group_of_vllms_executor_is_given_up_after_half_an_hour():
    found = told(group(seconds=600, bundles=BOUND))
    assert found.text.endswith("; the engine gives up in 20m00s")
    assert "vLLM's executor waits 1800 s (PG_WAIT_TIMEOUT); then its job fails" in found.evidence


def test_of_several_groups_the_one_that_is_given_up_first_counts():
    assert told(group(1, 60, bundles=BOUND), group(2, 600, bundles=BOUND), group(3, 900)).text.endswith("; the engine gives up in 20m00s")


def test_once_that_time_has_come_no_time_is_told():
    assert told(group(seconds=1900, bundles=BOUND)).text.endswith("; the engine gives up about now")


@pytest.mark.parametrize(
    ("entrypoint", "seconds"),
    [
        (SKYRL, 180),
        (f"SKYRL_RAY_PG_TIMEOUT_IN_S=900 {SKYRL}", 900),
        (f"env SKYRL_RAY_PG_TIMEOUT_IN_S='1200' {SKYRL}", 1200),
        ("python -m verl.trainer.main_ppo", None),
        (None, None),
    ],
)
def test_how_long_skyrl_waits_is_its_default_or_what_the_command_says(entrypoint, seconds):
    found = find_give_up(group(), job(entrypoint))
    assert (found.after if found else None) == seconds


@pytest.mark.parametrize("needs", [{"GPU": 1.0}, {"GPU": 1.0, "node:10.0.0.1": 1.0}, {"GPU": 0.001}])
def test_a_group_that_only_looks_like_an_engines_has_no_limit(needs):
    assert find_give_up(group(bundles=(Bundle(needs),)), None) is None
    assert find_give_up(group(bundles=()), None) is None


def test_when_half_of_the_time_is_gone_it_is_a_warning():
    levels = [told(group(seconds=seconds), entrypoint=SKYRL).level for seconds in (60, 89, 90, 119)]
    assert levels == ["info", "info", "warning", "warning"]
    assert told(group(seconds=90), entrypoint="python train.py").level == "info"


def test_a_group_of_which_nobody_knows_when_it_was_asked_for_has_no_time():
    assert find_deadline([replace(group(bundles=BOUND), since=None)], None) is None
