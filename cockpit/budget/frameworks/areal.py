"""Computes what an AReaL command asks Ray for: the sum of its engines' world sizes, or the nodes of its launcher."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from cockpit.budget.command import Gap, Settings, TrainingCommand, Words, flatten, node_groups, one_each, product, read_words, whole
from cockpit.budget.config_files import read_yaml
from cockpit.budget.demand import Budget, Group

_LAUNCHER = re.compile(r"areal\.(?:infra\.)?launcher\.ray")
_KEYS = ("rollout.backend", "actor.backend", "allocation_mode", "scheduler.type")
_DIMENSIONS = re.compile(r"[a-z]\d+")


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is AReaL's launcher, or a program whose settings file has AReaL's keys."""
    if _LAUNCHER.fullmatch(command.module):
        return True
    words = read_words(command.argv)
    if any(key in words.values for key in _KEYS):
        return True
    path = words.flag("--config")
    tree = flatten(read_yaml(command.read, path) or {}) if path else {}
    return "allocation_mode" in tree or ("rollout.backend" in tree and "actor.backend" in tree)


def budget_of(command: TrainingCommand) -> Budget:
    """All train engines share one group; each rollout engine has a group."""
    words = read_words(command.argv)
    path = words.flag("--config")
    tree = read_yaml(command.read, path) if path else {}
    because = f"and {str(path).replace(chr(0), '…')} can't be read" if tree is None else None
    settings = Settings.of_words(command, words, words.values, flatten(tree or {}), open_because=because)
    release = command.release("areal", None)
    groups = tuple(_launched(settings) if _LAUNCHER.fullmatch(command.module) else _engines(settings, words))
    return settings.budget("AReaL", groups, release, (), "actor.path", "cluster.fileroot")


def _launched(settings: Settings) -> Iterator[Group]:
    """The groups of the launcher: some whole nodes for the servers, the others for the trainer."""
    nodes, gpus = settings.count("cluster.n_nodes"), settings.count("cluster.n_gpus_per_node")
    mode = settings.text("allocation_mode")
    generation = world_size(mode.partition("+")[0])
    if "+" in mode and generation and gpus and nodes and nodes > (servers := math.ceil(generation / gpus)):
        yield from node_groups("llm_server", servers, gpus, strategy="PACK")
        yield from node_groups("trainer", nodes - servers, gpus, strategy="PACK")
    else:
        yield from node_groups("llm_server, trainer", nodes, gpus, strategy="PACK")


def _engines(settings: Settings, words: Words) -> Iterator[Group]:
    scheduler = settings.value("scheduler.type")
    if scheduler is None or scheduler is Gap.ABSENT:
        settings.doubts["scheduler.type is not set: counted as with scheduler.type=ray"] = None
    elif str(scheduler) != "ray":
        settings.doubts[f"scheduler.type is {scheduler}: Ray is not asked for these GPUs"] = None
    device = "NPU" if any("npu" in str(word).lower() for word in (*words.values.values(), words.flag("--config") or "")) else "GPU"
    mode = settings.text("allocation_mode")
    if mode and not settings.is_set("actor.backend"):
        for name, part in zip(("rollout", "actor"), mode.split("+"), strict=False):
            yield _engine(settings, name, part.partition("|")[0], "allocation_mode", device)  # the engine after `|` shares these GPUs
        return
    roles = ["rollout", "actor"]
    if settings.is_set("critic.backend", "critic.path"):
        roles.append("critic")
    if settings.is_set("ref.backend", "ref.path") and not _is_zero(settings.value("actor.kl_ctl")):
        roles.append("ref")
    if settings.is_set("teacher.backend", "teacher.path"):
        roles.append("teacher")
    for role in roles:
        if settings.text(f"{role}.scheduling_strategy.type") != "colocation":
            key = f"{role}.backend"
            backend = settings.text(key) or settings.text("actor.backend" if role in ("ref", "critic", "teacher") else key)
            yield from _role(settings, role, backend, key, device)


def _role(settings: Settings, role: str, backend: str, key: str, device: str) -> Iterator[Group]:
    world, engine = world_size(backend), world_size(re.sub(r"d\d+", "", backend)) if ":" in backend else 1
    if role == "rollout" and world and engine and world % engine == 0:
        yield from node_groups(role, world // engine, engine, 8.0, "PACK", device)
    else:
        yield _engine(settings, role, backend, key, device)


def _engine(settings: Settings, role: str, backend: str, key: str, device: str) -> Group:
    world = world_size(backend)
    if world is None:
        settings.missing[f"{key} {'is not set' if not backend else f'is {backend!r}, which is not followed'}"] = None
    return one_each(role, world, "PACK", 8.0, device)


def world_size(backend: str) -> int | None:
    """The number of processes of `backend:d4p1t2`: the product of all dimensions except `e`, which adds none."""
    dimensions = re.sub(r"\([^)]*\)", "", backend.rpartition(":")[2]).strip()
    if "|" in backend or "(" in backend:  # hybrid: attention and experts share the processes
        found = re.search(r"attn:([a-z0-9]+)", backend)
        dimensions = found[1] if found else dimensions
    parts = _DIMENSIONS.findall(dimensions)
    if not dimensions or "".join(parts) != dimensions:
        return 1 if backend.endswith(":") else None
    return product(*(whole(part[1:]) for part in parts if part[0] in "dptc"))


def _is_zero(value: object) -> bool:
    return value is Gap.ABSENT or value is None or (isinstance(value, int | float) and value <= 0)
