from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

from cockpit.config.address import Address
from cockpit.config.reach import HostEntry
from cockpit.config.settings import Config
from cockpit.config.slurm import named_allocation
from cockpit.model import Cluster, Hold, Holder, Host, RayProcess, Session
from cockpit.monitor import cluster_choice as choice_module
from cockpit.monitor import monitor as monitor_module
from cockpit.monitor import poller as poller_module
from cockpit.monitor.monitor import PROBE_INTERVALS_S, ClusterMonitor, hosts_timeout_s, sample_once
from cockpit.sources.probes import pool as hosts_module
from cockpit.sources.probes.host_probe import ProbeTimings
from cockpit.sources.ray.client import JobFacts, NodeFacts
from cockpit.sources.source import Source, SourceError
from cockpit.trust import peer as peer_module
from cockpit.trust.sockets import Server
from tests.world import NOW, node, process, snapshot, theirs

pytestmark = pytest.mark.process

HERE = socket.gethostname()
QUIET = [sys.executable, "-c", "import time; time.sleep(3600)"]
WORKER = node(2)


def session(name, port, **more):
    facts = {"live": True, "dashboard": f"http://10.0.0.1:{port}", "trusted": True, **more}
    return Session(host=HERE, name=name, path=f"/tmp/ray/{name}", **facts)


def here(*sessions, **more):
    """The local host as its probe reports it."""
    facts = {"addresses": ("10.0.0.1",), "taken": NOW, "processes": (), "sessions": sessions, "local": True, **more}
    return Host(HERE, **facts)


class Ray:
    """Stands for a dashboard that reports only its identity, as the test sets it."""

    made: list[Ray]
    answer: object = SourceError("connection refused")

    silent = ""
    claims: ClassVar[dict[str, str]] = {}
    """By address, the session that it reports."""

    def __init__(self, address, *, clock, token=None, peer=None, max_bytes=None, why_not_meant=None, before=None):
        self.address, self.closed, self.token = address, False, token
        self.why_not_meant, self.before = why_not_meant, before
        self.sources = (Source("ray.identity", self.identify, every=0.01),)
        self.made.append(self)

    async def identify(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self):
        self.closed = True

    async def check_meant(self):
        pass

    async def session(self, *, decides=False):
        if self.address == self.silent:
            raise SourceError("connection refused")
        return self.claims.get(self.address, f"of {self.address}")

    async def read_jobs(self, *, decides=False):
        return JobFacts(("job",))

    async def dead_actors(self):
        return ("the dead",)

    async def follow_log(self, job, lines):
        yield [f"log of {job}"]


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setattr(choice_module, "RayClient", Ray)
    monkeypatch.setattr(Ray, "made", [], raising=False)
    monkeypatch.setattr(Ray, "answer", Ray.answer)
    monkeypatch.setattr(Ray, "claims", {f"http://10.0.0.1:{8266 + number}": f"session_{name}" for number, name in enumerate("abc")})
    return Ray


@pytest.fixture
async def look(ray, monkeypatch):
    """Makes monitors whose own probe is silent; the test sends its samples."""
    monkeypatch.setattr(hosts_module, "local_command", lambda _: QUIET)
    monkeypatch.setattr(choice_module, "LOCAL_PROBE_TIMEOUT_S", 60.0)
    monkeypatch.setattr(poller_module, "PUBLISH_PAUSE_S", 0.01)
    made = []

    def make(config=Config(), env=None, *, begin=True, **more):  # noqa: B008
        monitor = ClusterMonitor(config, more.pop("publish", lambda _: None), env=env or {}, **more)
        made.append((monitor, asyncio.ensure_future(monitor.run()) if begin else None))
        return monitor

    yield make
    for monitor, task in made:
        monitor.close()
        monitor.poller.leave()
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until(fact):
    deadline = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.002)


async def published(monitor, host):
    """Send a sample of a host, and wait until it is published."""
    monitor.poller.update_host(host)
    await until(lambda: monitor.poller.snapshot.hosts.get(host.name) is host)


# Which cluster


async def test_a_given_address_is_followed_at_once_and_never_left(look):
    monitor = look(Config(address="http://head:8265", origins={"address": "--address"}))
    await until(lambda: monitor.choice.address)
    monitor.choice.follow(Address("http://head:8265", "again"))
    assert (monitor.choice.address.url, [made.address for made in Ray.made]) == ("http://head:8265", ["http://head:8265"])
    assert await monitor.dead_actors() == ("the dead",)
    assert [batch async for batch in monitor.follow_log("ppo")] == [["log of ppo"]]
    await until(lambda: monitor.poller.parts.cluster.reachable is False)
    await published(monitor, here(session("session_1", 9777)))
    assert monitor.choice.address.url == "http://head:8265"


