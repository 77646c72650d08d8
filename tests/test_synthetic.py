"""The dashboard of the benchmark answers as real Rays were recorded answering."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cockpit.sources.ray.client import RayClient
from tests.fakes import records, shapes
from tests.fakes.dashboard import Dashboard
from tests.fakes.shapes import Shape

RECORDED = Path(__file__).parent / "recorded"


def recorded(version: str, name: str) -> Any:
    return json.loads((RECORDED / version / f"{name}.json").read_text())


def every_key(rows: Iterable[dict[str, Any]]) -> set[str]:
    return {key for row in rows for key in row}


def listed(name: str) -> list[dict[str, Any]]:
    return recorded("2.60", name)["data"]["result"]["result"]


def test_names_of_resources_are_mangled_as_ray_mangles_them():
    real = recorded("2.60", "nodes_groups")["data"]["summary"][0]["raylet"]
    groups = {name for worker in real["coreWorkersStats"] for name in worker["usedResources"]}
    plain = [
        "object_store_memory",
        "accelerator_type:H100",
        "node:__internal_head__",
        *shapes.group_needs("1170df76616358ce8c39a7b4122302000000", 0),
    ]
    assert {shapes.mangled(Shape(), name) for name in plain} <= groups | set(real["resourcesTotal"])
    assert [shapes.mangled(Shape(version="2.44.1"), name) for name in plain] == plain


def node_gpus() -> list[dict[str, Any]]:
    return [gpu for node in recorded("2.60", "nodes")["data"]["summary"] for gpu in node["gpus"]]


NODE, MADE_NODE = recorded("2.60", "nodes")["data"]["summary"][0], shapes.node(Shape(), 0)
STATUS, MADE_STATUS = recorded("2.60", "status_groups")["data"], records.cluster_status(Shape(), 0.0)
GROUPS, MADE_GROUP = listed("placement_groups"), records.placement_group(Shape(), 0)
MADE_GPU = shapes.gpu(Shape(), 0, 0)


@pytest.mark.parametrize(
    ("made", "real"),
    [
        (MADE_NODE, NODE),
        *((MADE_NODE[name], NODE[name]) for name in ("raylet", "agent", "gcs")),
        (MADE_NODE["disk"]["/"], NODE["disk"]["/"]),
        (MADE_NODE["raylet"]["coreWorkersStats"][0], every_key(NODE["raylet"]["coreWorkersStats"])),
        (MADE_GPU, every_key(node_gpus())),
        (MADE_GPU["processesPids"][0], every_key(process for gpu in node_gpus() for process in gpu["processesPids"] or ())),
        (records.actor(Shape(), 0, detail=True), every_key(listed("actors"))),
        (MADE_GROUP, every_key(GROUPS)),
        (MADE_GROUP["bundles"][0], every_key(bundle for row in GROUPS for bundle in row["bundles"])),
        (records.job(Shape(), 0), every_key(recorded("2.60", "jobs"))),
        (records.node_record(Shape(), 0), every_key(listed("nodes_v0_dead"))),
        (MADE_STATUS, STATUS),
        (MADE_STATUS["clusterStatus"], STATUS["clusterStatus"]),
        *((MADE_STATUS["clusterStatus"][name], STATUS["clusterStatus"][name]) for name in ("autoscalerReport", "loadMetricsReport")),
    ],
)
def test_what_is_made_up_has_the_fields_of_what_was_recorded(made: dict[str, Any], real: Iterable[str]):
    assert set(made) == set(real)


@pytest.mark.parametrize("version", ["2.44.1", "2.9.3"])
def test_an_older_ray_says_less(version: str):
    real = recorded(version, "nodes")["data"]["summary"][0]
    made = shapes.node(Shape(version=version), 1)
    assert not {"hostMem", "cgroupMem", "tpus"} & (set(made) | set(real))
    assert not {"powerMw", "temperatureC"} & (every_key(made["gpus"]) | every_key(real["gpus"]))
    assert "object_store_memory" in made["raylet"]["resourcesTotal"]
    assert "object_store_memory" in real["raylet"]["resourcesTotal"]


@pytest.fixture
async def dashboard() -> AsyncIterator[tuple[Dashboard, str]]:
    made = Dashboard(Shape(nodes=3, actors=24, pending=4))
    runner = web.AppRunner(made.application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield made, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_cockpit_reads_it_as_a_ray(dashboard: tuple[Dashboard, str]):
    ray = RayClient(dashboard[1])
    identity, nodes, actors = await ray.identify(), await ray.read_nodes(), await ray.read_actors()
    await ray.close()
    assert identity.ray_version == "2.60.0"
    assert [len(node.agent.gpus or ()) for node in nodes.nodes] == [8, 8, 8]
    assert sum(actor.pending for actor in actors.actors) == 4


async def test_it_counts_how_it_is_asked(dashboard: tuple[Dashboard, str]):
    ray = RayClient(dashboard[1])
    await ray.read_nodes()
    await ray.read_nodes()
    await ray.close()
    tally = dashboard[0].counts()["endpoints"]["/nodes"]
    assert tally["requests"] == 2
    assert tally["most_at_once"] == 1
    assert tally["shortest_gap"] < 1
    assert dashboard[0].counts()["dear"] == {}
