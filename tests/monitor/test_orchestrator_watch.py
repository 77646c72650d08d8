"""Slurm and Kubernetes are asked now and then; the pods that run are hosts, as long as they run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace

import pytest

from cockpit.config.kubernetes import CLUSTER, KubernetesPlace
from cockpit.config.reach import HostEntry
from cockpit.config.settings import Config
from cockpit.model import Cluster, Host, Pod, RayCluster, Snapshot
from cockpit.monitor.host_selection import HostSelection
from cockpit.monitor.orchestrator_watch import OrchestratorWatch
from cockpit.monitor.poller import Poller
from cockpit.sources.source import SourceError
from tests.world import NOW, node, snapshot

FOUND = RayCluster(
    "default", "ray", pods=(Pod("ray-worker", "u2", ip="10.0.0.2", phase="Running"), Pod("ray-waits", "u3", phase="Pending"))
)


@pytest.fixture
def poller() -> Poller:
    return Poller(lambda _: None)


async def asked(watch: OrchestratorWatch, until: Callable[[], object] = lambda: None) -> None:
    """Once, or until something is so."""
    task = asyncio.ensure_future(watch.run())
    await watch.wait_until_asked(60)
    while until() is False:
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def watching(poller: Poller, ask: Callable[[], Awaitable[None]] | None, every: float = 3600) -> OrchestratorWatch:
    return OrchestratorWatch(poller, "Kubernetes", every, ask)


async def test_what_it_says_is_told_and_a_failure_leaves_that_with_a_fault(poller: Poller):
    answers = iter([None, SourceError("kubectl: connection refused")])

    async def ask() -> None:
        answer = next(answers)
        if answer is not None:
            raise answer
        poller.tell(kubernetes=FOUND)

    watch = watching(poller, ask)
    await asked(watch)
    assert poller.parts.kubernetes is FOUND
    assert not poller.parts.faults
    await asked(watch, lambda: bool(poller.parts.faults))
    assert poller.parts.kubernetes is FOUND
    assert poller.parts.faults["kubernetes", None].text == "kubectl: connection refused"


async def test_whoever_wants_it_now_need_not_wait(poller: Poller):
    told: list[int] = []

    async def ask() -> None:
        told.append(1)

    watch = watching(poller, ask)
    task = asyncio.ensure_future(watch.run())
    await watch.wait_until_asked(60)
    watch.refresh()
    while len(told) < 2:
        await asyncio.sleep(0)
    task.cancel()


async def test_one_that_does_not_answer_in_time_is_a_fault(poller: Poller):
    watch = watching(poller, asyncio.Event().wait)  # type: ignore[arg-type]  # never answers
    task = asyncio.ensure_future(watch.run())
    await watch.wait_until_asked(0.0)
    assert poller.parts.faults["kubernetes", None].text == "Kubernetes has not answered within 0 s"
    task.cancel()


async def test_where_there_is_nothing_to_ask_of_nobody_waits(poller: Poller):
    watch = watching(poller, None)
    await watch.run()
    await watch.wait_until_asked(3600)
    assert not poller.parts.faults


def selected(known: Snapshot, *, named: bool = True, **config: object) -> tuple[dict[str, HostEntry], HostSelection]:
    """The hosts that are looked at."""
    wanted: list[dict[str, HostEntry]] = []
    place = KubernetesPlace("default", "ray") if named else KubernetesPlace("default", "ray", CLUSTER, inside=True)
    pool = SimpleNamespace(local="laptop", want=wanted.append)
    selection = HostSelection(Config(kubernetes=place, **config), pool, named=True)  # type: ignore[arg-type]  # as a pool is
    selection.hear(known)
    return wanted[-1], selection


WORKER = HostEntry("ray-worker", address="10.0.0.2")


def test_when_ray_is_down_the_pods_that_run_are_looked_at():
    down = snapshot(cluster=Cluster("http://10.0.0.1:8265", reachable=False), nodes=None, processes=(), kubernetes=FOUND)
    assert selected(down, named=False)[0] == {"ray-worker": WORKER}


def test_pods_of_a_raycluster_that_was_named_are_looked_at_as_hosts_that_were_named():
    well = snapshot(nodes=(node(1), node(2)), processes=(), kubernetes=FOUND)
    assert selected(well)[0] == {"ray-worker": WORKER}
    assert selected(well, named=False)[0] == {}


def test_a_node_is_reached_by_the_name_of_its_pod_and_no_longer_when_that_is_gone():
    well = snapshot(nodes=(node(1), node(2)), processes=(), kubernetes=FOUND)
    _, selection = selected(well)
    assert selection.entry(node(2)) == WORKER
    gone = snapshot(nodes=(node(1),), processes=(), kubernetes=RayCluster("default", "ray", pods=()))
    selection.hear(gone)
    assert "ray-worker" not in selection.select_others(gone)
    assert selection.entry(node(2)) == HostEntry("node2", address="10.0.0.2")


def test_a_node_whose_raylet_is_seen_here_as_in_a_container_is_reached_through_nobody():
    here = Host("laptop", ("10.9.9.9",), NOW, local=True, nodes=(node(2).id,))
    well = snapshot(nodes=(node(1), node(2)), processes=(), hosts={"laptop": here})
    assert list(selected(well)[1].select_others(well)) == ["node1"]
