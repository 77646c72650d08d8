"""What a veRL command asks of Ray, read as Hydra and its trainer read it, for every release that it can be for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from cockpit.budget.demand import Budget, Group, Line
from cockpit.budget.frameworks import hydra
from cockpit.budget.frameworks.hydra import Gap, Overrides
from cockpit.budget.frameworks.verl.config import ReleaseConfig
from cockpit.budget.frameworks.verl.groups import groups_of
from cockpit.budget.frameworks.verl.recipes import Recipe, recipe_of
from cockpit.budget.frameworks.verl.releases import RELEASES, release, releases_with_keys, span_in_words
from cockpit.budget.frameworks.verl.rules import contradictions
from cockpit.budget.frameworks.verl.source import ConfigSource, source_of

_GROUPS = frozenset({"model_engine"})
_SIMPLERL = ("trainer.remove_clip", "trainer.remove_previous_ckpt", "actor_rollout_ref.rollout.micro_rollout_batch_size")
_ROLLOUT, _ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
_SETTINGS = (
    *(f"{_ROLLOUT}.{name}" for name in ("name", "mode", "tensor_model_parallel_size", "gpu_memory_utilization", "free_cache_engine", "n")),
    *(f"{_ROLLOUT}.{name}" for name in ("data_parallel_size", "max_model_len", "log_prob_micro_batch_size_per_gpu")),
    *(f"{_ACTOR}.{name}" for name in ("strategy", "ppo_mini_batch_size", "ppo_micro_batch_size_per_gpu", "use_dynamic_bsz")),
    *(f"{_ACTOR}.{name}" for name in ("ulysses_sequence_parallel_size", "use_kl_loss", "fsdp_config.param_offload")),
    *(f"{_ACTOR}.{name}" for name in ("fsdp_config.optimizer_offload", "megatron.param_offload", "megatron.optimizer_offload")),
    "actor_rollout_ref.ref.fsdp_config.param_offload",
    "actor_rollout_ref.model.path",
    "algorithm.adv_estimator",
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "trainer.v1.trainer_mode",
    "trainer.default_local_dir",
)


def verl(
    argv: Sequence[str],
    module: str = "verl.trainer.main_ppo",
    read: Callable[[str], str | None] = lambda _: None,
    *,
    pinned: str | None = None,
    installed: str | None = None,
) -> Budget:
    """The budget of `python -m module argv`; `read`: a file's text, by its path from the folder that the command runs in.

    `pinned`: the release it runs with, if anybody says so; `installed`: the one that is there, while the job may bring another.
    """
    recipe, command = recipe_of(module), hydra.read(argv, _GROUPS)
    if recipe is None:
        return Budget("veRL", unread=(f"cockpit does not know the configuration of {module}",))
    if command.only_prints or command.refused:
        why = command.refused or "The command only prints its configuration: nothing is trained"
        return Budget("veRL", unread=(why,), lines=tuple(_find_refusals(command)))
    source = source_of(recipe, module, command, read)
    sure = _span(pinned or read("verl/version/version"))
    first, last, clash = _releases(recipe, command, source, sure)
    first, last, other = (first, last, []) if sure else _narrow(first, last, _span(installed), installed)
    own = {**recipe.own, **source.own}
    configs = [ReleaseConfig(source.overrides, place, source.megatron, source.shipped, own) for place in range(first, last + 1)]
    made = [groups_of(recipe, config) for config in configs]
    groups = _common(made)
    unread = [source.sentence] if source.sentence and not _is_known(groups) else []
    unread += [] if _is_known(groups) else dict.fromkeys(sentence for config in configs for sentence in config.unread.values())
    unread += [] if unread else _open(groups, made)
    fork = any(not isinstance(source.overrides.value(key), Gap) for key in _SIMPLERL)
    return Budget(
        "simpleRL-reason" if fork else "veRL",
        "v1" if fork else span_in_words(first, last),
        groups,
        tuple(unread),
        (
            *_find_refusals(command),
            *_find_contradictions(recipe, configs),
            *_about_releases(made, groups, first),
            *_clash(clash),
            *other,
            *_dead_keys(source.overrides, last),
        ),
        _settings(configs),
    )


def _span(version: str | None) -> tuple[int, int] | None:
    """The first and the last release that a version can be: one in the making has the last one's ways, or the next one's."""
    if version is None or not re.fullmatch(r"\d+(\.\d+)+(\.?(dev|post|rc)\d*)?", version.strip(), re.ASCII):
        return None
    place = release(version.strip())
    before = place - ("dev" in version and RELEASES[place] in version)
    return max(before, 0), place


def _releases(
    recipe: Recipe, command: hydra.HydraCommand, source: ConfigSource, sure: tuple[int, int] | None
) -> tuple[int, int, tuple[str, str] | None]:
    """The first and the last release that the command can be for. A program does as the last release did that it was written for."""
    keys = {key for key in command.overrides.keys() if not key.startswith(source.brings)}  # noqa: SIM118 - no mapping
    keys |= {group for group, _ in command.groups if group in _GROUPS}
    tells = source.tells and not recipe.own_keys
    if sure:
        first, last = min(sure[0], recipe.last), min(sure[1], recipe.last)
        return (*releases_with_keys(keys, first, last)[:2], None) if tells else (first, last, None)
    if any(key in _SIMPLERL for key in keys):
        return release("0.2"), release("0.2"), None
    return releases_with_keys(keys, recipe.first, recipe.last) if tells else (recipe.first, recipe.last, None)


def _narrow(first: int, last: int, there: tuple[int, int] | None, installed: str | None) -> tuple[int, int, list[Line]]:
    """To the release that is installed, where the command can be for it."""
    if there is None:
        return first, last, []
    if there[0] <= last and there[1] >= first:
        return max(first, there[0]), min(last, there[1]), []
    text = f"veRL {installed} is installed, but these keys are of veRL {span_in_words(first, last)}: the job needs another release"
    return first, last, [Line("doubt", text, "use the keys of the installed release, unless the job installs its own")]


def _is_known(groups: Iterable[Group]) -> bool:
    return all(group.bundles is not None for group in groups)


def _layout(group: Group) -> object:
    """What of a group must be the same in two releases: all but its CPUs."""
    if group.bundles is None:
        return None
    return group.strategy, tuple(
        (tuple(sorted((key, each) for key, each in shape.items() if key != "CPU")), n) for shape, n in group.bundles
    )


def _holds_gpus(group: Group) -> bool:
    return group.bundles is None or any(set(shape) - {"CPU"} for shape, _ in group.bundles)


def _common(made: Sequence[tuple[Group, ...]]) -> tuple[Group, ...]:
    """The newest release's groups; what another one makes in another way is open, and so is what only others make."""
    counts = [Counter(_layout(group) for group in groups if _holds_gpus(group)) for groups in made]
    newest = [group if _is_agreed(group, counts) else msgspec.structs.replace(group, bundles=None) for group in made[-1]]
    names = {group.name for group in newest}
    gone = {group.name: group for groups in made for group in groups if group.name not in names and not _is_agreed(group, counts)}
    newest += [msgspec.structs.replace(group, bundles=None) for group in gone.values()]
    return tuple(_doubt(group, made) for group in newest)


