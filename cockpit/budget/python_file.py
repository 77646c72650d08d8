"""Reads counts from plain assignments and keyword arguments of a Python file, without running it."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from cockpit.budget.scripts import UNKNOWN
from cockpit.budget.scripts.evaluate import evaluate

MAX_CHARS = 1 << 17
"""A longer file is not read: it is no script with counts."""


def read_assignments(text: str, env: Mapping[str, str]) -> dict[str, object]:
    """The values of `name = …`, `name: int = …` and `call(name=…)`. The last one counts. `os.environ.get` reads `env`."""

    def call(function: str, given: list[object]) -> object:
        if function in ("os.environ.get", "os.getenv") and given:
            return env.get(str(given[0]), given[1] if len(given) > 1 else None)
        if function == "int" and len(given) == 1 and len(str(given[0])) < 20:
            return int(str(given[0]))
        raise ValueError

    found: dict[str, object] = {}
    try:
        nodes = list(ast.walk(ast.parse(text))) if len(text) <= MAX_CHARS else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the parser raises `MemoryError` for deep nesting
        return found
    for node in sorted((node for node in nodes if hasattr(node, "lineno")), key=lambda node: node.lineno):
        targets: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.Assign):
            targets = [(target.id, node.value) for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            targets = [(node.target.id, node.value)]
        elif isinstance(node, ast.Call):
            targets = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
        for name, expression in targets:
            try:
                value = evaluate(expression, found.__getitem__, call)
            except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError):
                value = None
            if value is not None or name not in found:
                found[name] = UNKNOWN if value is None else value
    return found
