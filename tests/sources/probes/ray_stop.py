"""The words by which `ray stop` finds what it ends."""

from __future__ import annotations

# What `ray stop` looks for in names and command lines (Ray 2.9 to 2.60, autoscaler/_private/constants.py): it would end the probe.
WORDS_OF_RAY_STOP = (
    "raylet", "plasma_store", "monitor.py", "ray.util.client.server", "default_worker.py", "setup_worker.py", "ray::",
    "log_monitor.py", "dashboard/agent.py", "dashboard/dashboard.py", "runtime_env/agent/main.py", "ray_process_reaper.py",
    "gcs_server", "io.ray.runtime",
)  # fmt: skip
