from __future__ import annotations

import asyncio
import time

import pytest

from cockpit.model import Cluster, Host, Job, Process, RayCluster
from cockpit.monitor import poller as poller_module
from cockpit.monitor.poller import Poller
from cockpit.sources.ray.client import JobFacts, NodeFacts
from cockpit.sources.source import Source, SourceError
from tests.world import NOW, node

JOBS = JobFacts(jobs=(Job("ppo-7b", status="RUNNING"),))
NODES = NodeFacts(nodes=(node(1),), workers=(), holders=())
HERE = Cluster("http://head:8265", "2.60.0", "session_1", "cluster_1", reachable=True)

pytestmark = [pytest.mark.usefixtures("seconds_of_the_loop"), pytest.mark.skips_time]


class CountingSource:
    """A source with a given answer that counts its reads."""

    def __init__(self, name="ray.jobs", answer=JOBS, *, every=0.01, timeout=0.2):
        self.answer, self.takes = answer, 0.0
        self.gate, self.is_held = None, False
        self.times = self.at_once = self.most_at_once = 0
        self.when = []
        self.source = Source(name, self.read, every=every, timeout=timeout)

    async def read(self):
        self.times += 1
        self.at_once += 1
        self.when.append(time.monotonic())
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (self._pass_gate() if self.gate else asyncio.sleep(self.takes))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer
        finally:
            self.at_once -= 1

    async def _pass_gate(self):
        self.is_held = True
        await self.gate.wait()


class Clock:
    now = NOW

    def __call__(self):
        return self.now


class RunningPoller:
    """A running poller and all its published snapshots."""

    def __init__(self):
        self.published = []
        self.clock = Clock()
        self.poller = Poller(self.published.append, clock=self.clock)
        self.task = asyncio.ensure_future(self.poller.run())

    def watch(self, *asked):
        self.poller.watch([each.source for each in asked], "http://head:8265")

    async def until(self, fact):
        deadline = time.monotonic() + 60
        while not fact():
            assert time.monotonic() < deadline, f"it never came true; the last parts are {self.poller.parts}"
            await asyncio.sleep(0.002)

    async def shows(self, fact):
        await self.until(lambda: self.published and fact(self.published[-1]))
        return self.published[-1]

    @property
    def faults(self):
        return {fault.source: fault.text for fault in self.poller.parts.faults.values()}


@pytest.fixture
async def watched(monkeypatch):
    monkeypatch.setattr(poller_module, "PUBLISH_PAUSE_S", 0.005)
    monkeypatch.setattr(poller_module, "PUBLISH_AT_LEAST_EVERY_S", 0.1)
    watched = RunningPoller()
    yield watched
    watched.poller.leave()
    watched.task.cancel()
    await asyncio.wait_for(asyncio.wait({watched.task}), 5)


async def test_answers_are_published_as_one_snapshot(watched):
    watched.watch(CountingSource(), CountingSource("ray.nodes", NODES), CountingSource("ray.identity", HERE))
    seen = await watched.shows(lambda snapshot: snapshot.jobs and snapshot.nodes and snapshot.cluster.reachable)
    assert (seen.jobs, seen.nodes, seen.cluster) == (JOBS.jobs, NODES.nodes, HERE)
    assert seen.taken == NOW
    assert seen.as_of == {"ray.jobs": NOW, "ray.nodes": NOW, "ray.identity": NOW}
    assert watched.poller.answered == {"ray.jobs", "ray.nodes", "ray.identity"}


async def test_before_the_first_answer_everything_is_unknown(watched):
    slow = CountingSource()
    slow.takes = 10
    watched.watch(slow)
    seen = await watched.shows(lambda snapshot: True)
    assert seen.jobs is seen.nodes is seen.processes is seen.cluster.reachable is None
    assert seen.cluster.address == "http://head:8265", "the address is known"
    assert not watched.poller.answered


async def test_a_source_that_fails_keeps_its_last_facts_and_a_fault_says_since_when(watched):
    jobs, nodes = CountingSource(), CountingSource("ray.nodes", NODES)
    watched.watch(jobs, nodes)
    await watched.shows(lambda snapshot: snapshot.jobs and snapshot.nodes)
    jobs.gate = asyncio.Event()
    await watched.until(lambda: jobs.is_held)
    watched.clock.now += 60
    jobs.answer = SourceError("the job API does not answer")
    jobs.gate.set()
    seen = await watched.shows(lambda snapshot: snapshot.faults)
    (fault,) = seen.faults
    assert (fault.source, fault.text, fault.since) == ("ray.jobs", "the job API does not answer", NOW + 60)
    assert seen.jobs == JOBS.jobs
    assert seen.as_of["ray.jobs"] == NOW
    await watched.until(lambda: watched.poller.parts.as_of["ray.nodes"] == NOW + 60)


