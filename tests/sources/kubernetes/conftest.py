"""The stand-in of the API server with recorded answers, and what clients need to ask it."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes import kubernetes
from tests.sources.kubernetes.recorded import RECORDED, TOKEN


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that it serves."""
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
    """A service account as Kubernetes writes it into a pod."""
    made = folder / "account"
    made.mkdir()
    shutil.copy(folder / "tls.crt", made / "ca.crt")
    (made / "token").write_text(TOKEN)
    return made


@pytest.fixture
def env_of_pod(server: int) -> dict[str, str]:
    """The variables by which a pod finds the API server."""
    return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server)}


@pytest.fixture
def kubeconfig(folder: Path, server: int) -> Path:
    """A user's kubeconfig."""
    return kubernetes.write_kubeconfig(folder, "127.0.0.1", TOKEN, server)
