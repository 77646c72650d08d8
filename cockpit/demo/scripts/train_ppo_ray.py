"""Imitates OpenRLHF's PPO run: a shared group for actor and reference, critic, reward, vLLM engines, a reward server."""

from __future__ import annotations

import argparse
import random
import time

import models
import ray
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


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


def start(flags: argparse.Namespace) -> list[ray.actor.ActorHandle]:
    """In OpenRLHF's order: each group is waited for before the next one is asked for."""
    shared = group(flags.actor, "actor-ref")
    actors = ranks(models.LLMRayActor, group(flags.engines, "vllm"), 1, "vllm")
    actors += ranks(models.PolicyModelActor, shared, 0.2, "actor")
    actors += ranks(models.ReferenceModelActor, shared, 0.2, "ref")
    actors += ranks(models.CriticModelActor, group(flags.critic, "critic"), 0.8, "critic")
    actors += ranks(models.RewardModelActor, group(flags.reward, "reward"), 0.8, "reward")
    actors.append(ray.remote(models.RemoteRewardServer).options(num_gpus=1, name="reward-server", max_restarts=-1).remote())
    actors.append(ray.remote(models.RolloutBuffer).options(name="rollout-buffer").remote())
    return actors


def main() -> None:
    ray.init(address="auto", log_to_driver=False)
    actors = start(arguments())
    ray.get([actor.ready.remote() for actor in actors[:-2]])
    step, reward = 0, 0.1
    while True:
        step, reward = step + 1, min(0.9, reward + random.uniform(-0.02, 0.03))
        kl, loss = random.uniform(0.01, 0.04), random.gauss(0, 0.05)
        print(f"\x1b[36mstep {step:5d}\x1b[0m  reward {reward:.3f}  kl {kl:.4f}  actor_loss {loss:+.4f}", flush=True)
        time.sleep(5)


if __name__ == "__main__":
    main()
