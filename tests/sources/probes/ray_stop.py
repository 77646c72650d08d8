"""The words by which `ray stop` finds the processes that it kills."""

from __future__ import annotations

# `ray stop` searches names and command lines for these words (Ray 2.9 to 2.60, autoscaler/_private/constants.py), and would kill a probe.
WORDS_OF_RAY_STOP = (
    "raylet", "plasma_store", "monitor.py", "ray.util.client.server", "default_worker.py", "setup_worker.py", "ray::",
    "log_monitor.py", "dashboard/agent.py", "dashboard/dashboard.py", "runtime_env/agent/main.py", "ray_process_reaper.py",
    "gcs_server", "io.ray.runtime",
)  # fmt: skip
