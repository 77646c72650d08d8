"""Runs an evaluation that fails: the actor of its vLLM engine dies, and the engine stays behind with its GPU memory."""

from __future__ import annotations

import models
import ray


def main() -> None:
    ray.init(address="auto", log_to_driver=False)
    engine = ray.remote(models.LLMRayActor).options(num_gpus=1, name="eval-engine").remote(engine_gigabytes=21.4)
    ray.get(engine.ready.remote())
    print("evaluating 1319 prompts of gsm8k", flush=True)
    ray.get(engine.crash.remote())


if __name__ == "__main__":
    main()
