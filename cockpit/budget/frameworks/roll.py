"""Computes what a ROLL command asks Ray for: as many whole nodes as the highest index of all device mappings needs."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable

from msgspec.structs import replace
from packaging.version import Version

from cockpit.budget.command import MAX_COUNT, MAX_NODES, Settings, TrainingCommand, flatten, whole, whole_nodes
from cockpit.budget.config_files import compose
from cockpit.budget.demand import Budget, Group

_PROGRAM = re.compile(r"(?:.*\.)?start_\w+_pipeline")
_RANGE = re.compile(r"(?:list\()?range\((?:(\d+),)?(\d+)(?:,(\d+))?\)\)?")
_USUAL = 8


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is one of the programs that start its pipelines."""
    return _PROGRAM.fullmatch(command.module) is not None


def budget_of(command: TrainingCommand) -> Budget:
    """One group for each node, of one bundle with all its GPUs."""
    words = command.words
    folder, name = words.flag("--config_path") or "config", words.flag("--config_name") or "sppo_config"
    tree, gone = compose(command.read, posixpath.join(posixpath.dirname(command.program), folder), name)
    settings = Settings(command, flatten(tree))
    if not tree:
        settings.missing[f"device_mapping is not known, because {gone[0].replace(chr(0), '…')} can't be read"] = None
        return settings.budget("ROLL", [Group("nodes", None)])
    mapped = {key: settings.value(key) for key in settings.layers[0] if key.rpartition(".")[2] == "device_mapping"}
    highest = {key: _highest(value) for key, value in mapped.items() if value is not None}
    unknown = [key for key, value in highest.items() if value is None]
    settings.missing |= {f"{key} is {mapped[key]!r}, which is not followed": None for key in unknown}
    if unknown or not highest:
        return settings.budget("ROLL", [Group("nodes", None)])
    release = command.release("roll")
    gpus = _USUAL
    if release and release < Version("0.1.3"):
        gpus = whole(settings.value("num_gpus_per_node")) or _USUAL
    else:
        settings.doubts[f"ROLL takes whole nodes, each with all GPUs of the driver's host: counted with {gpus} on each"] = None
    most = max(value for value in highest.values() if value is not None) + 1
    node = replace(whole_nodes("nodes", 1, gpus), unsure=("CPU",))  # it asks for half of the node's CPUs
    return settings.budget("ROLL", [node] * min(-(-most // gpus), MAX_NODES), dialect=release)


def _highest(value: object) -> int | None:
    """The highest index of a mapping, which is a list or a Python `range`."""
    if isinstance(value, str):
        text = value.replace(" ", "")
        if all(_RANGE.fullmatch(part) for part in text.split("+")):
            return max(int(match[2]) - 1 for part in text.split("+") if (match := _RANGE.fullmatch(part)))
        try:
            value = ast.literal_eval(re.sub(r"^list\((.*)\)$", r"\1", text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
    if isinstance(value, Iterable) and not isinstance(value, str):
        numbers = [whole(each) for each in value]
        return None if None in numbers else max((number for number in numbers if number is not None), default=-1)
    number = whole(value)
    return number if number is not None and number < MAX_COUNT else None
