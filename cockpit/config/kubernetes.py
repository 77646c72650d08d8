"""Finds KubeRay's RayCluster whose pods are the hosts, and the `kubectl exec` command that runs a Python in a pod."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.config.document import InputError
from cockpit.config.reach import THROUGH_RAY
from cockpit.model import Value
from cockpit.trust import read_small

CLUSTER: Final = "RAY_CLUSTER_NAME"
"""KubeRay sets it in each of Ray's containers, from the pod's label ray.io/cluster (ray-operator/controllers/ray/common/pod.go)."""
NAMESPACE: Final = "RAY_CLUSTER_NAMESPACE"
"""Some versions of KubeRay set it; a file beside the service account's token has the same value."""
API_HOST: Final = "KUBERNETES_SERVICE_HOST"
"""Kubernetes sets it in every container."""
FLAG: Final = "--kubernetes"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder that Kubernetes adds to a pod, with `token`, `ca.crt` and `namespace`."""
FORBIDDEN: Final = "Forbidden"
"""The reason in a `Status` if a right is missing; kubectl prints it in brackets."""
ROLE: Final = "packaging/kubernetes-role.yaml has the Role that allows it"
REACH: Final = "kubectl exec --quiet -i -n {namespace} {{name}} -- {{python}} -"
"""Without `-c` kubectl uses the pod's default container: the one in its annotation kubectl.kubernetes.io/default-container, else the first.
The first is Ray's (RayContainerIndex in KubeRay's controllers/ray/utils/constant.go). A service mesh that inserts its own container before
it sets the annotation to Ray's."""
_REFUSED: Final = r'\bUser "[^"]{0,500}" cannot (?P<verb>[a-z]{1,40}) resource "(?P<kind>[a-z./-]{1,100})"'
_NAME: Final = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"


class KubernetesPlace(Value, frozen=True):
    """A RayCluster, and the access to it."""

    namespace: str
    cluster: str
    origin: str = FLAG
    """The flag or KubeRay's variable that named it."""
    inside: bool = False
    """cockpit runs in a pod and uses its service account; otherwise it uses kubectl with the user's kubeconfig."""
    has_kubectl: bool = True

    @property
    def title(self) -> str:
        """The RayCluster as the flag takes it."""
        return f"{self.namespace}/{self.cluster}"

    @property
    def is_named(self) -> bool:
        """Whether the user has named the RayCluster, and thereby its pods, for this run."""
        return self.origin == FLAG

    @property
    def reach(self) -> str:
        """The command that reaches its pods: no pod has an sshd."""
        return REACH.format(namespace=self.namespace) if self.has_kubectl else THROUGH_RAY

    @property
    def settings(self) -> dict[str, tuple[object, str]]:
        """The fields of the config that follow from it, each with its value and origin. Pods change, so they are no hosts of the config."""
        return {"kubernetes": (self, self.origin), "reach": (self.reach, self.origin)}


def explain_refusal(refusal: str, name: str) -> str:
    """Say why a pod can't be probed. The missing right goes first, because the line may be cut."""
    match = re.search(_REFUSED, refusal)
    right = f"no right to {match['verb']} {match['kind']}: " if match else ""
    return f"{right}{name}: {refusal[match.start() :] if match else refusal}; {ROLE}"


def find_place(env: Mapping[str, str], account: Path = ACCOUNT) -> KubernetesPlace | None:
    """Return the RayCluster of the pod that cockpit runs in, or `None`."""
    cluster = env.get(CLUSTER, "")
    if not env.get(API_HOST) or not re.fullmatch(_NAME, cluster):
        return None
    namespace = env.get(NAMESPACE, "")
    if not namespace:
        with suppress(OSError, ValueError):
            namespace = read_small(account / "namespace").decode("utf-8").strip()
    if not re.fullmatch(_NAME, namespace):
        return None
    return KubernetesPlace(namespace, cluster, CLUSTER, inside=True, has_kubectl=_has_kubectl(env))


def named_place(text: str, env: Mapping[str, str], account: Path = ACCOUNT) -> KubernetesPlace:
    """Return the RayCluster that the user has named. Raises `InputError`."""
    namespace, _, cluster = text.partition("/")
    if not re.fullmatch(_NAME, namespace) or not re.fullmatch(_NAME, cluster):
        raise InputError(f"expected NAMESPACE/RAYCLUSTER such as default/raycluster-kuberay, got {text}")
    if _has_kubectl(env):
        return KubernetesPlace(namespace, cluster)
    if not env.get(API_HOST) or not (account / "token").exists():
        raise InputError("kubectl is not in PATH, and cockpit is not in a pod with a service account")
    return KubernetesPlace(namespace, cluster, inside=True, has_kubectl=False)


def _has_kubectl(env: Mapping[str, str]) -> bool:
    return shutil.which("kubectl", path=env.get("PATH")) is not None