async def test_a_fault_keeps_its_begin_when_its_text_changes_and_ends_when_its_source_recovers(watched):
    jobs = CountingSource(answer=SourceError("connection refused"))
    watched.watch(jobs)
    await watched.until(lambda: watched.faults)
    watched.clock.now += 60
    jobs.answer = SourceError("HTTP 503")
    await watched.until(lambda: watched.faults == {"ray.jobs": "HTTP 503"})
    (fault,) = watched.poller.parts.faults.values()
    assert fault.since == NOW
    jobs.answer = JOBS
    seen = await watched.shows(lambda snapshot: snapshot.jobs == JOBS.jobs)
    assert not seen.faults


async def test_a_source_that_hangs_is_a_fault_and_delays_no_other(watched):
    hangs, works = CountingSource(timeout=0.05), CountingSource("ray.nodes", NODES)
    hangs.takes = 60
    watched.watch(hangs, works)
    await watched.until(lambda: watched.faults)
    assert watched.faults == {"ray.jobs": "no answer within 0 s"}
    assert works.times > 1


async def test_no_source_is_read_twice_at_once(watched):
    slow = CountingSource(every=0.001)
    slow.takes = 0.02
    watched.watch(slow)
    while slow.times < 5:
        watched.poller.refresh()
        await asyncio.sleep(0.001)
    assert slow.most_at_once == 1


async def test_a_source_that_keeps_failing_is_polled_less_and_less_often_up_to_a_limit_until_it_answers(watched, monkeypatch):
    monkeypatch.setattr(poller_module, "LONGEST_BACKOFF_S", 1.0)
    jobs = CountingSource(answer=SourceError("connection refused"), every=0.01)

    def gaps(first):
        return [after - before for before, after in zip(jobs.when[first:], jobs.when[first + 1 :], strict=False)]

    watched.watch(jobs)
    await watched.until(lambda: jobs.times >= 12)
    assert gaps(0)[0] < gaps(0)[4]
    assert gaps(0)[4] >= 0.95 * 0.01 * 2**5
    assert min(gaps(0)[7:]) < 0.01 * 2**8, "doubled each time it would have been more than that"
    jobs.answer = JOBS
    watched.poller.refresh()
    await watched.until(lambda: not watched.faults)
    before = jobs.times
    await watched.until(lambda: jobs.times >= before + 6)
    assert min(gaps(before)) < 0.01 * 2**3


async def test_refresh_polls_a_waiting_source_at_once(watched):
    rests = CountingSource(every=3600)
    watched.watch(rests)
    await watched.until(lambda: watched.poller.answered)
    await asyncio.sleep(0)
    watched.poller.refresh()
    await watched.until(lambda: rests.times == 2)


async def test_a_bug_in_a_source_is_a_fault_and_the_source_is_polled_again(watched, monkeypatch):
    monkeypatch.setattr(poller_module, "LONGEST_BACKOFF_S", 0.01)
    broken = CountingSource(answer=ZeroDivisionError("a bug"))
    watched.watch(broken)
    await watched.until(lambda: "a bug: ZeroDivisionError" in watched.faults.get("ray.jobs", ""))
    broken.answer = JOBS
    await watched.until(lambda: not watched.faults and watched.poller.parts.jobs)


async def test_it_publishes_without_any_answer(watched):
    await watched.until(lambda: len(watched.published) >= 2)
    watched.clock.now += 300
    await watched.shows(lambda snapshot: snapshot.taken == NOW + 300)


async def test_awaited_answers_are_published_as_they_arrive(watched, monkeypatch):
    monkeypatch.setattr(poller_module, "PUBLISH_PAUSE_S", 60.0)
    monkeypatch.setattr(poller_module, "PUBLISH_AT_LEAST_EVERY_S", 60.0)
    watched.poller.update_host(Host("w0"))
    await watched.shows(lambda snapshot: "w0" in snapshot.hosts)
    watched.poller.refresh(is_awaited=True)
    for number in range(1, 4):
        watched.poller.update_host(Host(f"w{number}"))
        await watched.shows(lambda snapshot, name=f"w{number}": name in snapshot.hosts)


