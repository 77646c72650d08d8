"""Runs an OpenRLHF's own `train_ppo_ray` without GPUs, Ray or models, and prints what it would have asked Ray for, as JSON.

Usage: python truth_openrlhf.py SOURCES SCRIPT, with a list of commands' words on standard input.
Every package that is not installed is a stand-in that takes anything; Ray's is one that writes down what it is asked for.
"""

import contextlib
import json
import os
import sys
import types

from stand_ins import ASKED, Finder, Made, ray_modules

REAL = ("openrlhf", "stand_ins")


class Handle(Made):
    """A handle of an actor, or a call's result."""

    def __getattr__(self, name):
        return Remote(lambda *args, **kwargs: None)


class Remote:
    """What `@ray.remote` makes of a class or a function."""

    def __init__(self, inner, options=None):
        self.inner, self.chosen = inner, options or {}

    def options(self, **options):
        return Remote(self.inner, options)

    def remote(self, *args, **kwargs):
        shape = {"GPU": self.chosen.get("num_gpus") or 0, "CPU": self.chosen.get("num_cpus") or 0}
        strategy = self.chosen.get("scheduling_strategy")
        if (shape["GPU"] or shape["CPU"]) and strategy is None:
            ASKED.append({"strategy": None, "bundles": [shape]})
        return Handle(self.inner(*args, **kwargs) if isinstance(self.inner, types.FunctionType) else None)


def remote(*args, **kwargs):
    return Remote(args[0]) if args and callable(args[0]) else lambda inner: Remote(inner)


def run(code, script, words):
    """One command: what was asked for, and where it stopped."""
    ASKED.clear()
    sys.argv = [script, *words]
    stopped = None
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            exec(code, {"__name__": "__main__", "__file__": script})
        except SystemExit:
            stopped = "parser"
        except Exception as error:
            stopped = f"{type(error).__name__}: {error}"
    return {"asked": list(ASKED), "stopped": stopped}


def main():
    sources, script = sys.argv[1:]
    sys.path.insert(0, sources)
    sys.meta_path.insert(0, Finder(REAL, ray_modules(remote)))
    with open(os.path.join(sources, script)) as file:
        code = compile(file.read(), script, "exec")
    json.dump([run(code, script, words) for words in json.load(sys.stdin)], sys.stdout)


main()
