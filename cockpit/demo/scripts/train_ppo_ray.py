"""Imitates OpenRLHF's PPO run: a shared group for actor and reference, critic, reward, vLLM engines, a reward server."""

from __future__ import annotations

import argparse
import random
import time

import models
import ray
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

STEP_S = 2 * models.TURN_S
"""Seconds of a step: half of it is generation and scoring, half training."""


def group(gpus: int, name: str) -> PlacementGroup:
    bundles = placement_group([{"GPU": 1, "CPU": 1}] * gpus, strategy="PACK", name=name)
    ray.get(bundles.ready())
    return bundles


def ranks(model: type, bundles: PlacementGroup, share: float, name: str) -> list[ray.actor.ActorHandle]:
    """One actor of `model` in each bundle, with this share of its GPU."""
    return [
        ray.remote(model)
        .options(
            num_cpus=share,
            num_gpus=share,
            name=f"{name}-{rank}",
            scheduling_strategy=PlacementGroupSchedulingStrategy(bundles, placement_group_bundle_index=rank),
        )
        .remote()
        for rank in range(bundles.bundle_count)
    ]


def arguments() -> argparse.Namespace:
    flags = argparse.ArgumentParser()
    flags.add_argument("--actor.num_gpus_per_node", dest="actor", type=int, default=4)
    flags.add_argument("--critic.num_gpus_per_node", dest="critic", type=int, default=2)
    flags.add_argument("--reward.num_gpus_per_node", dest="reward", type=int, default=2)
    flags.add_argument("--vllm.num_engines", dest="engines", type=int, default=4)
    known, _ = flags.parse_known_args()
    return known


def start(flags: argparse.Namespace) -> dict[str, list[ray.actor.ActorHandle]]:
    """The actors of each model, in OpenRLHF's order: each group is waited for before the next one is asked for."""
    shared = group(flags.actor, "actor-ref")
    return {
        "vllm": ranks(models.LLMRayActor, group(flags.engines, "vllm"), 1, "vllm"),
        "actor": ranks(models.PolicyModelActor, shared, 0.2, "actor"),
        "ref": ranks(models.ReferenceModelActor, shared, 0.2, "ref"),
        "critic": ranks(models.CriticModelActor, group(flags.critic, "critic"), 0.8, "critic"),
        "reward": ranks(models.RewardModelActor, group(flags.reward, "reward"), 0.8, "reward"),
        "server": [ray.remote(models.RemoteRewardServer).options(num_gpus=1, name="reward-server", max_restarts=-1).remote()],
        "buffer": [ray.remote(models.RolloutBuffer).options(name="rollout-buffer").remote()],
    }


def call(actors: list[ray.actor.ActorHandle], method: str, until: float) -> None:
    """All of them run a method until about this POSIX time."""
    ray.get([getattr(actor, method).remote(until - random.uniform(0.0, 0.5)) for actor in actors])


def main() -> None:
    ray.init(address="auto", log_to_driver=False)
    models_of = start(arguments())
    trained = models_of["actor"] + models_of["critic"]
    ray.get([actor.ready.remote() for name, actors in models_of.items() if name not in ("server", "buffer") for actor in actors])
    step, reward = 0, 0.1
    begin = (time.time() // STEP_S + 1) * STEP_S  # when the GPUs begin to be busy with generation
    while True:
        time.sleep(max(0.0, begin - time.time()))
        call(models_of["vllm"], "generate", begin + 0.4 * STEP_S)
        call(models_of["ref"] + models_of["reward"], "execute_batch", begin + 0.5 * STEP_S)
        call(trained, "fit", begin + 0.9 * STEP_S)
        call(models_of["actor"], "broadcast_to_vllm", begin + STEP_S)
        step, reward = step + 1, min(0.9, reward + random.uniform(-0.02, 0.03))
        kl, loss = round(random.uniform(0.01, 0.04), 4), round(random.gauss(0, 0.05), 4)
        numbers = {"reward": round(reward, 3), "kl": kl, "policy_loss": loss, "timing/step_total": STEP_S}
        print(f"Global step {step}: {numbers}", flush=True)
        begin += STEP_S


if __name__ == "__main__":
    main()
