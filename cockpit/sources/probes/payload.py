"""The probe as one program text, to be piped into `python -` on a host where nothing is installed."""

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
"""The package that changes something on a host."""

_FORWARDED: Final = {"cockpit.probe.acts.ray.gcs", "cockpit.probe.acts.ray_tunnel.task_tunnel"}
"""Of which a probe hands the text on, to the Python of a cluster."""
_PYTHON: Final = (MAGIC_NUMBER, sys.implementation.cache_tag)
"""What the Python has to be like that takes what ours has compiled."""
_EMPTY: Final = compile("", "cockpit", "exec")

# The whole text is compiled before any of it runs, so it must be readable to Python 2 as well: it says what is wrong there.
# Nothing may be imported from the folder that it is started in, so that entry goes first of all.
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
    """The text that runs the probe with these words, for any Python; its half that changes something travels only when `acting`."""
    return b"".join(program_for(("-",), words, acting=acting))


def program_for(command: Sequence[str], words: Sequence[str], *, acting: bool = False) -> tuple[bytes, bytes]:
    """The same for the Python at the end of a command, in two parts: the first, of hundreds of kilobytes, is one for all hosts.

    Where its program isn't read byte by byte, what the sources are compiled to travels as well, for a Python that is like ours: it spares
    it 0.2 to 0.3 s of CPU.
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
        python, codes = _PYTHON, _squeeze(marshal.dumps({"cockpit.__init__": _EMPTY, **found}))
    return _TEXT.format(oldest=OLDEST_PYTHON, python=python, codes=codes, sources=_squeeze(json.dumps(sources).encode())).encode("ascii")


def _without_path(code: Any, name: str) -> Any:
    """Over there our paths are anybody's: a traceback would open what lies at them. Constants that are no code stay as they are."""
    if not isinstance(code, CodeType):
        return code
    return code.replace(co_filename=name, co_consts=tuple(_without_path(one, name) for one in code.co_consts))


def _squeeze(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode("ascii")


def _modules(acting: bool) -> Iterator[tuple[str, Path]]:
    """What travels: each module's name over there, and where its source is here."""
    yield "boot", Path(__file__).with_name("bootstrap.py")
    for name, path in _modules_of("cockpit.probe", Path(__file__).parents[2] / "probe"):
        if acting or not name.startswith(ACTING_PACKAGE):
            yield name, path
    yield from _modules_of("pynvml", _find_installed("pynvml"))


def _modules_of(name: str, place: Path) -> Iterator[tuple[str, Path]]:
    if place.is_file():
        yield name, place
    for path in sorted(place.rglob("*.py")) if place.is_dir() else ():
        yield ".".join((name, *path.relative_to(place).with_suffix("").parts)), path


def _find_installed(name: str) -> Path:
    """A module's file, or a package's folder."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed beside cockpit", name=name)
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin
