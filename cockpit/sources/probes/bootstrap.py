"""Runs the probe on a host where nothing is installed: its modules are imported from memory, so no file is written there.

It is part of the payload, runs on Python 3.8 and later, and imports nothing of cockpit by itself. It works on a host with a full or
read-only disk, or with a `/tmp` that is mounted noexec; even a `kill -9` leaves nothing behind.
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
from typing import Mapping, Sequence  # noqa: UP035 Python 3.8

PROBE = "cockpit.probe"


class MemoryImporter:
    """Imports modules from memory. It has no base class: importlib.abc takes longer to import than all of these modules."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        """`modules` has the sources by dotted name; the name of a package ends in `.__init__`."""
        self._modules = modules

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002 as importlib calls it
        """The spec of one of the modules; `None`: it is another one."""
        if fullname in self._modules or self.is_package(fullname):
            return spec_from_loader(fullname, self)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """Create the module as usual."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the code of the module."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 as importlib does

    def is_package(self, fullname: str) -> bool:
        """Whether the module is a package."""
        return f"{fullname}.__init__" in self._modules

    def get_code(self, fullname: str) -> CodeType:
        """The code of a module."""
        return compile(self.get_source(fullname), f"<{fullname}>", "exec")

    def get_source(self, fullname: str) -> str:
        """The source of a module."""
        return self._modules[f"{fullname}.__init__" if self.is_package(fullname) else fullname]


def main(modules: Mapping[str, str], words: Sequence[str]) -> None:
    """Run the probe with these arguments. These modules take precedence over all that are installed there."""
    os.chdir("/")
    threading.Thread(target=_exit_with_reader, name="reader", daemon=True).start()
    sys.meta_path.insert(0, MemoryImporter(modules))
    sys.argv = [PROBE, *words]
    runpy.run_module(PROBE, None, "__main__", True)


def _exit_with_reader() -> None:
    """Exit as soon as the reader of stdout is gone. stdin can't show that: it has ended with the program."""
    poll = select.poll()
    poll.register(1, 0)
    poll.poll()
    os._exit(0)
