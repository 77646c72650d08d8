"""The first thing that runs on a host where nothing is installed: the probe's modules come out of memory, so no file is ever written there.

It travels inside the payload, runs on Python 3.8 and later, and imports nothing of cockpit by itself. A full disk, a read-only one, a
`/tmp` mounted noexec, a `kill -9`: none of them matters, and nothing is left behind.
"""

from __future__ import annotations

import os
import runpy
import select
import sys
import threading
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType, ModuleType
from typing import Mapping, Sequence, Union  # noqa: UP035 Python 3.8

PROBE = "cockpit.probe"


Modules = Union[Mapping[str, str], Mapping[str, CodeType]]  # noqa: UP007 Python 3.8
"""By their dotted names, a package's ends in `.__init__`: the sources, or what they are compiled to where that Python is like ours."""


class MemoryImporter:
    """Finds and loads the modules that it was given. Without its base classes: importlib.abc takes longer to import than all of them."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002 as importlib calls it
        """`None`: not one of ours."""
        if fullname in self._modules or self.is_package(fullname):
            return spec_from_loader(fullname, self)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """As usual."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill it."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 as importlib does

    def is_package(self, fullname: str) -> bool:
        """Whether it holds modules."""
        return f"{fullname}.__init__" in self._modules

    def get_code(self, fullname: str) -> CodeType:
        """To compile the sources takes longer than to look at a host."""
        module = self._find(fullname)
        return compile(module, f"<{fullname}>", "exec") if isinstance(module, str) else module

    def get_source(self, fullname: str) -> str | None:
        """What a traceback shows; `None`: it came without."""
        module = self._find(fullname)
        return module if isinstance(module, str) else None

    def _find(self, fullname: str) -> str | CodeType:
        return self._modules[f"{fullname}.__init__" if self.is_package(fullname) else fullname]


def main(modules: Modules, words: Sequence[str]) -> None:
    """Run the probe with these words; ours come first, whatever is installed there."""
    os.chdir("/")
    threading.Thread(target=_end_with_the_reader, name="reader", daemon=True).start()
    sys.meta_path.insert(0, MemoryImporter(modules))
    sys.argv = [PROBE, *words]
    runpy.run_module(PROBE, None, "__main__", True)


def _end_with_the_reader() -> None:
    """The program came through stdin, which has ended; stdout tells when nobody is there any more, long before the next sample would."""
    poll = select.poll()
    poll.register(1, 0)
    poll.poll()
    os._exit(0)
