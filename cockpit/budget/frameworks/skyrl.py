"""Computes what a SkyRL command asks Ray for: one group for all models and engines, or one for each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from cockpit.budget.command import Settings, TrainingCommand, different_sizes, one_each, product, whole_nodes, without_gpu
from cockpit.budget.demand import Budget, Group, Line

_KEY = re.compile(r"\+{0,2}(?:trainer\.placement\.|generator\.inference_engine|generator\.num_inference_engines=).*", re.DOTALL)
_PLACEMENT, _ENGINE, _KL = "trainer.placement", "generator.inference_engine", "trainer.algorithm"
_FIRST_DEFAULTS = {
    **{f"{_PLACEMENT}.{role}_num_gpus_per_node": 4 for role in ("policy", "ref", "critic")},
    f"{_ENGINE}_tensor_parallel_size": 4,
}
"""Defaults of skyrl-train 0.1.0. In all other releases every count is 1 by default."""


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is one of its entrypoints, or a program with its keys."""
    return re.match(r"skyrl(?:_train)?\.(?:\w+\.)*entrypoints\.", command.module) is not None or any(
        _KEY.fullmatch(word) for word in command.argv
    )


def budget_of(command: TrainingCommand) -> Budget:
    """The groups in the order in which it makes them."""
    release, earlier = command.release("skyrl"), command.release("skyrl-train")
    is_first = release is None and earlier is not None and earlier < Version("0.1.1")
    settings = Settings(command, command.words.values, defaults=_FIRST_DEFAULTS if is_first else {})
    groups = [without_gpu("entrypoint"), *_groups(settings)]
    shown, lines = (f"{_ENGINE}.gpu_memory_utilization", "trainer.ckpt_path"), tuple(_contradictions(settings))
    return settings.budget("SkyRL", groups, *shown, dialect=release or earlier, lines=lines)


def _groups(settings: Settings) -> Iterator[Group]:
    if settings.switch(f"{_PLACEMENT}.colocate_all", default=True):
        yield one_each("all models + engines", _engines(settings))
        return
    is_local = all(settings.switch(f"{key}.run_engines_locally", default=True) for key in ("generator", _ENGINE))
    if is_local and not settings.is_set(f"{_ENGINE}.external_proxy_url", f"{_ENGINE}.external_server_urls"):
        yield from _engine_groups(settings, _engines(settings))
    models = _models(settings)
    if _are_policy_and_ref_together(settings):
        yield whole_nodes("policy + ref", *_size(settings, "policy"))
        models = models[2:]
    for role in models:
        nodes, gpus = _size(settings, role)
        yield one_each(role, nodes, None) if gpus == 1 else whole_nodes(role, nodes, gpus)  # workers with a node's only GPU have no group


def _engines(settings: Settings) -> int | None:
    """The GPUs of all engines, by the present keys or by those of skyrl-train."""
    is_earlier = any(key.startswith(("generator.num_inference_engines", f"{_ENGINE}_")) for layer in settings.layers for key in layer)
    number, prefix = ("generator.num_inference_engines", f"{_ENGINE}_") if is_earlier else (f"{_ENGINE}.num_engines", f"{_ENGINE}.")
    sizes = (settings.count(f"{prefix}{kind}_parallel_size", 1) for kind in ("tensor", "pipeline", "data"))
    return product(settings.count(number, 1), *sizes)


def _engine_groups(settings: Settings, engines: int | None) -> Iterator[Group]:
    prefill = settings.count(f"{_ENGINE}.num_prefill") if settings.switch(f"{_ENGINE}.enable_pd") else 0
    number = settings.count(f"{_ENGINE}.num_engines", 1) if prefill else 1
    if prefill and engines and number:
        yield one_each("prefill engines", engines // number * prefill)
        yield one_each("decode engines", engines // number * (number - prefill))
    else:
        yield one_each("engines", None if prefill is None else engines)


def _models(settings: Settings) -> list[str]:
    has_ref = settings.switch(f"{_KL}.use_kl_loss", default=True) or settings.switch(f"{_KL}.use_kl_in_reward")
    return ["policy", *["ref"] * has_ref, *["critic"] * settings.is_set("trainer.critic.model.path")]


def _are_policy_and_ref_together(settings: Settings) -> bool:
    return "ref" in _models(settings) and settings.switch(f"{_PLACEMENT}.colocate_policy_ref", default=True)


def _size(settings: Settings, role: str) -> tuple[int | None, int | None]:
    """The nodes of a model, and its GPUs on each."""
    return settings.count(f"{_PLACEMENT}.{role}_num_nodes", 1), settings.count(f"{_PLACEMENT}.{role}_num_gpus_per_node", 1)


def _contradictions(settings: Settings) -> Iterator[Line]:
    """Models that share GPUs, but with different counts."""
    sizes = {role: _size(settings, role) for role in _models(settings)}
    if settings.switch(f"{_PLACEMENT}.colocate_all", default=True):
        gpus = {"engines": _engines(settings), **{role: product(*size) for role, size in sizes.items()}}
        if None not in gpus.values() and len(set(gpus.values())) > 1:
            told = ", ".join(f"{name} {number}" for name, number in gpus.items())
            yield Line("never", f"With {_PLACEMENT}.colocate_all all must have the same number of GPUs: {told}")
    elif _are_policy_and_ref_together(settings):
        yield from different_sizes(f"{_PLACEMENT}.colocate_policy_ref", "policy", "ref", sizes["policy"], sizes["ref"])
