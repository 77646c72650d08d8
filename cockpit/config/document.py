"""Reads a YAML file that a person wrote into a typed value, and reports the place of a mistake."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from cockpit.secrets import redact
from cockpit.text import clean, explain_os_error

T = TypeVar("T")

MAX_BYTES: Final = 1 << 20
"""A file that a person writes is smaller."""

PIPE_PREFIXES: Final = ("/dev/fd/", "/dev/stdin")
"""Paths of pipes that may be read: the shell passes `<(...)` so, and the writer exists."""
READING: Final[dict[int, Path]] = {}
"""The file that each thread reads now. If a disk hangs, the error names it."""

_AT: Final = r"(?s)^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<where>.*)`)?$"
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MAX_NUMBER_CHARS: Final = 100
_STEP: Final = r"\.?([^.\[\]]+)|\[(\d+|\.\.\.)\]"
_EXPECTED: Final = r"Expected `(?P<type>[^`]*)`"
_TYPES: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "keys with values",
}


class InputError(ValueError):
    """A user's input is invalid. The text is one sentence that names the place."""


def abbreviate_home(path: Path) -> str:
    """Return the path with `~` in place of the home folder."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):  # it is not in the home folder, or the home folder is unknown
        return str(path)


def expand_home(written: str) -> Path:
    """Return the path with the home folder in place of `~`. Raises `InputError`."""
    try:
        return Path(written).expanduser()
    except RuntimeError as error:
        raise InputError(f"{written}: no such home folder") from error


def read(path: Path, most: int) -> bytes:
    """Read at most this number of bytes of a regular file. Raises `OSError`, also for a pipe, which could wait for its writer for ever."""
    if str(path).startswith(PIPE_PREFIXES):
        with path.open("rb") as pipe:
            return pipe.read(most)
    READING[threading.get_ident()] = path
    try:
        _check_regular(os.stat(path).st_mode)  # before it is opened, because opening has an effect on some devices
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(handle, "rb") as file:
            _check_regular(os.fstat(handle).st_mode)
            return file.read(most)
    finally:
        del READING[threading.get_ident()]


def _check_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file but a pipe or a device")


def read_text(path: Path) -> str:
    """Read a small UTF-8 file. Raises `FileNotFoundError` if it is missing, and `InputError` if it can't be read."""
    try:
        raw = read(path, MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{abbreviate_home(path)}: {explain_os_error(error)}") from error
    if len(raw) > MAX_BYTES:
        raise InputError(f"{abbreviate_home(path)}: larger than 1 MiB: too large for a cockpit file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{abbreviate_home(path)}:{raw.count(10, 0, error.start) + 1}: not UTF-8 text") from error


def json_schema(of: type) -> dict[str, Any]:
    """Return the JSON Schema of a type: of a file that a person writes, or of JSON that cockpit prints."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(of)}


class Document:
    """A YAML text with the line of each value. An empty text has no keys."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        try:
            self._root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
            self._refuse_bombs()  # before any value is created
            data: Any = yaml.safe_load(text)
            self.data: Any = {} if data is None else data
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = "" if mark is None else f":{mark.line + 1}"
            raise InputError(f"{name}{line}: not YAML: {error.problem or error.context}") from error
        except yaml.YAMLError as error:
            raise InputError(f"{name}: not YAML: {str(error).splitlines()[0]}") from error
        except RecursionError as error:  # such as [[[[…
            raise InputError(f"{name}: not YAML: nested too deeply") from error
        except InputError:
            raise
        except ValueError as error:  # such as the date 2026-13-01
            raise InputError(f"{name}: not YAML: {error}") from error
        except (ArithmeticError, LookupError, AttributeError) as error:  # such as !!bool "x": PyYAML does not check tags
            raise InputError(f"{name}: not YAML: a value does not match its tag") from error
        self._refuse_duplicate_keys(self._root, "", set())

    def _refuse_bombs(self) -> None:
        if self._root is not None and _count_values(self._root, {}) > MAX_BYTES:
            raise InputError(f"{self.name}: its aliases expand to too many values")

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a file. Raises `FileNotFoundError` if it is missing, and `InputError`."""
        return cls(read_text(path), abbreviate_home(path))

    def convert(self, kind: type[T], words: Mapping[str, str], hidden: str | None = None) -> T:
        """Return the checked value. Raises `InputError`.

        `words` describes the value expected at a place such as `hosts[].user`: "a name". Errors don't repeat values below the key `hidden`.
        """
        try:
            return msgspec.convert(self.data, kind)
        except msgspec.ValidationError as error:
            raise self._explain(error, words, hidden) from (None if hidden else error)
        except UnicodeEncodeError as error:  # a lone surrogate, as in "\ud800"
            raise InputError(f"{self.name}: contains invalid Unicode characters") from error

    def mistake(self, where: str, text: str) -> InputError:
        """Return the error for a mistake at a place such as `hosts[1].user`."""
        line = self.line(where)
        return InputError(": ".join(filter(None, (f"{self.name}:{line}" if line else self.name, where, text))))

    def type_mistake(self, where: str, expected: str) -> InputError:
        """Return an error like the errors of `convert`, for a rule that no type expresses."""
        node = self._find(where)[1]
        if isinstance(node, yaml.ScalarNode):
            text = redact(clean(node.value))
            got = (text if len(text) <= 40 else f"{text[:39]}…") or "nothing"
        else:
            got = "a list" if isinstance(node, yaml.SequenceNode) else "keys with values" if node else "nothing"
        return self.mistake(where, f"expected {expected}, got {got}")

    def line(self, where: str) -> int | None:
        """Return the line of a place, counted from 1. If the place does not exist, it is the line of the nearest value above it."""
        return self._find(where)[0]

    def read_scalar(self, where: str) -> str | None:
        """Return a scalar as it was typed, before YAML made a number or a boolean of it; `None` if there is no scalar."""
        node = self._find(where)[1]
        return str(node.value) if isinstance(node, yaml.ScalarNode) else None

    def _find(self, where: str) -> tuple[int | None, yaml.Node | None]:
        """Return the line and the node of a place."""
        node, line = self._root, None
        for key, index in re.findall(_STEP, where):
            if isinstance(node, yaml.MappingNode):
                pair = next((pair for pair in node.value if pair[0].value == key), None)
                if pair is None:
                    return line, None
                node, line = pair[1], pair[0].start_mark.line + 1
            elif isinstance(node, yaml.SequenceNode) and index.isdigit() and int(index) < len(node.value):
                node = node.value[int(index)]
                line = node.start_mark.line + 1
            else:
                return line, None
        return line or (node.start_mark.line + 1 if node else None), node

    def _explain(self, error: msgspec.ValidationError, words: Mapping[str, str], hidden: str | None) -> InputError:
        """Translate an error of msgspec."""
        match = re.match(_AT, str(error))
        what, where = (match["what"], (match["where"] or "").lstrip(".")) if match else (str(error), "")
        if match and match["key"]:
            return self.mistake(where, "a key must be text; put a number, true or false in quotes")
        names = re.findall(r"`([^`]*)`", what)
        if "unknown field" in what and names:
            below = f"{where}.{names[0]}".lstrip(".")
            near = get_close_matches(re.sub(r"\[\d+\]", "[]", below), words, 1)
            return self.mistake(below, "no such key" + (f"; perhaps {near[0].rpartition('.')[2]}" if near else ""))
        if "missing required field" in what and names:
            return self.mistake(where, f"{names[0]} is missing")
        own = words.get(re.sub(r"\[\d+\]", "[]", where))
        if hidden is not None and re.split(r"[.\[]", where, maxsplit=1)[0] == hidden:
            return self.mistake(where, f"expected {own or _describe_type(what)}")
        if own is None and not what.startswith("Expected"):
            return self.mistake(where, what)
        return self.type_mistake(where, own or _describe_type(what))

    def _refuse_duplicate_keys(self, node: yaml.Node | None, where: str, visited: set[int]) -> None:
        """Raise `InputError` if a key is given twice: YAML would silently keep the last value."""
        if id(node) in visited:  # nested aliases can stand for billions of values, so each node is visited once
            return
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._refuse_duplicate_keys(item, f"{where}[{index}]", visited)
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                place = f"{where}.{clean(str(key.value))}".lstrip(".")
                if place in seen:
                    raise InputError(f"{self.name}:{key.start_mark.line + 1}: {place}: given twice")
                seen.add(place)
                self._refuse_duplicate_keys(value, place, visited)


def _count_values(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values in a node with all aliases expanded; for a node that contains itself, more than are allowed.

    A few lines may stand for billions of values. `1:1:1:…`, a number of base 60, takes minutes to read.
    """
    if id(node) not in known:
        if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > _MAX_NUMBER_CHARS:
            raise yaml.MarkedYAMLError(problem=f"a number of {len(node.value):,} characters", problem_mark=node.start_mark)
        known[id(node)] = MAX_BYTES
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        below = [child for pair in pairs for child in pair] if pairs else node.value if isinstance(node, yaml.SequenceNode) else []
        known[id(node)] = 1 + sum(_count_values(child, known) for child in below)
    return known[id(node)]


def _describe_type(what: str) -> str:
    """Translate the expected type in an error of msgspec."""
    match = re.match(_EXPECTED, what)
    if match is None:
        return what.removeprefix("Expected ").partition(",")[0]
    kinds = [_TYPES.get(kind, kind) for kind in match["type"].split(" | ") if kind != "null"]
    return " or ".join(kinds) + what[match.end() :].partition(",")[0]
