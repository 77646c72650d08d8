"""The flags of `ray start`, of Ray 2.9 to 2.60: what each takes, and which are not a preset's to give."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, NamedTuple

from cockpit.document import InputError
from cockpit.presets.amounts import byte_count, is_number

Kind = Literal["port", "count", "number", "bytes", "text", "switch", "true or false", "map"]
FlagValue = str | int | float | bool


class Flag(NamedTuple):
    """What `ray start` takes after one of its flags."""

    kind: Kind
    about: str = ""


_PORTS: Final = (
    "port", "object_manager_port", "node_manager_port", "min_worker_port", "max_worker_port", "ray_client_server_port", "dashboard_port",
    "dashboard_agent_listen_port", "dashboard_agent_grpc_port", "runtime_env_agent_port", "metrics_export_port",
    "gcs_server_port", "dashboard_grpc_port",
)  # fmt: skip
FLAGS: Final[Mapping[str, Flag]] = {
    **{name: Flag("port") for name in _PORTS},
    "port": Flag("port", "Where the head's GCS listens: 6379."),
    "dashboard_port": Flag("port", "Where the dashboard answers: 8265."),
    "num_cpus": Flag("count", "CPUs that Ray gives out; without it all that the host has."),
    "num_gpus": Flag("count", "GPUs that Ray gives out; as many as CUDA_VISIBLE_DEVICES names, where that is set."),
    "memory": Flag("bytes", "Host memory that Ray gives out: 500GB, 1.5TiB."),
    "object_store_memory": Flag("bytes", "The object store, in /dev/shm: 50GB."),
    "system_reserved_memory": Flag("bytes", "Kept for Ray's own processes; needs enable_resource_isolation."),
    "system_reserved_cpu": Flag("number", "Kept for Ray's own processes; needs enable_resource_isolation."),
    "resources": Flag("map", "Resources of your own: {fast_disk: 1}."),
    "labels": Flag("map", "Labels of the node: {zone: a}."),
    "system_config": Flag("map", "Ray's internal settings; head alone."),
    "node_ip_address": Flag("text", "The address under which the others of the cluster find this host."),
    "node_name": Flag("text"),
    "worker_port_list": Flag("text"),
    "include_dashboard": Flag("true or false"),
    "dashboard_host": Flag("text", "The address on which the dashboard listens; 0.0.0.0 lets everybody in."),
    "plasma_directory": Flag("text", "Where the object store lies, if not in /dev/shm."),
    "object_spilling_directory": Flag("text", "Where objects go that memory has no room for; from Ray 2.45 on."),
    "temp_dir": Flag("text", "In place of /tmp/ray."),
    "labels_file": Flag("text"),
    "cgroup_path": Flag("text"),
    "autoscaling_config": Flag("text"),
    "storage": Flag("text"),
    "tracing_startup_hook": Flag("text"),
    "proxy_server_url": Flag("text"),
    "redis_username": Flag("text"),
    "redis_password": Flag("text"),
    "redis_shard_ports": Flag("text"),
    "plasma_store_socket_name": Flag("text"),
    "raylet_socket_name": Flag("text"),
    "log_style": Flag("text"),
    "no_redirect_output": Flag("switch"),
    "enable_object_reconstruction": Flag("switch"),
    "no_monitor": Flag("switch"),
    "ray_debugger_external": Flag("switch"),
    "disable_usage_stats": Flag("switch"),
    "enable_resource_isolation": Flag("switch"),
    "include_log_monitor": Flag("true or false"),
}
OWN: Final[Mapping[str, str]] = {
    "head": "which host is the head says its place under `ray`",
    "block": "Ray goes on without the command that started it",
    "verbose": "what `ray start` says is shown when it fails",
    "v": "what `ray start` says is shown when it fails",
    "log_color": "what `ray start` says is read, not looked at",
    "user": "who to be over there stands under `hosts` in cockpit's config",
    "python": "the Python whose Ray is started is the same everywhere: ray.python",
    "env": "variables are the same everywhere: ray.env",
}
"""What cockpit decides by itself, or what stands elsewhere, and why."""
HEADS_ALONE: Final = ("port", "redis_shard_ports", "system_config", "dashboard_port", "dashboard_host", "include_dashboard")
"""Refused by Ray on a worker, or without effect there."""
_WORDS: Final[Mapping[Kind, str]] = {
    "port": "a port from 0 to 65535",
    "count": "a whole number from 0",
    "number": "a number from 0",
    "bytes": "an amount such as 50GB or 1.5TiB",
    "text": "text",
    "switch": "true or false",
    "true or false": "true or false",
    "map": "keys with values",
}
_SPECIAL: Final[Mapping[str, str]] = {
    "worker_port_list": "ports such as 10002,10003",
    "resources": "resources with their amounts, such as {fast_disk: 1}",
    "labels": "labels with their text, such as {zone: a}",
}
_LIST_OF_PORTS = re.compile(r"\d{1,5}(?:,\d{1,5})*")


def flag_name(written: str) -> str:
    """The one name of a flag that may be spelled with _ or -, or as on a command line. Raises `InputError`."""
    name = written.removeprefix("--").replace("-", "_")
    if name in OWN:
        raise InputError(f"not a preset's to say: {OWN[name]}")
    if name not in FLAGS:
        near = get_close_matches(name, FLAGS, 1)
        raise InputError("`ray start` of 2.9 to 2.60 has no such flag" + (f"; perhaps {near[0]}" if near else ""))
    return name


def flag_value(name: str, value: Any) -> FlagValue | None:
    """The value as `ray start` takes it: sizes in bytes, maps as JSON. `None`: not what `flag_words` says."""
    if FLAGS[name].kind == "map":
        return _mapped(name, value)
    checked = _checked(FLAGS[name].kind, value)
    return None if name == "worker_port_list" and not _LIST_OF_PORTS.fullmatch(str(checked)) else checked


def _mapped(name: str, value: Any) -> str | None:
    """Ray takes labels as `a=b,c=d` too, the others as JSON alone."""
    if name == "labels" and isinstance(value, str):
        return value or None
    try:
        found = json.loads(value) if isinstance(value, str) else value
        text = json.dumps(found, allow_nan=False)
    except (TypeError, ValueError):
        return None
    fits = {"resources": _amount, "labels": _text}.get(name, _anything)
    return text if isinstance(found, dict) and all(map(fits, found.values())) else None


def _amount(value: Any) -> bool:
    return is_number(value) and bool(value >= 0)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _anything(_: Any) -> bool:
    return True


def flag_words(name: str) -> str:
    """What is expected of it."""
    return _SPECIAL.get(name) or _WORDS[FLAGS[name].kind]


def _checked(kind: Kind, value: Any) -> FlagValue | None:
    plain = is_number(value)
    if kind == "bytes":
        return byte_count(value)
    if kind in ("switch", "true or false"):
        return value if isinstance(value, bool) else None
    if kind == "text":
        return value if isinstance(value, str) and value else str(value) if plain else None
    if not plain or value < 0 or (kind != "number" and not isinstance(value, int)):
        return None
    return value if kind != "port" or value < 65536 else None


def flag_arguments(flags: Mapping[str, FlagValue]) -> tuple[str, ...]:
    """The words of a command line: `--num-gpus=8`."""
    words = []
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if FLAGS[name].kind != "switch":
            words.append(f"{flag}={str(value).lower() if isinstance(value, bool) else value}")
        elif value:
            words.append(flag)
    return tuple(words)


def flags_schema() -> dict[str, Any]:
    """What may stand under a host beside its name, for the JSON Schema: each flag in both of its spellings."""
    return {
        spelling: {**_SCHEMAS[flag.kind], **({"description": flag.about} if flag.about else {})}
        for name, flag in FLAGS.items()
        for spelling in dict.fromkeys((name, name.replace("_", "-")))
    }


_SCHEMAS: Final[Mapping[Kind, dict[str, Any]]] = {
    "port": {"type": "integer", "minimum": 0, "maximum": 65535},
    "count": {"type": "integer", "minimum": 0},
    "number": {"type": "number", "minimum": 0},
    "bytes": {"type": ["integer", "string"]},
    "text": {"type": ["string", "number"]},
    "switch": {"type": "boolean"},
    "true or false": {"type": "boolean"},
    "map": {"type": ["object", "string"]},
}
