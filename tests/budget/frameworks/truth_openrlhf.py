"""Runs an OpenRLHF's own `train_ppo_ray` without GPUs, Ray or models, and prints what it would have asked Ray for, as JSON.

Usage: python truth_openrlhf.py SOURCES SCRIPT, with a list of commands' words on standard input.
Every package that is not installed is a stand-in that takes anything; Ray's is one that writes down what it is asked for.
"""

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import types

ASKED = []
SAID = {}
REAL = ("openrlhf",)


class Anything:
    """Can be called, entered, compared, unpacked in two, and has every attribute."""

    def __init__(self, *args, **kwargs): ...
    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else Anything()

    def __getattr__(self, name):
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return "99.0.0" if name == "__version__" else Anything()

    def __iter__(self):
        return iter((Anything(), Anything()))

    def __getitem__(self, key):
        return Anything()

    def __len__(self):
        return 1

    def __mro_entries__(self, bases):
        return ()

    def __enter__(self):
        return self

    def __exit__(self, *args): ...
    def __or__(self, other):
        return self

    __ror__ = __ge__ = __gt__ = __lt__ = __le__ = __or__


class StandIn(types.ModuleType):
    __path__ = ()
    __version__ = "99.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        if top in REAL or top in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return RAY.get(spec.name) or StandIn(spec.name)

    def exec_module(self, module): ...


class Group:
    def ready(self):
        return self


class Made:
    """A handle of an actor, or a call's result."""

    def __init__(self, value=None):
        self.value = value

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
        return Made(self.inner(*args, **kwargs) if isinstance(self.inner, types.FunctionType) else None)


def remote(*args, **kwargs):
    return Remote(args[0]) if args and callable(args[0]) else lambda inner: Remote(inner)


def placement_group(bundles, strategy="PACK", **_):
    if not bundles:
        raise ValueError("The placement group `bundles` argument cannot contain an empty list")
    ASKED.append({"strategy": strategy, "bundles": [dict(bundle) for bundle in bundles]})
    return Group()


def get(made):
    return made.value if isinstance(made, Made) and made.value is not None else Anything()


def module(name, **members):
    made = StandIn(name)
    made.__dict__.update(members)
    return made


_GROUPS = module("ray.util.placement_group", placement_group=placement_group, PlacementGroup=Group)
RAY = {
    "ray": module("ray", remote=remote, get=get, is_initialized=lambda: True, put=Anything),
    "ray.util.placement_group": _GROUPS,
}


def parsed(parser, args=None, namespace=None):
    found = REALLY_PARSED(parser, args, namespace)
    SAID.update(vars(found))
    return found


REALLY_PARSED = argparse.ArgumentParser.parse_args


def run(code, script, words):
    """One command: what the parser made of it, what was asked for, and where it stopped."""
    ASKED.clear()
    SAID.clear()
    sys.argv = [script, *words]
    stopped = None
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            exec(code, {"__name__": "__main__", "__file__": script})
        except SystemExit:
            stopped = "parser"
        except Exception as error:
            stopped = f"{type(error).__name__}: {error}"
    return json.loads(json.dumps({"said": SAID, "asked": ASKED, "stopped": stopped}, default=str))


def main():
    sources, script = sys.argv[1:]
    sys.path.insert(0, sources)
    sys.meta_path.insert(0, Finder())
    argparse.ArgumentParser.parse_args = parsed
    with open(os.path.join(sources, script)) as file:
        code = compile(file.read(), script, "exec")
    json.dump([run(code, script, words) for words in json.load(sys.stdin)], sys.stdout)


main()
