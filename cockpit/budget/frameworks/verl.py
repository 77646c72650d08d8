"""Computes what veRL, its forks, and other programs with `trainer.nnodes` and `trainer.n_gpus_per_node` ask Ray for."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

import msgspec
from packaging.version import Version

from cockpit.budget.command import Gap, Settings, TrainingCommand, Values, flatten, node_groups, product, whole, without_gpu
from cockpit.budget.config_files import Tree, compose
from cockpit.budget.demand import Budget, Group, Line

_POOL = re.compile(r"\[\s*(?:self\.)?(?:config|cfg)\.trainer\.n_gpus_per_node\s*\]\s*\*\s*(?:self\.)?(?:config|cfg)\.trainer\.nnodes")
"""The line of a main program that builds the pool which all models share."""
_SPEC = re.compile(r"resource_pool_spec\s*(?:\[|=\s*\{)")
_MAIN = re.compile(r"hydra\.main\(([^)]*)\)")
_PROGRAM = re.compile(r"(?:.*\.)?(?:verl(?:_tool)?|recipe)\.(?:\w+\.)*(?!main_eval$)(?:\w*main\w*|sft_trainer_ray)")
_OFFICIAL = re.compile(r"verl\.(?:trainer|experimental)\.(?:\w+\.)*\w+|recipe\.(?:\w+\.)+\w*main\w*")
_COUNT = re.compile(r"[+]{0,2}trainer\.(?:nnodes|n_gpus_per_node)=.*", re.DOTALL)
_ROLLOUT, _ACTOR, _REWARD = "actor_rollout_ref.rollout", "actor_rollout_ref.actor", "reward.reward_model"
_SECTIONS = re.compile(
    r"data|actor_rollout_ref|critic|reward(_model|_models|_manager)?|algorithm|trainer|custom_reward_function|global_profiler|transfer_queue|"
    r"ray_(kwargs|init)|distillation|skip|hydra|rollout|async_training|sandbox_fusion|model(_engine)?|engine|optim|checkpoint|teacher|profiler|"
    r"rllm|ray"
)
"""Sections whose GPUs are known from a release, or that reserve none."""
_SHIPPED = re.compile(
    r"(?:.*/)?(?:_generated_)?\w*ppo(?:_megatron|_torchtitan|_veomni)?_trainer\.yaml|(?:.*/)?(?:generation|dapo_\w*trainer)\.yaml"
)
"""Configurations whose defaults for both counts are those of the trainer, 1 × 8."""
_DEFAULTS: Values = {
    "trainer.nnodes": 1,
    "trainer.n_gpus_per_node": 8,
    f"{_REWARD}.n_gpus_per_node": 8,
    "distillation.n_gpus_per_node": 8,
    f"{_ROLLOUT}.gpu_memory_utilization": 0.5,
}
_ROLLOUT_NODE: Values = {"rollout.nnodes": 1, "rollout.n_gpus_per_node": 8}
_CONFIGURATIONS: Mapping[str, tuple[str, Values]] = {
    "one_step_off": ("one_step_off_ppo_trainer", _ROLLOUT_NODE),
    "fully_async": ("fully_async_ppo_trainer", _ROLLOUT_NODE),
    "dapo": ("dapo_trainer", {}),
    "main_gkd": ("ppo_trainer", {"trainer.n_gpus_per_node": 4, "rollout.nnodes": 1, "rollout.n_gpus_per_node": 4}),
    "main_generation": ("generation", {}),
    "sft_trainer_ray": ("sft_trainer_engine", {"trainer.n_gpus_per_node": 1}),
    "": ("ppo_trainer", {}),
}
"""By a part of a program's name: its configuration, and the settings in which that differs from the trainer's."""
_SIMPLERL = ("trainer.remove_clip", "trainer.remove_previous_ckpt", f"{_ROLLOUT}.micro_rollout_batch_size")
"""Keys of simpleRL-reason v1, a fork of 0.2."""
_ONLY_PRINT = ("--cfg", "-c", "--help", "-h", "--info", "--hydra-help", "--version")
_PARALLEL = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
_SHOWN = (
    f"{_ROLLOUT}.gpu_memory_utilization",
    *(f"{_ACTOR}.{section}.{name}_offload" for section in ("fsdp_config", "megatron") for name in ("param", "optimizer")),
    *("actor_rollout_ref.ref.fsdp_config.param_offload", "trainer.default_local_dir"),
)


def is_mine(command: TrainingCommand) -> bool:
    """Whether it is one of veRL's programs, a program with its counts, or one whose own file builds its pool."""
    if _PROGRAM.fullmatch(command.module) or any(_COUNT.fullmatch(word) for word in command.argv):
        return True
    found = command.source()
    return found is not None and "hydra" in found[1] and _POOL.search(found[1]) is not None


