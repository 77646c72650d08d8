"""The flags of `ray start` that the command lines of a living Ray show (Ray 2.9 to 2.60: _private/services.py makes these lines).

What a command line does not show is left out: variables of the environment, and whether a number was given or found by Ray itself.
"""

from __future__ import annotations

import json
import os
from typing import Dict, Iterator, Sequence, Tuple

from .origin import flag
from .proc import make_legible

MAX_CHARS = 1024
"""Of a value: whoever calls a program raylet has chosen it."""
DEFAULT_TEMP_DIR = "/tmp/ray"  # noqa: S108 Ray's own
AGENT_PORT = "52365"
"""Of a node's agent, where nothing else was given."""
WORKER_PORTS = ("10002", "19999")
"""The first and the last port of workers, where nothing else was given."""


def raylet_flags(argv: Sequence[str]) -> Dict[str, str]:
    """By their names with `_`, and `python`: the interpreter that has this Ray. Maps are JSON."""
    return _legible(dict(_raylet_flags(argv)))


def head_flags(gcs: Sequence[str], dashboard: Sequence[str]) -> Dict[str, str]:
    """Those that only a head has. `dashboard` is empty where none lives."""
    found = {
        "port": flag(gcs, "--gcs_server_port", "--gcs-server-port"),
        "dashboard_host": flag(dashboard, "--host"),
        "dashboard_port": flag(dashboard, "--port"),
    }
    return _legible({name: value for name, value in found.items() if value and value != "0"})


def _legible(flags: Dict[str, str]) -> Dict[str, str]:
    return {name: make_legible(value) for name, value in flags.items() if len(value) <= MAX_CHARS}


def _raylet_flags(argv: Sequence[str]) -> Iterator[Tuple[str, str]]:
    for name in ("node_ip_address", "object_manager_port", "node_manager_port", "worker_port_list"):
        value = _value(argv, name)
        if value and value != "0":
            yield name, value
    ports = _value(argv, "min_worker_port"), _value(argv, "max_worker_port")
    if ports != WORKER_PORTS and ports[0] and ports[1] and ports != ("0", "0"):
        yield "min_worker_port", ports[0]
        yield "max_worker_port", ports[1]
    temp, plasma = _value(argv, "temp_dir"), _value(argv, "plasma_directory")
    if temp and temp != DEFAULT_TEMP_DIR:
        yield "temp_dir", temp
    if plasma and plasma != "/dev/shm":  # noqa: S108 Ray's own
        yield "plasma_directory", plasma
    agent = flag((_value(argv, "dashboard_agent_command") or "").split(" "), "--listen-port")
    if agent and agent not in (AGENT_PORT, "0"):
        yield "dashboard_agent_listen_port", agent
    yield from _resource_flags(_value(argv, "static_resource_list") or "")
    yield from _label_flag(_value(argv, "labels") or "{}")
    python = (_value(argv, "python_worker_command") or "").split(" ", 1)[0]
    if os.path.isabs(python):
        yield "python", python


def _value(argv: Sequence[str], name: str) -> str | None:
    return flag(argv, f"--{name}", f"--{name.replace('_', '-')}")


def _resource_flags(listed: str) -> Iterator[Tuple[str, str]]:
    """Of `CPU,32,GPU,8,object_store_memory,104857600,fast_disk,1`. Nodes and kinds of GPUs are Ray's own entries."""
    words = listed.split(",")
    amounts = dict(zip(words[::2], words[1::2]))  # noqa: B905 Python 3.8
    for resource, name in (("CPU", "num_cpus"), ("GPU", "num_gpus"), ("object_store_memory", "object_store_memory")):
        if resource in amounts:
            yield name, amounts.pop(resource)
        elif listed and resource != "object_store_memory":
            yield name, "0"
    own = {name: amount for name, amount in amounts.items() if name != "memory" and not name.startswith(("node:", "accelerator_type:"))}
    try:
        if own:
            yield "resources", json.dumps({name: float(amount) for name, amount in own.items()})
    except ValueError:
        return


def _label_flag(written: str) -> Iterator[Tuple[str, str]]:
    """Labels that begin with `ray.io/` are Ray's own."""
    try:
        labels = json.loads(written)
        own = {name: value for name, value in labels.items() if not name.startswith("ray.io/")} if isinstance(labels, dict) else {}
        if own:
            yield "labels", json.dumps(own)
    except (ValueError, RecursionError):  # the text may be no JSON, or nested too deeply to read or to write
        return
