"""Prints steps as veRL's trainer does: the trainer runs on the head, its workers on another node.

python step_line_job.py FIRST STEPS SECONDS
"""

from __future__ import annotations

import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

first, steps, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
ray.init(address="auto")
head = ray.get_runtime_context().get_node_id()
other = next(node["NodeID"] for node in ray.nodes() if node["NodeID"] != head)


def on(node):
    return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


@ray.remote
class WorkerDict:
    def actor_rollout_generate_sequences(self):
        time.sleep(0.9 * seconds)

    def actor_rollout_update_actor(self):
        time.sleep(0.1 * seconds)


@ray.remote
class TaskRunner:
    def run(self):
        workers = [WorkerDict.options(**on(other)).remote() for _ in range(2)]
        for step in range(first, first + steps):
            began = time.monotonic()
            ray.get([worker.actor_rollout_generate_sequences.remote() for worker in workers])
            ray.get([worker.actor_rollout_update_actor.remote() for worker in workers])
            took = time.monotonic() - began
            print(f"step:{step} - actor/pg_loss:0.012 - perf/time_per_step:{took:.3f} - timing_s/gen:{0.9 * took:.3f}", flush=True)


ray.get(TaskRunner.options(**on(head)).remote().run.remote())
