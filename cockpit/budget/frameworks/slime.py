"""Computes what commands of slime and miles ask Ray for: one group of one-GPU bundles for training and rollout."""

from __future__ import annotations

from packaging.version import Version

from cockpit.budget.command import Gap, Settings, TrainingCommand, one_each, product, without_gpu
from cockpit.budget.demand import Budget

_SWITCHES = ("--colocate", "--debug-train-only", "--debug-rollout-only")
_FLAGS = ("--actor-num-nodes", "--actor-num-gpus-per-node", "--rollout-num-gpus", *_SWITCHES)


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is a program with slime's flags; its name does not matter."""
    return any(word.partition("=")[0] in _FLAGS for word in command.argv)


def budget_of(command: TrainingCommand) -> Budget:
    """The GPUs of training and rollout, which are the same if colocated. Before 0.3.0 the critic had GPUs of its own."""
    settings = Settings(command, command.words.given(*_SWITCHES))
    is_miles = bool(command.find("miles/ray/placement_group.py"))
    release = command.release("miles" if is_miles else "slime")
    actor = product(settings.count("--actor-num-nodes", 1), settings.count("--actor-num-gpus-per-node", 8))
    name, gpus = _gpus(settings, actor)
    if settings.text("--advantage-estimator") == "ppo" and not is_miles and settings.switch("--debug-rollout-only") is False:
        critic = product(
            actor if settings.value("--critic-num-nodes") is Gap.ABSENT else settings.count("--critic-num-nodes"),
            1 if settings.value("--critic-num-nodes") is Gap.ABSENT else settings.count("--critic-num-gpus-per-node", 8),
        )
        if release is None:
            settings.doubts[f"slime 0.2 reserves {critic} more GPUs for the critic; counted as 0.3 and later"] = None
        elif release < Version("0.3") and gpus is not None and critic is not None:
            name, gpus = f"{name} + critic", gpus + critic
    groups = [] if gpus == 0 else [one_each(name, gpus)]
    return settings.budget("miles" if is_miles else "slime", [*groups, without_gpu("RolloutManager")], dialect=release)


def _gpus(settings: Settings, actor: int | None) -> tuple[str, int | None]:
    """The name and the size of the group."""
    if settings.switch("--debug-train-only") or settings.is_set("--rollout-external-engine-addrs", "--rollout-external"):
        return "actor", actor
    if settings.switch("--debug-rollout-only"):
        return "rollout", settings.count("--rollout-num-gpus")
    if settings.switch("--colocate"):
        rollout = actor if settings.value("--rollout-num-gpus") is Gap.ABSENT else settings.count("--rollout-num-gpus")
        return "actor + rollout", None if actor is None or rollout is None else max(actor, rollout)
    rollout, evaluation = settings.count("--rollout-num-gpus"), settings.value("--eval-num-gpus")
    extra = 0 if evaluation is Gap.ABSENT else settings.count("--eval-num-gpus")
    return "actor, rollout", None if actor is None or rollout is None or extra is None else actor + rollout + extra
