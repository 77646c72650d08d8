"""A stand-in for Kubernetes on hosts of a lab: some hosts play pods, another one the API server. Real kubectl talks to it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fakes import kubernetes
from tests.lab.cluster import eventually
from tests.lab.hosts import CHECKOUT, Host, Lab

CLUSTER = "ray"
TOKEN = "of-the-lab"
WEBSOCKETS_SINCE = 31
"""First minor version of kubectl whose `exec` uses a WebSocket (KEP-4006). The stand-in has no SPDY, which older versions use."""
RECORDED = Path(__file__).parents[1] / "recorded" / "kubernetes"


def why_no_kubectl() -> str | None:
    """What this machine lacks for kubectl, or `None`."""
    if shutil.which("kubectl") is None or shutil.which("openssl") is None:
        return "needs kubectl and openssl"
    printed = subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, check=False).stdout
    minor = re.search(r'"minor": "(\d+)', printed)
    return None if minor and int(minor[1]) >= WEBSOCKETS_SINCE else f"needs kubectl 1.{WEBSOCKETS_SINCE} or later"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / name).read_text())


class Kubernetes:
    """Serves until its lab is closed. As in a real cluster, a host that plays a pod has the pod's name."""

    def __init__(self, lab: Lab, server: str, pods: Sequence[str]) -> None:
        self.hosts, self.server = {name: lab[name] for name in pods}, lab[server]
        self.folder = self.server.tmp / "api"
        self.folder.mkdir()
        kubernetes.lay_out(self.folder, self.server.address, token=TOKEN)
        self.write_all()
        shutil.copy(kubernetes.write_kubeconfig(self.folder, self.server.address, TOKEN), self.server.folder / "run" / "lab")
        (self.server.folder / "run" / "lab" / "ca.crt").write_bytes((self.folder / "tls.crt").read_bytes())
        config = (self.server.folder / "run" / "lab" / "kubeconfig").read_text().replace(str(self.folder / "tls.crt"), "/run/lab/ca.crt")
        (self.server.folder / "run" / "lab" / "kubeconfig").write_text(config)
        for host in self.hosts.values():
            self._lay_account(host)
        reach = f"ssh -F {lab.ssh_config} {{name}}"
        serve = f"exec {sys.executable} -m tests.fakes.kubernetes /tmp/api --address 0.0.0.0 --reach {shlex.quote(reach)}"
        self.server.spawn("bash", "-c", f"cd {CHECKOUT} && {serve} >/tmp/api/log 2>&1")
        eventually(lambda: self.kubectl("get --raw /api"))

    @property
    def env(self) -> str:
        """Variables for the shell of the host that has a kubeconfig."""
        return "export KUBECONFIG=/run/lab/kubeconfig;"

    def env_of_pod(self, *, path: str | None = None) -> str:
        """Variables of a Ray container; `path`: the search path for programs."""
        known = {"RAY_CLUSTER_NAME": CLUSTER, "KUBERNETES_SERVICE_HOST": self.server.address, "KUBERNETES_SERVICE_PORT": kubernetes.PORT}
        more = {} if path is None else {"PATH": path}
        return f"export {' '.join(f'{name}={value}' for name, value in {**known, **more}.items())};"

    def kubectl(self, words: str) -> str:
        """The output of kubectl; empty if it fails."""
        return self.server.ssh(f"{self.env} kubectl {words}", check=False)

    def write_all(self) -> None:
        """Resets all: each host is a running pod, and the RayCluster has all its workers."""
        kubernetes.write(self.folder, "pods", [self.pod(name, host.address) for name, host in self.hosts.items()])
        cluster = recorded("raycluster.json")
        cluster["metadata"].update(name=CLUSTER, ownerReferences=[])
        cluster["status"].update(desiredWorkerReplicas=len(self.hosts) - 1, conditions=[])
        kubernetes.write(self.folder, "rayclusters", [cluster])
        kubernetes.write(self.folder, "rayjobs", [])
        self.allow(*kubernetes.EVERYTHING)

    def allow(self, *rights: str) -> None:
        """Allows these rights and no others."""
        (self.folder / "rights").write_text("\n".join(rights))

    def pod(self, name: str, address: str = "", like: int = 0, **status: Any) -> Mapping[str, Any]:
        """A pod of this RayCluster, made from a recorded one."""
        made = recorded("pods.json")["items"][like]
        made["metadata"].update(name=name, uid=f"uid-of-{name}")
        made["metadata"]["labels"].update({"ray.io/cluster": CLUSTER, "ray.io/node-type": "head" if "head" in name else "worker"})
        made["metadata"]["ownerReferences"][0]["name"] = CLUSTER
        made["status"].update(podIP=address, **status)
        return made

    def add_pod(self, pod: Mapping[str, Any]) -> None:
        kubernetes.write(self.folder, "pods", [*self.pods(), dict(pod)])

    def pods(self) -> list[dict[str, Any]]:
        return kubernetes.read(self.folder, "pods")

    def add_rayjob(self, submission: str, **status: Any) -> None:
        job = recorded("rayjob.json")
        job["status"].update(rayClusterName=CLUSTER, jobId=submission, **status)
        kubernetes.write(self.folder, "rayjobs", [job])

    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()

    def _lay_account(self, host: Host) -> None:
        account = host.folder / "run" / "secrets" / "kubernetes.io" / "serviceaccount"
        account.mkdir(parents=True)
        (account / "ca.crt").write_bytes((self.folder / "tls.crt").read_bytes())
        (account / "token").write_text(TOKEN)
        (account / "namespace").write_text("default")