async def test_answers_that_come_together_are_published_together(watched, monkeypatch):
    monkeypatch.setattr(poller_module, "PUBLISH_PAUSE_S", 0.1)
    monkeypatch.setattr(poller_module, "PUBLISH_AT_LEAST_EVERY_S", 60.0)
    await watched.until(lambda: len(watched.published) == 1)
    for number in range(50):
        watched.poller.update_host(Host(f"w{number}"))
        await asyncio.sleep(0)
    seen = await watched.shows(lambda snapshot: len(snapshot.hosts) == 50)
    assert watched.published.index(seen) <= 2


@pytest.mark.parametrize("is_large", [False, True])
async def test_an_early_snapshot_has_the_newest_facts_unless_the_cluster_is_large(watched, monkeypatch, is_large):
    monkeypatch.setattr(poller_module, "STARTUP_PUBLISH_PAUSE_S", 60.0)
    monkeypatch.setattr(poller_module, "THREAD_MIN_NODES", 0 if is_large else 100)
    await watched.until(lambda: len(watched.published) == 1)
    watched.watch(CountingSource("ray.nodes", NODES))
    await watched.until(lambda: watched.poller.parts.nodes)
    assert watched.poller.join_early().nodes == (None if is_large else NODES.nodes)
    assert len(watched.published) == 1


@pytest.mark.parametrize(("cost", "pause"), [(0.0, 2.0), (0.05, 2.0), (0.075, 3.0), (0.1, 4.0), (9.0, 4.0)])
def test_slow_snapshots_are_made_less_often_but_as_often_as_ray_has_news(cost, pause):
    assert poller_module.choose_pause(cost) == pytest.approx(pause)


async def test_another_cluster_at_the_same_address_makes_everything_forgotten(watched):
    identity, jobs, nodes = CountingSource("ray.identity", HERE), CountingSource(every=3600), CountingSource("ray.nodes", NODES, every=3600)
    watched.watch(identity, jobs, nodes)
    watched.poller.update_host(Host("here", taken=NOW, processes=(), local=True))
    await watched.shows(lambda snapshot: snapshot.jobs and snapshot.nodes and snapshot.hosts)
    identity.answer = Cluster("http://head:8265", "2.60.0", "session_2", "cluster_2", reachable=True)
    seen = await watched.shows(lambda snapshot: snapshot.cluster.session == "session_2")
    assert seen.jobs is None
    assert node(1) not in seen.nodes
    assert seen.hosts, "a probe's facts are true of the host in any cluster"


@pytest.mark.parametrize("answer", [HERE, Cluster("http://head:8265", "2.9.3", reachable=True)])
async def test_an_identity_with_fewer_facts_is_still_the_same_cluster(watched, answer):
    identity, jobs = CountingSource("ray.identity", HERE), CountingSource(every=3600)
    watched.watch(identity, jobs)
    await watched.shows(lambda snapshot: snapshot.jobs and snapshot.cluster.reachable)
    identity.answer, before = answer, identity.times
    await watched.until(lambda: identity.times >= before + 2)
    assert watched.poller.parts.jobs is JOBS


async def test_a_dashboard_that_disappears_is_unreachable_and_its_facts_stay(watched):
    identity, jobs = CountingSource("ray.identity", HERE), CountingSource()
    watched.watch(identity, jobs)
    await watched.shows(lambda snapshot: snapshot.jobs and snapshot.cluster.reachable)
    identity.answer = SourceError("connection refused", "silent")
    seen = await watched.shows(lambda snapshot: snapshot.cluster.reachable is False)
    assert [fault.cause for fault in seen.faults if fault.source == "ray.identity"] == ["silent"]
    assert seen.cluster.session == "session_1"
    assert seen.jobs == JOBS.jobs


async def test_when_the_dashboard_is_back_everything_is_polled_again_at_once(watched):
    identity, jobs = CountingSource("ray.identity", SourceError("connection refused")), CountingSource(every=60.0)
    watched.watch(identity, jobs)
    await watched.until(lambda: identity.times > 3 and jobs.times == 1)
    identity.answer = HERE
    await watched.until(lambda: jobs.times == 2)


