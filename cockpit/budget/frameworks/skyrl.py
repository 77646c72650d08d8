"""Computes what a SkyRL command asks Ray for: one group for all models and engines, or one for each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from cockpit.budget.command import Settings, TrainingCommand, one_each, product, read_words, whole_nodes
from cockpit.budget.demand import Budget, Group, Line

_KEY = re.compile(r"\+{0,2}(?:trainer\.placement\.|generator\.inference_engine|generator\.num_inference_engines=).*", re.DOTALL)
_PLACEMENT, _ENGINE = "trainer.placement", "generator.inference_engine"


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is one of its entrypoints, or a program with its keys."""
    return re.match(r"skyrl(?:_train)?\.(?:\w+\.)*entrypoints\.", command.module) is not None or any(
        _KEY.fullmatch(word) for word in command.argv
    )


def budget_of(command: TrainingCommand) -> Budget:
    """The groups in the order in which it makes them."""
    words = read_words(command.argv)
    settings = Settings.of_words(command, words, words.values)
    release = command.release("skyrl", None) or command.release("skyrl-train", None)
    groups = [Group("entrypoint", (({"CPU": 1.0}, 1),), None), *_groups(settings, release)]
    lines = tuple(_contradictions(settings))
    return settings.budget(
        "SkyRL", groups, release, lines, f"{_ENGINE}.gpu_memory_utilization", "trainer.policy.model.path", "trainer.ckpt_path"
    )


def _engines(settings: Settings) -> int | None:
    """The GPUs of all engines, by the present keys or by those before `skyrl` 0.1."""
    is_old = settings.value("generator.num_inference_engines") in settings.layers[0].values()
    names = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    if is_old:
        return product(settings.count("generator.num_inference_engines", 1), *(settings.count(f"{_ENGINE}_{name}", 1) for name in names))
    return product(settings.count(f"{_ENGINE}.num_engines", 1), *(settings.count(f"{_ENGINE}.{name}", 1) for name in names))


def _model(settings: Settings, role: str, release: str | None) -> tuple[int | None, int | None]:
    default = 4 if release and Version(release) < Version("0.1.1") and role else 1
    return settings.count(f"{_PLACEMENT}.{role}_num_nodes", 1), settings.count(f"{_PLACEMENT}.{role}_num_gpus_per_node", default)


def _groups(settings: Settings, release: str | None) -> Iterator[Group]:
    engines = _engines(settings)
    if settings.switch(f"{_PLACEMENT}.colocate_all", default=True):
        yield one_each("all models + engines", engines)
        return
    if settings.switch("generator.run_engines_locally", default=True) and settings.switch(f"{_ENGINE}.run_engines_locally", default=True):
        yield from _engine_groups(settings, engines)
    has_ref = settings.switch("trainer.algorithm.use_kl_loss", default=True) or settings.switch("trainer.algorithm.use_kl_in_reward")
    policy = _model(settings, "policy", release)
    if has_ref and settings.switch(f"{_PLACEMENT}.colocate_policy_ref", default=True):
        yield whole_nodes("policy + ref", *policy)
    else:
        yield from (_own(role, *_model(settings, role, release)) for role in ["policy", *["ref"] * has_ref])
    if settings.is_set("trainer.critic.model.path"):
        yield _own("critic", *_model(settings, "critic", release))


def _engine_groups(settings: Settings, engines: int | None) -> Iterator[Group]:
    prefill = settings.count(f"{_ENGINE}.num_prefill") if settings.switch(f"{_ENGINE}.enable_pd") else 0
    number = settings.count(f"{_ENGINE}.num_engines", 1) if prefill else 1
    if prefill and engines and number:
        yield one_each("prefill engines", engines // number * prefill)
        yield one_each("decode engines", engines // number * (number - prefill))
    else:
        yield one_each("engines", None if prefill is None else engines)


def _own(role: str, nodes: int | None, gpus: int | None) -> Group:
    """The group of a role. With one GPU on each node its workers are placed one by one."""
    return one_each(role, nodes, None) if gpus == 1 else whole_nodes(role, nodes, gpus)


def _contradictions(settings: Settings) -> Iterator[Line]:
    policy, engines = product(*_model(settings, "policy", None)), _engines(settings)
    if settings.switch(f"{_PLACEMENT}.colocate_all", default=True) and policy and engines and policy != engines:
        text = f"With {_PLACEMENT}.colocate_all the policy's GPUs and the engines' must be the same: {policy} and {engines}"
        yield Line(
            "never",
            text,
            f"set {_ENGINE}.num_engines, or {_PLACEMENT}.policy_num_nodes and policy_num_gpus_per_node, so that both are equal",
        )
