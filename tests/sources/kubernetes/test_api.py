"""A stand-in of the API server is asked like a real one: by kubectl, and over TLS with a service account's token."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from cockpit.sources.kubernetes.api import KubernetesApi, KubernetesRefusedError, ServiceAccount, ask_kubectl
from cockpit.sources.kubernetes.facts import check_ray_cluster, delete_pod, list_pods, read_ray_cluster
from cockpit.sources.probes.host_probe import why_it_ended
from cockpit.sources.probes.process import ask_program
from cockpit.sources.source import SourceError
from tests.fakes import kubernetes
from tests.fakes.kubernetes import EVERYTHING
from tests.sources.kubernetes.recorded import PLACE, TOKEN, UID, WORKER

pytestmark = pytest.mark.process


@pytest.fixture(params=["kubectl", "service account"])
def api(
    request: pytest.FixtureRequest,
    folder: Path,
    account: Path,
    env_of_pod: dict[str, str],
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> KubernetesApi:
    if request.param == "service account":
        return KubernetesApi(PLACE, ServiceAccount(env_of_pod, account))
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl (Debian: apt install kubernetes-client)")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("HOME", str(folder))
    return KubernetesApi(PLACE, ask_kubectl)


def uids(folder: Path) -> set[str]:
    return {pod["metadata"]["uid"] for pod in kubernetes.read(folder, "pods")}


async def test_the_meant_pod_is_deleted_once_and_a_new_one_of_that_name_stays(api: KubernetesApi, folder: Path):
    before = uids(folder)
    for uid, reason in (("0e1c7f5a-0000-0000-0000-000000000000", "Conflict"), (UID, None), (UID, "NotFound")):
        if reason is None:
            await delete_pod(api, WORKER, uid)
            assert uids(folder) == before - {UID}
            continue
        with pytest.raises(KubernetesRefusedError) as refused:
            await delete_pod(api, WORKER, uid)
        assert refused.value.reason == reason
        assert (UID in uids(folder)) is (reason == "Conflict")


async def test_a_missing_right_is_named(api: KubernetesApi, folder: Path):
    (folder / "rights").write_text("list pods")
    assert len(await list_pods(api)) == 5
    with pytest.raises(
        KubernetesRefusedError, match=r'cannot delete resource "pods" .* packaging/kubernetes-role.yaml has the Role'
    ) as refused:
        await delete_pod(api, WORKER, UID)
    assert refused.value.reason == "Forbidden"
    assert set((await read_ray_cluster(api)).lacks) == {"raycluster", "rayjobs"}


async def test_a_probe_that_kubectl_may_not_start_names_the_right_and_the_role_that_has_it(api: KubernetesApi, folder: Path):
    if str(folder) not in os.environ.get("KUBECONFIG", ""):
        pytest.skip("only kubectl sends probes")
    (folder / "rights").write_text("list pods\nget pods")
    with pytest.raises(SourceError) as refused:
        await ask_program("Kubernetes", "kubectl", "exec", "-n", "default", WORKER, "--", "true")
    reason = why_it_ended(WORKER, 1, str(refused.value), spoke=False)
    assert 'cannot create resource "pods/exec"' in reason
    assert reason.endswith("; packaging/kubernetes-role.yaml has the Role that allows it")


@pytest.mark.parametrize("lacking", [None, *EVERYTHING])
async def test_the_role_has_exactly_the_needed_rights(api: KubernetesApi, folder: Path, lacking: str | None):
    """A RayCluster that a RayJob made, one made by a person, a command in a pod, and a deletion."""
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
    except KubernetesRefusedError as error:
        refused["delete"] = str(error)
    assert bool(refused) is (lacking is not None), refused


async def test_a_wrong_token_gets_no_facts_and_no_token_is_printed(api: KubernetesApi, folder: Path):
    (folder / "token").write_text("another")
    with pytest.raises(SourceError, match="Unauthorized") as refused:
        await check_ray_cluster(api)
    assert TOKEN not in str(refused.value)


async def test_a_renewed_token_is_used_at_once(env_of_pod: dict[str, str], folder: Path, account: Path):
    api = KubernetesApi(PLACE, ServiceAccount(env_of_pod, account))
    await check_ray_cluster(api)
    for place in (folder, account):
        (place / "token").write_text("renewed")
    await check_ray_cluster(api)


async def test_a_token_is_sent_only_to_a_server_with_the_clusters_certificate(env_of_pod: dict[str, str], folder: Path, account: Path):
    other = folder / "other"
    other.mkdir()
    kubernetes.make_certificate(other, "127.0.0.1")
    shutil.copy(other / "tls.crt", account / "ca.crt")
    with pytest.raises(SourceError, match=r"Kubernetes can't be reached at https://127.0.0.1:\d+: .*CERTIFICATE_VERIFY_FAILED"):
        await check_ray_cluster(KubernetesApi(PLACE, ServiceAccount(env_of_pod, account)))
    assert not (folder / "asked").exists()


@pytest.mark.parametrize(("missing", "expected"), [("token", "no token of a service account"), ("ca.crt", "certificate can't be read")])
async def test_a_pod_without_a_service_account_says_so(env_of_pod: dict[str, str], account: Path, missing: str, expected: str):
    os.unlink(account / missing)
    with pytest.raises(SourceError, match=expected):
        await check_ray_cluster(KubernetesApi(PLACE, ServiceAccount(env_of_pod, account)))


async def test_without_an_api_server_or_kubectl_there_is_one_sentence(account: Path, monkeypatch: pytest.MonkeyPatch):
    env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    with pytest.raises(SourceError, match=r"can't be reached at https://127\.0\.0\.1:1:"):
        await check_ray_cluster(KubernetesApi(PLACE, ServiceAccount(env, account)))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceError, match="Kubernetes can't be asked: kubectl: no such file or directory"):
        await check_ray_cluster(KubernetesApi(PLACE, ask_kubectl))
