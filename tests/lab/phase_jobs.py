"""Runs actors whose classes and methods are named as a framework names its own, with seeded durations, and writes what is true to a file.

    python phase_jobs.py FRAMEWORK STEPS SEED TRUTH [HANG STEP]

HANG is what goes wrong in that step: `rank` (a rank stops in its training method while the others have ended), `skipped` (one rank does not
begin the method in which all others wait), `engine` (the engine never answers), `reward` (scoring never ends), `data` (the driver stops).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time

import ray

FOREVER_S = 100_000.0
framework, steps, seed, truth_file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
hang, hang_step = (sys.argv[5], int(sys.argv[6])) if len(sys.argv) > 6 else ("", 0)
chance = random.Random(seed)
truth = open(truth_file, "w", buffering=1)  # noqa: SIM115 until the job ends


def say(what, **more):
    truth.write(json.dumps({"at": time.time(), "what": what, **more}) + "\n")


def length(low, high):
    return chance.uniform(low, high)


def actor_class(name, *methods, overlaps=False):
    """An actor whose methods take as long as they are told to."""

    def make(method):
        if overlaps:

            async def run(self, seconds):
                await asyncio.sleep(seconds)

        else:

            def run(self, seconds, stop=False):
                if stop:
                    os.kill(os.getpid(), signal.SIGSTOP)
                time.sleep(seconds)

        run.__name__ = method
        return run

    def pid(self):
        return os.getpid()

    made = type(name, (), {"__module__": "__main__", **{method: make(method) for method in methods}, "pid": pid})
    return ray.remote(num_cpus=0)(made)


def call(workers, method, seconds):
    """All workers run a method, each a little shorter."""
    ray.get([getattr(worker, method).remote(seconds * length(0.85, 1.0)) for worker in workers])


def load(workers, method):
    """Says that loading begins once Ray has started all workers, which takes long on a busy machine."""
    ray.get([worker.pid.remote() for worker in workers])
    say("loading")
    call(workers, method, length(4, 6))


def hangs(kind, step):
    return kind == hang and step == hang_step


def fail(phase, pids):
    """From now on the job hangs; `pids` are the processes that hold it up."""
    say("hang", phase=phase, pids=pids)


def train(workers, method, low, high, step):
    say("training", step=step)
    seconds = length(low, high)
    if hangs("rank", step):
        victim = chance.randrange(len(workers))
        pid = ray.get(workers[victim].pid.remote())
        say("training", step=step)
        fail("training", [pid])
        ray.get([getattr(worker, method).remote(seconds, stop=place == victim) for place, worker in enumerate(workers)])
    if hangs("skipped", step):
        victim = chance.randrange(len(workers))
        pid = ray.get(workers[victim].pid.remote())
        fail("training", [pid])
        ray.get([getattr(worker, method).remote(FOREVER_S) for place, worker in enumerate(workers) if place != victim])
    call(workers, method, seconds)


def driver_stops(step):
    if hangs("data", step):
        say("waiting")
        fail("waiting", [os.getpid()])
        time.sleep(FOREVER_S)


def generate(engine, method, seconds, step):
    """Calls of an asynchronous engine: some run at any time, each for a moment."""
    until = time.monotonic() + seconds
    if hangs("engine", step):
        fail("rollout", [ray.get(engine.pid.remote())])
        ray.get([getattr(engine, method).remote(FOREVER_S) for _ in range(4)])
    while (left := until - time.monotonic()) > 0:
        ray.get([getattr(engine, method).remote(min(left, length(0.3, 1.2))) for _ in range(3)])


def score(workers, methods, step):
    say("scoring", step=step)
    if hangs("reward", step):
        pids = ray.get([worker.pid.remote() for worker in workers])
        fail("scoring", pids)
        call(workers, methods[0], FOREVER_S)
    for method in methods:
        call(workers, method, length(1.0, 2.0))


def verl():
    workers = [
        actor_class(
            "WorkerDict", "actor_rollout_init_model", "actor_rollout_generate_sequences", "actor_rollout_compute_log_prob",
            "ref_compute_ref_log_prob", "critic_compute_values", "critic_update_critic", "actor_rollout_update_actor",
            "actor_rollout_save_checkpoint",
        ).remote() for _ in range(4)
    ]  # fmt: skip
    load(workers, "actor_rollout_init_model")
    for step in range(1, steps + 1):
        driver_stops(step)
        say("rollout", step=step)
        if hangs("engine", step):
            fail("rollout", ray.get([worker.pid.remote() for worker in workers]))
            call(workers, "actor_rollout_generate_sequences", FOREVER_S)
        call(workers, "actor_rollout_generate_sequences", length(2, 6))
        score(workers, ["actor_rollout_compute_log_prob", "ref_compute_ref_log_prob"], step)
        train(workers, "actor_rollout_update_actor", 2, 4, step)
        say("end", step=step)
        if step % 10 == 0:
            say("checkpoint")
            call(workers, "actor_rollout_save_checkpoint", length(1.5, 3))


def openrlhf():
    policy = [
        actor_class("PolicyModelActor", "init_model_from_pretrained", "execute_batch", "fit", "broadcast_to_vllm").remote()
        for _ in range(2)
    ]
    reference = [actor_class("ReferenceModelActor", "init_model_from_pretrained", "execute_batch").remote() for _ in range(2)]
    engine = actor_class("RolloutRayActor", "generate_responses", "update_weight", overlaps=True).remote()
    load([*policy, *reference], "init_model_from_pretrained")
    for step in range(1, steps + 1):
        driver_stops(step)
        say("rollout", step=step)
        generate(engine, "generate_responses", length(2, 6), step)
        score(reference, ["execute_batch"], step)
        train(policy, "fit", 2, 4, step)
        say("weight sync", step=step)
        call(policy, "broadcast_to_vllm", length(0.8, 2))
        say("end", step=step)


def slime():
    manager = actor_class("RolloutManager", "generate", "eval", "offload").remote()
    trainers = [actor_class("MegatronTrainRayActor", "init", "train", "update_weights", "save_model").remote() for _ in range(3)]
    load(trainers, "init")
    say("weight sync")
    call(trainers, "update_weights", length(1, 2))
    for step in range(1, steps + 1):
        driver_stops(step)
        say("rollout", step=step)
        if hangs("engine", step) or hangs("reward", step):
            fail("rollout", [ray.get(manager.pid.remote())])
            call([manager], "generate", FOREVER_S)
        call([manager], "generate", length(2, 6))
        call([manager], "offload", 0.2)
        train(trainers, "train", 2, 5, step)
        say("weight sync", step=step)
        call(trainers, "update_weights", length(0.8, 2))
        say("end", step=step)
        if step % 10 == 0:
            say("evaluation")
            call([manager], "eval", length(2, 4))


def skyrl():
    policy = [
        actor_class(
            "FSDPPolicyWorkerBase", "init_model", "forward", "forward_backward", "optim_step", "broadcast_to_inference_engines"
        ).remote() for _ in range(3)
    ]  # fmt: skip
    engine = actor_class("AsyncVLLMInferenceEngine", "generate", "wake_up", overlaps=True).remote()
    load(policy, "init_model")
    for step in range(1, steps + 1):
        driver_stops(step)
        say("rollout", step=step)
        generate(engine, "generate", length(2, 6), step)
        score(policy, ["forward"], step)
        train(policy, "forward_backward", 2, 4, step)
        call(policy, "optim_step", 0.4)
        say("weight sync", step=step)
        call(policy, "broadcast_to_inference_engines", length(0.8, 1.5))
        say("end", step=step)


ray.init(address="auto", log_to_driver=False)
{"verl": verl, "openrlhf": openrlhf, "slime": slime, "skyrl": skyrl}[framework]()
say("over")
