"""Which groups one release of veRL makes for a configuration, in which order, with which strategy and shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from cockpit.budget.demand import Group
from cockpit.budget.frameworks.hydra import Gap
from cockpit.budget.frameworks.verl.config import ReleaseConfig
from cockpit.budget.frameworks.verl.recipes import Recipe
from cockpit.placement import Strategy

NODES = 4096
"""More than any cluster has: a longer list of groups would be a slip of the keyboard."""
_ROLLOUT = "actor_rollout_ref.rollout"


def groups_of(recipe: Recipe, config: ReleaseConfig) -> tuple[Group, ...]:
    """The groups of one release, the actors that hold CPUs beside them among these."""
    made: dict[str, Callable[[], Iterable[Group]]] = {
        "one pool": lambda: _one_pool(recipe, config),
        "one step off": lambda: _one_step_off(config),
        "fully async": lambda: _fully_async(config),
        "distillation": lambda: _distillation(config),
        "generation": lambda: _generation(config),
        "servers": lambda: _generation_servers(config),
        "sft": lambda: _pool(config, "model", "trainer", 10),
        "split": lambda: _split(config),
    }
    groups = tuple(made[recipe.shape]())
    return tuple(_open_cpus(group) for group in groups) if recipe.more else groups


def _open_cpus(group: Group) -> Group:
    return Group(group.name, group.bundles, group.strategy, ("CPU",))


def _some_actors(name: str) -> Group:
    """Actors of which nobody can say how many there will be."""
    return _open_cpus(_actors(name, 1))


def _one_pool(recipe: Recipe, config: ReleaseConfig) -> Iterator[Group]:
    v1 = config.since("0.9.0") and config.flag("trainer.use_v1")
    if v1 is not False or recipe.queue:
        yield from _transfer_queue(config, sure=v1 is not None)
    elif not config.since("0.9.0"):
        yield _actors("TaskRunner", 1)
    yield from _pool(config, _name_models(config).replace("actor", "actor + rollout", 1), "trainer", recipe.cpus)
    if recipe.reward_pool:
        yield from _reward_pool(config)
    yield from _teacher_pool(config)
    yield from _servers(config, "trainer")
    if v1 is not False:
        yield from _separate_rollout(config, v1)


def _one_step_off(config: ReleaseConfig) -> Iterator[Group]:
    yield _actors("TaskRunner", 10 if config.since("0.7.0") else 1)
    yield from _pool(config, _name_models(config), "trainer")
    if config.since("0.7.1"):
        yield from _some_reward_model(config, "reward.reward_model.enable")
        yield from _replicas(config, "rollout", "rollout", _ROLLOUT)
    else:
        yield from _pool(config, "rollout", "rollout")
        yield from _servers(config, "rollout")


def _fully_async(config: ReleaseConfig) -> Iterator[Group]:
    one, ten, two = {"CPU": 1.0}, {"CPU": 10.0}, {"CPU": 2.0}
    yield Group("TaskRunner + trainer + rollouter + message queue", ((one, 1), (ten, 2), (two, 1)), None)
    yield from _pool(config, _name_models(config), "trainer")
    if not config.since("0.7.1"):
        yield from _some_reward_model(config, "reward_model.enable")
        yield from _pool(config, "rollout", "rollout")
        yield from _servers(config, "rollout")
        return
    if (reward := _reward_key(config, "enable")) is not False:
        base = "reward.reward_model"
        yield from _maybe(reward, "reward model", _replicas(config, "reward model", base, f"{base}.rollout"))
    yield from _teacher_pool(config)
    yield from _replicas(config, "rollout", "rollout", _ROLLOUT)


def _distillation(config: ReleaseConfig) -> Iterator[Group]:
    yield _actors("TaskRunner", 1)
    yield from _pool(config, "rollout", "rollout")
    yield from _pool(config, "actor", "trainer")


def _generation(config: ReleaseConfig) -> Iterator[Group]:
    yield _actors("main task", 1)
    yield from _pool(config, "rollout", "trainer", 10 if config.since("0.4.0") else 5)


def _generation_servers(config: ReleaseConfig) -> Iterator[Group]:
    """Engines alone: as many as fit by their tensor parallelism, whatever else makes each of them larger."""
    yield from _replicas(config, "rollout", "trainer", _ROLLOUT, config.number(f"{_ROLLOUT}.tensor_model_parallel_size"))


def _split(config: ReleaseConfig) -> Iterator[Group]:
    """Actor and critic apart: half of each node, or half of the nodes."""
    nodes, each = config.whole("trainer.nnodes"), config.whole("trainer.n_gpus_per_node")
    yield _actors("main task", 1)
    if nodes is not None and each is not None:
        nodes, each = (nodes // 2, each) if nodes // 2 or each < 2 else (nodes, each // 2)
    for name in ("actor + rollout + ref", "critic"):
        yield from node_groups(name, nodes, each, _cpus(config), _device(config))


def _name_models(config: ReleaseConfig) -> str:
    estimator, critic = config.value("algorithm.adv_estimator"), config.value("critic.enable")
    has_critic = critic if isinstance(critic, bool) else estimator == "gae"
    ref = any(config.value(key) is True for key in ("algorithm.use_kl_in_reward", "actor_rollout_ref.actor.use_kl_loss"))
    return " + ".join(["actor", *["ref"] * (ref or not config.since("0.4.0")), *["critic"] * has_critic])


def _actors(name: str, cpus: float, number: int = 1) -> Group:
    return Group(name, (({"CPU": float(cpus)}, number),), None)


def _cpus(config: ReleaseConfig) -> float:
    return 3.0 if config.since("0.7.0") else 1.0


def _device(config: ReleaseConfig) -> str | None:
    """What Ray calls the accelerator: GPU, where somebody's own configuration may say more."""
    device = config.value("trainer.device")
    if device in (Gap.ABSENT, Gap.UNKNOWN) and not config.shipped and config.overrides.value("trainer.device") is Gap.ABSENT:
        return "GPU"
    if device in ("cuda", "npu"):
        return {"cuda": "GPU", "npu": "NPU"}[str(device)]
    config.unread["trainer.device"] = f"trainer.device {device.value if isinstance(device, Gap) else f'is {device!r}'}"
    return None


