"""Reads YAML from unknown authors: a text, or a file of a configuration with the files that its `defaults` name."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

import yaml

from cockpit.budget.scripts import UNKNOWN

Read = Callable[[str], "str | None"]
Tree = dict[str, object]
MAX_CHARS = 1 << 18
"""A longer text is refused. The largest configurations of frameworks have 40 kB."""
MAX_VALUES = 1 << 16
"""A value counts again for each alias that repeats it, and a long text counts as several."""
MAX_LEVELS = 50
MAX_DIGITS = 20
"""A whole number may have so many digits. Python refuses to write a number of 4,300 digits."""
MAX_FILES = 64
MAX_ALL_CHARS = 1 << 19
"""At most so many files of one configuration are read, with so many characters together. A file may name others many times, and itself."""
MAX_DEPTH = 8
MAX_SECTIONS = 20
"""A defaults list may put a file into at most so many nested sections."""


def load_yaml(text: str) -> object:
    """Reads the value of a text. Raises `ValueError`."""
    if len(text) > MAX_CHARS:
        raise ValueError("it is too long")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if not _is_small(node):
            raise ValueError("it is too large")
        return loader.construct_document(node)
    except (yaml.YAMLError, RecursionError, ArithmeticError, AttributeError, LookupError, TypeError) as error:
        # The library raises any of these errors if a tag does not fit its value, as in `!!bool maybe`.
        raise ValueError(f"it is no YAML: {type(error).__name__}") from error


def _is_small(root: yaml.Node) -> bool:
    """Whether a value with all its aliases has no more parts and levels than a configuration. One that contains itself has."""
    count, waiting = 0, [(root, 1)]
    while waiting:
        node, level = waiting.pop()
        is_scalar = isinstance(node, yaml.ScalarNode)
        count += 1 + len(node.value) // 16 if is_scalar else 1
        is_mapping = isinstance(node, yaml.MappingNode)
        parts = [] if is_scalar else [part for pair in node.value for part in pair] if is_mapping else node.value
        is_endless = node.tag == "tag:yaml.org,2002:int" and len(node.value) > MAX_DIGITS
        if is_endless or level > MAX_LEVELS or count + len(waiting) + len(parts) > MAX_VALUES:
            return False
        waiting += [(part, level + 1) for part in parts]
    return True


def read_yaml(read: Read, path: str) -> Tree | None:
    """The sections of a file; `None`: it can't be read."""
    try:
        found = load_yaml((None if UNKNOWN in path else read(path)) or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def merge(lower: Tree, upper: Tree) -> Tree:
    """Merge two trees section by section; upper values count. A section with `_override_` replaces the whole lower section."""
    merged = dict(lower)
    for key, value in upper.items():
        old = merged.get(key)
        are_sections = isinstance(old, dict) and isinstance(value, dict) and not value.get("_override_")
        merged[key] = merge(old, value) if are_sections else value  # type: ignore[arg-type]
    return merged


def compose(read: Read, folder: str, name: str) -> tuple[Tree, list[str]]:
    """A configuration merged over the files that its `defaults` name, as Hydra and NeMo-RL do; and the paths that can't be read.

    If the file itself can't be read, its path is the first one.
    """
    chars = 0

    def read_next(path: str) -> str | None:
        nonlocal chars
        text = read(path) if chars < MAX_ALL_CHARS else None
        chars += max(len(text or ""), MAX_ALL_CHARS // MAX_FILES)
        return text

    def composed(folder: str, name: str, depth: int) -> tuple[Tree, list[str]]:
        path = posixpath.normpath(posixpath.join(folder, f"{name.removesuffix('.yaml')}.yaml"))
        found = read_yaml(read_next, path) if depth < MAX_DEPTH else None
        if found is None:
            return {}, [path]
        listed = found.pop("defaults", None)
        entries = listed if isinstance(listed, list) else [listed]
        tree: Tree = {}
        unread: list[str] = []
        for group, package, choice in _files(entries if "_self_" in entries else [*entries, "_self_"]):
            sections = package.split(".") if package else []
            if choice == "_self_":
                tree = merge(tree, found)
            elif len(sections) > MAX_SECTIONS:
                unread.append(path)
            else:
                below, gone = composed(posixpath.join(folder, group), choice, depth + 1)
                for section in reversed(sections):
                    below = {section: below}
                tree, unread = merge(tree, below), unread + gone
        return tree, unread

    return composed(folder, name, 0)


def _files(entries: list[object]) -> Iterator[tuple[str, str, str]]:
    """The folder, the section and the name of each file in a defaults list. A path with `.yaml` has no section."""
    for entry in entries:
        if isinstance(entry, str):
            place, at, package = entry.partition("@")
            group, _, choice = place.lstrip("/").rpartition("/")
        elif isinstance(entry, dict) and len(entry) == 1 and isinstance(value := next(iter(entry.values())), str):
            said = str(next(iter(entry))).removeprefix("optional ").lstrip("/")
            if said.startswith(("override ", "hydra/")):
                continue
            (group, at, package), choice = said.partition("@"), value
        else:
            continue
        no_section = package.startswith("_") or group.startswith("..") or (choice.endswith(".yaml") and not at)
        yield group, "" if no_section else package if at else group.replace("/", "."), choice