async def test_an_early_monitor_publishes_its_facts_when_it_is_run(look):
    """The screen is imported between the two."""
    monitor, received = look(Config(address="http://head:8265"), begin=False), []
    monitor.start()
    await published(monitor, here())
    running = asyncio.ensure_future(monitor.publish_to(received.append).run())
    await until(lambda: received)
    assert HERE in received[0].hosts
    monitor.poller.update_host(here(session("session_1", 9265)))
    await until(lambda: received[-1].hosts[HERE].sessions)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert monitor._started.cancelled(), "nothing is watched"


async def test_the_address_in_rays_own_variable_is_followed_at_once(look):
    monitor = look(env={"RAY_ADDRESS": "http://elsewhere:8265"})
    await until(lambda: monitor.choice.address)
    assert monitor.choice.address == Address("http://elsewhere:8265", "RAY_ADDRESS", given=True)


IN_ANOTHER_JOB = RayProcess("raylet", 20, "session_1", slurm="41")


async def test_in_a_slurm_job_no_ray_is_followed_before_its_slurm_job_is_known(look):
    monitor, offered = look(Config(slurm=named_allocation("42", HERE))), []
    monitor.choice.choose = offered.append
    unknown = replace(IN_ANOTHER_JOB, slurm=None)
    await published(monitor, here(session("session_1", 9265), rays=(unknown,), unanswered=("rays",)))
    assert (monitor.choice.address, monitor.coverage.is_complete()) == (None, False)
    await published(monitor, here(session("session_1", 9265), rays=(IN_ANOTHER_JOB,)))
    await until(lambda: offered)
    assert monitor.coverage.is_complete()
    assert (monitor.choice.address, offered) == (None, [(Address("http://10.0.0.1:9265", "session_1", owner="Slurm job 41"),)])


async def test_no_ray_is_followed_or_asked_before_the_probe_has_listed_the_sessions(look):
    monitor = look()
    await asyncio.sleep(0.02)
    assert monitor.choice.address is None
    with pytest.raises(SourceError, match="no Ray dashboard is known yet"):
        await monitor.dead_actors()
    with pytest.raises(SourceError, match="no Ray dashboard is known yet"):
        monitor.follow_log("ppo")
    monitor.poller.update_host(here(session("session_1", 9265)))
    await until(lambda: monitor.choice.address)
    assert monitor.choice.address == Address("http://10.0.0.1:9265", "session_1")


async def test_a_silent_probe_is_awaited_for_a_limited_time_and_a_later_session_is_found(look, monkeypatch):
    monkeypatch.setattr(choice_module, "LOCAL_PROBE_TIMEOUT_S", 0.02)
    monitor = look()
    await until(lambda: monitor.poller.parts.cluster.reachable is False)
    assert monitor.choice.address == Address("http://127.0.0.1:8265", "default")
    await published(monitor, here(session("session_1", 9777)))
    assert monitor.choice.address.url == "http://10.0.0.1:9777"


async def test_before_the_first_sample_a_failing_probe_is_not_awaited_and_a_dead_session_is_not_followed(look):
    monitor = look()
    monitor.poller.report_fault("probe", "no Python there", HERE)
    await until(lambda: monitor.choice.address)
    assert monitor.choice.address.origin == "default"
    monitor = look()
    monitor.poller.update_host(here(session("session_1", 9265, live=False), session("session_2", 9266)))
    await until(lambda: monitor.choice.address)
    assert monitor.choice.address.origin == "session_2"


