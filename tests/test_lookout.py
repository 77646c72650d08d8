from __future__ import annotations

import asyncio
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from world import NOW, node, process, snapshot

from cockpit import lookout as lookout_module
from cockpit.config import Address, Config
from cockpit.lookout import INTERVALS, Lookout, look_once
from cockpit.model import Cluster, Host, Session
from cockpit.reach import HostEntry
from cockpit.sources import hosts as hosts_module
from cockpit.sources.ray import JobFacts, NodeFacts
from cockpit.sources.source import Source, SourceError

HERE = socket.gethostname()
QUIET = [sys.executable, "-c", "import time; time.sleep(3600)"]
WORKER = node(2)


def session(name, port, **more):
    facts = {"live": True, "dashboard": f"http://10.0.0.1:{port}", **more}
    return Session(HERE, name, f"/tmp/ray/{name}", **facts)


def here(*sessions, **more):
    """What this host's own probe says."""
    facts = {"addresses": ("10.0.0.1",), "taken": NOW, "processes": (), "sessions": sessions, "local": True, **more}
    return Host(HERE, **facts)


class Ray:
    """A dashboard that says only who it is, when it is told to."""

    made: list[Ray]
    answer: object = SourceError("connection refused")

    silent = ""

    def __init__(self, address, *, clock, token=None):
        self.address, self.closed, self.token = address, False, token
        self.sources = (Source("ray.identity", self.identify, every=0.01),)
        self.made.append(self)

    async def identify(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self):
        self.closed = True

    async def session(self):
        if self.address == self.silent:
            raise SourceError("connection refused")
        return f"of {self.address}"

    async def read_jobs(self):
        return JobFacts(("job",))

    async def dead_actors(self):
        return ("the dead",)

    async def follow_log(self, job, lines):
        yield [f"log of {job}"]


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setattr(lookout_module, "Ray", Ray)
    monkeypatch.setattr(Ray, "made", [], raising=False)
    monkeypatch.setattr(Ray, "answer", Ray.answer)
    return Ray


@pytest.fixture
async def look(ray, monkeypatch):
    """Makes lookouts whose own probe says nothing by itself; the test speaks for it."""
    monkeypatch.setattr(hosts_module, "local_command", lambda _: QUIET)
    monkeypatch.setattr(lookout_module, "PATIENCE", 60.0)
    made = []

    def make(config=Config(), env=None, *, begin=True, **more):  # noqa: B008
        lookout = Lookout(config, more.pop("publish", lambda _: None), env=env or {}, **more)
        made.append((lookout, asyncio.ensure_future(lookout.run()) if begin else None))
        return lookout

    yield make
    for lookout, task in made:
        lookout.close()
        lookout.poller.leave()
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until(fact):
    deadline = time.monotonic() + 5
    while not fact():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.002)


# Which cluster


async def test_an_address_that_was_given_is_asked_at_once(look):
    lookout = look(Config(address="http://head:8265"))
    await until(lambda: lookout.address)
    assert (lookout.address.url, [made.address for made in Ray.made]) == ("http://head:8265", ["http://head:8265"])


async def test_rays_own_variable_is_asked_at_once(look):
    lookout = look(env={"RAY_ADDRESS": "http://elsewhere:8265"})
    await until(lambda: lookout.address)
    assert lookout.address == Address("http://elsewhere:8265", "RAY_ADDRESS")


async def test_nobody_is_asked_before_the_probe_has_told_of_the_session_here(look):
    lookout = look()
    await asyncio.sleep(0.02)
    assert lookout.address is None
    lookout.hear(here(session("session_1", 9265)))
    await until(lambda: lookout.address)
    assert lookout.address == Address("http://10.0.0.1:9265", "session_1")


async def test_a_dead_session_is_not_asked(look):
    lookout = look()
    lookout.hear(here(session("session_1", 9265, live=False), session("session_2", 9266)))
    await until(lambda: lookout.address)
    assert lookout.address.origin == "session_2"


async def test_a_probe_that_says_nothing_is_waited_for_only_so_long(look, monkeypatch):
    monkeypatch.setattr(lookout_module, "PATIENCE", 0.02)
    lookout = look()
    await until(lambda: lookout.address)
    assert lookout.address == Address("http://127.0.0.1:8265", "default")


async def test_a_probe_that_fails_is_not_waited_for(look):
    lookout = look()
    lookout.doubt("probe", "no Python there", HERE)
    await until(lambda: lookout.address)
    assert lookout.address.origin == "default"


