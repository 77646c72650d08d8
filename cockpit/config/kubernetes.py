"""The RayCluster of KubeRay's whose pods are the hosts, and the `kubectl exec` that gives a pipe to a Python in one of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cockpit.config.document import InputError
from cockpit.config.reach import THROUGH_RAY
from cockpit.model import Value
from cockpit.trust import read_small

CLUSTER: Final = "RAY_CLUSTER_NAME"
"""KubeRay sets it in each container of Ray's, from the pod's label ray.io/cluster (ray-operator/controllers/ray/common/pod.go)."""
NAMESPACE: Final = "RAY_CLUSTER_NAMESPACE"
"""Set by some versions; the file beside the service account's token says the same."""
API_HOST: Final = "KUBERNETES_SERVICE_HOST"
"""Kubernetes sets it in every container."""
FLAG: Final = "--kubernetes"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""What Kubernetes lays into a pod: `token`, `ca.crt`, `namespace`."""
FORBIDDEN: Final = "Forbidden"
"""The reason of a `Status` that refuses for want of a right; kubectl prints it in brackets."""
ROLE: Final = "packaging/kubernetes-role.yaml has the Role that allows it"
REACH: Final = "kubectl exec --quiet -i -n {namespace} {{name}} -- {{python}} -"
"""Without `-c` it is the pod's default container: that which its annotation kubectl.kubernetes.io/default-container names, else the first,
which is Ray's (RayContainerIndex in KubeRay's controllers/ray/utils/constant.go). A mesh that puts its own before it names ours."""
_REFUSED: Final = r'\bUser "[^"]{0,500}" cannot (?P<verb>[a-z]{1,40}) resource "(?P<kind>[a-z./-]{1,100})"'
_NAME: Final = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"


class KubernetesPlace(Value, frozen=True):
    """Which RayCluster, and who asks of it."""

    namespace: str
    cluster: str
    origin: str = FLAG
    """Who has said so: the flag, or KubeRay's variable."""
    inside: bool = False
    """cockpit runs in a pod, and asks as its service account; else kubectl asks, with the user's kubeconfig."""
    has_kubectl: bool = True

    @property
    def title(self) -> str:
        """As the flag takes it."""
        return f"{self.namespace}/{self.cluster}"

    @property
    def is_named(self) -> bool:
        """Whether a person has named it for this run, and with it its pods."""
        return self.origin == FLAG

    @property
    def reach(self) -> str:
        """The way to its pods: no pod has an sshd."""
        return REACH.format(namespace=self.namespace) if self.has_kubectl else THROUGH_RAY

    @property
    def settings(self) -> dict[str, tuple[object, str]]:
        """What follows from it: for each field of the config its value, and where it was given. Pods come and go: they are no hosts yet."""
        return {"kubernetes": (self, self.origin), "reach": (self.reach, self.origin)}


def explain_refusal(refusal: str, name: str) -> str:
    """Why the host of this name can't be looked into, the right that is missing first: a line may be cut."""
    match = re.search(_REFUSED, refusal)
    right = f"no right to {match['verb']} {match['kind']}: " if match else ""
    return f"{right}{name}: {refusal[match.start() :] if match else refusal}; {ROLE}"


def find_place(env: Mapping[str, str], account: Path = ACCOUNT) -> KubernetesPlace | None:
    """That of the pod that cockpit runs in; `None`: it runs in none of KubeRay's."""
    cluster = env.get(CLUSTER, "")
    if not env.get(API_HOST) or not re.fullmatch(_NAME, cluster):
        return None
    namespace = env.get(NAMESPACE) or _read_namespace(account)
    if not re.fullmatch(_NAME, namespace):
        return None
    return KubernetesPlace(namespace, cluster, CLUSTER, inside=True, has_kubectl=_has_kubectl(env))


def named_place(text: str, env: Mapping[str, str], account: Path = ACCOUNT) -> KubernetesPlace:
    """The one that a person has named. Raises `InputError`."""
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


def _read_namespace(account: Path) -> str:
    """Empty where there is no such file."""
    try:
        return read_small(account / "namespace").decode("utf-8").strip()
    except (OSError, ValueError):
        return ""
