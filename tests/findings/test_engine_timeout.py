"""A waiting placement group has a deadline if its program gives up after a time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.engine_timeout import find_deadline
from cockpit.model import Bundle
from tests.findings.detection import only
from tests.findings.waits import group, seen

BOUND = (Bundle({"GPU": 1.0, "node:10.0.0.1": 0.001}), Bundle({"GPU": 1.0}))


def find(*groups):
    return only(seen(groups=groups), "placement-group-pending")


def test_a_group_of_vllms_executor_times_out_after_half_an_hour_and_the_first_one_counts():
    found = find(group(seconds=600, bundles=BOUND))
    assert found.text.endswith("; the engine gives up in 20m00s")
    assert "vLLM's executor waits 1800 s (PG_WAIT_TIMEOUT); then its job fails" in found.evidence
    assert find(group(1, 60, bundles=BOUND), group(2, 600, bundles=BOUND), group(3, 900)).text.endswith("; the engine gives up in 20m00s")
    assert find(group(seconds=1900, bundles=BOUND)).text.endswith("; the engine gives up about now")


@pytest.mark.parametrize("needs", [{"GPU": 1.0}, {"GPU": 1.0, "node:10.0.0.1": 1.0}, {"GPU": 0.001}, None])
def test_a_group_that_only_looks_like_an_engines_or_has_no_known_age_has_no_limit(needs):
    assert find_deadline([group(bundles=(Bundle(needs),) if needs else ())]) is None
    assert find_deadline([replace(group(bundles=BOUND), since=None)]) is None


def test_after_half_of_the_time_it_is_a_warning():
    levels = [find(group(seconds=seconds, bundles=BOUND, why=None)).level for seconds in (120, 899, 900, 1199)]
    assert levels == ["info", "info", "warning", "warning"]
    assert find(group(seconds=900, why=None)).level == "info"