async def test_between_two_sessions_somebody_must_choose(look):
    lookout, offered = look(), []
    lookout.choose = offered.append
    two = (session("session_1", 9265), session("session_2", 9266))
    lookout.hear(here(*two))
    await until(lambda: lookout.asked)
    lookout.hear(here(*two))
    assert offered == [(Address("http://10.0.0.1:9265", "session_1"), Address("http://10.0.0.1:9266", "session_2"))]
    assert lookout.address is None
    assert not Ray.made
    lookout.follow(lookout.asked[1])
    assert lookout.address.origin == "session_2"


async def test_whoever_must_choose_is_asked_once_and_not_at_every_look(look):
    lookout, offered = look(), []
    lookout.choose = offered.append
    lookout.hear(here(session("session_1", 9265)))
    await until(lambda: lookout.poller.parts.cluster.reachable is False)
    for _ in range(3):
        lookout.hear(here(session("session_2", 9266), session("session_3", 9267)))
    assert len(offered) == 1


async def test_a_variable_that_holds_nonsense_is_a_fault(look):
    lookout = look(env={"RAY_API_SERVER_ADDRESS": "ray://head:10001"})
    await until(lambda: lookout.poller.parts.faults)
    (fault,) = lookout.poller.parts.faults.values()
    assert fault.source == "address"
    assert "RAY_API_SERVER_ADDRESS" in fault.text
    assert lookout.address is None


async def test_a_session_that_comes_back_on_another_port_is_followed(look):
    lookout = look()
    lookout.hear(here(session("session_1", 9265)))
    await until(lambda: lookout.poller.parts.cluster.reachable is False)
    lookout.hear(here(session("session_1", 9265, live=False), session("session_2", 9777)))
    assert lookout.address == Address("http://10.0.0.1:9777", "session_2")
    await until(lambda: Ray.made[0].closed)
    assert not Ray.made[1].closed
    assert lookout.poller.parts.jobs is None


async def test_a_session_started_after_cockpit_is_found(look, monkeypatch):
    monkeypatch.setattr(lookout_module, "PATIENCE", 0.01)
    lookout = look()
    await until(lambda: lookout.poller.parts.cluster.reachable is False)
    assert lookout.address.origin == "default"
    lookout.hear(here(session("session_1", 9777)))
    assert lookout.address.url == "http://10.0.0.1:9777"


async def test_a_dashboard_that_answers_is_not_left_for_another(look):
    Ray.answer = Cluster("http://10.0.0.1:9265", "2.60.0", "session_1", reachable=True)
    lookout = look()
    lookout.hear(here(session("session_1", 9265)))
    await until(lambda: lookout.poller.parts.cluster.reachable)
    lookout.hear(here(session("session_1", 9265), session("session_2", 9777)))
    assert lookout.address.url == "http://10.0.0.1:9265"


async def test_an_address_that_a_person_gave_is_never_left(look):
    lookout = look(Config(address="http://head:8265", origins={"address": "--address"}))
    await until(lambda: lookout.poller.parts.cluster.reachable is False)
    lookout.hear(here(session("session_1", 9777)))
    assert lookout.address.url == "http://head:8265"


async def test_following_the_same_address_again_changes_nothing(look):
    lookout = look(Config(address="http://head:8265"))
    await until(lambda: Ray.made)
    lookout.follow(Address("http://head:8265", "again"))
    assert len(Ray.made) == 1


# Which hosts


def wanted(lookout, **facts):
    local = {"hosts": {HERE: here(addresses=("10.0.0.1",))}, "processes": (), **facts}
    return {name: entry.target for name, entry in lookout._targets(snapshot(**local)).items()}


@pytest.fixture
def idle(look):
    def make(**config):
        return look(Config(**config), begin=False)

    return make


def test_while_all_is_well_no_other_host_is_looked_at(idle):
    assert not wanted(idle(hosts=(HostEntry("w7"),)), nodes=(node(1), WORKER))


def test_when_ray_is_down_every_node_and_host_that_is_known_matters(idle):
    down = Cluster("http://10.0.0.1:8265", reachable=False)
    found = wanted(idle(hosts=(HostEntry("w7", "10.0.0.7"),)), cluster=down, nodes=(node(1), WORKER))
    assert found == {"node2": "10.0.0.2", "w7": "10.0.0.7"}


def test_before_the_dashboard_was_asked_it_is_not_down(idle):
    assert not wanted(idle(hosts=(HostEntry("w7"),)), cluster=Cluster(reachable=None), nodes=(node(1), WORKER))


