"""Budgets of OpenRLHF commands beside what the releases themselves parse, reserve and refuse (`make truth`)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cockpit.budget import Budget
from cockpit.budget.frameworks.openrlhf import openrlhf
from cockpit.budget.frameworks.openrlhf.args import flags, number, parse
from cockpit.budget.frameworks.openrlhf.flags import NAMES, RELEASES
from cockpit.budget.scripts import commands as commands_of
from cockpit.presets.preset import read_preset

pytestmark = [pytest.mark.truth, pytest.mark.timeout(600)]

PUBLISHED = (
    "0.3.8", "0.4.5", "0.5.2.post1", "0.5.7", "0.5.9.post1", "0.6.0.post3", "0.6.3.post2", "0.7.0.post1",
    "0.7.5", "0.8.5", "0.9.1.post1", "0.9.10", "0.10.1.post2", "0.10.4", "0.11.2",
)  # fmt: skip
COMMANDS = 80
DOTTED = {old: new for new, old in NAMES.items()}
UNHEARD_OF = "--no_such_flag"
"""A flag that no release has."""
NOT_ASSERTED_BEFORE_MODELS = ("data-parallel processes", "shares the actor's")
"""What fails only when DeepSpeed, Ray or a model starts, which here they don't."""

TOLD_BY_ITSELF = "AssertionError"
"""What it asserts while it reads its flags ends it in its first seconds, and need not be told before."""


