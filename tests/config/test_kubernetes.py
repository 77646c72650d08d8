"""In a KubeRay pod its RayCluster is found, and its pods are reached with kubectl; elsewhere nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.config.document import InputError
from cockpit.config.kubernetes import KubernetesPlace, find_place, named_place
from cockpit.config.reach import HostEntry, reach_command
from cockpit.config.settings import load

POD = {"RAY_CLUSTER_NAME": "raycluster-kuberay", "RAY_CLUSTER_NAMESPACE": "ray", "KUBERNETES_SERVICE_HOST": "10.96.0.1"}


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """A PATH with a kubectl."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").touch(mode=0o755)
    return str(tmp_path / "bin")


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """What Kubernetes lays into a pod: links, as there."""
    folder = tmp_path / "account"
    (folder / "..data").mkdir(parents=True)
    for name, text in (("namespace", "default"), ("token", "secret")):
        (folder / "..data" / name).write_text(text)
        (folder / name).symlink_to(f"..data/{name}")
    return folder


def test_in_a_pod_with_kubectl_its_raycluster_is_known_and_exec_is_the_way(programs: str, tmp_path: Path):
    config = load({}, {**POD, "PATH": programs}, tmp_path / "none.yaml")
    assert config.kubernetes == KubernetesPlace("ray", "raycluster-kuberay", "RAY_CLUSTER_NAME", inside=True)
    words = "kubectl exec --quiet -i -n ray worker-0 -- python3 -"
    assert reach_command(config.reach, HostEntry("worker-0", address="10.0.0.4")) == words.split()
    assert config.origins == {"kubernetes": "RAY_CLUSTER_NAME", "reach": "RAY_CLUSTER_NAME"}
    assert config.hosts == (), "pods come and go"


def test_in_a_pod_without_kubectl_ray_itself_is_the_way(tmp_path: Path):
    assert load({}, {**POD, "PATH": ""}, tmp_path / "none.yaml").reach == "ray"


def test_the_namespace_is_that_of_the_service_account_where_no_variable_has_it(account: Path):
    place = find_place({**POD, "RAY_CLUSTER_NAMESPACE": "", "PATH": ""}, account)
    assert place == KubernetesPlace("default", "raycluster-kuberay", "RAY_CLUSTER_NAME", inside=True, has_kubectl=False)


@pytest.mark.parametrize("lacking", [*POD])
def test_elsewhere_than_in_a_pod_of_kuberays_nothing_is_found(lacking: str, tmp_path: Path):
    assert find_place({name: value for name, value in POD.items() if name != lacking}, tmp_path) is None


@pytest.mark.parametrize("name", ["-w", "a b", "Upper", "$(x)", "../secrets", "a/b"])
def test_a_name_that_kubernetes_would_not_accept_is_refused(name: str, programs: str, account: Path):
    assert find_place({**POD, "RAY_CLUSTER_NAME": name}, account) is None
    with pytest.raises(InputError, match="expected NAMESPACE/RAYCLUSTER such as default/raycluster-kuberay"):
        named_place(f"default/{name}", {"PATH": programs})


def test_a_named_raycluster_overrides_the_config_file_and_the_current_pod(programs: str, tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text("reach: ssh {address} {python} -\n")
    env = {**POD, "PATH": programs}
    named = named_place("train/big", env)
    config = load({}, env, path, orchestrators=[named])
    assert config.kubernetes == named
    assert named.is_named
    assert not named.inside, "kubectl asks, with the user's own rights"
    assert config.reach.startswith("kubectl exec --quiet -i -n train {name} ")
    assert load({}, env, path).reach == "ssh {address} {python} -"


def test_without_kubectl_a_pod_needs_a_service_account(account: Path, tmp_path: Path):
    named = named_place("train/big", {**POD, "PATH": ""}, account)
    assert (named.inside, named.reach) == (True, "ray")
    for env, folder in (({"PATH": ""}, account), ({**POD, "PATH": ""}, tmp_path)):
        with pytest.raises(InputError, match="kubectl is not in PATH, and cockpit is not in a pod with a service account"):
            named_place("train/big", env, folder)