@pytest.mark.parametrize("state", ["DEAD", "UNKNOWN"])
def test_a_node_that_does_not_live_matters(idle, state):
    assert wanted(idle(), nodes=(node(1), WORKER, node(3, state=state))) == {"node3": "10.0.0.3"}


@pytest.mark.parametrize("kind", ["unknown", "orphan", "stale"])
def test_a_gpu_process_that_nobody_knows_makes_its_host_matter(idle, kind):
    suspect = process(77, kind=kind, node=WORKER.id)
    assert wanted(idle(), nodes=(node(1), WORKER, node(3)), processes=(suspect,)) == {"node2": "10.0.0.2"}


@pytest.mark.parametrize("kind", ["worker", "child", "driver", "ray", "foreign"])
def test_a_process_that_is_known_does_not(idle, kind):
    assert not wanted(idle(), nodes=(node(1), WORKER), processes=(process(77, kind=kind, node=WORKER.id),))


def test_this_host_is_never_looked_at_from_afar(idle):
    suspects = (process(1, kind="orphan", node=node(1).id),)
    local = (HostEntry(HERE), HostEntry("me", "10.0.0.1"), HostEntry("localhost"), HostEntry("loop", "127.0.0.1"), HostEntry("six", "::1"))
    assert not wanted(idle(hosts=local, probe_hosts="always"), nodes=(node(1), node(4, ip="127.0.0.1", state="DEAD")), processes=suspects)


def test_always_means_every_host_of_the_config(idle):
    assert wanted(idle(hosts=(HostEntry("w7"), HostEntry("w8")), probe_hosts="always"), nodes=(node(1), WORKER)) == {"w7": "w7", "w8": "w8"}


def test_a_node_is_reached_as_the_config_says(idle):
    by_address, by_name = HostEntry("w2", "10.0.0.2", user="train"), HostEntry("node3", "gateway", python="/opt/python")
    lookout = idle(hosts=(by_address, by_name))
    dead = snapshot(nodes=(node(2, state="DEAD"), node(3, state="DEAD")), processes=())
    assert lookout._targets(dead) == {"w2": by_address, "node3": by_name}


def test_a_dead_node_without_a_name_is_reached_as_the_one_that_lives_at_its_address(idle):
    dead = node(2, id="f" * 56, host="10.0.0.2", name="10.0.0.2", state="DEAD")
    lookout = idle(hosts=(HostEntry("node2"),))
    assert lookout._targets(snapshot(nodes=(node(1), node(2), dead), processes=())) == {"node2": HostEntry("node2")}


def test_a_host_that_ray_does_not_know_is_no_target_of_its_own(idle):
    assert not wanted(idle(), nodes=(node(1), node(9, id=None, state="UNKNOWN")))


async def test_never_means_never(look, monkeypatch):
    asked = []
    lookout = look(Config(probe_hosts="never", hosts=(HostEntry("w7"),)))
    monkeypatch.setattr(lookout._hosts, "want", asked.append)
    lookout._published(snapshot(cluster=Cluster(reachable=False)))
    assert not asked


async def test_a_dead_node_is_looked_at_as_soon_as_it_is_published(look, monkeypatch):
    asked = []
    lookout = look(Config())
    monkeypatch.setattr(lookout._hosts, "want", asked.append)
    lookout.hear(here(nodes=(node(1).id,)))
    facts = NodeFacts(nodes=(node(1), node(3, state="DEAD")), workers=(), holders=())
    lookout.poller._learn("ray.nodes", facts)
    await until(lambda: asked and asked[-1])
    assert set(asked[-1]) == {"node3"}


# What a person asks for


async def test_without_a_dashboard_nothing_can_be_asked_of_it(look):
    lookout = look()
    with pytest.raises(SourceError, match="no Ray dashboard is known yet"):
        await lookout.dead_actors()
    with pytest.raises(SourceError, match="no Ray dashboard is known yet"):
        lookout.follow_log("ppo")


async def test_the_dead_and_the_logs_come_from_the_dashboard(look):
    lookout = look(Config(address="http://head:8265"))
    await until(lambda: Ray.made)
    assert await lookout.dead_actors() == ("the dead",)
    assert [batch async for batch in lookout.follow_log("ppo")] == [["log of ppo"]]


async def test_which_jobs_run_is_asked_of_every_ray_that_lives_here_and_the_token_goes_to_ours_alone(look):
    lookout = look(Config(address="http://head:8265"))
    await until(lambda: lookout.address)
    lookout.hear(here(session("session_a", 8266), session("session_b", 8267), session("session_c", 8268, live=False)))
    urls = ["http://head:8265", "http://10.0.0.1:8266", "http://10.0.0.1:8267"]
    assert await lookout.words() == [(f"of {url}", ("job",)) for url in urls]
    assert [(made.token(), made.closed) for made in Ray.made[1:]] == [(None, True), (None, True)]