def budget_of(command: TrainingCommand) -> Budget:
    """The pools of this kind of program. Counts in the command overwrite those of its configuration."""
    words, source = command.words, command.source()
    if printing := next((flag for flag in _ONLY_PRINT if flag in words.flags), None):
        return Budget("veRL", unread=(f"with {printing} the command only prints something: nothing is trained",))
    config, open_because = _configuration(command, source)
    settings = Settings(command, words.values, config, open_because=open_because, defaults={**_DEFAULTS, **_shipped(command.module)[1]})
    release = _release(command)
    settings.doubts |= dict.fromkeys(_doubts(command, source))
    is_simplerl = any(key in words.values for key in _SIMPLERL)
    maker = _Pools(settings, "0.2" if is_simplerl else release)
    groups = tuple(maker.groups(command.module))
    lines = list(_contradictions(settings, maker, command.module))
    if settings.doubts or not _OFFICIAL.fullmatch(command.module):  # a fork may accept what a release refuses
        lines = [msgspec.structs.replace(line, level="doubt") for line in lines]
    if maker.release is None and groups:
        lines.append(Line("fine", "the veRL release is not pinned: it reserves 3 CPUs for each GPU since 0.7.0, 1 before"))
    name, dialect = ("simpleRL-reason", "v1") if is_simplerl else ("veRL", release)
    return settings.budget(name, groups, *_SHOWN, dialect=dialect, lines=lines)


def _release(command: TrainingCommand) -> str | None:
    """The release, without the mark of a development version."""
    path = command.find("verl/version/version")
    found = command.release("verl", command.read(path or "verl/version/version"))
    return found.base_version if found else None


def _configuration(command: TrainingCommand, source: tuple[str, str] | None) -> tuple[Tree, str | None]:
    """What the program's YAML files set; and, if one can't be read, a clause that names it: it may set a missing count."""
    words = command.words
    if words.loose:
        return {}, None
    main = _MAIN.search(source[1]) if source else None
    given = dict(re.findall(r"(config_path|config_name)\s*=\s*['\"]([^'\"]*)", main[1])) if main else {}
    name = words.flag("--config-name", "-cn") or given.get("config_name") or _shipped(command.module)[0]
    folder = words.flag("--config-path", "-cp") or given.get("config_path") or "config"
    beside = posixpath.dirname(source[0] if source else command.module.replace(".", "/"))
    if folder.startswith("pkg://"):
        folder = folder.removeprefix("pkg://").replace(".", "/")
    elif not folder.startswith(("/", "\0")):
        folder = posixpath.join(beside, folder)
    folder = words.flag("--config-dir", "-cd") or folder
    tree, unread = compose(command.read, folder, name)
    if not tree and (near := command.find(posixpath.normpath(posixpath.join(folder, f"{name}.yaml")).lstrip("./"))):
        tree, unread = compose(command.read, posixpath.dirname(near), posixpath.basename(near))
    gone = next((each for each in unread if not _SHIPPED.fullmatch(each) and ("/config/" not in each or each == unread[0])), None)
    flat = {key: value for key, value in flatten(tree).items() if value is not None}
    if not tree and (gone is None or (_OFFICIAL.fullmatch(command.module) and name == _shipped(command.module)[0])):
        return {}, None
    return flat, None if gone is None else f"and the configuration {gone.replace(chr(0), '…')} can't be read"


def _shipped(module: str) -> tuple[str, Values]:
    return next(found for part, found in _CONFIGURATIONS.items() if part in module)


