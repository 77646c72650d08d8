"""What an EasyR1 command asks of Ray: its words lie over a YAML file, that over its defaults, and all models share one pool."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
import yaml

from cockpit.budget.demand import Budget, Group
from cockpit.budget.frameworks.hydra import Gap, Override, Overrides, Value
from cockpit.budget.frameworks.verl.groups import node_groups
from cockpit.budget.frameworks.verl.source import content, to_hydra

_SECTIONS = frozenset({"config", "data", "worker", "algorithm", "trainer"})
_NODES, _GPUS, _CPUS = "trainer.nnodes", "trainer.n_gpus_per_node", "worker.reward.num_cpus"
_DEFAULTS = {_NODES: 1, _GPUS: 8, _CPUS: 1}
"""Of its code, and of the file that its examples start from."""
_TP, _BATCH, _MINI = "worker.rollout.tensor_parallel_size", "data.rollout_batch_size", "worker.actor.global_batch_size"
_SETTINGS = (
    *("worker.actor.model.model_path", "algorithm.adv_estimator", _TP, _BATCH, _MINI),
    *("worker.rollout.n", "worker.rollout.gpu_memory_utilization", "worker.actor.micro_batch_size_per_device_for_update"),
    *("data.max_prompt_length", "data.max_response_length", "worker.actor.offload.offload_params", "algorithm.disable_kl"),
)


class _Config(msgspec.Struct):
    """The words over the file."""

    overrides: Overrides
    whole: bool
    """What nobody sets is the default; if not, a file that can't be read may set it."""

    def value(self, key: str) -> Value | Gap:
        found = self.overrides.value(key)
        default = _DEFAULTS.get(key, Gap.ABSENT) if self.whole else Gap.UNKNOWN
        return Gap.UNKNOWN if isinstance(found, str) and "${" in found else default if found is Gap.ABSENT else found

    def count(self, key: str) -> int | None:
        """A whole number, as OmegaConf takes one: its text will do."""
        value = self.value(key)
        if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+\s*", value, re.ASCII):
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def easyr1(argv: Sequence[str], read: Callable[[str], str | None] = lambda _: None) -> Budget:
    """The budget of `python -m verl.trainer.main argv`; `read`: a file's text, by its path from the folder that the command runs in."""
    stranger = next((word for word in argv if "\0" not in word and re.split(r"[.\[=]", word)[0] not in _SECTIONS), None)
    if stranger is not None:
        return Budget("EasyR1", unread=(f"`{stranger}` is not an EasyR1 key: EasyR1 rejects it, or this is not EasyR1",))
    words = Overrides(tuple(_override(word) for word in argv))
    config, sentences = _over_file(words, read)
    groups = _groups(config)
    if any(group.bundles is None for group in groups):
        sentences += [f"{key} {_format(config.value(key))}" for key in (_NODES, _GPUS) if not config.count(key)]
        sentences += [] if sentences else ["trainer: these numbers give no valid placement group"]
    else:
        sentences = []
    settings = {key: str(value) for key in _SETTINGS if not isinstance(value := config.value(key), Gap)}
    return Budget("EasyR1", None, groups, tuple(sentences), settings=settings)


def _override(word: str) -> Override:
    key, _, text = word.partition("=")
    if "\0" in key:
        return Override(None, Gap.UNKNOWN)
    return Override(tuple(part for part in re.split(r"[.\[\]]+", key) if part), _value(text))


def _value(text: str) -> Value | Gap:
    try:
        return Gap.UNKNOWN if "\0" in text else to_hydra(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError):
        return Gap.UNKNOWN


def _over_file(words: Overrides, read: Callable[[str], str | None]) -> tuple[_Config, list[str]]:
    """The words over the file that they name, and what is to be said where it can't be read."""
    path = words.value("config")
    if path is Gap.ABSENT:
        return _Config(words, whole=True), []
    found = content(path, read) if isinstance(path, str) else None
    if found is None:
        return _Config(words, whole=False), ["The file that config= names can't be read"]
    return _Config(Overrides((Override((), to_hydra(found)), *words.items)), whole=True), []


def _groups(config: _Config) -> tuple[Group, ...]:
    """The runner, two reward managers since 0.3.1, and a group on each node."""
    critic = ["critic"] if config.value("algorithm.adv_estimator") == "gae" else []
    name = " + ".join(["actor", "rollout", *([] if config.value("algorithm.disable_kl") is True else ["ref"]), *critic])
    cpus = config.count(_CPUS)
    said = config.overrides.value(_CPUS) is not Gap.ABSENT and cpus is not None
    managers = Group("reward managers", (({"CPU": float(cpus or 1)}, 2),), None, () if said else ("CPU",))
    pool = node_groups(name, config.count(_NODES), config.count(_GPUS), 1, "GPU")
    return (Group("Runner", (({"CPU": 1.0}, 1),), None), managers, *pool)


def _format(value: Value | Gap) -> str:
    return value.value if isinstance(value, Gap) else f"is {value!r}, not a number"