async def test_as_soon_as_any_source_answers_again_the_identity_is_read_at_once(watched):
    lost = SourceError("no answer", "silent")
    identity, jobs = CountingSource("ray.identity", lost, every=3600), CountingSource("ray.jobs", lost)
    watched.watch(identity, jobs)
    await watched.until(lambda: jobs.times > 2)
    assert identity.times == 1, "nothing has answered"
    identity.answer, jobs.answer = HERE, JOBS
    await watched.shows(lambda snapshot: snapshot.cluster.reachable)


async def test_leaving_forgets_ray_and_another_dashboard_can_be_polled(watched):
    failing, identity = CountingSource("ray.nodes", SourceError("no answer")), CountingSource("ray.identity", HERE)
    first, second = CountingSource(), CountingSource("ray.jobs", JobFacts(jobs=()))
    watched.watch(failing, identity, first)
    watched.poller.report_fault("probe", "w1: connection refused", "w1")
    await watched.shows(lambda snapshot: snapshot.jobs and len(snapshot.faults) == 2)
    tasks = watched.poller._tasks
    watched.poller.leave()
    await asyncio.wait(tasks, timeout=1)
    assert all(task.done() for task in tasks)
    seen = await watched.shows(lambda snapshot: snapshot.jobs is None)
    assert seen.cluster == Cluster()
    assert watched.faults == {"probe": "w1: connection refused"}
    before = first.times
    watched.watch(second)
    await watched.until(lambda: second.times > 4)
    assert first.times == before
    assert watched.poller.parts.jobs.jobs == ()


async def test_an_answer_that_comes_just_as_its_dashboard_is_left_is_ignored(watched):
    late = CountingSource()
    late.gate = asyncio.Event()
    watched.watch(late)
    await watched.until(lambda: late.times == 1)
    tasks = watched.poller._tasks
    late.gate.set()
    await asyncio.sleep(0)
    watched.poller.leave()
    await asyncio.wait_for(asyncio.wait(tasks), 5)
    assert late.times == 1
    assert all(task.cancelled() or task.exception() is None for task in tasks)
    assert watched.poller.parts.jobs is None


async def test_it_ends_if_it_is_cancelled_just_as_an_answer_arrives(watched, monkeypatch):
    monkeypatch.setattr(poller_module, "PUBLISH_PAUSE_S", 0)
    monkeypatch.setattr(poller_module, "PUBLISH_AT_LEAST_EVERY_S", 60.0)
    await watched.until(lambda: watched.published)
    await watched.until(lambda: not watched.poller._changed.is_set())
    watched.poller.update_host(Host("w1"))
    await asyncio.sleep(0)
    watched.task.cancel()
    await asyncio.wait_for(asyncio.wait({watched.task}), 5)


async def test_facts_and_faults_of_two_hosts_are_separate(watched):
    watched.poller.update_host(Host("w1", taken=NOW, cpus=8, processes=()))
    watched.poller.update_host(Host("w2", taken=NOW, cpus=8, processes=()))
    await watched.shows(lambda snapshot: set(snapshot.hosts) == {"w1", "w2"})
    assert {"probe:w1", "probe:w2"} <= watched.poller.answered
    watched.poller.forget_host("w1")
    watched.poller.forget_host("nobody")
    await watched.shows(lambda snapshot: set(snapshot.hosts) == {"w2"})
    watched.poller.report_fault("probe", "gone", "w1")
    watched.poller.report_fault("probe", "gone", "w2")
    assert len(watched.poller.parts.faults) == 2
    watched.poller.clear_fault("probe", "w1")
    watched.poller.clear_fault("probe", "w1")
    assert [fault.host for fault in watched.poller.parts.faults.values()] == ["w2"]


def sample_with_titles(taken: float, *titles: str) -> Host:
    """A worker that has got these titles, one after the other."""
    worker = Process(pid=7, ticks=1, host="w1", command=titles[-1], kind="worker", titles=tuple((taken, title) for title in titles))
    return Host("w1", taken=taken, processes=(worker,))


def titles_in(poller: Poller) -> list[str]:
    poller.rejoin()
    (worker,) = poller.snapshot.processes
    return [title for _, title in worker.titles]


