"""Runs a SkyRL's own entrypoint without GPUs, Ray or models, and prints which groups it would have asked Ray for, as JSON.

Usage: python truth_skyrl.py SOURCES, with a list of commands' words on standard input.
Its configuration, its checks and the code that makes groups are real. A run ends when all models have their groups.
"""

import contextlib
import importlib
import json
import os
import sys
import types

from stand_ins import ASKED, Anything, Finder, Made, ray_modules

REAL = ("skyrl", "omegaconf", "antlr4", "yaml", "packaging", "stand_ins")
ENTRYPOINT = "skyrl.train.entrypoints.main_base"


class Done(BaseException):
    """All models have their groups."""


class Handle(Made):
    """The handle of an actor."""

    def __getattr__(self, name):
        return Remote(lambda *args, **kwargs: None)


class Remote:
    """What `@ray.remote` makes of a class or a function. A function really runs; a class asks for what its options say."""

    def __init__(self, inner, options=None):
        self.inner, self.chosen = inner, options or {}

    def options(self, **options):
        return Remote(self.inner, options)

    def remote(self, *args, **kwargs):
        shape = {"GPU": self.chosen.get("num_gpus") or 0, "CPU": self.chosen.get("num_cpus") or 0}
        if any(shape.values()) and self.chosen.get("scheduling_strategy") is None:
            ASKED.append({"strategy": None, "bundles": [shape]})
        return Handle(self.inner(*args, **kwargs) if isinstance(self.inner, types.FunctionType) else None)


def remote(*args, **kwargs):
    return Remote(args[0]) if args and callable(args[0]) else lambda inner: Remote(inner, kwargs)


def table(group):
    """The bundles of a group, all on one node."""
    return {"bundles": group.bundle_specs, "bundles_to_node_id": dict.fromkeys(range(len(group.bundle_specs)), "node")}


def run(entrypoint, words):
    """One command: what was asked for, and what stopped it before all groups were made."""
    ASKED.clear()
    sys.argv = [ENTRYPOINT, *words]
    stopped = None
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            entrypoint.main()
            stopped = "nothing was built"
        except Done:
            pass
        except (Exception, SystemExit) as error:
            stopped = f"{type(error).__name__}: {error}"
    return {"asked": list(ASKED), "stopped": stopped}


def main():
    (sources,) = sys.argv[1:]
    importlib.import_module("omegaconf")  # before the stand-ins: it looks for packages that it can do without
    sys.path.insert(1, sources)
    sys.meta_path.insert(0, Finder(REAL, ray_modules(remote, placement_group_table=table)))
    entrypoint = importlib.import_module(ENTRYPOINT)
    trainer = importlib.import_module("skyrl.train.trainer")
    experiment = entrypoint.BasePPOExp
    experiment.get_train_dataset = experiment.get_eval_dataset = experiment.get_tracker = experiment.get_generator = Anything
    entrypoint.initialize_ray = lambda _: None

    def end(*_, **__):
        raise Done

    trainer.WorkerDispatch = end
    entrypoint.asyncio = Anything()  # what it awaits here is an answer of the engines
    for name, part in (("server_group", "ServerGroup"), ("vllm_router", "VLLMRouter")):  # they start the engines in their groups
        with contextlib.suppress(ImportError):  # not every release has them
            setattr(importlib.import_module(f"skyrl.backends.skyrl_train.inference_servers.{name}"), part, Anything)
    json.dump([run(entrypoint, words) for words in json.load(sys.stdin)], sys.stdout)


main()
