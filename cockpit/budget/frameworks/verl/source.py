"""Where a veRL command's configuration comes from: its release's own files, a recipe's, or somebody's own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

import msgspec
import yaml

from cockpit.budget.frameworks import hydra
from cockpit.budget.frameworks.hydra import Gap, Override, Overrides, Value
from cockpit.budget.frameworks.verl.recipes import CONFIGS, Recipe

_SHIPPED_NAME = re.compile(r"(?:_generated_)?ppo(?:_megatron|_torchtitan|_veomni)?_trainer")
_EXAMPLE_NAME = re.compile(r"(?:gsm8k|geo3k|retool|search)_multiturn_[a-z0-9_]*grpo[a-z0-9_]*")
_SHIPPED_FOLDER = re.compile(r"(?:.*/)?(?:verl/trainer|recipe/\w+|verl/experimental/\w+)/config/?")
_EXAMPLE_FOLDER = re.compile(r"(?:.*/)?examples/sglang_multiturn/config/?")
_RECIPE_FILE = re.compile(r"(?:.*/)?(recipe/\w+/configs?/\w+\.yaml)", re.DOTALL)
_COUNTLESS = re.compile(r"hydra/.*|\w+@(?:actor_rollout_ref\.(?:actor|ref|model)|critic(?:\.\w+)?|data)")
"""Config groups under which no count lies, whatever file they take."""
_SHIPPED_CHOICE = re.compile(r"(?:dp|fsdp|megatron|mindspeed|veomni|torchtitan|hf|legacy|automodel)(?:_\w+)?|ppo_\w+")
"""Files of config groups that ship: none of these sets a count."""


class ConfigSource(msgspec.Struct, frozen=True):
    """Where a command's configuration comes from."""

    overrides: Overrides
    shipped: bool
    megatron: bool
    sentence: str | None = None
    tells: bool = True
    """Its keys tell the release: it is the framework's own."""
    own: Mapping[str, Value] = {}
    """What a recipe's configuration sets on top."""
    brings: tuple[str, ...] = ()
    """Sections that it makes itself: their keys tell no release."""


def source_of(recipe: Recipe, module: str, command: hydra.HydraCommand, read: Callable[[str], str | None]) -> ConfigSource:
    """What the command starts from; `module`: its program, beside which Hydra looks for a path that isn't absolute."""
    name, path = (command.config_name or recipe.config).removesuffix(".yaml"), (command.config_path or "config").rstrip("/")
    megatron = "megatron" in name or ("model_engine", "megatron") in command.groups
    odd = [group for group, choice in command.groups if not _COUNTLESS.fullmatch(group) and not _SHIPPED_CHOICE.fullmatch(choice or "")]
    if odd:
        sentence = f"{odd[0]} names a config file that cockpit does not know"
        return ConfigSource(command.overrides, shipped=False, megatron=megatron, sentence=sentence)
    own_name = name == recipe.config or bool(_SHIPPED_NAME.fullmatch(name)) or name.replace("_megatron", "") == recipe.config
    in_package = posixpath.normpath(path) == "config" or bool(_SHIPPED_FOLDER.fullmatch(path))
    if (own_name and in_package) or (_EXAMPLE_NAME.fullmatch(name) and _EXAMPLE_FOLDER.fullmatch(path)):
        return ConfigSource(command.overrides, shipped=True, megatron=megatron)
    beside = "" if path.startswith("\0") else posixpath.dirname(module.replace(".", "/"))
    folder = command.config_dir or posixpath.normpath(posixpath.join(beside, path))
    return _own_file(command, posixpath.join(folder, f"{name}.yaml"), read)


def _own_file(command: hydra.HydraCommand, path: str, read: Callable[[str], str | None]) -> ConfigSource:
    """Somebody's own configuration: on top of the trainer's, or whole. A recipe's is known by the end of its path."""
    match = _RECIPE_FILE.fullmatch(path)
    found = content(path, read) or (content(match[1], read) if match else None)
    known = CONFIGS.get(match[1]) if match else None
    if found is None and known:
        return ConfigSource(command.overrides, True, "megatron" in path, own=known.own, brings=known.brings)
    shown = path.replace("\0", "…")
    if found is None:
        return ConfigSource(command.overrides, False, "megatron" in path, f"The configuration {shown} can't be read", tells=False)
    defaults = found.pop("defaults", None)
    bases = [base for base in defaults if base != "_self_"] if isinstance(defaults, list) else []
    based = len(bases) == 1 and isinstance(bases[0], str) and bool(_SHIPPED_NAME.fullmatch(bases[0]))
    items = (Override((), to_hydra(found)), *command.overrides.items)
    sentence = None if based else f"The configuration {shown} includes files that cockpit does not know"
    brings = known.brings if known else ()
    return ConfigSource(Overrides(items), based, "megatron" in str(bases), sentence, tells=known is not None, brings=brings)


def content(path: str, read: Callable[[str], str | None]) -> dict[str, object] | None:
    """What a YAML file says; `None`: it can't be read."""
    try:
        found = yaml.safe_load((None if "\0" in path else read(path)) or "")
    except (yaml.YAMLError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def to_hydra(value: object) -> Value | Gap:
    """A YAML file's value as Hydra has it."""
    if isinstance(value, dict):
        return {str(key): to_hydra(each) for key, each in value.items()}
    if isinstance(value, list):
        return [to_hydra(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else Gap.UNKNOWN
