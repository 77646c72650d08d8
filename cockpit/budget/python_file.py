"""Reads counts from plain assignments and keyword arguments of a Python file, without running it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
MAX_CHARS = 1 << 17
"""A longer file is not read: it is no script with counts."""
MAX_NUMBER = 10**9
"""Larger numbers are treated as unknown. A few products of them would have more digits than the memory can hold."""


def read_assignments(text: str, env: Mapping[str, str]) -> dict[str, object]:
    """The values of `name = …`, `name: int = …` and `call(name=…)`. The last one counts. `os.environ.get` reads `env`."""
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
            value = _value(expression, found, env)
            if value is not None or name not in found:
                found[name] = "\0" if value is None else value
    return found


def _value(node: ast.expr, known: Mapping[str, object], env: Mapping[str, str]) -> object:
    """The value of an expression. `None`: the value is None, or it is not evaluated."""
    try:
        value = _evaluate(node, known, env)
        return None if isinstance(value, int) and abs(value) > MAX_NUMBER else value
    except (TypeError, ValueError, ZeroDivisionError, RecursionError):  # `ValueError`: a number of thousands of digits
        return None


def _evaluate(node: ast.expr, known: Mapping[str, object], env: Mapping[str, str]) -> object:
    """The value of an expression. Raises `ValueError` if it is not evaluated."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.IfExp):
        return _evaluate(node.body if _evaluate(node.test, known, env) else node.orelse, known, env)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _evaluate(node.operand, known, env)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        same = _evaluate(node.left, known, env) == _evaluate(node.comparators[0], known, env)
        return same is isinstance(node.ops[0], ast.Eq)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _evaluate(node.left, known, env), _evaluate(node.right, known, env)
        if isinstance(left, int) and isinstance(right, int) and max(abs(left), abs(right)) <= MAX_NUMBER:
            return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.environ.get", "os.getenv", "int") and node.args:
        first = _evaluate(node.args[0], known, env)
        if ast.unparse(node.func) == "int":
            if isinstance(first, int) or (isinstance(first, str) and first.isdecimal() and len(first) < 20):
                return int(first)
            raise ValueError
        return env.get(str(first), _evaluate(node.args[1], known, env) if len(node.args) > 1 else None)
    raise ValueError
