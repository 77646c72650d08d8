"""Runs a second training job: the GPUs that it needs are held by the first run, or do not exist."""

from __future__ import annotations

import time

import models
import ray
from ray.util.placement_group import placement_group

SPARE = 3
"""GPUs that the first run leaves."""


def main() -> None:
    ray.init(address="auto", log_to_driver=False)
    while ray.available_resources().get("GPU", 0) > SPARE:  # until the first run has its GPUs
        time.sleep(1)
    placement_group([{"GPU": 16, "CPU": 1}], strategy="PACK", name="tp16-engine")
    model = placement_group([{"GPU": 1, "CPU": 1}] * 8, strategy="STRICT_PACK", name="reward-model")
    engines = [ray.remote(models.LLMRayActor).options(num_gpus=4, name=f"judge-{rank}").remote() for rank in range(2)]
    print(f"waiting for 8 GPUs on one node, and for {len(engines)} judges", flush=True)
    ray.get(model.ready())


if __name__ == "__main__":
    main()
