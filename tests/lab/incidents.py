"""What the incident tests share: short thresholds, a watcher on the head, and its findings."""

from __future__ import annotations

import json

from tests.lab.cluster import Cluster, eventually
from tests.lab.observe import Facts, Watcher

SOON = {
    "orphan_age": 2, "unexplained_age": 2, "gpu_held_age": 2, "gpu_count_age": 2, "gpu_lost_age": 2, "gpu_slow_age": 2,
    "pointer_age": 2, "sessions_age": 2, "idle_for": 4, "idle_unheard": 4, "spin_for": 3, "gpu_link_age": 2, "gpu_pcie_age": 2,
    "gpu_memory_watched": 45, "gpu_lags_for": 2, "idle_worker_age": 2,
}  # fmt: skip
"""Short thresholds for tests."""


def watching(cluster: Cluster, more: str = "", **limits: float) -> Watcher:
    """Starts a watcher on the head, with these lines and thresholds in its config."""
    reach = f"ssh -F {cluster.lab.ssh_config} -o BatchMode=yes -o ConnectTimeout=2 {{name}} {{python}} -"
    folder = cluster.head.tmp / "soon" / "cockpit"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(f"reach: {json.dumps(reach)}\nfindings: {json.dumps({**SOON, **limits})}\n{more}")
    return Watcher(cluster.head, env="XDG_CONFIG_HOME=/tmp/soon")


def serious_findings(watcher: Watcher) -> dict[str, tuple[str, str, str]]:
    """The findings above info: level, subject and sentence by code. Failed jobs are left out: they may be of other tests."""
    found = [each for each in watcher.now.get("findings", ()) if each["level"] != "info" and each["code"] != "job-failed"]
    return {each["code"]: (each["level"], each["subject"], each["text"]) for each in found}


def found(watcher: Watcher, code: str, *words: str, level: str = "", within: float = 120) -> Facts:
    """Waits for the finding with this code, these words and, if given, this level."""

    def match() -> Facts | None:
        named = [each for each in watcher.now.get("findings", ()) if each["code"] == code]
        return next((each for each in named if all(word in each["text"] for word in words) and level in ("", each["level"])), None)

    try:
        return eventually(match, within=within) or {}
    except AssertionError as error:
        raise AssertionError(f"no {code} with {words}: {watcher.now.get('findings')}, {watcher.now.get('faults')}") from error


def over(watcher: Watcher, *codes: str) -> None:
    """Waits until none of these findings remains."""
    watcher.until(lambda now: not {each["code"] for each in now["findings"]} & set(codes), within=120)