async def test_no_title_is_lost_if_two_samples_arrive_between_two_snapshots():
    poller = Poller(lambda _: None)
    poller.update_host(sample_with_titles(NOW, "ray::A", "ray::A.fit"))
    poller.update_host(sample_with_titles(NOW + 2, "ray::A"))
    assert titles_in(poller) == ["ray::A", "ray::A.fit", "ray::A"]
    poller.update_host(sample_with_titles(NOW + 4, "ray::A.save"))
    assert titles_in(poller) == ["ray::A.save"], "those before were in a snapshot"
    for number in range(3):
        poller.update_host(sample_with_titles(NOW + 6 + number, f"ray::A.m{number}"))
    assert titles_in(poller) == ["ray::A.m0", "ray::A.m1", "ray::A.m2"]


async def test_waiting_for_a_change_ends_with_it_or_after_the_patience(watched):
    started = time.monotonic()
    await watched.poller.change(0.05)
    assert time.monotonic() - started > 0.04
    waiting = asyncio.ensure_future(watched.poller.change(60))
    await asyncio.sleep(0)
    watched.poller.update_host(Host("w1"))
    await asyncio.wait_for(waiting, 1)
    await asyncio.wait_for(watched.poller.change(-1), 1)


async def test_expected_hosts_are_listed_before_the_first_report():
    published = []
    poller = Poller(published.append, expected=(("w7", "w7"),))
    poller.update_host(Host("here", taken=NOW, processes=(), local=True))
    running = asyncio.ensure_future(poller.run())
    await asyncio.sleep(0.01)
    running.cancel()
    assert [item.host for item in published[-1].nodes] == ["here", "w7"]


@pytest.mark.parametrize("place", ["join", "tracker"])
async def test_facts_that_cause_an_exception_keep_the_last_snapshot_and_raise_a_fault(watched, monkeypatch, place):
    watched.watch(CountingSource())
    await watched.shows(lambda snapshot: snapshot.jobs)

    def trip(*_):
        raise ZeroDivisionError("token=abcdefgh\nof a job")

    with monkeypatch.context() as tripping:
        tripping.setattr(watched.poller, "join", trip) if place == "join" else tripping.setattr(
            watched.poller.tracker, "with_findings", trip
        )
        watched.clock.now += 60
        seen = await watched.shows(lambda snapshot: snapshot.taken == NOW + 60 and snapshot.faults)
        watched.clock.now += 60
        seen = await watched.shows(lambda snapshot: snapshot.taken == NOW + 120)
    assert seen.jobs == JOBS.jobs
    (fault,) = seen.faults
    assert (fault.source, fault.since) == ("cockpit", NOW + 60)
    assert fault.text.startswith("cockpit has a bug: ZeroDivisionError: token=•••")
    await watched.shows(lambda snapshot: not snapshot.faults)
    assert not watched.task.done()


class CountingTracker:
    """Stands for the tracker and counts its calls."""

    def __init__(self):
        self.looks, self.forgiven = 0, 0.0

    def due(self, snapshot):
        return True

    def expire_findings(self):
        """It is always due."""

    def forget_findings(self):
        """There are none."""

    def run_detectors(self, snapshot):
        self.looks += 1

    def with_findings(self, snapshot):
        return snapshot

    def skip_gap(self, gap):
        self.forgiven += gap


def test_nothing_is_found_before_the_first_answers_or_from_old_facts_after_a_stop():
    now, tracker = [1000.0], CountingTracker()
    poller = Poller(lambda _: None, tracker=tracker, clock=lambda: now[0])
    poller._make_snapshot(poller.parts)
    assert tracker.looks == 0
    now[0] += poller_module.FIRST_ANSWERS_S
    for _ in range(3):
        now[0] += 2
        poller._make_snapshot(poller.parts)
    assert (tracker.looks, tracker.forgiven) == (3, 0.0)
    now[0] += 3600
    poller._make_snapshot(poller.parts)
    assert (tracker.looks, tracker.forgiven) == (3, 3600.0)
    for _ in range(5):
        now[0] += 2
        poller._make_snapshot(poller.parts)
    assert (tracker.looks, tracker.forgiven) == (4, 3600.0)


