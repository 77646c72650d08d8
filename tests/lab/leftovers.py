"""What a dead Ray leaves on a host of a lab: a session folder and processes."""

from __future__ import annotations

from pathlib import Path

from cockpit.demo import nvml
from tests.lab.hosts import Host, Process
from tests.probe.orphans import dead_session, left_variables

GIB = 1 << 30
RAYLET = 99999
"""A pid that no process of a lab has."""
OLD = "session_2026-11-20_01-17-58_164160_10000"


def leave_session(host: Host, user: int = 0) -> Path:
    """Leaves the folder of a dead session; of its raylet only the log remains."""
    folder = host.tmp / "ray" / OLD
    return folder if folder.exists() else dead_session(folder.parent, RAYLET, OLD, user)


def leave_process(host: Host, command: str, user: int = 0) -> Process:
    """Leaves a child of a dead worker, which init has adopted."""
    leave_session(host, user)
    variables = " ".join(f"{name}={value}" for name, value in left_variables(Path("/tmp"), RAYLET).items())
    return host.spawn(
        "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", *variables.split(), "bash", "-c", f"exec {command}"
    )


def leave_engine(host: Host, device: int) -> Process:
    """Leaves an engine that holds 30 GiB."""
    engine = leave_process(host, "-a VLLM::EngineCore sleep 10000")
    start = host.ssh(f"cat /proc/{engine.pid}/stat").rpartition(")")[2].split()[19]
    nvml.add(host.state, f"proc {device} {engine.pid} {30 * GIB} 0 start {start}")
    return engine