def _pool(config: ReleaseConfig, name: str, base: str, cpus: float | None = None) -> tuple[Group, ...]:
    """One group on each node of a pool."""
    nodes, each = config.whole(f"{base}.nnodes"), config.whole(f"{base}.n_gpus_per_node")
    return node_groups(name, nodes, each, cpus or _cpus(config), _device(config))


def node_groups(
    name: str, nodes: int | None, each: int | None, cpus: float, device: str | None, strategy: Strategy = "STRICT_PACK"
) -> tuple[Group, ...]:
    """A group on each node; one that nobody can count where a number is none."""
    if nodes is None or each is None or device is None or not 0 < nodes <= NODES or each <= 0:
        return (Group(name, None, strategy),)
    return (Group(name, (({device: 1.0, "CPU": float(cpus)}, each),), strategy),) * nodes


def _reward_key(config: ReleaseConfig, name: str) -> bool | None:
    """A switch of the reward model: between 0.7.1 and 0.8.0 its old name wins where it is set."""
    old, new = f"reward_model.{name}", f"reward.reward_model.{name}"
    if not config.since("0.7.1"):
        return config.flag(old)
    if config.since("0.9.0") or config.value(old) in (None, Gap.ABSENT):
        return config.flag(new)
    return config.flag(old)


def _reward_base(config: ReleaseConfig) -> str:
    old = any(config.value(f"reward_model.{name}") not in (None, Gap.ABSENT) for name in ("nnodes", "n_gpus_per_node"))
    return "reward_model" if not config.since("0.7.1") or (old and not config.since("0.9.0")) else "reward.reward_model"


def _maybe(wanted: bool | None, name: str, groups: tuple[Group, ...]) -> tuple[Group, ...]:
    return (Group(name, None, "STRICT_PACK"),) if wanted is None else groups if wanted else ()


def _reward_pool(config: ReleaseConfig) -> tuple[Group, ...]:
    if not config.since("0.6.0"):
        return ()
    wanted = _reward_key(config, "enable_resource_pool")
    if wanted and _reward_key(config, "enable") is False:
        return ()
    return _maybe(wanted, "reward model", _pool(config, "reward model", _reward_base(config)) if wanted else ())


