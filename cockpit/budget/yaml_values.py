"""Reads YAML from unknown authors. Aliases can't make it grow without end, and its nesting is limited."""

from __future__ import annotations

import yaml

MAX_CHARS = 1 << 18
"""A longer text is refused. The largest configurations of frameworks have 40 kB."""
MAX_VALUE_CHARS = 1 << 20
"""Characters of all values. A value counts again for each alias that repeats it."""
MAX_LEVELS = 50
MAX_DIGITS = 20
"""A whole number may have so many digits. Python refuses to write a number of 4,300 digits."""


def load_yaml(text: str) -> object:
    """Reads the value of a text. Raises `ValueError`."""
    if len(text) > MAX_CHARS:
        raise ValueError("it is too long")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {})
        return loader.construct_document(node)
    except (yaml.YAMLError, RecursionError, ArithmeticError, AttributeError, LookupError, TypeError) as error:
        # The library raises any of these errors if a tag does not fit its value, as in `!!bool maybe`.
        raise ValueError(f"it is no YAML: {type(error).__name__}") from error


def _measure(node: yaml.Node, known: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Counts the characters and the levels of a node and its parts. Raises `ValueError` if there are too many, or if it contains itself."""
    if id(node) in known:
        measured = known[id(node)]
        if measured is None:
            raise ValueError("a value contains itself")
        return measured
    if isinstance(node, yaml.ScalarNode):
        if node.tag == "tag:yaml.org,2002:int" and len(node.value) > MAX_DIGITS:
            raise ValueError("a number has too many digits")
        return len(node.value) + 1, 1
    known[id(node)] = None
    chars, levels = 1, 1
    parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
    for part in parts:
        below_chars, below_levels = _measure(part, known)
        chars, levels = chars + below_chars, max(levels, below_levels + 1)
        if chars > MAX_VALUE_CHARS or levels > MAX_LEVELS:
            raise ValueError("it is too large")
    known[id(node)] = chars, levels
    return chars, levels
