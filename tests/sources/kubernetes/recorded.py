"""The names in the recorded answers of an API server."""

from __future__ import annotations

from pathlib import Path

from cockpit.config.kubernetes import KubernetesPlace

RECORDED = Path(__file__).parents[2] / "recorded" / "kubernetes"
PLACE = KubernetesPlace("default", "rayjob-sample-qtfkz")
WORKER, UID = "rayjob-sample-qtfkz-gpu-worker-4v9tn", "0e1c7f5a-7f3c-4a52-8c0a-6a0a7b1d0002"
TOKEN = "of-the-service-account"
