"""Computes what commands of OpenRLHF and its forks ask Ray for: simpleRL-reason v0, Open-Reasoner-Zero, any `train_ppo_ray`."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterator, Mapping

import msgspec
from packaging.version import Version

from cockpit.budget.command import Gap, Settings, TrainingCommand, Words, different_sizes, node_groups, one_each, product, whole_nodes
from cockpit.budget.demand import Budget, Group, Line
from cockpit.budget.python_file import read_assignments

_PROGRAM = re.compile(r"(?:.*\.)?train_ppo_ray\w*")
_SOURCE = "openrlhf/cli/train_ppo_ray.py"
_NEWEST = "0.11"
_DOTTED_SINCE = "0.10.2"
DOTTED: Mapping[str, str] = {
    **{f"{role}_num_{what}": f"{role}.num_{what}" for role in ("actor", "ref", "critic", "reward") for what in ("nodes", "gpus_per_node")},
    **{name: f"train.{name}" for name in ("colocate_actor_ref", "colocate_critic_reward", "agent_func_path")},
    **{f"vllm_{name}": f"vllm.{name}" for name in ("num_engines", "tensor_parallel_size", "gpu_memory_utilization", "enable_sleep")},
    "colocate_all_models": "train.colocate_all",
    "async_train": "train.async_enable",
    "init_kl_coef": "algo.kl.init_coef",
    "advantage_estimator": "algo.advantage.estimator",
    "remote_rm_url": "reward.remote_url",
    "pretrain": "actor.model_name_or_path",
    "reward_pretrain": "reward.model_name_or_path",
    "critic_pretrain": "critic.model_name_or_path",
    "deepspeed_enable_sleep": "ds.enable_sleep",
    "adam_offload": "ds.adam_offload",
    "save_path": "ckpt.output_dir",
    "ckpt_path": "ckpt.path",
}
"""Flags that matter here: the name before 0.10.2, and the name since then."""
_SWITCHES = ("colocate_actor_ref", "colocate_critic_reward", "colocate_all_models", "async_train", "vllm_enable_sleep")
_SHOWN = ("vllm_gpu_memory_utilization", "vllm_enable_sleep", "deepspeed_enable_sleep", "adam_offload", "save_path", "ckpt_path")
_FIRST_RELEASES: Mapping[str, str] = {
    "colocate_all_models": "0.5.8",
    "vllm_enable_sleep": "0.5.8",
    "async_train": "0.8.0",
    "agent_func_path": "0.8.0",
}
"""By flag: the first release that has it."""
_GENERATIONS = ("0.5.7", "0.5.9", "0.6.3", "0.10.1")
"""One release for each way to make groups, for commands whose release is unknown but before 0.10.2."""


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is OpenRLHF's program, a program with its flags, or one whose own file assigns its counts."""
    if _PROGRAM.fullmatch(command.module):
        return True
    if any(re.match(r"--(?:actor|critic|ref)[._]num_(?:nodes|gpus_per_node)\b", word) for word in command.argv):
        return True
    found = command.source()
    return found is not None and "actor_num_gpus_per_node" in found[1] and "add_argument" not in found[1]


def budget_of(command: TrainingCommand) -> Budget:
    """The groups that the release, or the fork in the tree, makes from the flags."""
    words = command.words
    if not _PROGRAM.fullmatch(command.module) and (found := command.source()) and "actor_num_gpus_per_node" in found[1]:
        return _from_python_file(command, *found)
    tree = command.find(_SOURCE) or (_SOURCE if command.read(_SOURCE) else None)
    text = (command.read(tree) if tree else None) or ""
    version = command.read(posixpath.normpath(posixpath.join(posixpath.dirname(tree), "../../version.txt"))) if tree else None
    settings = Settings(command, _values(words))
    name = "simpleRL-reason" if command.module.endswith("_box") else "OpenRLHF"
    dotted = any(f"--{new}" in words.flags for new in DOTTED.values())
    settings.spelled = {old: f"--{new if dotted else old}" for old, new in DOTTED.items()}
    found_release = command.release("openrlhf", version)
    release = str(found_release) if found_release else None
    if name == "simpleRL-reason":
        release = "0.5.1"
    elif not _PROGRAM.fullmatch(command.module):
        settings.doubts[f"{command.program} is not a program of OpenRLHF: counted as one that takes its flags"] = None
    elif command.module.rpartition(".")[2] != "train_ppo_ray":
        settings.doubts[f"{command.program} is a fork's program: counted as OpenRLHF's train_ppo_ray"] = None
    settings.doubts |= dict.fromkeys(_misspelled(words))
    if release is None:
        return _without_release(settings, dotted, name)
    if dotted and Version(release) < Version(_DOTTED_SINCE) and "STRICT_SPREAD" not in text:
        settings.doubts[f"flags with dots are of OpenRLHF {_DOTTED_SINCE} and later, but {release} is installed or pinned"] = None
        release = _NEWEST
    elif not dotted and Version(release) >= Version(_DOTTED_SINCE) and any(f"--{old}" in words.flags for old in DOTTED):
        settings.doubts[f"flags without dots are of OpenRLHF before {_DOTTED_SINCE}, but {release} is installed or pinned"] = None
        release = _GENERATIONS[-1]
    if "STRICT_SPREAD" in text and Version(release) >= Version("0.5.8"):
        release = _GENERATIONS[0]
    is_box = name == "simpleRL-reason"
    return _result(_Placement(settings, release, is_box=is_box), name, "v0" if is_box else release)


