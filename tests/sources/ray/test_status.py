from __future__ import annotations

import msgspec
import pytest

from cockpit.model import Demand, Quantity
from cockpit.sources.ray import wire
from cockpit.sources.ray.status import GroupDemand, StatusReports, parse_status
from cockpit.sources.source import SourceError
from tests.sources.ray.recorded_ray import HEAD, Clock, RecordedRay, recorded


async def test_usage_and_demand_are_read_from_the_monitors_report():
    facts = await RecordedRay().ray().read_status()
    assert facts.usage is not None
    assert facts.usage[HEAD]["CPU"] == Quantity(used=2.0, total=2.0)
    assert facts.usage[HEAD]["object_store_memory"] == Quantity(used=0.0, total=200000000.0)
    assert not any("group" in name.lower() for name in facts.usage[HEAD])
    assert facts.demand is not None
    assert Demand(needs={"CPU": 1.0, "special_hw_a": 1.0}, count=1) in facts.demand
    assert Demand(needs={"GPU": 50.0}, count=1) in facts.demand, "bound to a group, with the group's name taken off"
    assert facts.strategies == (
        GroupDemand(bundles=({"GPU": 50.0},), strategy="PACK", count=1),
        GroupDemand(bundles=({"CPU": 1.0}, {"CPU": 1.0}), strategy="STRICT_SPREAD", count=1),
    )


@pytest.mark.parametrize("version", ["2.44.1", "2.9.3"])
async def test_older_rays_report_the_same(version):
    facts = await RecordedRay(version).ray().read_status()
    assert facts.usage is not None
    assert next(iter(facts.usage.values()))["accelerator_type:H100"].total == 1.0
    assert facts.demand == (Demand(needs={"GPU": 100.0}, count=1),)
    assert facts.strategies[0].strategy == "PACK"


def test_a_node_is_read_again_when_a_new_name_becomes_known():
    reports, blob = StatusReports(lambda: 0.0), {"time": 1.0, "loadMetricsReport": {"usageByNode": {HEAD: {"specialHwA": [0.0, 1.0]}}}}
    before = reports.update(msgspec.json.decode(msgspec.json.encode(blob), type=wire.AutoscalerReport), None)
    assert before.usage == {HEAD: {"specialHwA": Quantity(used=0.0, total=1.0)}}
    blob["loadMetricsReport"]["nodeTypes"] = [[{"special_hw_a": 1.0}, 1]]
    after = reports.update(msgspec.json.decode(msgspec.json.encode(blob), type=wire.AutoscalerReport), None)
    assert after.usage == {HEAD: {"special_hw_a": Quantity(used=0.0, total=1.0)}}


async def test_the_report_of_a_monitor_that_has_stopped_is_refused():
    ray, clock = RecordedRay(), Clock()
    it = ray.ray(clock)
    await it.read_status()
    clock.now += 20.0
    await it.read_status()
    clock.now += 5.0
    with pytest.raises(SourceError, match="monitor has reported nothing for 25 s; used and pending resources are old") as caught:
        await it.read_status()
    assert caught.value.cause == "monitor"
    ray.paths["/api/cluster_status"]["data"]["clusterStatus"]["time"] += 5
    assert (await it.read_status()).usage


async def test_the_monitors_error_is_reported_if_ray_knows_it():
    ray, clock = RecordedRay(), Clock()
    ray.paths["/api/cluster_status"]["data"]["autoscalingError"] = "Traceback\n  File x\nKeyError: 'password=hunter22'"
    it = ray.ray(clock)
    await it.read_status()
    clock.now += 25.0
    with pytest.raises(SourceError, match="KeyError") as caught:
        await it.read_status()
    assert "hunter22" not in str(caught.value)


def v2() -> RecordedRay:
    ray = RecordedRay()
    texts = {"1": recorded("status_v2_text"), None: recorded("status_v2")}
    ray.paths["/api/cluster_status"] = lambda request: texts[request.url.params.get("format")]
    return ray


async def test_with_autoscaler_v2_the_text_is_read_and_usage_by_node_is_unknown():
    facts = await v2().ray().read_status()
    assert facts.usage is None
    assert facts.demand == (Demand(needs={"CPU": 1.0, "GPU": 50.0}, count=1),)


async def test_text_and_json_report_the_same_demand():
    ray = RecordedRay()
    blob = await ray.ray().read_status()
    ray.paths["/api/cluster_status"] = lambda request: recorded("status_text" if "format" in request.url.params else "status_v2")
    text = await ray.ray().read_status()
    assert text.demand is not None
    assert blob.demand is not None
    assert sorted(text.demand, key=str) == sorted(blob.demand, key=str)
    assert sorted(text.strategies, key=str) == sorted(blob.strategies, key=str)


async def test_a_missing_status_and_a_text_of_another_format_are_unknown_and_not_empty():
    ray = RecordedRay(status="status_v2")
    with pytest.raises(SourceError, match="no status yet"):
        await ray.ray().read_status()
    ray = v2()
    ray.paths["/api/cluster_status"] = lambda request: (
        {"result": True, "msg": "", "data": {"clusterStatus": "No cluster status." if "format" in request.url.params else None}}
    )
    with pytest.raises(SourceError, match="unknown"):
        await ray.ray().read_status()


async def test_demands_with_an_implausible_or_overlong_count_are_left_out():
    ray = RecordedRay()
    blob = {
        "usageByNode": {HEAD: {"GPU": ["nan", "inf"], "CPU": [1.0, 2.0]}},
        "resourceDemand": [[{"CPU": 1.0}, "inf"], [{"GPU": 1.0}, 3]],
        "pgDemand": [[{"bundles": [[{"GPU": 1.0}, "nan"]], "strategy": "PACK"}, 1e300]],
    }
    ray.paths["/api/cluster_status"] = {"result": True, "msg": "", "data": {"clusterStatus": {"time": 1.0, "loadMetricsReport": blob}}}
    facts = await ray.ray().read_status()
    assert facts.usage == {HEAD: {"GPU": Quantity(), "CPU": Quantity(used=1.0, total=2.0)}}
    assert facts.demand == (Demand(needs={"GPU": 1.0}, count=3),)
    assert facts.strategies == ()
    text = "Usage:\n 1e999/2.0 CPU\n\nDemands:\n {'CPU': 1.0}: %s pending tasks/actors\n {'GPU': 1e999} * 2: 3+ pending tasks/actors\n"
    facts = parse_status(text % ("9" * 5000))
    assert facts.demand == ()
