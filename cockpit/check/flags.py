"""Which flags of a framework say how many GPUs a group takes."""

from __future__ import annotations

from cockpit.budget import Budget

ENGINES = "vLLM"
HYDRA = "trainer.n_gpus_per_node and trainer.nnodes"


def knobs(budget: Budget, group: str | None) -> str | None:
    """By the names that this command's dialect has for them, of all groups where none is named; `None` where they are not known."""
    flags = [key for key in budget.settings if key.startswith("--")]
    match budget.framework:
        case "OpenRLHF" | "simpleRL-reason" if flags:
            return _name_dotted(group) if any("." in key for key in flags) else _name_undotted(group)
        case "veRL" | "simpleRL-reason":
            return HYDRA
        case "Ray":
            return "needs, entrypoint_num_gpus"
        case _:
            return None


def _name_dotted(group: str | None) -> str:
    """OpenRLHF from 0.10.2 on."""
    if group == ENGINES:
        return "--vllm.num_engines, --vllm.tensor_parallel_size"
    return f"--{_model(group)}.num_gpus_per_node" if group else "--actor.num_gpus_per_node, --vllm.num_engines, or --train.colocate_all"


def _name_undotted(group: str | None) -> str:
    """Before that."""
    if group == ENGINES:
        return "--vllm_num_engines, --vllm_tensor_parallel_size"
    return f"--{_model(group)}_num_gpus_per_node" if group else "--actor_num_gpus_per_node, --vllm_num_engines, or --colocate_all_models"


def _model(group: str | None) -> str:
    """The first of those that share it."""
    return (group or "").partition(" + ")[0]
