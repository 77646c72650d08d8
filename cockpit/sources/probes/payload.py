"""Packs the probe into one program text, to be piped into a Python on a host where nothing is installed."""

from __future__ import annotations

import base64
import json
import marshal
import sys
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from types import CodeType
from typing import Any, Final

OLDEST_PYTHON: Final = (3, 8)
"""The oldest Python that the probe runs on."""

ACTING_PACKAGE: Final = "cockpit.probe.acts"
"""The package of the actions, which change something on a host."""

_FORWARDED: Final = {"cockpit.probe.acts.ray.gcs", "cockpit.probe.acts.ray_tunnel.task_tunnel"}
"""Modules whose source a probe sends on to the Python of a cluster: they are never compiled."""
_BYTECODE_FORMAT: Final = (MAGIC_NUMBER, sys.implementation.cache_tag)
"""Identifies the Pythons that can run the bytecode of this one."""
_EMPTY: Final = compile("", "cockpit", "exec")

# The whole text is compiled before any of it runs, so its syntax must be valid in Python 2, which then prints the reason for its exit.
# The current folder is removed from the path first, so that nothing is imported from it.
_TEXT = """\
import sys
sys.path = [folder for folder in sys.path if folder.startswith("/")]
if sys.version_info < {oldest}:
    sys.exit("Python %d.%d is too old there: the probe needs {oldest[0]}.{oldest[1]} or later" % sys.version_info[:2])
import base64, importlib.util, json, marshal, zlib
is_same = (importlib.util.MAGIC_NUMBER, sys.implementation.cache_tag) == {python}
modules = (marshal if is_same else json).loads(zlib.decompress(base64.b64decode("{codes}" if is_same else "{sources}")))
boot = {{"__name__": "boot"}}
exec(modules.pop("boot"), boot)
"""


def program(words: Sequence[str], *, acting: bool = False) -> bytes:
    """The program that runs the probe with these arguments on any Python; it contains the actions only if `acting`."""
    return b"".join(program_for(("-",), words, acting=acting))


def program_for(command: Sequence[str], words: Sequence[str], *, acting: bool = False) -> tuple[bytes, bytes]:
    """The program for the Python that this command runs, in two parts. The first, of hundreds of kilobytes, is shared by all hosts.

    Unless the Python reads its program byte by byte (`-`), bytecode is added, which saves a Python of our version 0.2 to 0.3 s of CPU.
    """
    return _pack(acting, compiled=command[-1] != "-"), f'boot["main"](modules, {json.dumps(list(words))})\n'.encode("ascii")


@lru_cache(4)
def _pack(acting: bool, *, compiled: bool) -> bytes:
    loaders = [SourceFileLoader(name, str(path)) for name, path in _modules(acting)]
    sources = {"cockpit.__init__": "", **{loader.name: loader.get_data(loader.path).decode() for loader in loaders}}
    python, codes = None, ""
    if compiled:
        found = {loader.name: _without_path(loader.get_code(loader.name), f"<{loader.name}>") for loader in loaders}
        found |= {name: sources[name] for name in _FORWARDED & sources.keys()}
        python, codes = _BYTECODE_FORMAT, _compress(marshal.dumps({"cockpit.__init__": _EMPTY, **found}))
    return _TEXT.format(oldest=OLDEST_PYTHON, python=python, codes=codes, sources=_compress(json.dumps(sources).encode())).encode("ascii")


def _without_path(code: Any, name: str) -> Any:
    """The code without paths of this host: on another host, a traceback would open a file there that others may have placed."""
    if not isinstance(code, CodeType):
        return code
    return code.replace(co_filename=name, co_consts=tuple(_without_path(constant, name) for constant in code.co_consts))


def _compress(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode("ascii")


def _modules(acting: bool) -> Iterator[tuple[str, Path]]:
    """The modules of the program: their names there, and the paths of their sources here."""
    yield "boot", Path(__file__).with_name("bootstrap.py")
    for name, path in _modules_of("cockpit.probe", Path(__file__).parents[2] / "probe"):
        if acting or not name.startswith(ACTING_PACKAGE):
            yield name, path
    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pynvml is not installed beside cockpit", name="pynvml")
    origin = Path(spec.origin)
    yield from _modules_of("pynvml", origin.parent if origin.name == "__init__.py" else origin)


def _modules_of(name: str, place: Path) -> Iterator[tuple[str, Path]]:
    """The modules of a package's folder, or one module's file."""
    if place.is_file():
        yield name, place
    for path in sorted(place.rglob("*.py")) if place.is_dir() else ():
        yield ".".join((name, *path.relative_to(place).with_suffix("").parts)), path
