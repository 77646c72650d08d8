"""Runs a veRL's own trainer without GPUs, Ray or models, and prints which groups it would have asked Ray for, as JSON.

Usage: python truth_verl.py SOURCES MODULE, with a list of commands' words on standard input.
Hydra and the framework are real. Every other package is a stand-in that takes anything; Ray's writes down what it is asked for.
A run ends where the pools are built, or where the framework's own checks refuse the command.
"""

import contextlib
import importlib
import importlib.metadata
import json
import os
import runpy
import sys
import types

from stand_ins import ASKED, Anything, Finder, Made, ray_modules

REAL = ("verl", "hydra", "omegaconf", "antlr4", "yaml", "packaging", "numpy", "stand_ins")


class Done(BaseException):
    """All pools are built."""


class Handle(Made):
    """An actor's handle, or a call's result."""

    def __getattr__(self, name):
        return Remote(getattr(self.value, name, Anything()))


class Remote:
    """What `@ray.remote` makes of a class or a function: the trainer's own runner really runs."""

    def __init__(self, inner, options=None):
        self.inner, self.chosen = inner, options or {}

    def options(self, **options):
        return Remote(self.inner, {**self.chosen, **options})

    def __call__(self, *args, **kwargs):
        return self.inner(*args, **kwargs)

    def remote(self, *args, **kwargs):
        name = getattr(self.inner, "__name__", "")
        default = 1 if isinstance(self.inner, types.FunctionType) else 0
        cpus = self.chosen.get("num_cpus", default if name == "main_task" else 0)
        if cpus:
            ASKED.append({"strategy": None, "bundles": [{"CPU": cpus}]})
        runs = "TaskRunner" in name or name in {"main_task", "run"}
        return Handle(self.inner(*args, **kwargs) if runs else Anything())


def remote(*args, **kwargs):
    return Remote(args[0]) if args and callable(args[0]) else lambda inner: Remote(inner, kwargs)


def build(pools):
    """What the trainers do with their pools, all of them, and the end."""
    CREATE(pools)
    for pool in pools.resource_pool_dict.values():
        pool.get_placement_groups()
    raise Done


def run(name, words):
    """One command: what was asked for, and what stopped it before its pools were built."""
    ASKED.clear()
    sys.argv = [name, "hydra.run.dir=.", "hydra.output_subdir=null", "hydra/job_logging=disabled", *words]
    stopped = None
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
            stopped = "nothing was built"
        except Done:
            pass
        except SystemExit:
            stopped = "Hydra"
        except Exception as error:
            stopped = f"{type(error).__name__}: {error}"
    return {"asked": list(ASKED), "stopped": stopped}


def main():
    sources, name = sys.argv[1:]
    os.environ.update(HYDRA_FULL_ERROR="1", VERL_PLATFORM="nvidia")
    importlib.import_module("hydra")  # before the stand-ins: it looks for packages that it can do without
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: version(name) if name in REAL else "99.0.0"
    sys.path.insert(0, sources)
    sys.meta_path.insert(0, Finder(REAL, ray_modules(remote)))
    from verl.single_controller.ray import base
    from verl.trainer.ppo.ray_trainer import ResourcePoolManager

    global CREATE
    CREATE = ResourcePoolManager.create_resource_pool
    ResourcePoolManager.create_resource_pool = build
    ResourcePoolManager._check_resource_available = lambda _: None
    base.sort_placement_group_by_node_ip = lambda groups: groups
    json.dump([run(name, words) for words in json.load(sys.stdin)], sys.stdout)


main()
