"""A stand-in for `ray start` on this host, and requests to a probe that start it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cockpit.probe.actions import start
from cockpit.probe.actions.host_state import HostScanner
from cockpit.probe.actions.start.fitness import own_address

SESSION = f"session_2026-11-21_07-17-58_164160_{os.getpid()}"
VERSIONS = '["2.60.0", "3.11.7"]'
RAYLET = """
echo "$@" >{notes}/argv; env >{notes}/env; pwd >{notes}/cwd
setsid bash -c 'for fd in $(ls /proc/$$/fd); do [ $fd -le 2 ] || eval "exec $fd>&-"; done
exec -a /opt/raylet {python} -c "import time; time.sleep(1000)" --raylet_socket_name=/r --session_dir=/tmp/{session} \
--gcs-address={gcs}' &
echo $! >{notes}/pid
sleep 0.2
"""
"""A stand-in for `ray start`: it leaves a process behind that looks like a raylet and has none of its files open."""


@contextmanager
def own_gcs() -> Iterator[str]:
    """The address of a head's GCS, where something answers."""
    address = own_address(None)
    with socket.socket() as server:
        server.bind((address, 0))
        server.listen()
        yield f"{address}:{server.getsockname()[1]}"


def stand_in(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    return path


def raylet(notes: Path, gcs: str) -> None:
    stand_in(notes / "ray", RAYLET.format(notes=notes, python=sys.executable, session=SESSION, gcs=gcs))


def request(notes: Path, gcs: str | None, *words: str, **more: Any) -> dict[str, Any]:
    usual = {"role": "worker", "words": list(words), "env": {"TRAIN": "yes"}, "python": str(notes / "python"), "gcs": gcs}
    return {"act": "start", **usual, **more}


def run_stage(stage: Any, asked: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = stage(asked, HostScanner(asked), lambda *_: None)
    return answer


def plan_and_do(asked: dict[str, Any]) -> dict[str, Any]:
    """The answer of the start of all that is planned."""
    return run_stage(start.do, {**asked, "targets": run_stage(start.plan, asked)["targets"]})
