"""The probe as one program text, to be piped into `python -` on a host where nothing is installed."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

OLDEST_PYTHON: Final = (3, 8)
"""The oldest Python that the probe runs on."""

ACTING_PACKAGE: Final = "cockpit.probe.acts"
"""The package that changes something on a host."""

# The whole text is compiled before any of it runs, so it must be readable to Python 2 as well: it says what is wrong there.
# Nothing may be imported from the folder that it is started in, so that entry goes first of all.
_TEXT = """\
import sys
sys.path = [folder for folder in sys.path if folder.startswith("/")]
if sys.version_info < {oldest}:
    sys.exit("Python %d.%d is too old there: the probe needs {oldest[0]}.{oldest[1]} or later" % sys.version_info[:2])
import base64, json, zlib
sources = json.loads(zlib.decompress(base64.b64decode("{sources}")))
boot = {{"__name__": "boot"}}
exec(compile(sources.pop("boot"), "<boot>", "exec"), boot)
boot["main"](sources, {words})
"""


def program(words: Sequence[str], *, acting: bool = False) -> bytes:
    """The text that runs the probe with these words; its half that changes something travels only when `acting`."""
    return _TEXT.format(oldest=OLDEST_PYTHON, sources=_pack(acting), words=json.dumps(list(words))).encode("ascii")


@lru_cache(2)
def _pack(acting: bool) -> str:
    modules = ((name, path) for name, path in _modules() if acting or not name.startswith(ACTING_PACKAGE))
    sources = {"cockpit.__init__": "", **{name: path.read_text(encoding="utf-8") for name, path in modules}}
    return base64.b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode("ascii")


def _modules() -> Iterator[tuple[str, Path]]:
    """What travels: each module's name over there, and where its source is here."""
    yield "boot", Path(__file__).with_name("bootstrap.py")
    yield from _modules_of("cockpit.probe", Path(__file__).parents[2] / "probe")
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
