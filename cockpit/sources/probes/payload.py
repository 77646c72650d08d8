"""Packs the probe into one program text, to be piped into a Python on a host where nothing is installed."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

OLDEST_PYTHON: Final = (3, 8)
"""The oldest Python that the probe runs on."""

ACTING_PACKAGE: Final = "cockpit.probe.actions"
"""The package of the actions, which change something on a host."""

# The whole text is compiled before any of it runs, so its syntax must be valid in Python 2, which then prints the reason for its exit.
# The current folder is removed from the path first, so that nothing is imported from it.
_TEXT = """\
import sys
sys.path = [folder for folder in sys.path if folder.startswith("/")]
if sys.version_info < {oldest}:
    sys.exit("Python %d.%d is too old there: the probe needs {oldest[0]}.{oldest[1]} or later" % sys.version_info[:2])
import base64, json, zlib
modules = json.loads(zlib.decompress(base64.b64decode("{sources}")))
boot = {{"__name__": "boot"}}
exec(modules.pop("boot"), boot)
"""


def program(words: Sequence[str], *, acting: bool = False) -> bytes:
    """The program that runs the probe with these arguments, some 200 kB; it contains the actions only if `acting`."""
    return _pack(acting) + f'boot["main"](modules, {json.dumps(list(words))})\n'.encode("ascii")


@cache
def _pack(acting: bool) -> bytes:
    """Pack the sources. It takes a tenth of a second."""
    sources = {"cockpit.__init__": "", "boot": Path(__file__).with_name("bootstrap.py").read_text()}
    probe = Path(__file__).parents[2] / "probe"
    sources |= {name: text for name, text in _read_modules("cockpit.probe", probe) if acting or not name.startswith(ACTING_PACKAGE)}
    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pynvml is not installed beside cockpit", name="pynvml")
    origin = Path(spec.origin)
    sources |= dict(_read_modules("pynvml", origin.parent if origin.name == "__init__.py" else origin))
    packed = base64.b64encode(zlib.compress(json.dumps(sources).encode())).decode("ascii")
    return _TEXT.format(oldest=OLDEST_PYTHON, sources=packed).encode("ascii")


def _read_modules(name: str, place: Path) -> Iterator[tuple[str, str]]:
    """The names and sources of the modules in a package's folder, or of the module in a file."""
    if place.is_file():
        yield name, place.read_text()
    for path in sorted(place.rglob("*.py")) if place.is_dir() else ():
        yield ".".join((name, *path.relative_to(place).with_suffix("").parts)), path.read_text()
