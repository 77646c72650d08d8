"""Computes what an EasyR1 command asks Ray for: its words overwrite a YAML file, and all models share one pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cockpit.budget.command import Gap, Settings, TrainingCommand, flatten, node_groups, whole, without_gpu
from cockpit.budget.config_files import read_yaml
from cockpit.budget.demand import Budget, Group

_DEFAULTS: Mapping[str, object] = {"trainer.nnodes": 1, "trainer.n_gpus_per_node": 8}
"""The defaults of its code, and of the YAML file that its examples use."""
_CPUS = "worker.reward.num_cpus"


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is EasyR1's program, or a program with a settings file and EasyR1's sections."""
    if command.module == "verl.trainer.main":
        return True
    return any(word.startswith("config=") for word in command.argv) and any(word.startswith("worker.") for word in command.argv)


def budget_of(command: TrainingCommand) -> Budget:
    """The runner, two reward managers, and one group for each node."""
    path = command.words.values.get("config")
    tree = read_yaml(command.read, path) if isinstance(path, str) else {}
    because = f"and the file {str(path).replace(chr(0), '…')} that config= names can't be read" if tree is None else None
    settings = Settings(command, command.words.values, flatten(tree or {}), open_because=because, defaults=_DEFAULTS)
    return settings.budget("EasyR1", tuple(_groups(settings)), "worker.rollout.gpu_memory_utilization")


def _groups(settings: Settings) -> Iterator[Group]:
    critic = ["critic"] if settings.text("algorithm.adv_estimator") == "gae" else []
    name = " + ".join(["actor", "rollout", *([] if settings.switch("algorithm.disable_kl") else ["ref"]), *critic])
    cpus = settings.value(_CPUS)
    yield without_gpu("Runner")
    yield Group("reward managers", (({"CPU": float(whole(cpus) or 1)}, 2),), None, ("CPU",) if isinstance(cpus, Gap) else ())
    yield from node_groups(name, settings.count("trainer.nnodes"), settings.count("trainer.n_gpus_per_node"))
