"""Lists the flags of `ray start` in Ray 2.9 to 2.60: the values of each, and the flags that a preset can't set."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from cockpit.config.document import InputError
from cockpit.presets.amounts import byte_count, is_number

FlagKind = Literal["port", "count", "number", "bytes", "text", "switch", "true or false", "map"]
FlagValue = str | int | float | bool


class RayFlag(msgspec.Struct, frozen=True):
    """The value that a flag takes."""

    kind: FlagKind
    about: str = ""


_PORTS: Final = (
    "port", "object_manager_port", "node_manager_port", "min_worker_port", "max_worker_port", "ray_client_server_port", "dashboard_port",
    "dashboard_agent_listen_port", "dashboard_agent_grpc_port", "runtime_env_agent_port", "metrics_export_port",
    "gcs_server_port", "dashboard_grpc_port",
)  # fmt: skip
_TEXTS: Final = (
    "node_name", "worker_port_list", "labels_file", "cgroup_path", "autoscaling_config", "storage", "tracing_startup_hook",
    "proxy_server_url", "redis_username", "redis_password", "redis_shard_ports", "plasma_store_socket_name", "raylet_socket_name",
    "log_style",
)  # fmt: skip
_SWITCHES: Final = (
    "no_redirect_output", "enable_object_reconstruction", "no_monitor", "ray_debugger_external", "disable_usage_stats",
    "enable_resource_isolation",
)  # fmt: skip
FLAGS: Final[Mapping[str, RayFlag]] = {
    **{name: RayFlag("port") for name in _PORTS},
    "port": RayFlag("port", "Port of the head's GCS; default 6379."),
    "dashboard_port": RayFlag("port", "Port of the dashboard; default 8265."),
    "num_cpus": RayFlag("count", "CPUs that Ray offers; default: all of the host."),
    "num_gpus": RayFlag("count", "GPUs that Ray offers; no more than CUDA_VISIBLE_DEVICES lists, where that is set."),
    "memory": RayFlag("bytes", "Host memory that Ray offers, such as 500GB or 1.5TiB."),
    "object_store_memory": RayFlag("bytes", "Size of the object store in /dev/shm, such as 50GB."),
    "system_reserved_memory": RayFlag("bytes", "Reserved for Ray's own processes; needs enable_resource_isolation."),
    "system_reserved_cpu": RayFlag("number", "Reserved for Ray's own processes; needs enable_resource_isolation."),
    "resources": RayFlag("map", "Custom resources, such as {fast_disk: 1}."),
    "labels": RayFlag("map", "Labels of the node, such as {zone: a}."),
    "system_config": RayFlag("map", "Ray's internal settings; head only."),
    "node_ip_address": RayFlag("text", "The address at which the other nodes reach this host."),
    "include_dashboard": RayFlag("true or false"),
    "dashboard_host": RayFlag("text", "The address on which the dashboard listens; 0.0.0.0 opens it to the network."),
    "plasma_directory": RayFlag("text", "Directory of the object store; default /dev/shm."),
    "object_spilling_directory": RayFlag("text", "Directory for spilled objects; Ray 2.45 and later."),
    "temp_dir": RayFlag("text", "Temp dir; default /tmp/ray."),
    **{name: RayFlag("text") for name in _TEXTS},
    **{name: RayFlag("switch") for name in _SWITCHES},
    "include_log_monitor": RayFlag("true or false"),
}
NOT_SETTABLE: Final[Mapping[str, str]] = {
    "head": "the host under `ray.head` is the head",
    "block": "Ray keeps running after `ray start` returns",
    "verbose": "cockpit shows the output of `ray start` when it fails",
    "v": "cockpit shows the output of `ray start` when it fails",
    "log_color": "cockpit parses the output of `ray start`",
    "user": "set it under `hosts` in cockpit's config",
    "python": "it is the same on all hosts: set ray.python",
    "env": "variables are the same on all hosts: set ray.env",
}
"""Flags that a preset can't set, with the reason: cockpit sets them itself, or another key does."""
HEAD_ONLY: Final = ("port", "redis_shard_ports", "system_config", "dashboard_port", "dashboard_host", "include_dashboard")
"""Flags that Ray refuses on a worker, or that have no effect there."""
HOST_SPECIFIC: Final = ("node_ip_address", "node_name")
"""Flags whose value is different on each host."""
_KINDS: Final[Mapping[FlagKind, tuple[str, dict[str, Any]]]] = {
    "port": ("a port from 0 to 65535", {"type": "integer", "minimum": 0, "maximum": 65535}),
    "count": ("a whole number from 0", {"type": "integer", "minimum": 0}),
    "number": ("a number from 0", {"type": "number", "minimum": 0}),
    "bytes": ("an amount such as 50GB or 1.5TiB", {"type": ["integer", "string"]}),
    "text": ("text", {"type": ["string", "number"]}),
    "switch": ("true or false", {"type": "boolean"}),
    "true or false": ("true or false", {"type": "boolean"}),
    "map": ("keys with values", {"type": ["object", "string"]}),
}
"""The values of each kind, in words and as JSON Schema."""
_SPECIAL: Final[Mapping[str, str]] = {
    "worker_port_list": "ports such as 10002,10003",
    "resources": "resources with their amounts, such as {fast_disk: 1}",
    "labels": "labels with their text, such as {zone: a}",
}
_LIST_OF_PORTS: Final = r"\d{1,5}(?:,\d{1,5})*"


