"""Finds the flags of `ray start` in the command lines of a live Ray (Ray 2.9 to 2.60: _private/services.py builds these lines).

Command lines do not show the environment, nor whether a person or Ray itself chose a number.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Dict, Sequence

from .origin import flag
from .proc import make_legible

MAX_CHARS = 1024
"""Characters of a value: any user can name a program raylet, and choose its flags."""
DEFAULT_TEMP_DIR = "/tmp/ray"  # noqa: S108 Ray's default
AGENT_PORT = "52365"
"""Ray's default port of a node's agent."""
WORKER_PORTS = ("10002", "19999")
"""Ray's default first and last port of workers."""


def raylet_flags(argv: Sequence[str]) -> Dict[str, str]:
    """The flags by their names with `_`, and `python`, the interpreter of this Ray. Maps are JSON."""
    found: Dict[str, str] = {}
    for name in ("node_ip_address", "object_manager_port", "node_manager_port", "worker_port_list"):
        value = _value(argv, name)
        if value and value != "0":
            found[name] = value
    low, high = _value(argv, "min_worker_port"), _value(argv, "max_worker_port")
    if low and high and (low, high) not in (WORKER_PORTS, ("0", "0")):
        found.update(min_worker_port=low, max_worker_port=high)
    temp, plasma = _value(argv, "temp_dir"), _value(argv, "plasma_directory")
    if temp and temp != DEFAULT_TEMP_DIR:
        found["temp_dir"] = temp
    if plasma and plasma != "/dev/shm":  # noqa: S108 Ray's default
        found["plasma_directory"] = plasma
    agent = flag((_value(argv, "dashboard_agent_command") or "").split(" "), "--listen-port")
    if agent and agent not in (AGENT_PORT, "0"):
        found["dashboard_agent_listen_port"] = agent

    # Such as `CPU,32,GPU,8,object_store_memory,104857600,fast_disk,1`. Ray itself adds entries for nodes and GPU models.
    words = (_value(argv, "static_resource_list") or "").split(",")
    amounts = dict(zip(words[::2], words[1::2]))  # noqa: B905 Python 3.8
    for resource, name in (("CPU", "num_cpus"), ("GPU", "num_gpus"), ("object_store_memory", "object_store_memory")):
        if resource in amounts:
            found[name] = amounts.pop(resource)
        elif words != [""] and resource != "object_store_memory":
            found[name] = "0"
    own = {name: amount for name, amount in amounts.items() if name != "memory" and not name.startswith(("node:", "accelerator_type:"))}
    with suppress(ValueError):
        if own:
            found["resources"] = json.dumps({name: float(amount) for name, amount in own.items()})

    with suppress(ValueError, RecursionError):  # the text may be no JSON, or nested too deeply to read or to write
        labels = json.loads(_value(argv, "labels") or "{}")
        given = {name: value for name, value in labels.items() if not name.startswith("ray.io/")} if isinstance(labels, dict) else {}
        if given:
            found["labels"] = json.dumps(given)
    python = (_value(argv, "python_worker_command") or "").split(" ", 1)[0]
    if os.path.isabs(python):
        found["python"] = python
    return _legible(found)


def head_flags(gcs: Sequence[str], dashboard: Sequence[str]) -> Dict[str, str]:
    """The flags that only a head has. `dashboard`: the command of the live dashboard; empty if there is none."""
    found = {
        "port": flag(gcs, "--gcs_server_port", "--gcs-server-port"),
        "dashboard_host": flag(dashboard, "--host"),
        "dashboard_port": flag(dashboard, "--port"),
    }
    return _legible({name: value for name, value in found.items() if value and value != "0"})


def _legible(flags: Dict[str, str]) -> Dict[str, str]:
    return {name: make_legible(value) for name, value in flags.items() if len(value) <= MAX_CHARS}


def _value(argv: Sequence[str], name: str) -> str | None:
    return flag(argv, f"--{name}", f"--{name.replace('_', '-')}")
