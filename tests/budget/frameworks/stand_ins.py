"""Stand-ins for the packages that a framework imports, so that its own code runs without GPUs, Ray or models.

A stand-in takes anything. Ray's writes down which placement groups it is asked for.
"""

import importlib.abc
import importlib.machinery
import sys
import types

ASKED = []
"""What Ray was asked for, in the order in which it was asked."""


class Kind(type):
    """A stand-in's class is one too."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return (lambda *_: cls.__name__ == "cuda") if name == "is_available" else Anything


class Anything(metaclass=Kind):
    """Can be called, entered, compared, inherited from, unpacked in two, and has every attribute."""

    def __init__(self, *args, **kwargs): ...
    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else Anything()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __iter__(self):
        return iter((Anything(), Anything()))

    def __getitem__(self, key):
        return Anything()

    def __class_getitem__(cls, key):
        return cls

    def __len__(self):
        return 1

    def __enter__(self):
        return self

    def __exit__(self, *args): ...
    def __or__(self, other):
        return self

    __ror__ = __or__

    def __ge__(self, other):
        return True

    __gt__ = __lt__ = __le__ = __ge__


class StandIn(types.ModuleType):
    """A module with every name."""

    __path__ = ()
    __version__ = "99.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Anything,), {})


def module(name, **members):
    """A module with every name, some of which are given."""
    made = StandIn(name)
    made.__dict__.update(members)
    return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for every package that is not one of these."""

    def __init__(self, real, modules):
        self.real, self.modules = real, modules

    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        if top in self.real or top in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return self.modules.get(spec.name) or StandIn(spec.name)

    def exec_module(self, module): ...


class Group:
    """A placement group that is ready."""

    id = "0"

    def __init__(self, bundles=()):
        self.bundle_specs = bundles

    def ready(self):
        return self


def placement_group(bundles, strategy="PACK", **_):
    """Write down what is asked for."""
    if not bundles:
        raise ValueError("The placement group `bundles` argument cannot contain an empty list")
    ASKED.append({"strategy": strategy, "bundles": [dict(bundle) for bundle in bundles]})
    return Group(bundles)


class Made:
    """The handle of an actor, or the result of a call."""

    def __init__(self, value=None):
        self.value = value


def get(made, **_):
    """The result of a call, which may be a list of them."""
    if isinstance(made, list):
        return [get(each) for each in made]
    return made.value if isinstance(made, Made) and made.value is not None else Anything()


def ray_modules(remote, **more):
    """Ray's modules. `remote` is its decorator."""
    return {
        "ray": module("ray", remote=remote, get=get, is_initialized=lambda: True, put=Anything),
        "ray.util.placement_group": module("ray.util.placement_group", placement_group=placement_group, PlacementGroup=Group, **more),
    }
