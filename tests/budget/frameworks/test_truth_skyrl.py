"""Budgets of SkyRL commands beside the groups that the releases themselves make of them (`make truth`)."""

from __future__ import annotations

import random
import shlex

import pytest

from tests.budget.frameworks.commands import never, read
from tests.budget.frameworks.releases import asked_here, asked_there, truth

pytestmark = [pytest.mark.truth, pytest.mark.timeout(300)]

PUBLISHED = ("0.1.0", "0.2.0", "0.3.0")
COMMANDS = 40
LEAST_BUILT = 20
"""Of a release's commands, so many at least are built to the end: it refuses the others itself."""
CONNECTOR = "engine_init_kwargs.kv_transfer_config.kv_connector=NixlConnector"
SENSIBLE = ("trainer.logger=console", *(f"trainer.{name}_batch_size=960" for name in ("train", "policy_mini", "critic_mini")))
"""Without these words a release refuses most commands for reasons that cost no GPU."""
PLACE, ENGINE, KL = "trainer.placement", "generator.inference_engine", "trainer.algorithm"


class Writer:
    """Writes commands at random, most of them sensible."""

    def __init__(self, release: str) -> None:
        self.random = random.Random(release)
        self.has_servers = release != "0.1.0"
        self.words: list[str] = []

    def put(self, chance: float, key: str, value: object) -> None:
        if self.random.random() < chance:
            self.words.append(f"{key}={value}")

    def command(self) -> list[str]:
        pick, self.words = self.random.choice, list(SENSIBLE)
        nodes, gpus, tensor, pipeline = pick([1, 1, 2, 3]), pick([1, 2, 4]), pick([1, 2]), pick([1, 1, 2])
        is_together = self.random.random() < 0.4
        if not is_together or self.random.random() < 0.5:
            self.put(1, f"{PLACE}.colocate_all", pick(["true", "True"]) if is_together else "false")
        if is_together:
            gpus = 4 * gpus
        self.put(0.5, f"{PLACE}.colocate_policy_ref", pick(["true", "false"]))
        for role in ("policy", "ref", "critic"):
            is_same = self.random.random() < 0.9
            self.put(0.95, f"{PLACE}.{role}_num_nodes", nodes if is_same else pick([1, 2]))
            self.put(0.95, f"{PLACE}.{role}_num_gpus_per_node", gpus if is_same else pick([1, 2]))
        engines = nodes * gpus // tensor // pipeline if is_together else pick([1, 2, 3])
        self.put(1, f"{ENGINE}.num_engines", engines if self.random.random() < 0.9 else engines + 1)
        self.put(1 if tensor > 1 else 0.5, f"{ENGINE}.tensor_parallel_size", tensor)
        self.put(1 if pipeline > 1 else 0.5, f"{ENGINE}.pipeline_parallel_size", pipeline)
        self.put(0.1, f"{ENGINE}.data_parallel_size", 2)
        self.put(0.6, f"{KL}.use_kl_loss", pick(["true", "false"]))
        if f"{KL}.use_kl_loss=false" in self.words:
            self.put(0.3, f"{KL}.use_kl_in_reward", "true")
        self.put(0.3, "trainer.critic.model.path", "m")
        if self.has_servers and engines > 1 and self.random.random() < 0.3:
            self.words += [f"{ENGINE}.enable_pd=true", f"{ENGINE}.num_prefill=1", f"{ENGINE}.{CONNECTOR}"]
        if self.has_servers and not is_together:
            self.put(0.15, f"{ENGINE}.external_proxy_url", "http://proxy")
            self.put(0.15, f"{ENGINE}.external_server_urls", "[http://one,http://two]")
        return self.words


@pytest.mark.parametrize("release", PUBLISHED)
def test_a_release_makes_the_groups_that_the_budget_says(release: str):
    writer = Writer(release)
    commands = [writer.command() for _ in range(COMMANDS)]
    built = 0
    for words, real in zip(commands, truth("truth_skyrl.py", "skyrl", release, commands), strict=True):
        budget = read("skyrl.train.entrypoints.main_base", shlex.join(words), pins={"skyrl": release})
        if real["stopped"] is not None:
            assert bool(never(budget)) == ("must be the same" in real["stopped"]), (words, real["stopped"])
            continue
        built += 1
        assert (asked_here(budget), never(budget)) == (asked_there(real), []), words
        anywhere = read("skyrl.train.entrypoints.main_base", shlex.join(words))
        assert anywhere.gpus == budget.gpus or anywhere.mark != "firm", words
    assert built >= LEAST_BUILT
