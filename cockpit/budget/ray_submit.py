"""Reads `ray job submit`: what the job asks for itself, its environment, and the entrypoint as Ray hands it to a shell."""

from __future__ import annotations

import json
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
    """A job that a command hands to Ray."""

    entrypoint: str
    around: tuple[Group, ...]
    """What its entrypoint reserves while it runs."""
    env: Mapping[str, str]
    folder: str | None
    packages: tuple[str, ...]


def submission(argv: Sequence[str]) -> SubmitCommand | None:
    """The job of `ray job submit …`; `None`: another command."""
    place = next((at + 3 for at in range(min(3, len(argv))) if _is_submit(argv[at : at + 3])), None)
    if place is None:
        return None
    options, words, whole = _options(argv[place:])
    runtime_env = _object(options.get("--runtime-env-json", "{}"))
    folder = options.get("--working-dir") or runtime_env.get("working_dir")
    return SubmitCommand(
        subprocess.list2cmdline(words),
        _around(options) if whole else _UNKNOWN,
        {str(name): str(value) for name, value in _mapping(runtime_env.get("env_vars")).items()},
        folder if isinstance(folder, str) else None,
        listed_packages(runtime_env),
    )


def _is_submit(words: Sequence[str]) -> bool:
    return len(words) == 3 and words[0].rpartition("/")[2] == "ray" and tuple(words[1:]) == ("job", "submit")


def _options(words: Sequence[str]) -> tuple[dict[str, str], list[str], bool]:
    """Ray's own options, the entrypoint's words, and whether all options could be read."""
    options: dict[str, str] = {}
    whole, at = True, 0
    while at < len(words) and words[at] != "--" and (words[at].startswith("-") or words[at] == UNKNOWN):
        name, sign, value = words[at].partition("=")
        whole = whole and UNKNOWN not in name
        if name in _VALUED and not sign:
            at += 1
            value = words[at] if at < len(words) else ""
        options[name] = value
        at += 1
    rest = list(words[at:])
    return options, rest[1:] if rest[:1] == ["--"] else rest, whole


def _around(options: Mapping[str, str]) -> tuple[Group, ...]:
    said = {resource: options[name] for name, resource in _AMOUNTS.items() if name in options}
    more = options.get("--entrypoint-resources", "{}")
    if any(UNKNOWN in value for value in (*said.values(), more)):
        return _UNKNOWN
    try:
        return entrypoint_groups({name: float(value) for name, value in (*said.items(), *_object(more).items())})
    except (TypeError, ValueError):
        return _UNKNOWN


def _object(text: str) -> dict[str, Any]:
    try:
        return dict(_mapping(json.loads(text, strict=False)))
    except ValueError:
        return {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def listed_packages(runtime_env: Mapping[str, Any]) -> tuple[str, ...]:
    """What a runtime_env tells pip or uv to install; nothing of what stands in a file elsewhere."""
    value = runtime_env.get("pip") or runtime_env.get("uv")
    listed = value.get("packages") if isinstance(value, dict) else value
    return tuple(item for item in listed if isinstance(item, str)) if isinstance(listed, list) else ()
