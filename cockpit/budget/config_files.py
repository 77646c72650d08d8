"""Reads the YAML files of a command's configuration, and the files that their `defaults` name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from cockpit.budget.command import MAX_DEPTH, Read
from cockpit.budget.scripts import UNKNOWN
from cockpit.budget.yaml_values import load_yaml

Tree = dict[str, object]
MAX_FILES = 64
MAX_ALL_CHARS = 1 << 19
"""At most so many files of one configuration are read, with so many characters together. A file may name others many times, and itself."""
MAX_SECTIONS = 20
"""A defaults list may put a file into at most so many nested sections."""


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


def read_chain(read: Read, path: str) -> tuple[Tree, list[str]]:
    """A file merged over the files that its `defaults` name by relative paths; and the paths that can't be read."""
    return _chain(_bounded(read), path, 0)


def compose(read: Read, folder: str, name: str) -> tuple[Tree, list[str]]:
    """A Hydra configuration with its defaults list; and the paths that can't be read, the configuration's own path first."""
    return _composed(_bounded(read), folder, name, 0)


def _bounded(read: Read) -> Read:
    """A function that reads files as `read` does, until the limits of one configuration are reached."""
    files = chars = 0

    def read_next(path: str) -> str | None:
        nonlocal files, chars
        files += 1
        text = read(path) if files <= MAX_FILES and chars <= MAX_ALL_CHARS else None
        chars += len(text or "")
        return text if chars <= MAX_ALL_CHARS else None

    return read_next


def _chain(read: Read, path: str, depth: int) -> tuple[Tree, list[str]]:
    found = read_yaml(read, path) if depth < MAX_DEPTH else None
    if found is None:
        return {}, [path]
    parents = found.pop("defaults", [])
    tree: Tree = {}
    unread: list[str] = []
    for parent in [parents] if isinstance(parents, str) else parents if isinstance(parents, list) else []:
        below, gone = _chain(read, posixpath.normpath(posixpath.join(posixpath.dirname(path), str(parent))), depth + 1)
        tree, unread = merge(tree, below), unread + gone
    return merge(tree, found), unread


def _composed(read: Read, folder: str, name: str, depth: int) -> tuple[Tree, list[str]]:
    path = posixpath.normpath(posixpath.join(folder, f"{name.removesuffix('.yaml')}.yaml"))
    found = read_yaml(read, path) if depth < MAX_DEPTH else None
    if found is None:
        return {}, [path]
    listed = found.pop("defaults", None)
    entries = listed if isinstance(listed, list) else []
    tree: Tree = {}
    unread: list[str] = []
    for group, package, choice in _files(entries if "_self_" in entries else [*entries, "_self_"]):
        if choice == "_self_":
            tree = merge(tree, found)
            continue
        sections = package.split(".") if package else []
        if len(sections) > MAX_SECTIONS:
            unread.append(path)
            continue
        below, gone = _composed(read, posixpath.join(folder, group), choice, depth + 1)
        for section in reversed(sections):
            below = {section: below}
        tree, unread = merge(tree, below), unread + gone
    return tree, unread


def _files(entries: list[object]) -> Iterator[tuple[str, str, str]]:
    """The folder, the section and the name of each file in a defaults list."""
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
        section = "" if package.startswith("_") or group.startswith("..") else package if at else group.replace("/", ".")
        yield group, section, choice
