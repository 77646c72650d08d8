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
from typing import Final

OLDEST_PYTHON: Final = (3, 8)
"""The oldest Python that the probe runs on."""

ACTING_PACKAGE: Final = "cockpit.probe.acts"
"""The package that changes something on a host."""

_PYTHON: Final = (MAGIC_NUMBER, sys.implementation.cache_tag)
"""What the Python has to be like that takes what ours has compiled."""

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
boot["main"](modules, {words})
"""


def program(words: Sequence[str], *, acting: bool = False, compiled: bool = False) -> bytes:
    """The text that runs the probe with these words; its half that changes something travels only when `acting`.

    `compiled`: what the sources are compiled to travels as well, for a Python that is like ours; it spares it 0.2 to 0.3 s of CPU.
    """
    codes = _pack_codes(acting) if compiled else ""
    return _TEXT.format(
        oldest=OLDEST_PYTHON, python=_PYTHON if codes else None, codes=codes, sources=_pack(acting), words=json.dumps(list(words))
    ).encode("ascii")


def program_for(command: Sequence[str], words: Sequence[str], *, acting: bool = False) -> bytes:
    """The text for the Python at the end of a command; one that reads its program byte by byte is sent the sources alone."""
    return program(words, acting=acting, compiled=command[-1] != "-")


@lru_cache(2)
def _pack(acting: bool) -> str:
    sources = {"cockpit.__init__": "", **{name: path.read_text(encoding="utf-8") for name, path in _modules(acting)}}
    return _squeeze(json.dumps(sources).encode())


@lru_cache(2)
def _pack_codes(acting: bool) -> str:
    codes = {name: SourceFileLoader(name, str(path)).get_code(name) for name, path in _modules(acting)}
    return _squeeze(marshal.dumps({"cockpit.__init__": compile("", "cockpit", "exec"), **codes}))


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
