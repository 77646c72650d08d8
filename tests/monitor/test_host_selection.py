"""Running pods are hosts; containers are probed even while Ray is well."""

from __future__ import annotations

from types import SimpleNamespace

from cockpit.config.kubernetes import CLUSTER, KubernetesPlace
from cockpit.config.reach import HostEntry
from cockpit.config.settings import Config
from cockpit.model import Cluster, Host, Pod, RayCluster, Snapshot
from cockpit.monitor.host_selection import HostSelection
from tests.world import NOW, node, snapshot

FOUND = RayCluster(
    "default", "ray", pods=(Pod("ray-worker", "u2", ip="10.0.0.2", phase="Running"), Pod("ray-waits", "u3", phase="Pending"))
)


def selected(known: Snapshot, *, named: bool = True, **config: object) -> tuple[dict[str, HostEntry], HostSelection]:
    """The hosts that are probed."""
    wanted: list[dict[str, HostEntry]] = []
    place = KubernetesPlace("default", "ray") if named else KubernetesPlace("default", "ray", CLUSTER, inside=True)
    pool = SimpleNamespace(local="laptop", set_targets=wanted.append)
    selection = HostSelection(Config(kubernetes=place, **config), pool, named=True)  # type: ignore[arg-type]  # as a pool is
    selection.on_snapshot(known)
    return wanted[-1], selection


WORKER = HostEntry("ray-worker", address="10.0.0.2")


def test_when_ray_is_down_running_pods_are_probed():
    down = snapshot(cluster=Cluster("http://10.0.0.1:8265", reachable=False), nodes=None, processes=(), kubernetes=FOUND)
    assert selected(down, named=False)[0] == {"ray-worker": WORKER}


def test_pods_of_a_named_raycluster_are_probed_as_named_hosts():
    well = snapshot(nodes=(node(1), node(2)), processes=(), kubernetes=FOUND)
    assert selected(well)[0] == {"ray-worker": WORKER}
    assert selected(well, named=False)[0] == {}


def test_a_node_is_reached_by_the_name_of_its_pod_while_the_pod_exists():
    well = snapshot(nodes=(node(1), node(2)), processes=(), kubernetes=FOUND)
    _, selection = selected(well)
    assert selection.entry(node(2)) == WORKER
    gone = snapshot(nodes=(node(1),), processes=(), kubernetes=RayCluster("default", "ray", pods=()))
    selection.on_snapshot(gone)
    assert "ray-worker" not in selection.select_others(gone)
    assert selection.entry(node(2)) == HostEntry("node2", address="10.0.0.2")


TRAIN = HostEntry("train")
ENGINE = "docker exec -i {name} {python} -"


def test_containers_of_the_config_are_probed_and_awaited_even_while_ray_is_up():
    well = snapshot(nodes=(node(1),), processes=(), hosts={"laptop": Host("laptop", taken=NOW, local=True)})
    listed = {"named": False, "hosts": (TRAIN,), "origins": {"hosts": "config.yaml:1"}}
    wanted, selection = selected(well, reach=ENGINE, **listed)
    assert wanted == selection.select_awaited(well) == {"train": TRAIN}
    assert selected(well, **listed)[0] == {}