def _is_agreed(group: Group, counts: Sequence[Counter[object]]) -> bool:
    return not _holds_gpus(group) or len({count[_layout(group)] for count in counts}) == 1


def _doubt(group: Group, made: Sequence[tuple[Group, ...]]) -> Group:
    """A group that not every release makes with as many CPUs."""
    everywhere = all(any(group.bundles == other.bundles for other in groups) for groups in made)
    return group if everywhere or group.bundles is None else msgspec.structs.replace(group, unsure=("CPU",))


def _about_releases(made: Sequence[tuple[Group, ...]], groups: tuple[Group, ...], first: int) -> list[Line]:
    """How many CPUs it is in which releases, where the command leaves that open."""
    totals = [Budget(None, groups=each).amount("CPU") for each in made]
    if not _is_known(groups) or len(set(totals)) == 1 or None in totals:
        return []
    changes = [place for place, total in enumerate(totals) if place == 0 or total != totals[place - 1]]
    parts = [f"{totals[place]:g} {'from ' + RELEASES[first + place] + ' on' if place else 'before'}" for place in reversed(changes)]
    return [Line("fine", f"The veRL release is not pinned; CPUs reserved: {', '.join(parts)}")]


def _open(groups: Sequence[Group], made: Sequence[tuple[Group, ...]]) -> list[str]:
    """Groups that are no groups with the numbers they have, or that the releases make in several ways."""
    senseless = {group.name for each in made for group in each if group.bundles is None}
    names = dict.fromkeys(group.name for group in groups if group.bundles is None)
    several = "its placement groups differ between the releases that accept this command"
    return [f"{name}: {'no placement group can be made of these numbers' if name in senseless else several}" for name in names]


def _find_refusals(command: hydra.HydraCommand) -> list[Line]:
    """Why Hydra would not start it."""
    empty = "One of the command's words is empty ('', or a quoted variable without a value): Hydra rejects it"
    found = [command.refused] if command.refused else [empty] if command.empty else []
    return [Line("never", text, "take the word out, or give it a value") for text in found]


def _clash(keys: tuple[str, str] | None) -> list[Line]:
    if keys is None:
        return []
    text = f"{keys[0]} and {keys[1]} are keys of different releases: Hydra rejects one of them"
    return [Line("doubt", text, f"rename {keys[0]} or {keys[1]} as the installed release calls it")]


def _dead_keys(overrides: Overrides, last: int) -> list[Line]:
    keys = [key for key in ("reward_model.enable", "reward_model.enable_resource_pool") if overrides.value(key) is True]
    if not keys or last < release("0.8.0"):
        return []
    return [Line("doubt", f"veRL 0.9.0 and later ignore {key}", f"rename {key} to reward.{key}") for key in keys]


def _find_contradictions(recipe: Recipe, configs: Sequence[ReleaseConfig]) -> list[Line]:
    """Contradictions; those that only some of the releases know are doubts."""
    found = [list(contradictions(recipe, config)) for config in configs]
    lines = dict.fromkeys(line for each in found for line in each)
    return [line if all(line in each for each in found) else msgspec.structs.replace(line, level="doubt") for line in lines]


def _settings(configs: Sequence[ReleaseConfig]) -> dict[str, str]:
    """What matters beside counts, where every release says the same."""
    values = {key: {str(config.value(key)) for config in configs if not isinstance(config.value(key), Gap)} for key in _SETTINGS}
    known = {key: all(not isinstance(config.value(key), Gap) for config in configs) for key in _SETTINGS}
    return {key: each.pop() for key, each in values.items() if len(each) == 1 and known[key]}
