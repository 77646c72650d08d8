"""Which flags of a framework say how many GPUs it takes."""

from __future__ import annotations

from cockpit.budget import Budget


def knobs(budget: Budget) -> str | None:
    """By the names that this command's dialect has for them; `None` where none are known."""
    match budget.framework:
        case "OpenRLHF" if any(key.startswith("vllm.") or ".num_gpus_per_node" in key for key in budget.settings):
            return "--actor.num_gpus_per_node, --vllm.num_engines, or share them with --train.colocate_all"
        case "OpenRLHF" | "simpleRL-reason" if any("=" not in key and "trainer." not in key for key in budget.settings):
            return "--actor_num_gpus_per_node, --vllm_num_engines, or share them with --colocate_all_models"
        case "veRL" | "simpleRL-reason":
            return "trainer.n_gpus_per_node and trainer.nnodes"
        case "Ray":
            return "entrypoint_num_gpus and needs"
        case _:
            return None