def sources(release: str) -> Path:
    """The release from a package index, without what it depends on."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cockpit" / f"truth-openrlhf-{release}"
    if not (cache / "openrlhf").exists():
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(cache), f"openrlhf=={release}"]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no index gives openrlhf {release} to this Python: {done.stderr.strip().splitlines()[-1]}")
    return cache


def truth(release: str, commands: list[list[str]]) -> list[dict[str, Any]]:
    script = [sys.executable, str(Path(__file__).with_name("truth_openrlhf.py")), str(sources(release)), "openrlhf/cli/train_ppo_ray.py"]
    done = subprocess.run(script, input=json.dumps(commands), capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


class Writer:
    """Writes commands at random, most of them sensible, in one release's flags."""

    def __init__(self, release: str, seed: int) -> None:
        self.random = random.Random(f"{release} {seed}")
        self.known = dict(flags(release))
        self.dotted = number(release) >= number("0.10.2")
        self.words: list[str] = []

    def put(self, chance: float, name: str, *values: object) -> None:
        flag = DOTTED.get(name, name) if self.dotted else name
        if flag in self.known and self.random.random() < chance:
            joined = len(values) == 1 and self.random.random() < 0.3
            self.words += [f"--{flag}={values[0]}"] if joined else [f"--{flag}", *map(str, values)]

    def pick(self, *values: Any) -> Any:
        return self.random.choice(values)

    def command(self) -> list[str]:
        self.words = []
        nodes, gpus, tensor = self.pick(1, 1, 2), self.pick(1, 2, 4, 8), self.pick(1, 1, 2, 4)
        for role in ("actor", "ref", "critic", "reward"):
            same = self.random.random() < 0.75
            self.put(0.8, f"{role}_num_nodes", nodes if same else self.pick(1, 2, 3))
            self.put(0.8, f"{role}_num_gpus_per_node", gpus if same else self.pick(1, 2, 3, 8))
        self.put(0.95, "vllm_num_engines", self.pick(max(1, nodes * gpus // tensor), nodes * gpus, 1, 2, 0))
        self.put(0.9, "vllm_tensor_parallel_size", tensor)
        self._switches()
        self._models()
        self._batches()
        self._mistakes()
        return self.words

    def _switches(self) -> None:
        for name in ("colocate_actor_ref", "colocate_critic_reward", "colocate_all_models", "vllm_enable_sleep", "async_train", "bf16"):
            self.put(0.3, name)
        for name in ("partial_rollout", "dynamic_filtering", "use_dynamic_batch", "packing_samples", "adam_offload"):
            self.put(0.1, name)
        for name, kind in self.random.sample(sorted(self.known.items()), 3):
            self.words += [f"--{name}"] if kind.startswith("flag") else []

    def _models(self) -> None:
        self.put(1, "pretrain", "m")
        self.put(0.8, "reward_pretrain", self.pick("r", "r", "r,s"))
        self.put(0.2, "critic_pretrain", self.pick("c", "c", ""))
        self.put(0.3, "remote_rm_url", self.pick("http://a", "f.py", "http://a,http://b"))
        self.put(0.1, "agent_func_path", "a.py")
        self.put(0.5, "init_kl_coef", self.pick("0", "0.0", "1e-3", "0.01", "-0.1"))
        kind = self.known.get("advantage_estimator") or self.known.get("algo.advantage.estimator")
        if kind:
            self.put(0.6, "advantage_estimator", self.pick(*kind[kind.index("{") + 1 : kind.index("}")].split("|")))

    def _batches(self) -> None:
        self.put(0.7, "n_samples_per_prompt", self.pick(1, 4, 8))
        self.put(0.5, "rollout_batch_size", self.pick(8, 16, 128, 1024))
        self.put(0.5, "micro_rollout_batch_size", self.pick(1, 4, 16))
        self.put(0.5, "train_batch_size", self.pick(16, 128))
        self.put(0.2, "ring_attn_size", self.pick(1, 2))
        self.put(0.1, "ds_tensor_parallel_size", self.pick(1, 2))
        self.put(0.3, "zero_stage", 3)
        self.put(0.1, "vllm_generate_batch_size", 2048)
        self.put(0.05, "eval_dataset", "d")
        self.put(0.05, "max_images_per_prompt", 1)

    def _mistakes(self) -> None:
        """Shortened and unknown flags, stray words, and values that are none."""
        nodes = f"--{DOTTED['actor_num_nodes'] if self.dotted else 'actor_num_nodes'}"
        kind = self.random.random()
        whole = [place for place, word in enumerate(self.words) if word.startswith("--") and "=" not in word]
        if kind < 0.15 and whole:
            place = self.pick(*whole)
            self.words[place] = self.words[place][: self.random.randrange(6, 30)]
        elif kind < 0.3:
            self.words += self.pick(["stray"], [nodes, "two"], [nodes], [nodes, "1", nodes, "2"])
        elif kind < 0.4:
            place = self.pick(*whole, len(self.words))
            self.words[place:place] = self.pick([UNHEARD_OF], [UNHEARD_OF, "3"], [f"{UNHEARD_OF}=3"], [UNHEARD_OF, "a", "b"])


def asked_here(budget: Budget) -> list[tuple[str | None, list[dict[str, float]]]] | None:
    if budget.groups is None:
        return None
    found: list[tuple[str | None, list[dict[str, float]]]] = []
    for group in budget.groups:
        shapes = [dict(shape) for shape, times in group.bundles or () for _ in range(times)]
        found += [(None, [shape]) for shape in shapes] if group.strategy is None else [(group.strategy, shapes)]
    return found


def asked_there(real: dict[str, Any]) -> list[tuple[str | None, list[dict[str, float]]]]:
    return [
        (ask["strategy"], [{name: float(size) for name, size in shape.items() if size} for shape in ask["bundles"]])
        for ask in real["asked"]
    ]


def texts(budget: Budget, level: str) -> list[str]:
    return [line.text for line in budget.lines if line.level == level]


def without_unheard_of(words: list[str]) -> list[str]:
    """Neither that flag, nor what stands behind it up to the next one."""
    flag, rest = "", []
    for word in words:
        flag = word if word.startswith("--") else flag
        rest += [] if flag.startswith(UNHEARD_OF) else [word]
    return rest


@pytest.mark.parametrize("release", PUBLISHED)
def test_groups_and_refusals_are_the_releases_own(release: str):
    writer = Writer(release, 1)
    commands = [writer.command() for _ in range(COMMANDS)]
    kinds = set()
    for words, real in zip(commands, truth(release, commands), strict=True):
        budget = openrlhf(words, release=release)
        never = texts(budget, "never")
        if real["stopped"] == "parser":
            assert never or budget.unread or words != without_unheard_of(words), words
            assert budget.groups is None or words != without_unheard_of(words), words
        elif real["stopped"]:
            assert never or real["stopped"].startswith(TOLD_BY_ITSELF), (words, real["stopped"])
        else:
            assert asked_here(budget) == asked_there(real), words
            assert not [text for text in never if not any(late in text for late in NOT_ASSERTED_BEFORE_MODELS)], words
        kinds.add(real["stopped"] and real["stopped"].partition(":")[0])
    assert {None, "parser"} <= kinds, "the commands were no test"


@pytest.mark.parametrize("release", PUBLISHED)
def test_beside_a_flag_that_no_release_has_groups_are_the_releases_own_and_in_doubt(release: str):
    """They are counted for a fork that reads it; the release itself starts nothing."""
    writer = Writer(release, 1)
    commands = [words for _ in range(4 * COMMANDS) if (words := writer.command()) != without_unheard_of(words)]
    counted = 0
    for words, real, bare in zip(commands, truth(release, commands), truth(release, [*map(without_unheard_of, commands)]), strict=True):
        assert real["stopped"] == "parser"
        for budget in (openrlhf(words, release=release), openrlhf(words, installed=release)):
            if budget.groups is not None:
                assert [text for text in texts(budget, "doubt") if text.startswith(UNHEARD_OF) and "nothing starts. The" in text], words
            if bare["stopped"] is None:
                assert asked_here(budget) == asked_there(bare), words
                counted += 1
    assert counted


@pytest.mark.parametrize("release", PUBLISHED)
def test_where_nobody_says_which_release_it_is_another_number_is_never_without_a_doubt(release: str):
    """But where this release would end later: then no job that runs is this one's."""
    writer = Writer(release, 1)
    commands = [writer.command() for _ in range(COMMANDS)]
    for words, real in zip(commands, truth(release, commands), strict=True):
        if real["stopped"] is None and not texts(openrlhf(words, release=release), "never"):
            budget = openrlhf(words)
            assert asked_here(budget) == asked_there(real) or budget.unread or texts(budget, "doubt"), words


@pytest.mark.parametrize("release", PUBLISHED)
def test_values_are_what_the_releases_own_parser_says(release: str):
    writer = Writer(release, 2)
    commands = [writer.command() for _ in range(COMMANDS // 2)]
    for words, real in zip(commands, truth(release, commands), strict=True):
        if not real["said"]:
            continue
        asked = parse(release, words)
        for name in ("actor_num_nodes", "critic_num_gpus_per_node", "vllm_num_engines", "init_kl_coef", "rollout_batch_size", "pretrain"):
            theirs = real["said"].get(asked.flag(name)[2:])
            assert asked(name) == theirs, (name, words)


@pytest.mark.parametrize("release", PUBLISHED)
def test_every_flag_of_the_release_is_known_with_its_kind(release: str):
    """Each flag alone: both take it, or both refuse it."""
    names = sorted({name for known in RELEASES for name, _ in flags(known)})
    commands = [[f"--{name}"] for name in names] + [[f"--{name}", "1"] for name in names] + [[f"--{name}", "1", "2"] for name in names]
    for words, real in zip(commands, truth(release, commands), strict=True):
        try:
            parse(release, words)
        except ValueError:
            assert real["stopped"] == "parser", words
        else:
            assert real["stopped"] != "parser", words


SHIPPED = sorted((Path(__file__).parents[3] / "cockpit" / "presets" / "shipped").glob("openrlhf*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
@pytest.mark.parametrize("release", [release for release in PUBLISHED if number(release) >= number("0.10.2")])
def test_a_preset_that_ships_is_taken_and_reserves_what_its_budget_says(path: Path, release: str):
    job = read_preset(path).job
    assert job
    (command,) = commands_of(job.entrypoint, env={}, read=lambda _: None).commands
    words = list(command.argv[command.argv.index("openrlhf.cli.train_ppo_ray") + 1 :])
    (real,) = truth(release, [words])
    assert real["stopped"] is None
    assert asked_here(openrlhf(words, release=release)) == asked_there(real)
    assert asked_here(openrlhf(words)) == asked_there(real)
