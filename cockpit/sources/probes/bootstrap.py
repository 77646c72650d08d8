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
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from typing import Mapping, Sequence  # noqa: UP035 Python 3.8

PROBE = "cockpit.probe"


class MemoryImporter(MetaPathFinder, InspectLoader):
    """Finds the modules it was given the sources of, by their dotted names; a package's ends in `.__init__`."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002 as importlib calls it
        """`None`: not one of ours."""
        if fullname in self._sources or self.is_package(fullname):
            return spec_from_loader(fullname, self)
        return None

    def is_package(self, fullname: str) -> bool:
        """Whether it holds modules."""
        return f"{fullname}.__init__" in self._sources

    def get_source(self, fullname: str) -> str:
        """Also what a traceback shows."""
        return self._sources[f"{fullname}.__init__" if self.is_package(fullname) else fullname]


def main(sources: Mapping[str, str], words: Sequence[str]) -> None:
    """Run the probe with these words; ours come first, whatever is installed there."""
    os.chdir("/")
    threading.Thread(target=_end_with_the_reader, name="reader", daemon=True).start()
    sys.meta_path.insert(0, MemoryImporter(sources))
    sys.argv = [PROBE, *words]
    runpy.run_module(PROBE, None, "__main__", True)


def _end_with_the_reader() -> None:
    """The program came through stdin, which has ended; stdout tells when nobody is there any more, long before the next sample would."""
    poll = select.poll()
    poll.register(1, 0)
    poll.poll()
    os._exit(0)