async def test_a_ray_beside_ours_that_says_nothing_is_left_out(look, monkeypatch):
    lookout = look(Config(address="http://head:8265"))
    await until(lambda: lookout.address)
    lookout.hear(here(session("session_a", 8266)))
    monkeypatch.setattr(Ray, "silent", "http://10.0.0.1:8266")
    assert await lookout.words() == [("of http://head:8265", ("job",))]
    monkeypatch.setattr(Ray, "silent", "http://head:8265")
    with pytest.raises(SourceError):
        await lookout.words()


async def test_an_environment_comes_sorted_and_without_its_secrets(look, monkeypatch):
    async def answer(host, words):
        assert (host, words) == ("node1", ("environ", "7", "70"))
        return {"environ": {"WANDB_API_KEY": "c0ffee", "HOME": "/root", "MAX_TOKENS": "1024", "DB_PASS": "two words\nand a line"}}

    lookout = look()
    monkeypatch.setattr(lookout._hosts, "ask", answer)
    assert await lookout.environment(process(7)) == ["DB_PASS=•••", "HOME=/root", "MAX_TOKENS=1024", "WANDB_API_KEY=•••"]


@pytest.mark.parametrize("said", [{}, {"environ": [], "threads": 7}, {"environ": {"A": 1}, "threads": [{"frames": [{"name": "step"}]}]}])
async def test_an_answer_that_is_none_is_a_sentence_and_no_end_of_the_screen(look, monkeypatch, said):
    async def answer(*_):
        return said

    lookout = look()
    monkeypatch.setattr(lookout._hosts, "ask", answer)
    for ask in (lookout.environment, lookout.stack):
        with pytest.raises(SourceError, match="what the probe of node1 says can't be read"):
            await ask(process(7))


async def test_a_process_that_no_probe_has_seen_has_no_environment(look):
    with pytest.raises(SourceError, match="can't be told from one that took its pid"):
        await look().environment(process(7, ticks=None))


def test_the_interval_goes_in_steps_and_no_further(idle):
    lookout = idle(interval=2.0)
    assert [lookout.pace(-1), lookout.pace(-1), lookout.pace(-1)] == [1.0, 0.5, 0.5]
    assert [lookout.pace(1) for _ in range(10)][-1] == INTERVALS[-1]
    assert idle(interval=3.0).pace(1) == 5.0


# One look


@pytest.fixture
def silent():
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_one_look_returns_in_time_though_nothing_answers(silent, monkeypatch):
    monkeypatch.setattr(hosts_module, "local_command", lambda _: QUIET)
    started = time.monotonic()
    lookout = await look_once(Config(address=f"http://127.0.0.1:{silent}"), env={}, patience=0.5)
    assert 0.4 < time.monotonic() - started < 2
    assert lookout.poller.snapshot.nodes is None
    lookout.poller.leave()


async def test_one_look_ends_as_soon_as_all_have_answered_or_failed(monkeypatch):
    monkeypatch.setattr(hosts_module, "local_command", lambda _: [sys.executable, "-c", "raise SystemExit('no NVML')"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    started = time.monotonic()
    lookout = await look_once(Config(address=f"http://127.0.0.1:{port}"), env={}, patience=30)
    assert time.monotonic() - started < 10
    faults = {fault.source: fault.text for fault in lookout.poller.snapshot.faults}
    assert lookout.poller.snapshot.cluster.reachable is False
    assert "no NVML" in faults["probe"]
    assert str(port) in faults["ray.identity"]
    lookout.poller.leave()


async def test_one_look_leaves_no_child_behind(silent, monkeypatch, tmp_path):
    born = tmp_path / "born"
    code = f"import os, time; open({str(born)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    monkeypatch.setattr(hosts_module, "local_command", lambda _: [sys.executable, "-c", code])
    lookout = await look_once(Config(address=f"http://127.0.0.1:{silent}"), env={}, patience=0.5)
    lookout.poller.leave()
    assert born.read_text()
    await until(lambda: not Path(f"/proc/{born.read_text()}").exists())


async def test_two_sessions_are_found_by_one_look_and_none_is_taken(look):
    lookout = look()
    lookout.hear(here(session("session_1", 9265), session("session_2", 9266)))
    await until(lambda: lookout.complete())
    assert len(lookout.asked) == 2
    assert not Ray.made
