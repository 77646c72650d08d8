"""Kills of Ray's memory monitor, recorded from real Rays of new and old versions: each kill appears once and none disappears."""

from __future__ import annotations

import pytest

from cockpit.sources.ray.oom import CALM_PAUSE_S, KEEP_S, find_victims
from cockpit.sources.source import SourceError
from tests.sources.ray.recorded_ray import Clock, RecordedRay, listing, recorded

ENDED = {"2.60": 1_795_274_422.458, "2.44.1": 1_795_274_569.953}
"""The time of the last of the three kills in each recording."""
GIB = 1 << 30


def recorded_kills(version, *, cut=False, events="events_oom", after=60.0):
    """A Ray with the recorded answers, `after` seconds after the kills; its list of workers may be cut."""
    ray, clock = RecordedRay(version), Clock()
    clock.now = ENDED[version] + after
    workers = recorded("workers_oom", version)
    if cut:
        workers = listing(total=20_000, num_after_truncation=10_000, num_filtered=0)
    ray.paths["/api/v0/workers"] = workers
    ray.paths["/events"] = recorded(events, version)
    return ray, clock


@pytest.mark.parametrize("version", ["2.60", "2.44.1"])
async def test_a_kill_has_its_worker_its_time_and_its_memory(version):
    ray, clock = recorded_kills(version)
    kills = (await ray.ray(clock).read_kills()).kills
    assert [(kill.by, kill.name, kill.job) for kill in kills] == [
        ("ray", "hogtask", "02000000"),
        ("ray", "hog:Hog.__init__", "02000000"),
        ("ray", "hog:Hog.__init__", "02000000"),
    ]
    assert kills[0].moment == ENDED[version]
    assert kills[0].actor is None
    assert kills[1].actor == kills[2].actor
    assert kills[1].actor.endswith("02000000")
    assert len({kill.key for kill in kills}) == 3
    assert 1 * GIB < kills[2].held < 3 * GIB
    assert kills[0].text.startswith("Memory on the node (IP: 10.99.2.1")


@pytest.mark.parametrize(("version", "known"), [("2.60", 3), ("2.44.1", 2)])
async def test_if_ray_cuts_its_list_the_kills_come_from_its_events(version, known):
    """The events of the old version did not have the last kill yet."""
    ray, clock = recorded_kills(version, cut=True)
    kills = (await ray.ray(clock).read_kills()).kills
    assert len(kills) == known
    assert {kill.name for kill in kills} <= {"hogtask", "hog:Hog.__init__"}
    assert all(kill.held and kill.node and ENDED[version] - 60 < kill.moment <= ENDED[version] for kill in kills)


async def test_only_these_workers_are_requested_at_long_intervals_and_events_only_if_needed():
    ray, clock = recorded_kills("2.60")
    it = ray.ray(clock)
    await it.read_kills()
    asked = [request.url.params for request in ray.asked if request.url.path == "/api/v0/workers"]
    assert [params["filter_values"] for params in asked] == ["NODE_OUT_OF_MEMORY"]
    assert ray.times_asked("/events") == 0
    assert next(source for source in it.sources if source.name == "ray.oom").pause() >= CALM_PAUSE_S


async def test_an_empty_list_removes_no_known_kill_but_an_hour_does():
    ray, clock = recorded_kills("2.60")
    it = ray.ray(clock)
    before = await it.read_kills()
    ray.paths["/api/v0/workers"] = listing()
    assert await it.read_kills() == before
    ray, clock = recorded_kills("2.60")
    it = ray.ray(clock)
    await it.read_kills()
    clock.now += KEEP_S
    assert (await it.read_kills()).kills == ()


async def test_another_cluster_has_had_no_such_kills():
    ray, clock = recorded_kills("2.60")
    it = ray.ray(clock)
    await it.identify()
    await it.read_kills()
    ray.paths["/api/v0/workers"] = listing()
    ray.paths["/api/version"] = {**recorded("version"), "session_name": "session_2026-11-22"}
    await it.identify()
    assert (await it.read_kills()).kills == ()


async def test_a_ray_that_refuses_is_a_fault():
    ray, clock = recorded_kills("2.60")
    ray.paths["/api/v0/workers"] = (500, "500 Internal Server Error")
    with pytest.raises(SourceError):
        await ray.ray(clock).read_kills()


async def test_a_kill_with_few_details_is_reported_too():
    ray, clock = recorded_kills("2.60")
    bare = {"node_id": "ab" * 28, "pid": 77, "exit_type": "NODE_OUT_OF_MEMORY", "end_time_ms": int(clock.now * 1000) - 1000}
    others = {"exit_type": "USER_ERROR", "pid": 78, "node_id": "ab" * 28, "end_time_ms": bare["end_time_ms"]}
    ray.paths["/api/v0/workers"] = listing(bare, {**bare, "pid": 0}, {**bare, "pid": 79, "end_time_ms": 0}, others)
    (kill,) = (await ray.ray(clock).read_kills()).kills
    assert (kill.pid, kill.name, kill.held, kill.text) == (77, None, None, "")


def test_a_text_that_a_task_invented_costs_no_time_and_hides_secrets():
    text = "Selected to kill: (Task: job ID=02000000, lease ID=0, task name=" + "a, task name=" * 20_000
    assert list(find_victims(text)) == []
    name = "WANDB_API_KEY=0123456789abcdef0123"
    text = (
        f"Selected to kill: (Task: job ID=02000000, lease ID=0, task name={name}, required resources={{}}, pid=5, actual memory used=1.00GB"
    )
    (victim,) = find_victims(text)
    assert "0123456789abcdef" not in victim.name
