"""Computes what an AReaL command asks Ray for: the sum of its engines' world sizes, or the nodes of its launcher."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from cockpit.budget.command import MAX_COUNT, MAX_NODES, Gap, Settings, TrainingCommand, Words, flatten, node_groups, product, whole
from cockpit.budget.config_files import read_yaml
from cockpit.budget.demand import Budget, Group

_LAUNCHER = re.compile(r"areal\.(?:infra\.)?launcher\.ray")
_KEYS = ("rollout.backend", "actor.backend", "allocation_mode", "scheduler.type")
_GIB = 1 << 30
_DIMENSIONS = re.compile(r"[a-z]\d+")


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is AReaL's launcher, or a program whose settings file has AReaL's keys."""
    if _LAUNCHER.fullmatch(command.module):
        return True
    if any(key in command.words.values for key in _KEYS):
        return True
    path = command.words.flag("--config")
    tree = flatten(read_yaml(command.read, path) or {}) if path else {}
    return "allocation_mode" in tree or ("rollout.backend" in tree and "actor.backend" in tree)


def budget_of(command: TrainingCommand) -> Budget:
    """All train engines share one group; each rollout engine has a group."""
    path = command.words.flag("--config")
    tree = read_yaml(command.read, path) if path else {}
    because = f"and {str(path).replace(chr(0), '…')} can't be read" if tree is None else None
    settings = Settings(command, command.words.values, flatten(tree or {}), open_because=because)
    release = command.release("areal")
    groups = tuple(_launched(settings) if _LAUNCHER.fullmatch(command.module) else _engines(settings, command.words))
    return settings.budget("AReaL", groups, dialect=release)


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
        for role, part in zip(("rollout", "actor"), mode.split("+"), strict=False):
            yield from _role(settings, role, part.partition("|")[0], "allocation_mode", device)  # the engine after `|` shares these GPUs
        return
    kl = settings.value("actor.kl_ctl")
    is_compared = kl not in (Gap.ABSENT, None) and not (isinstance(kl, int | float) and kl <= 0)
    for role in ("rollout", "actor", "critic", "ref", "teacher"):
        is_required, key = role in ("rollout", "actor"), f"{role}.backend"
        exists = is_required or (settings.is_set(key, f"{role}.path") and (role != "ref" or is_compared))
        if exists and settings.text(f"{role}.scheduling_strategy.type") != "colocation":
            backend = settings.text(key) or ("" if is_required else settings.text("actor.backend"))
            yield from _role(settings, role, backend, key, device)


def _role(settings: Settings, role: str, backend: str, key: str, device: str) -> Iterator[Group]:
    """The groups of a role: one for all train ranks, with a bundle for each; or one for each rollout engine, with one bundle."""
    world = world_size(backend)
    if not world or world > MAX_COUNT:
        settings.missing[f"{key} {'is not set' if not backend else f'is {backend!r}, which is not followed'}"] = None
        yield Group(role, None)
        return
    spec = _specification(settings, role)
    gpus, cpus, memory = (settings.count(f"{spec}.{name}", default) for name, default in (("gpu", 1), ("cpu", 8), ("mem", 32)))
    if not settings.is_set(f"{spec}.gpu"):
        settings.doubts[f"{spec.removesuffix('.0')} sets no gpu: counted as 1 for each rank"] = None
    if (strategy := settings.text(f"{spec}.ray_placement_strategy", "shared")) != "shared":
        settings.doubts[f"{spec}.ray_placement_strategy is {strategy}: its groups may have other bundles"] = None
    engine = (world_size(re.sub(r"d\d+", "", backend)) if ":" in backend else None) or 1
    if gpus is None or cpus is None or memory is None:
        yield Group(role, None)
        return
    ranks = engine if role == "rollout" else 1
    shape = {device: float(gpus * ranks), "CPU": float(cpus * ranks), "memory": float(memory * ranks * _GIB)}
    if role == "rollout":
        yield from (Group(role, ((shape, 1),)),) * min(world // engine, MAX_NODES)
    else:
        yield Group(role, ((shape, world),))


def _specification(settings: Settings, role: str) -> str:
    """The key of a role's scheduling_spec. Most are those of the actor, by reference."""
    given = next((layer[f"{role}.scheduling_spec"] for layer in settings.layers if f"{role}.scheduling_spec" in layer), None)
    other = re.fullmatch(r"\$\{(\w+)\.scheduling_spec\}", str(given))
    return f"{other[1] if other else role}.scheduling_spec.0"


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