def _doubts(command: TrainingCommand, source: tuple[str, str] | None) -> Iterator[str]:
    """Reasons why the command may reserve more or other groups than one pool."""
    words, (path, text) = command.words, source or ("", "")
    if words.stray:
        yield f"`{words.stray[0]}` is not an override: Hydra rejects the command as written"
    if not _OFFICIAL.fullmatch(command.module) and not _POOL.search(text):
        yield f"{command.program.replace(chr(0), '…')} is not a program of veRL: counted by trainer.nnodes × trainer.n_gpus_per_node"
    if len(_SPEC.findall(text)) > 1 and "reward_pool" not in text:
        yield f"{path} may build more than one pool of GPUs: counted as one"
    switched = dict.fromkeys(key.partition(".")[0] for key, value in words.values.items() if "." in key and _switches_on(key, value))
    if strange := [section for section in switched if not _SECTIONS.fullmatch(section)]:
        yield f"no release of veRL has the section {', '.join(strange)}: what it switches on may need GPUs of its own"


def _switches_on(key: str, value: object) -> bool:
    last = key.rpartition(".")[2]
    return (value is True and re.match(r"(if_)?(use|enable|is)", last) is not None) or last in ("nnodes", "n_gpus_per_node", "num_gpus")


class _Pools:
    """The groups that one release makes for a command; the newest one, if the release is unknown."""

    def __init__(self, settings: Settings, release: str | None) -> None:
        self.settings = settings
        self.release = release
        device = settings.text("trainer.device", "cuda")
        self.device = "NPU" if device == "npu" else "GPU"
        self.cpus = 3.0 if self.since("0.7.0") else 1.0

    def since(self, release: str) -> bool:
        """Whether it is this release or a later one."""
        return self.release is None or Version(self.release) >= Version(release)

    def groups(self, module: str) -> Iterator[Group]:
        """All groups, in the order in which they are made. If the release is unknown, their CPUs are too."""
        for group in self._by_program(module):
            yield msgspec.structs.replace(group, unsure=("CPU",)) if self.release is None else group

    def _by_program(self, module: str) -> Iterator[Group]:
        settings = self.settings
        is_apart = "one_step_off" in module or "fully_async" in module
        is_apart = is_apart or settings.switch("rllm.async_training.enable") or settings.switch("async_training.enable")
        if module.endswith("main_ppo_split"):
            yield from self._split()
        elif module.endswith("main_generation_server"):
            yield from self._replicas("trainer")
        elif module.endswith("main_generation"):
            yield from self._pool("rollout", "trainer", 10.0)
        elif module.endswith("sft_trainer_ray"):
            yield from self._pool("model", "trainer", 10.0)
        elif module.endswith("main_gkd"):
            yield from (*self._pool("rollout", "rollout"), *self._pool("actor", "trainer"))
        elif is_apart:
            cpus = 24.0 if "fully_async" in module else 10.0 if self.since("0.7.0") else 1.0
            yield without_gpu("TaskRunner", cpus=cpus)
            yield from self._pool(self._models(), "trainer")
            yield from self._replicas("rollout") if self.since("0.7.1") else self._pool("rollout", "rollout")
        else:
            yield from self._one_pool()

    def _one_pool(self) -> Iterator[Group]:
        settings = self.settings
        is_v1 = self.release is not None and self.since("0.9.0") and settings.switch("trainer.use_v1", default=True)
        if is_v1:
            units = whole(settings.value("transfer_queue.backend.SimpleStorage.num_data_storage_units"))
            yield without_gpu("TransferQueue", 1 + (units or 8))
        elif not (self.release is not None and self.since("0.9.0")):
            yield without_gpu("TaskRunner")
        yield from self._pool(self._models().replace("actor", "actor + rollout", 1), "trainer")
        base = next((base for base in (_REWARD, "reward_model") if settings.switch(f"{base}.enable_resource_pool")), None)
        if base and self.since("0.6.0") and settings.switch(f"{base}.enable", default=True):
            counts = base if settings.value(f"{base}.nnodes") is not Gap.ABSENT else _REWARD
            yield from self._pool("reward model", counts)
        if self.since("0.8.0") and settings.switch("distillation.enabled"):
            yield from self._pool("teacher", "distillation")
        if settings.text("trainer.v1.trainer_mode") == "separate_async" and (is_v1 or self.release is None):
            yield from self._replicas(_ROLLOUT)

    def _models(self) -> str:
        estimator, critic = self.settings.text("algorithm.adv_estimator", "gae"), self.settings.value("critic.enable")
        has_critic = critic if isinstance(critic, bool) else estimator == "gae"
        has_ref = self.settings.switch("algorithm.use_kl_in_reward") or self.settings.switch(f"{_ACTOR}.use_kl_loss")
        return " + ".join(["actor", *["ref"] * (has_ref or not self.since("0.4.0")), *["critic"] * has_critic])

    def counts(self, base: str) -> tuple[int | None, int | None]:
        """The nodes of a pool, and the GPUs on each."""
        is_trainers = base == _ROLLOUT and self.settings.value(f"{base}.n_gpus_per_node") is Gap.ABSENT
        nodes = self.settings.count(f"{base}.nnodes")
        return nodes, self.settings.count("trainer.n_gpus_per_node" if is_trainers else f"{base}.n_gpus_per_node")

    def _pool(self, name: str, base: str, cpus: float | None = None) -> tuple[Group, ...]:
        return node_groups(name, *self.counts(base), cpus or self.cpus, device=self.device)

    def engine(self) -> int | None:
        """The GPUs of one rollout engine."""
        sizes = [self.settings.value(f"{_ROLLOUT}.{name}") for name in _PARALLEL]
        numbers = [default if size is Gap.ABSENT else whole(size) for size, default in zip(sizes, (2, 1, 1), strict=True)]
        return product(*numbers)

    def _replicas(self, base: str) -> tuple[Group, ...]:
        """The groups of engines with GPUs of their own: each engine makes one on each of its nodes."""
        (nodes, gpus), world = self.counts(base), self.engine()
        if not nodes or not gpus or not world or min(nodes, gpus, world) < 1:
            self.settings.missing.setdefault(f"{_ROLLOUT} has no known number of GPUs for an engine", None)
            return (Group("rollout", None, "PACK"),)
        per_node = min(gpus, world)
        engines = nodes * gpus // world
        return node_groups(
            "rollout", engines * (world // per_node), per_node, 2.0 if self.since("0.8.0") else self.cpus, "PACK", self.device
        )

    def _split(self) -> Iterator[Group]:
        """The groups of actor and critic where they are separate: each has half of each node, or half of the nodes."""
        nodes, gpus = self.counts("trainer")
        if nodes is not None and gpus is not None:
            nodes, gpus = (nodes // 2, gpus) if nodes // 2 or gpus < 2 else (nodes, gpus // 2)
        for name in ("actor + rollout + ref", "critic"):
            yield from node_groups(name, nodes, gpus, self.cpus, device=self.device)


def _contradictions(settings: Settings, pools: _Pools, module: str) -> Iterator[Line]:
    """Counts of GPUs that the release refuses."""
    nodes, each = (whole(settings.value(f"trainer.{name}")) for name in ("nnodes", "n_gpus_per_node"))
    world, size = pools.engine(), f"{_ROLLOUT}.tensor_model_parallel_size"
    if not nodes or not each or not world or min(nodes, each, world) < 1 or re.search(r"generation|sft|gkd|split|async|one_step", module):
        return
    gpus = nodes * each
    if gpus % world and settings.is_set(size):
        counts = f"trainer has {nodes} × {each} = {gpus} GPUs: not divisible"
        yield Line("never", f"An engine needs {world} GPUs ({size} and related keys), but {counts}")
    train, number = (whole(settings.value(key)) for key in ("data.train_batch_size", f"{_ROLLOUT}.n"))
    is_fsdp = settings.text(f"{_ACTOR}.strategy", "fsdp") in ("fsdp", "fsdp2")
    is_dynamic = settings.switch(f"{_ACTOR}.use_dynamic_bsz") and pools.since("0.6.0")
    if train and number and is_fsdp and not is_dynamic and train * number % gpus:
        samples = f"data.train_batch_size {train} × {_ROLLOUT}.n {number} = {train * number}"
        yield Line("never", f"{samples} is not divisible by {gpus} GPUs")