def _teacher_pool(config: ReleaseConfig) -> tuple[Group, ...]:
    wanted = config.since("0.8.0") and config.flag("distillation.enabled")
    return _maybe(wanted, "teacher", _pool(config, "teacher", "distillation") if wanted else ())


def _some_reward_model(config: ReleaseConfig, key: str) -> tuple[Group, ...]:
    """The program takes one, and nobody has said here where."""
    if config.flag(key) is False:
        return ()
    config.unread.setdefault(key, "cockpit does not know where this program places its reward model")
    return (Group("reward model", None, "STRICT_PACK"),)


def _transfer_queue(config: ReleaseConfig, *, sure: bool) -> Iterator[Group]:
    base = "transfer_queue.backend"
    backend, units = config.value(f"{base}.storage_backend"), config.number(f"{base}.SimpleStorage.num_data_storage_units")
    if not sure or isinstance(backend, Gap) or (units or 0) <= 0:
        yield _some_actors("TransferQueue")
        return
    yield _actors("TransferQueue controller", 1)
    if backend == "SimpleStorage":
        yield Group("TransferQueue storage", (({"CPU": 1.0}, units or 0),), "SPREAD")


def rollout_world(config: ReleaseConfig, base: str = _ROLLOUT) -> int | None:
    """On how many GPUs one rollout engine lies."""
    names = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
    known = [config.number(f"{base}.{name}") for name in names if config.value(f"{base}.{name}") is not Gap.ABSENT]
    world = 1
    for size in known:
        if size is None or size <= 0:
            return None
        world *= size
    return world


def replica(world: int, each: int) -> tuple[int, int]:
    """Nodes of one engine, and its GPUs on each."""
    per_node = min(each, world)
    return world // per_node, per_node


def _servers(config: ReleaseConfig, base: str) -> tuple[Group, ...]:
    """Servers before the engines: until 0.7.0 each held a CPU of its own."""
    if not config.since("0.4.0") or config.since("0.7.1") or config.value(f"{_ROLLOUT}.mode") == "sync":
        return ()
    nodes, each = config.number(f"{base}.nnodes"), config.number(f"{base}.n_gpus_per_node")
    world = rollout_world(config)
    if not nodes or not each or world is None or min(nodes, each) < 0 or config.value(f"{_ROLLOUT}.mode") != "async":
        return (_some_actors("rollout servers"),)
    per_engine = replica(world, each)[0] if config.since("0.6.0") else 1
    number = nodes * each // world * per_engine
    return (_actors("rollout servers", 1, number),) if number else ()


def _replicas(config: ReleaseConfig, name: str, base: str, engine: str, divisor: int | None = None) -> tuple[Group, ...]:
    """Engines on GPUs of their own: each makes its groups by itself. `divisor`: of GPUs, how many make an engine more."""
    nodes, each = config.whole(f"{base}.nnodes"), config.whole(f"{base}.n_gpus_per_node")
    if nodes == 0 and config.flag("async_training.use_dynamic_resource_scheduling"):
        return ()
    world, device = rollout_world(config, engine), _device(config)
    if world is None:
        config.unread[engine] = f"the number of GPUs per {engine} engine is unknown"
    if nodes is None or each is None or world is None or device is None or min(nodes, each) <= 0:
        return (Group(name, None, "PACK"),)
    engines, (per_engine, per_node) = nodes * each // (divisor or world), replica(world, each)
    return node_groups(name, per_engine * engines, per_node, 2 if config.since("0.8.0") else _cpus(config), device, "PACK")


def _separate_rollout(config: ReleaseConfig, v1: bool | None) -> tuple[Group, ...]:
    mode = config.value("trainer.v1.trainer_mode")
    if mode in ("sync", "colocate_async"):
        return ()
    if mode == "separate_async" and v1:
        return _replicas(config, "rollout", _ROLLOUT, _ROLLOUT)
    config.unread["trainer.v1.trainer_mode"] = f"trainer.v1.trainer_mode {mode.value if isinstance(mode, Gap) else f'is {mode!r}'}"
    return (Group("rollout", None, "PACK"),)
