"""A stand-in of the API server is asked as it would be really: by kubectl, and over TLS with the token of a service account."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.config.kubernetes import KubernetesPlace
from cockpit.sources.kubernetes.api import KubernetesApi, RefusedError, ServiceAccount, ask_kubectl
from cockpit.sources.kubernetes.facts import check_ray_cluster, delete_pod, list_pods, read_ray_cluster
from cockpit.sources.source import SourceError
from tests.fakes import kubernetes
from tests.fakes.kubernetes import EVERYTHING

RECORDED = Path(__file__).parents[2] / "recorded" / "kubernetes"
PLACE = KubernetesPlace("default", "rayjob-sample-qtfkz")
WORKER, UID = "rayjob-sample-qtfkz-gpu-worker-4v9tn", "0e1c7f5a-7f3c-4a52-8c0a-6a0a7b1d0002"
TOKEN = "of-the-service-account"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What it serves."""
    kubernetes.lay_out(tmp_path, "127.0.0.1", token=TOKEN)
    kubernetes.write(tmp_path, "pods", json.loads((RECORDED / "pods.json").read_text())["items"])
    kubernetes.write(tmp_path, "rayclusters", [json.loads((RECORDED / "raycluster.json").read_text())])
    kubernetes.write(tmp_path, "rayjobs", [json.loads((RECORDED / "rayjob.json").read_text())])
    return tmp_path


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[int]:
    """Its port."""
    server = kubernetes.ApiServer(folder)
    yield await server.start("127.0.0.1", 0)
    await server.close()


@pytest.fixture
def account(folder: Path) -> Path:
    """As Kubernetes lays it into a pod."""
    made = folder / "account"
    made.mkdir()
    shutil.copy(folder / "tls.crt", made / "ca.crt")
    (made / "token").write_text(f"{TOKEN}\n")
    return made


@pytest.fixture(params=["kubectl", "service account"])
def api(request: pytest.FixtureRequest, server: int, folder: Path, account: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesApi:
    if request.param == "service account":
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server)}
        return KubernetesApi(PLACE, ServiceAccount(env, account))
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl (Debian: apt install kubernetes-client)")
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.write_kubeconfig(folder, "127.0.0.1", TOKEN, server)))
    monkeypatch.setenv("HOME", str(folder))
    return KubernetesApi(PLACE, ask_kubectl)


def uids(folder: Path) -> set[str]:
    return {pod["metadata"]["uid"] for pod in kubernetes.read(folder, "pods")}


async def test_a_raycluster_is_read_as_it_is(api: KubernetesApi):
    found = await read_ray_cluster(api)
    assert (found.state, found.wanted, len(found.pods or ()), len(found.jobs or ())) == ("ready", 6, 5, 1)


async def test_a_pod_that_was_made_anew_under_its_name_stays(api: KubernetesApi, folder: Path):
    before = uids(folder)
    with pytest.raises(RefusedError) as refused:
        await delete_pod(api, WORKER, "0e1c7f5a-0000-0000-0000-000000000000")
    assert refused.value.reason == "Conflict"
    assert uids(folder) == before


async def test_the_pod_that_is_meant_is_deleted_once(api: KubernetesApi, folder: Path):
    before = uids(folder)
    await delete_pod(api, WORKER, UID)
    assert uids(folder) == before - {UID}
    with pytest.raises(RefusedError) as refused:
        await delete_pod(api, WORKER, UID)
    assert refused.value.reason == "NotFound"


async def test_a_right_that_is_lacking_is_named(api: KubernetesApi, folder: Path):
    (folder / "rights").write_text("list pods")
    assert len(await list_pods(api)) == 5
    with pytest.raises(RefusedError, match=r'cannot delete resource "pods" .* packaging/kubernetes-role.yaml has the Role') as refused:
        await delete_pod(api, WORKER, UID)
    assert refused.value.reason == "Forbidden"
    assert set((await read_ray_cluster(api)).lacks) == {"raycluster", "rayjobs"}


@pytest.mark.parametrize("lacking", [None, *EVERYTHING])
async def test_each_right_of_the_role_is_needed_and_no_other(api: KubernetesApi, folder: Path, lacking: str | None):
    """The RayCluster that a RayJob has made, one that a person has, a command in a pod, a pod deleted."""
    (folder / "rights").write_text("\n".join(right for right in EVERYTHING if right != lacking))
    refused = {**(await read_ray_cluster(api)).lacks}
    (cluster,) = kubernetes.read(folder, "rayclusters")
    kubernetes.write(folder, "rayclusters", [{**cluster, "metadata": {**cluster["metadata"], "ownerReferences": []}}])
    refused |= (await read_ray_cluster(api)).lacks
    if str(folder) in os.environ.get("KUBECONFIG", ""):
        words = ["kubectl", "exec", "-n", "default", WORKER, "--", "true"]
        ended = await (await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)).wait()
        refused |= {"exec": "refused"} if ended else {}
    elif lacking in ("get pods", "get pods/exec"):
        pytest.skip("only kubectl asks for it")
    try:
        await delete_pod(api, WORKER, UID)
    except RefusedError as error:
        refused["delete"] = str(error)
    assert bool(refused) is (lacking is not None), refused


async def test_without_the_right_token_nothing_is_told_and_no_token_is_printed(api: KubernetesApi, folder: Path):
    (folder / "token").write_text("another")
    with pytest.raises(SourceError, match="Unauthorized") as refused:
        await check_ray_cluster(api)
    assert TOKEN not in str(refused.value)


async def test_a_token_that_was_renewed_is_used_at_once(server: int, folder: Path, account: Path):
    api = KubernetesApi(PLACE, ServiceAccount({"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server)}, account))
    await check_ray_cluster(api)
    for place in (folder, account):
        (place / "token").write_text("renewed")
    await check_ray_cluster(api)


async def test_a_token_goes_to_nobody_but_whom_the_clusters_authority_vouches_for(server: int, folder: Path, account: Path):
    other = folder / "other"
    other.mkdir()
    kubernetes.make_certificate(other, "127.0.0.1")
    shutil.copy(other / "tls.crt", account / "ca.crt")
    env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server)}
    with pytest.raises(SourceError, match=r"Kubernetes can't be reached at https://127.0.0.1:\d+: .*CERTIFICATE_VERIFY_FAILED"):
        await check_ray_cluster(KubernetesApi(PLACE, ServiceAccount(env, account)))
    assert not (folder / "asked").exists()


@pytest.mark.parametrize(("missing", "said"), [("token", "no token of a service account"), ("ca.crt", "authority can't be read")])
async def test_a_pod_without_a_service_account_says_so(server: int, account: Path, missing: str, said: str):
    os.unlink(account / missing)
    env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server)}
    with pytest.raises(SourceError, match=said):
        await check_ray_cluster(KubernetesApi(PLACE, ServiceAccount(env, account)))


async def test_an_api_server_that_is_gone_is_an_error(account: Path):
    env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    with pytest.raises(SourceError, match=r"can't be reached at https://127\.0\.0\.1:1:"):
        await check_ray_cluster(KubernetesApi(PLACE, ServiceAccount(env, account)))


async def test_without_kubectl_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceError, match="Kubernetes can't be asked: kubectl: no such file or directory"):
        await check_ray_cluster(KubernetesApi(PLACE, ask_kubectl))