def _without_release(settings: Settings, dotted: bool, name: str) -> Budget:
    """The budget by the newest release that takes these flags. If another such release reserves something else, that is a doubt."""
    if dotted:
        return _result(_Placement(settings, _NEWEST), name, f"{_DOTTED_SINCE} and later")
    oldest = max([Version("0"), *(Version(since) for flag, since in _FIRST_RELEASES.items() if settings.is_set(flag))])
    made = [(release, _Placement(settings, release)) for release in _GENERATIONS if Version(release) >= oldest]
    _, newest = made[-1]
    found = _result(newest, name, f"before {_DOTTED_SINCE}")
    differing = [(release, other) for release, other in made[:-1] if other.groups != newest.groups]
    if not differing or found.amount("GPU") is None:
        return found
    release, other = differing[-1]
    gpus = Budget(None, groups=tuple(other.groups)).amount("GPU")
    how = "the same in other placement groups" if gpus == found.amount("GPU") else f"{gpus:g} GPUs"
    doubt = f"counted as OpenRLHF {_GENERATIONS[-1]}; releases up to about {release} reserve {how}: name the release (pip openrlhf==…)"
    return msgspec.structs.replace(found, doubts=(*found.doubts, doubt))


def _from_python_file(command: TrainingCommand, path: str, text: str) -> Budget:
    """The budget of a fork whose own file assigns its counts (Open-Reasoner-Zero). With `colocate_all` all share the actor's GPUs."""
    values = read_assignments(text, command.env)
    values.setdefault("colocate_all_models", values.get("colocate_all", False))
    settings = Settings(command, values)
    settings.doubts[f"the counts are read from assignments in {path}, and grouped as OpenRLHF does"] = None
    if settings.switch("colocate_all_models"):
        actor = product(settings.count("actor_num_nodes"), settings.count("actor_num_gpus_per_node"))
        return settings.budget("OpenRLHF", [one_each("all models", actor)])
    return settings.budget("OpenRLHF", _Placement(settings, "0.5.9").groups)


def _values(words: Words) -> dict[str, object]:
    """The flags by their names before 0.10.2. A switch is on; a value is a text."""
    names = {f"--{new}": old for old, new in DOTTED.items()} | {f"--{old}": old for old in DOTTED}
    switches = [flag for flag, name in names.items() if name in _SWITCHES]
    return {names[flag]: value for flag, value in words.given(*switches).items() if flag in names}


def _misspelled(words: Words) -> Iterator[str]:
    known = [f"--{name}" for pair in DOTTED.items() for name in pair]
    for flag in words.flags:
        near = difflib.get_close_matches(flag, known, 1, 0.93)
        if near and near[0] != flag:
            yield f"no release of OpenRLHF has {flag} (is {near[0]} meant?): it is ignored here; a fork may read it"