async def test_the_default_address_is_not_followed_if_the_kernel_cannot_name_its_owner(look, monkeypatch):
    def fail(_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(choice_module, "listening_users", fail)
    monitor = look()
    await published(monitor, here())
    await until(lambda: monitor.choice.choices)
    assert [address.owner for address in monitor.choice.choices] == ["an unknown user"]
    assert not Ray.made


async def test_between_two_sessions_a_person_must_choose(look):
    monitor, offered = look(), []
    monitor.choice.choose = offered.append
    two = (session("session_1", 9265), session("session_2", 9266))
    await published(monitor, here(*two))
    await until(lambda: monitor.choice.choices)
    await until(lambda: monitor.coverage.is_complete())
    await published(monitor, here(*two))
    assert offered == [(Address("http://10.0.0.1:9265", "session_1"), Address("http://10.0.0.1:9266", "session_2"))]
    assert monitor.choice.address is None
    assert not Ray.made
    monitor.choice.follow(monitor.choice.choices[1])
    assert monitor.choice.address.origin == "session_2"


async def test_at_a_wrong_address_the_other_rays_on_this_host_are_asked(look, monkeypatch):
    monkeypatch.setattr(Ray, "claims", {"http://10.0.0.1:9265": "session_1", "http://10.0.0.1:9267": "session_of_a_container"})
    monkeypatch.setattr(Ray, "silent", "http://10.0.0.1:9266")
    monitor = look(Config(address="http://10.0.0.1:9999"))
    names = [session(f"session_{number}", 9264 + number) for number in (1, 2, 3)]
    monitor.poller.update_host(here(*names, session("session_4", 9268, live=False)))
    await until(lambda: monitor.poller.snapshot.cluster.others is not None)
    assert [(ray.session, ray.answers) for ray in monitor.poller.snapshot.cluster.others] == [
        ("session_1", True),
        ("session_2", False),
        ("session_3", False),  # another session answers there
    ]
    assert all(ray.token() is None for ray in Ray.made if ray.address != "http://10.0.0.1:9999")
    given = (Address("http://10.0.0.1:9265", "session_1"), Address("http://10.0.0.1:9266", "session_2"))
    assert await monitor.choice.find_answering(given) == given[:1]


async def test_a_single_status_at_a_wrong_address_waits_for_the_other_rays(look, monkeypatch):
    monkeypatch.setattr(Ray, "answer", SourceError("connection refused", "silent"))
    monitor = look(Config(address="http://10.0.0.1:9999"), begin=False)
    monitor.poller.parts = replace(monitor.poller.parts, cluster=Cluster("http://10.0.0.1:9999", reachable=False))
    monitor.choice.ray = Ray("http://10.0.0.1:9999", clock=monitor.clock)
    monitor.poller.answered.add("ray.identity")
    monitor.poller.update_host(here(session("session_1", 9265), taken=monitor.clock(), gpus=()))
    assert monitor.poller.parts.cluster.others is None, "the choice has had no snapshot with this host yet"
    assert not monitor.coverage.is_complete()
    monitor.poller.set_other_rays(())
    assert monitor.coverage.is_complete()


async def test_findings_about_one_address_end_as_soon_as_another_is_followed(look, monkeypatch):
    received = []
    monkeypatch.setattr(Ray, "answer", SourceError("connection refused", "silent"))
    monitor = look(Config(address="http://10.0.0.1:9999"), publish=lambda made: received.append((made.cluster.address, made.findings)))
    monitor.poller.update_host(here(taken=monitor.clock()))
    await until(lambda: [one.code for one in monitor.poller.snapshot.findings] == ["address-wrong"])
    monkeypatch.setattr(Ray, "answer", Cluster("http://10.0.0.1:9265", "2.60.0", "session_1", reachable=True))
    monitor.choice.follow(Address("http://10.0.0.1:9265", "session_1"))
    await until(lambda: received[-1][0] == "http://10.0.0.1:9265")
    assert not [found for address, found in received if address == "http://10.0.0.1:9265" and found]


async def test_a_person_is_asked_to_choose_only_once(look):
    monitor, offered = look(), []
    monitor.choice.choose = offered.append
    await published(monitor, here(session("session_1", 9265)))
    await until(lambda: monitor.poller.parts.cluster.reachable is False)
    for _ in range(3):
        await published(monitor, here(session("session_2", 9266), session("session_3", 9267)))
    assert len(offered) == 1


async def test_a_variable_that_holds_nonsense_is_a_fault(look):
    monitor = look(env={"RAY_API_SERVER_ADDRESS": "ray://head:10001"})
    await until(lambda: monitor.poller.parts.faults)
    (fault,) = monitor.poller.parts.faults.values()
    assert fault.source == "address"
    assert "RAY_API_SERVER_ADDRESS" in fault.text
    assert monitor.choice.address is None


async def test_a_session_that_comes_back_on_another_port_is_followed(look):
    monitor = look()
    await published(monitor, here(session("session_1", 9265)))
    await until(lambda: monitor.poller.parts.cluster.reachable is False)
    await published(monitor, here(session("session_1", 9265, live=False), session("session_2", 9777)))
    assert monitor.choice.address == Address("http://10.0.0.1:9777", "session_2")
    await until(lambda: Ray.made[0].closed)
    assert not Ray.made[1].closed
    assert monitor.poller.parts.jobs is None


async def test_a_dashboard_that_answers_is_not_left_for_another(look):
    Ray.answer = Cluster("http://10.0.0.1:9265", "2.60.0", "session_1", reachable=True)
    monitor = look()
    await published(monitor, here(session("session_1", 9265)))
    await until(lambda: monitor.poller.parts.cluster.reachable)
    await published(monitor, here(session("session_1", 9265), session("session_2", 9777)))
    assert monitor.choice.address.url == "http://10.0.0.1:9265"


async def test_a_session_that_a_person_has_chosen_is_never_left_for_another(look):
    monitor, offered = look(), []
    monitor.choice.choose = offered.append
    await published(monitor, here(session("session_1", 9265), session("session_2", 9266)))
    monitor.choice.follow(Address("http://10.0.0.1:9266", "session_2", chosen=True))
    await until(lambda: monitor.poller.parts.cluster.reachable is False)
    await published(monitor, here(session("session_1", 9265), session("session_2", 9266, live=False)))
    await published(monitor, here(session("session_1", 9265), session("session_3", 9267)))
    assert monitor.choice.address == Address("http://10.0.0.1:9266", "session_2", chosen=True)
    assert len(offered) == 1


async def test_at_the_address_of_a_chosen_session_only_that_session_is_accepted(look):
    monitor = look()
    await published(monitor, here(session("session_1", 9265), session("session_2", 9266)))
    monitor.choice.follow(Address("http://10.0.0.1:9266", "session_2", chosen=True))
    why_not = Ray.made[-1].why_not_meant
    assert why_not("session_2") is None
    assert why_not("session_3") == "another Ray session answers there now, session_3; cockpit follows session_2, as you chose"
    assert why_not(None) is None, "Ray before 2.35 does not report its session"
    await published(monitor, here(session("session_2", 9266, live=False)))
    assert why_not(None) == "another Ray session answers there now; session_2, which you chose, has ended"
    monitor.choice.follow(Address("http://10.0.0.1:9266", "session_3", chosen=True))
    assert Ray.made[-1].why_not_meant("session_3") is None
    assert Ray.made[-1].before is None


async def test_a_session_at_the_address_of_the_chosen_one_can_be_chosen(look, monkeypatch):
    monkeypatch.setattr(Ray, "claims", {"http://10.0.0.1:9266": "session_3"})
    monitor = look()
    await published(monitor, here(session("session_1", 9265), session("session_2", 9266)))
    monitor.choice.follow(Address("http://10.0.0.1:9266", "session_2", chosen=True))
    await published(monitor, here(session("session_2", 9266, live=False), session("session_3", 9266)))
    assert [(ray.session, ray.answers) for ray in await monitor.choice.find_others()] == [("session_3", True)]


async def test_a_ray_that_lived_beside_the_ended_one_is_not_its_successor(look):
    Ray.answer = Cluster("http://10.0.0.1:9265", "2.60.0", "session_1", reachable=True)
    monitor, offered = look(), []
    monitor.choice.choose = offered.append
    await published(monitor, here(session("session_1", 9265)))
    await until(lambda: monitor.poller.parts.cluster.reachable)
    await published(monitor, here(session("session_1", 9265), session("session_2", 9266)))
    Ray.answer = SourceError("connection refused")
    await until(lambda: monitor.poller.parts.cluster.reachable is False)
    await published(monitor, here(session("session_1", 9265, live=False), session("session_2", 9266)))
    assert monitor.choice.address == Address("http://10.0.0.1:9265", "session_1")
    await published(monitor, here(session("session_2", 9266), session("session_3", 9267)))
    assert monitor.choice.address == Address("http://10.0.0.1:9267", "session_3"), "started since"
    assert Ray.made[-1].before == "session_1"
    assert offered == []


async def test_a_ray_that_was_restarted_at_its_address_is_followed(look):
    Ray.answer = Cluster("http://10.0.0.1:9265", "2.60.0", "session_1", reachable=True)
    monitor = look()
    await published(monitor, here(session("session_1", 9265)))
    await until(lambda: monitor.poller.parts.cluster.reachable)
    Ray.answer = Cluster("http://10.0.0.1:9265", "2.60.0", "session_2", reachable=True)
    await until(lambda: monitor.poller.snapshot.cluster.session == "session_2")
    await published(monitor, here(session("session_1", 9265, live=False), session("session_2", 9265)))
    assert monitor.choice.address == Address("http://10.0.0.1:9265", "session_2")


# Which hosts


def select(monitor, **facts):
    local = {"hosts": {HERE: here(addresses=("10.0.0.1",))}, "processes": (), **facts}
    return {name: entry.target for name, entry in monitor.selection.select_hosts(snapshot(**local)).items()}


@pytest.fixture
def idle(look):
    def make(*, begin_named=False, **config):
        return look(Config(**config), begin=False, named=begin_named)

    return make


W7 = {"hosts": (HostEntry("w7", "10.0.0.7"),)}
DOWN = Cluster("http://10.0.0.1:8265", reachable=False)


@pytest.mark.parametrize(
    ("config", "facts", "probed"),
    [
        pytest.param(W7, {}, {}, id="Ray is up"),
        pytest.param(W7, {"cluster": DOWN}, {"node2": "10.0.0.2", "w7": "10.0.0.7"}, id="Ray is down"),
        pytest.param(W7, {"cluster": Cluster(reachable=None)}, {}, id="the dashboard has not answered yet"),
        pytest.param({**W7, "probe_hosts": "always"}, {}, {"w7": "10.0.0.7"}, id="always"),
        pytest.param({}, {"nodes": (node(1), WORKER, node(3, state="DEAD"))}, {"node3": "10.0.0.3"}, id="dead node"),
        pytest.param({}, {"nodes": (node(1), WORKER, node(3, state="UNKNOWN"))}, {"node3": "10.0.0.3"}, id="unknown node"),
        pytest.param({}, {"nodes": (node(1), node(9, id=None, state="UNKNOWN"))}, {}, id="node without an id"),
    ],
)
def test_which_hosts_are_probed(idle, config, facts, probed):
    assert select(idle(**config), **{"nodes": (node(1), WORKER), **facts}) == probed


@pytest.mark.parametrize("kind", ["unknown", "orphan", "stale", "worker", "child", "driver", "ray", "foreign"])
def test_the_host_of_a_gpu_process_is_probed_if_it_has_no_living_known_owner(idle, kind):
    found = select(idle(), nodes=(node(1), WORKER, node(3)), processes=(process(77, kind=kind, node=WORKER.id),))
    assert found == ({"node2": "10.0.0.2"} if kind in ("unknown", "orphan", "stale") else {})


def test_a_host_on_which_another_ray_holds_gpus_stays_probed(idle):
    worker = theirs(77, host="node2", gpus=(Hold(0, 1),))
    hosts = {HERE: here(), "node2": Host("node2", taken=NOW, nodes=(WORKER.id, worker.node))}
    assert select(idle(), nodes=(node(1), WORKER, node(3)), processes=(worker,), hosts=hosts) == {"node2": "10.0.0.2"}


def test_this_host_is_never_probed_as_another_host(idle):
    suspects = (process(1, kind="orphan", node=node(1).id),)
    local = (HostEntry(HERE), HostEntry("me", "10.0.0.1"), HostEntry("localhost"), HostEntry("loop", "127.0.0.1"), HostEntry("six", "::1"))
    assert not select(idle(hosts=local, probe_hosts="always"), nodes=(node(1), node(4, ip="127.0.0.1", state="DEAD")), processes=suspects)


def test_a_node_is_reached_as_the_config_says(idle):
    by_address, by_name = HostEntry("w2", "10.0.0.2", user="train"), HostEntry("node3", "gateway", python="/opt/python")
    monitor = idle(hosts=(by_address, by_name))
    dead = snapshot(nodes=(node(2, state="DEAD"), node(3, state="DEAD")), processes=())
    assert monitor.selection.select_hosts(dead) == {"w2": by_address, "node3": by_name}
    nameless = node(2, id="f" * 56, host="10.0.0.2", name="10.0.0.2", state="DEAD")
    monitor = idle(hosts=(HostEntry("node2"),))
    assert monitor.selection.select_hosts(snapshot(nodes=(node(1), node(2), nameless), processes=())) == {"node2": HostEntry("node2")}


async def test_the_setting_never_forbids_every_probe(look, monkeypatch):
    asked = []
    monitor = look(Config(probe_hosts="never", hosts=(HostEntry("w7"),)))
    monkeypatch.setattr(monitor.pool, "set_targets", asked.append)
    monitor.selection.on_snapshot(snapshot(cluster=Cluster(reachable=False)))
    assert not asked


async def test_a_dead_node_is_probed_as_soon_as_it_is_published(look, monkeypatch):
    asked = []
    monitor = look(Config())
    monkeypatch.setattr(monitor.pool, "set_targets", asked.append)
    monitor.poller.update_host(here(nodes=(node(1).id,)))
    facts = NodeFacts(nodes=(node(1), node(3, state="DEAD")), workers=(), holders=())
    monitor.poller._store("ray.nodes", facts)
    await until(lambda: asked and asked[-1])
    assert set(asked[-1]) == {"node3"}


# Requests of a person


@pytest.fixture
def ours_listen(monkeypatch):
    """On every port of this host a process of ours listens."""
    monkeypatch.setattr(peer_module, "find_server", lambda *_: Server(frozenset([os.geteuid()]), frozenset()))


async def test_jobs_are_read_from_every_ray_on_this_host_and_only_the_followed_one_gets_the_token(look, ours_listen):
    monitor = look(Config(address="http://head:8265"))
    await until(lambda: monitor.choice.address)
    monitor.poller.update_host(here(session("session_a", 8266), session("session_b", 8267), session("session_c", 8268, live=False)))
    assert await monitor.jobs_by_session() == [("of http://head:8265", ("job",)), ("session_a", ("job",)), ("session_b", ("job",))]
    assert [(made.token(), made.closed) for made in Ray.made[1:]] == [(None, True), (None, True)]


async def test_no_jobs_are_read_from_another_users_server_at_the_port_of_a_ray_beside_ours(look, monkeypatch):
    monitor = look(Config(address="http://head:8265"))
    await until(lambda: monitor.choice.address)
    monitor.poller.update_host(here(session("session_a", 8266), session("session_b", 8267)))
    monkeypatch.setattr(peer_module, "find_server", lambda port, *_: Server(frozenset([666 if port == 8266 else 0]), frozenset()))
    assert [name for name, _ in await monitor.jobs_by_session()] == ["of http://head:8265", "session_b"]


async def test_a_ray_that_claims_a_session_of_this_host_is_not_it(look, ours_listen):
    """A person gave its address; its list of jobs would end processes of the other Ray."""
    monitor = look(Config(address="http://head:8265"))
    await until(lambda: monitor.choice.address)
    monitor.poller.update_host(here(session("of http://head:8265", 8266)))
    with pytest.raises(
        SourceError,
        match=r"its list of jobs is not used: it calls itself of .*, but that session.s dashboard on this host is http://10.0.0.1:8266",
    ):
        await monitor.jobs_by_session()


@pytest.mark.parametrize(("user", "is_believed"), [(666, False), (os.geteuid(), True)])
async def test_a_ray_at_the_same_port_of_another_address_counts_only_if_it_is_ours(look, monkeypatch, user, is_believed):
    """A dashboard listens only on 127.0.0.1, so any user can use its port on another address."""
    monkeypatch.setattr(peer_module, "find_server", lambda *_: Server(frozenset([user]), frozenset(["10.0.0.1"])))
    monitor = look(Config(address="http://head:8265"))
    await until(lambda: monitor.choice.address)
    monitor.poller.update_host(here(session("of http://head:8265", 8265)))
    assert (monitor.choice.why_not_session("of http://head:8265") is None) is is_believed


async def test_no_jobs_are_read_from_another_users_ray_or_another_session(look):
    """The jobs decide which processes are ended."""
    monitor = look(Config(address="http://head:8265"))
    await until(lambda: monitor.choice.address)
    monitor.poller.update_host(here(session("session_a", 8266, trusted=False, owner="evil"), session("session_x", 8267)))
    assert await monitor.jobs_by_session() == [("of http://head:8265", ("job",))]
    assert {made.address for made in Ray.made} == {"http://head:8265", "http://10.0.0.1:8267"}


async def test_a_found_dashboard_is_not_trusted_once_another_user_listens_there(look, monkeypatch):
    monkeypatch.setattr(peer_module, "find_server", lambda *_: Server(frozenset([666]), frozenset()))
    monitor = look()
    monitor.poller.update_host(here(session("session_1", 9265)))
    await until(lambda: monitor.choice.address)
    assert monitor.choice.why_not_trusted() == "what listens on port 9265 of this host belongs to user 666"
    assert await monitor.jobs_by_session() == []


async def test_a_silent_ray_beside_ours_is_left_out(look, monkeypatch):
    monitor = look(Config(address="http://head:8265"))
    await until(lambda: monitor.choice.address)
    monitor.poller.update_host(here(session("session_a", 8266)))
    monkeypatch.setattr(Ray, "silent", "http://10.0.0.1:8266")
    assert await monitor.jobs_by_session() == [("of http://head:8265", ("job",))]
    monkeypatch.setattr(Ray, "silent", "http://head:8265")
    with pytest.raises(SourceError):
        await monitor.jobs_by_session()


async def test_an_environment_comes_sorted_and_without_its_secrets(look, monkeypatch):
    async def answer(host, words):
        assert (host, words) == ("node1", ("environ", "7", "70"))
        return {"environ": {"WANDB_API_KEY": "c0ffee", "HOME": "/root", "MAX_TOKENS": "1024", "DB_PASS": "two words\nand a line"}}

    monitor = look()
    monkeypatch.setattr(monitor.pool, "ask", answer)
    assert await monitor.environment(process(7)) == ["DB_PASS=•••", "HOME=/root", "MAX_TOKENS=1024", "WANDB_API_KEY=•••"]


@pytest.mark.parametrize("reply", [{}, {"environ": [], "threads": 7}, {"environ": {"A": 1}, "threads": [{"frames": [{"name": "step"}]}]}])
async def test_an_invalid_answer_is_one_sentence_and_the_screen_continues(look, monkeypatch, reply):
    async def answer(*_):
        return reply

    monitor = look()
    monkeypatch.setattr(monitor.pool, "ask", answer)
    for ask in (monitor.environment, monitor.stack):
        with pytest.raises(SourceError, match="the output of the probe of node1 can't be read"):
            await ask(process(7))


async def test_the_environment_of_an_unprobed_process_cannot_be_read(look):
    with pytest.raises(SourceError, match="can't rule out that another process took its pid"):
        await look().environment(process(7, ticks=None))


def test_the_interval_changes_in_steps_within_its_limits(idle):
    monitor = idle(interval=2.0)
    assert [monitor.change_interval(-1), monitor.change_interval(-1), monitor.change_interval(-1)] == [1.0, 0.5, 0.5]
    assert [monitor.change_interval(1) for _ in range(10)][-1] == PROBE_INTERVALS_S[-1]
    assert idle(interval=3.0).change_interval(1) == 5.0


# One status


@pytest.fixture
def silent():
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_one_status_returns_in_time_without_any_answer_and_leaves_no_child_behind(silent, monkeypatch, tmp_path):
    born = tmp_path / "born"
    code = f"import os, time; open({str(born)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    monkeypatch.setattr(hosts_module, "local_command", lambda _: [sys.executable, "-c", code])
    started = time.monotonic()
    monitor = await sample_once(Config(address=f"http://127.0.0.1:{silent}"), env={}, patience=0.5)
    assert time.monotonic() - started > 0.4
    assert monitor.poller.snapshot.nodes is None
    monitor.poller.leave()
    assert born.read_text()
    await until(lambda: not Path(f"/proc/{born.read_text()}").exists())


async def test_one_status_ends_as_soon_as_all_have_answered_or_failed(monkeypatch):
    monkeypatch.setattr(hosts_module, "local_command", lambda _: [sys.executable, "-c", "raise SystemExit('no NVML')"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monitor = await sample_once(Config(address=f"http://127.0.0.1:{port}"), env={}, patience=10_000)
    faults = {fault.source: fault.text for fault in monitor.poller.snapshot.faults}
    assert monitor.poller.snapshot.cluster.reachable is False
    assert "no NVML" in faults["probe"]
    assert str(port) in faults["ray.identity"]
    monitor.poller.leave()


async def test_after_one_status_a_command_can_still_ask_a_probe(monkeypatch):
    """The end of the pipeline kills all children: it must not come while the answer is awaited."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monitor = await sample_once(Config(address=f"http://127.0.0.1:{port}"), env={}, patience=0.1)
    assert (await monitor.pool.ask(monitor.pool.local, ("port", str(port))))["listeners"] == []
    monitor.poller.leave()


# Other hosts, for one status


PROBE = """
import json, sys, time
if not sys.argv[-1].startswith("here"):
    sys.stdin.read()
if sys.argv[-1].startswith("frozen"):
    time.sleep(3600)
print(json.dumps({"hello": 1, "addresses": ["10.0.0.1" if sys.argv[-1] == "here" else "10.0.0.9"]}), flush=True)
processes = None if sys.argv[-1].startswith("half") else []
if sys.argv[-1].startswith("slow"):
    print(json.dumps({"taken": time.time(), "processes": [], "sessions": None, "gpus": []}), flush=True)
    time.sleep(0.5)
print(json.dumps({"taken": time.time(), "processes": processes, "sessions": [], "gpus": []}), flush=True)
time.sleep(3600)
"""


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """The hosts and faults of one status; `frozen` hosts never answer."""
    program = tmp_path / "probe.py"
    program.write_text(PROBE)
    monkeypatch.setattr(hosts_module, "local_command", lambda _: [sys.executable, str(program), "here"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    async def look(*names, hosts_patience=30.0, reach=f"{sys.executable} {program} {{name}}", keep=None, **more):
        hosts = tuple(name if isinstance(name, HostEntry) else HostEntry(name) for name in names)
        config = Config(address=f"http://127.0.0.1:{port}", hosts=hosts, reach=reach, **more)
        monitor = await sample_once(config, env={}, patience=30, hosts_patience=hosts_patience)
        monitor.poller.leave()
        if keep is not None:
            keep.append(monitor)
        snapshot = monitor.poller.snapshot
        return set(snapshot.hosts) - {HERE}, {fault.host: fault.text for fault in snapshot.faults if fault.source == "probe"}

    return look


async def test_one_status_waits_for_all_named_hosts_even_if_fewer_are_probed_at_once(seen, monkeypatch):
    monkeypatch.setattr(monitor_module, "SINGLE_LOOK_PACE", ProbeTimings(max_running=1))
    assert await seen("w1", "w2", "w3", hosts_patience=15.0) == ({"w1", "w2", "w3"}, {})


async def test_a_named_host_that_hangs_is_a_fault_and_the_others_are_seen(seen):
    hosts, faults = await seen("frozen1", "w2", hosts_patience=3.0)
    assert faults == {"frozen1": "frozen1 has not been reached within 3 s"}
    assert hosts == {"w2"}


async def test_a_host_with_an_incomplete_sample_is_a_fault_that_says_so(seen):
    assert await seen("half1", hosts_patience=2.0) == (
        {"half1"},
        {"half1": "half1 has not listed all its processes, GPUs and sessions within 2 s"},
    )


async def test_a_single_status_waits_until_a_named_host_has_listed_its_sessions(seen):
    monitors = []
    assert await seen("slow1", keep=monitors) == ({"slow1"}, {})
    assert monitors[0].poller.snapshot.hosts["slow1"].sessions == ()


async def test_hosts_that_are_not_probed_are_not_awaited(seen):
    assert await seen("w1", reach="ray") == (set(), {"w1": "w1 is not probed: `reach: ray` allows only actions"})
    assert await seen("frozen1", probe_hosts="never") == (set(), {})
    assert await seen(HostEntry(HERE), HostEntry("me", "10.0.0.1"), HostEntry("localhost")) == (set(), {})


def test_hosts_of_the_config_file_are_not_named_for_this_run(idle):
    listed = idle(hosts=(HostEntry("w1"),), origins={"hosts": "config.yaml:3"}, begin_named=True)
    assert not select(listed, nodes=(node(1),))
    for origin in ("--hosts", "COCKPIT_HOSTS"):
        typed = idle(hosts=(HostEntry("w1"),), origins={"hosts": origin}, begin_named=True)
        assert select(typed, nodes=(node(1),)) == {"w1": "w1"}
    assert not select(idle(hosts=(HostEntry("w1"),)), nodes=(node(1),)), "while watching, hosts are probed if something is wrong"


async def test_a_host_with_unknown_gpu_processes_is_awaited_and_a_dead_one_is_not(look):
    monitor = look(once=True, named=True)
    monitor.poller.update_host(here())
    holder = Holder(WORKER.id, 0, 77, 1 << 30)
    facts = NodeFacts(nodes=(node(1), WORKER, node(3, state="DEAD")), workers=(), holders=(holder,))
    monitor.poller._store("ray.nodes", facts)
    monitor.poller.rejoin()
    assert set(monitor.coverage.unanswered_hosts()) == {"node2"}
    sample = Host("node2", taken=NOW, processes=(), gpus=(), nodes=(WORKER.id,))
    monitor.poller.update_host(sample)
    assert set(monitor.coverage.unanswered_hosts()) == {"node2"}, "it is not yet known that no Ray lives there"
    monitor.poller.update_host(replace(sample, sessions=()))
    assert not monitor.coverage.unanswered_hosts()


def test_named_hosts_are_awaited_longer():
    named, listed = (Config(hosts=(HostEntry("w1"),), origins={"hosts": origin}) for origin in ("--slurm", "config.yaml:3"))
    assert hosts_timeout_s(named) > hosts_timeout_s(listed)


async def test_a_host_that_refuses_is_no_longer_awaited(look):
    monitor = look(Config(hosts=(HostEntry("w1"),)), once=True, named=True)
    monitor.poller.update_host(here())
    monitor.poller.rejoin()
    assert set(monitor.coverage.unanswered_hosts()) == {"w1"}
    monitor.poller.report_fault("probe", "w1: ssh: connection refused", "w1")
    assert not monitor.coverage.unanswered_hosts()