def flag_name(written: str) -> str:
    """Return the flag's name with `_`. It may be written with `-` or `--` too. Raises `InputError`."""
    name = written.removeprefix("--").replace("-", "_")
    if name in NOT_SETTABLE:
        raise InputError(f"can't be set here: {NOT_SETTABLE[name]}")
    if name not in FLAGS:
        near = get_close_matches(name, FLAGS, 1)
        raise InputError("`ray start` of 2.9 to 2.60 has no such flag" + (f"; perhaps {near[0]}" if near else ""))
    return name


def flag_value(name: str, value: Any) -> FlagValue | None:
    """Return the value as `ray start` takes it: sizes in bytes, maps as JSON. `None`: the value is invalid for this flag."""
    kind = FLAGS[name].kind
    is_plain = is_number(value)
    if kind == "map":
        return _format_map(name, value)
    if kind == "bytes":
        return byte_count(value)
    if kind in ("switch", "true or false"):
        return value if isinstance(value, bool) else None
    if kind == "text":
        text = value if isinstance(value, str) and value else str(value) if is_plain else None
        return None if name == "worker_port_list" and not re.fullmatch(_LIST_OF_PORTS, str(text)) else text
    if not is_plain or value < 0 or (kind != "number" and not isinstance(value, int)):
        return None
    number: int | float = value
    return number if kind != "port" or number < 65536 else None


def _format_map(name: str, value: Any) -> str | None:
    """Return the map as JSON. Ray also takes labels as `a=b,c=d`."""
    if name == "labels" and isinstance(value, str):
        return value or None
    try:
        found = json.loads(value) if isinstance(value, str) else value
        text = json.dumps(found, allow_nan=False)
    except (TypeError, ValueError):
        return None
    fits: Mapping[str, Callable[[Any], bool]] = {
        "resources": lambda amount: is_number(amount) and amount >= 0,
        "labels": lambda label: isinstance(label, str),
    }
    return text if isinstance(found, dict) and all(map(fits.get(name, lambda _: True), found.values())) else None


def flag_words(name: str) -> str:
    """Describe the values of a flag in words."""
    return _SPECIAL.get(name) or _KINDS[FLAGS[name].kind][0]


def flag_arguments(flags: Mapping[str, FlagValue]) -> tuple[str, ...]:
    """Return the flags as words of a command line, such as `--num-gpus=8`."""
    words = []
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if FLAGS[name].kind != "switch":
            words.append(f"{flag}={str(value).lower() if isinstance(value, bool) else value}")
        elif value:
            words.append(flag)
    return tuple(words)


def flags_schema() -> dict[str, Any]:
    """Return the JSON Schema of all flags, each with `_` and with `-`."""
    return {
        spelling: {**_KINDS[flag.kind][1], **({"description": flag.about} if flag.about else {})}
        for name, flag in FLAGS.items()
        for spelling in dict.fromkeys((name, name.replace("_", "-")))
    }