async def test_findings_are_made_as_soon_as_the_first_snapshot_with_all_answers_is_drawn(watched, monkeypatch):
    monkeypatch.setattr(poller_module, "PUBLISH_PAUSE_S", 60.0)
    watched.poller.tracker = tracker = CountingTracker()
    jobs = CountingSource()
    jobs.gate = asyncio.Event()
    watched.watch(jobs, CountingSource("ray.nodes", NODES))
    watched.poller.update_host(Host("w1"))
    await watched.shows(lambda snapshot: snapshot.nodes and not snapshot.jobs)
    assert tracker.looks == 0
    drawn: list[int] = []
    watched.poller.subscribe(lambda snapshot: drawn.append(tracker.looks) if snapshot.jobs else None)
    jobs.gate.set()
    began = time.monotonic()
    await watched.until(lambda: len(drawn) > 1)
    assert drawn[:2] == [0, 1]
    assert time.monotonic() - began < 30


async def test_findings_about_hosts_remain_while_another_cluster_is_polled(watched):
    watched.poller.update_host(Host("w1"))
    watched.poller.tracker = tracker = CountingTracker()
    watched.poller.leave()
    assert tracker.looks == 1


async def test_another_cluster_is_judged_once_all_have_answered_for_it(watched):
    watched.poller.update_host(Host("w1"))
    watched.clock.now += poller_module.FIRST_ANSWERS_S
    slow = CountingSource()
    slow.takes = 10
    watched.watch(slow)
    watched.poller.tracker = tracker = CountingTracker()
    watched.poller._make_snapshot(watched.poller.parts)
    assert tracker.looks == 0


async def test_a_newer_snapshot_made_meanwhile_is_not_replaced(monkeypatch):
    published = []
    poller = Poller(published.append, tracker=CountingTracker())
    newer = poller._make_snapshot(poller.parts)

    async def be_overtaken(big, work, parts):
        poller.snapshot = newer
        return work(parts)

    monkeypatch.setattr(poller_module, "PUBLISH_AT_LEAST_EVERY_S", 0.0)
    monkeypatch.setattr(poller_module, "run_in_thread_if", be_overtaken)
    task = asyncio.create_task(poller.run())
    while not published:
        await asyncio.sleep(0)
    task.cancel()
    assert published[0] is newer


FOUND = RayCluster("default", "ray", pods=())


async def test_facts_of_kubernetes_stay_when_it_fails_and_when_another_ray_is_followed(watched):
    asked = CountingSource("kubernetes", FOUND)
    watched.poller.ask([asked.source])
    await watched.shows(lambda snapshot: snapshot.kubernetes is FOUND)
    asked.answer = SourceError("kubectl: connection refused")
    await watched.until(lambda: watched.faults == {"kubernetes": "kubectl: connection refused"})
    watched.poller.leave()
    times = asked.times
    await watched.until(lambda: asked.times > times)
    assert watched.poller.parts.kubernetes is FOUND
    assert watched.faults == {"kubernetes": "kubectl: connection refused"}


async def test_waiting_for_an_answer_is_bounded_and_ends_with_a_fault(watched):
    slow = CountingSource("slurm", every=3600, timeout=3600)
    slow.gate = asyncio.Event()
    watched.poller.ask([slow.source])
    await watched.poller.wait_for_answer("slurm", 0.0)
    assert watched.faults == {"slurm": "Slurm has not answered within 0 s"}
    slow.gate.set()
    await watched.poller.wait_for_answer("slurm", 60.0)
    assert watched.faults == {}


async def test_after_a_stop_no_source_is_polled_and_the_facts_stay(watched):
    kubernetes, jobs = CountingSource("kubernetes", FOUND), CountingSource()
    watched.watch(jobs)
    watched.poller.ask([kubernetes.source])
    await watched.shows(lambda snapshot: snapshot.kubernetes and snapshot.jobs)
    asking = list(watched.poller._tasks)
    watched.poller.stop()
    await asyncio.wait(asking)  # a sent question is completed
    times = kubernetes.times, jobs.times
    watched.poller.refresh()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (kubernetes.times, jobs.times) == times
    assert watched.poller.parts.kubernetes is FOUND
    assert watched.poller.parts.jobs is JOBS


async def test_preparers_get_each_snapshot_before_it_is_published(watched):
    prepared = []
    watched.poller.prepare_with(lambda snapshot: prepared.append((snapshot, snapshot in watched.published)))
    watched.watch(CountingSource(), CountingSource("ray.identity", HERE))
    seen = await watched.shows(lambda snapshot: snapshot.jobs)
    assert (seen, False) in prepared
