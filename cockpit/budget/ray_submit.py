"""Reads `ray job submit`: what the job itself asks for, its environment, and the entrypoint that Ray passes to a shell."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cockpit.budget.demand import Group, entrypoint_groups
from cockpit.budget.scripts import UNKNOWN

_VALUED = {
    "--address", "--job-id", "--submission-id", "--runtime-env", "--runtime-env-json", "--working-dir", "--metadata-json", "--verify",
    "--entrypoint-num-cpus", "--entrypoint-num-gpus", "--entrypoint-memory", "--entrypoint-resources", "--entrypoint-label-selector",
    "--log-style", "--log-color", "--headers",
}  # fmt: skip
_UNKNOWN = (Group("entrypoint", None, None),)
_AMOUNTS = {"--entrypoint-num-gpus": "GPU", "--entrypoint-num-cpus": "CPU", "--entrypoint-memory": "memory"}


class SubmitCommand(msgspec.Struct, frozen=True):
    """A job that a command submits to Ray."""

    entrypoint: str
    around: tuple[Group, ...]
    """The groups that Ray reserves for its entrypoint while it runs."""
    env: Mapping[str, str]
    folder: str | None
    packages: tuple[str, ...]


def submission(argv: Sequence[str]) -> SubmitCommand | None:
    """The job of `ray job submit …`, also after the words of a launcher; `None`: it is another command."""
    starts = (at for at in range(3) if tuple(argv[at + 1 : at + 3]) == ("job", "submit") and argv[at].rpartition("/")[2] == "ray")
    at = next(starts, -3) + 3
    if at == 0:
        return None
    options: dict[str, str] = {}
    while at < len(argv) and argv[at] != "--" and (argv[at].startswith("-") or argv[at] == UNKNOWN):
        name, sign, value = argv[at].partition("=")
        if name in _VALUED and not sign:
            at += 1
            value = argv[at] if at < len(argv) else ""
        options[name] = value
        at += 1
    words = argv[at + 1 :] if argv[at : at + 1] == ("--",) else argv[at:]
    runtime_env = _object(options.get("--runtime-env-json", "{}"))
    env, folder = runtime_env.get("env_vars"), options.get("--working-dir") or runtime_env.get("working_dir")
    return SubmitCommand(
        subprocess.list2cmdline(words),
        _UNKNOWN if any(UNKNOWN in name for name in options) else _around(options),
        {str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {},
        folder if isinstance(folder, str) else None,
        listed_packages(runtime_env),
    )


def _around(options: Mapping[str, str]) -> tuple[Group, ...]:
    said = {resource: options[name] for name, resource in _AMOUNTS.items() if name in options}
    try:
        more = json.loads(options.get("--entrypoint-resources", "{}"))
        amounts = {name: float(value) for name, value in (*said.items(), *more.items())}
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
        return _UNKNOWN
    return entrypoint_groups(amounts) if all(map(math.isfinite, amounts.values())) else _UNKNOWN


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def listed_packages(runtime_env: Mapping[str, Any]) -> tuple[str, ...]:
    """The packages that pip or uv installs for a runtime_env. Lists in other files are not read."""
    value = runtime_env.get("pip") or runtime_env.get("uv")
    listed = value.get("packages") if isinstance(value, dict) else value
    return tuple(item for item in listed if isinstance(item, str)) if isinstance(listed, list) else ()