class _Placement:
    """The groups that one release makes for a command."""

    def __init__(self, settings: Settings, release: str, *, is_box: bool = False) -> None:
        self.settings = settings
        self.release = Version(release)
        self.has_critic = settings.text("advantage_estimator", "gae") == "gae" and settings.value("critic_pretrain") != ""
        self.coefficient = _number(settings.value("init_kl_coef"), 0.01)
        keeps_negative = self.release < Version("0.7.1.post1")
        self.has_ref = not self.since("0.6.0") or (self.coefficient != 0 if keeps_negative else self.coefficient > 0)
        remote = settings.is_set("remote_rm_url", "agent_func_path")
        self.has_reward = not remote and (settings.is_set("reward_pretrain") or not is_box)
        self.engines = settings.count("vllm_num_engines", 0)
        self.tensor = settings.count("vllm_tensor_parallel_size", 1) if self.engines else 1
        self.groups = tuple(self._pack() if self.since("0.5.8") else self._spread())

    def since(self, release: str) -> bool:
        """Whether it is this release or a later one."""
        return self.release >= Version(release)

    def size(self, role: str) -> tuple[int | None, int | None]:
        """Nodes, and GPUs on each."""
        return self.settings.count(f"{role}_num_nodes", 1), self.settings.count(f"{role}_num_gpus_per_node", 8)

    def _pack(self) -> Iterator[Group]:
        everything = self.settings.switch("colocate_all_models")
        hybrid = everything and not self.settings.switch("async_train")
        apart = self.has_critic and self.settings.switch("colocate_critic_reward")
        late = ["critic"] * self.has_critic + ["reward"] * self.has_reward
        early = ["actor"] + ["ref"] * self.has_ref
        together = everything or self.settings.switch("colocate_actor_ref")
        if together:
            guests = [*early, *(late if everything and not apart else []), *(["vLLM"] if hybrid and self.engines else [])]
            yield one_each(" + ".join(guests), product(*self.size("actor")))
        if not hybrid:
            yield from self._engines()
        yield from (self._model(role) for role in ([] if together else early))
        if apart:
            yield one_each(" + ".join(late), product(*self.size("critic")))
        elif not everything:
            yield from (self._model(role) for role in late for _ in range(self._rewards() if role == "reward" else 1))

    def _spread(self) -> Iterator[Group]:
        rewards = ["reward"] * (self._rewards() if self.has_reward else 0)
        if self.settings.switch("colocate_actor_ref"):
            yield whole_nodes("actor + ref", *self.size("actor"), "STRICT_SPREAD")
        else:
            yield from (self._model("actor"), self._model("ref"))
        if self.has_critic and self.settings.switch("colocate_critic_reward"):
            yield whole_nodes(" + ".join(["critic", *rewards]), *self.size("critic"), "STRICT_SPREAD")
        else:
            yield from (self._model(role) for role in [*["critic"] * self.has_critic, *rewards])
        yield from self._engines()

    def _rewards(self) -> int:
        """The number of reward models: one since 0.6.3, before as many as are named."""
        return 1 if self.since("0.6.3") else len(self.settings.text("reward_pretrain").split(","))

    def _model(self, role: str) -> Group:
        """The group of a model. A single GPU on a node needs no group: its actor is placed alone."""
        nodes, gpus = self.size(role)
        if gpus == 1:
            return one_each(role, nodes, None)
        return one_each(role, product(nodes, gpus)) if self.since("0.5.8") else whole_nodes(role, nodes, gpus, "STRICT_SPREAD")

    def _engines(self) -> Iterator[Group]:
        """One group for all engines since 0.6.0.post3; before, one for each engine with more than one GPU."""
        if self.engines == 0:
            return
        if self.engines is None or self.tensor is None or self.since("0.6.0.post3"):
            yield one_each("vLLM", product(self.engines, self.tensor))
        elif self.tensor > 1:
            yield from node_groups("vLLM", self.engines, self.tensor, strategy="PACK")
        else:
            yield one_each("vLLM", self.engines, None, cpus=0.0 if self.since("0.5.8") else 1.0)


def _number(value: object, default: float) -> float:
    try:
        return default if isinstance(value, Gap) else float(str(value))
    except ValueError:
        return default


def _result(made: _Placement, name: str, dialect: str) -> Budget:
    found = made.settings.budget(name, made.groups, *_SHOWN, dialect=dialect, lines=tuple(_contradictions(made)))
    utilization = made.settings.spelled["vllm_gpu_memory_utilization"]
    if not made.engines or utilization in found.settings or not made.since("0.5.8"):
        return found
    default = "0.95" if made.since("0.6.4") else "0.9"
    return msgspec.structs.replace(found, settings={**found.settings, utilization: default})


def _contradictions(made: _Placement) -> Iterator[Line]:
    """Counts of GPUs that the release refuses, and GPUs that it reserves but does not use."""
    settings, flag = made.settings, made.settings.spelled
    everything, gpus = settings.switch("colocate_all_models"), product(*made.size("actor"))
    why = flag["colocate_all_models" if everything else "colocate_actor_ref"]
    is_compared = made.coefficient > 0 or not made.since("0.6.1")
    if is_compared and (everything or settings.switch("colocate_actor_ref")):
        yield from different_sizes(why, "actor", "ref", made.size("actor"), made.size("ref"))
    are_late_together = made.has_critic and settings.switch("colocate_critic_reward")
    if are_late_together and made.has_reward:
        yield from different_sizes(flag["colocate_critic_reward"], "critic", "reward", made.size("critic"), made.size("reward"))
    if made.has_reward and not settings.is_set("reward_pretrain"):
        yield Line("doubt", f"{product(*made.size('reward')) or 'Some'} GPUs are reserved for a reward model, and no flag names one")
    if not everything or not gpus:
        return
    for role in [*["critic"] * made.has_critic, *["reward"] * made.has_reward] if not are_late_together else []:
        if (world := product(*made.size(role))) and world > gpus:
            yield Line("never", f"With {why} {role} shares the actor's {gpus} GPUs, but asks for {world}")
    engines = product(made.engines, made.tensor)
    if settings.switch("async_train"):
        yield Line("doubt", f"With {flag['async_train']} vLLM gets its own GPUs, with or without {why}")
    elif engines and engines != gpus:
        sizes_told = f"{made.engines} engines × {made.tensor} = {engines}, but the actor has {gpus}"
        yield Line("never", f"With {why} vLLM needs exactly as many GPUs as the actor: {sizes_told}")
