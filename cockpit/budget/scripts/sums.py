"""Arithmetic as the shell does it, on whole numbers."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

UNKNOWN = "\0"
"""Stands where a value can't be known."""
SOMEWHERE = "…"
"""Stands for the path of the folder in which all begins."""

_LARGEST = 2**63
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda one, other: abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1),
    ast.Mod: lambda one, other: abs(one) % abs(other) * (-1 if one < 0 else 1),
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _UnreadError(Exception):
    """A sum that isn't followed."""


def evaluate_sum(expression: str, value: Callable[[str], str]) -> str:
    """The result, or `UNKNOWN`: also of what changes variables, and of signs whose order differs from Python's."""
    if not expression.strip():
        return "0"
    python = expression.replace("\n", " ").replace("\t", " ")
    if UNKNOWN in python or len(python) > 500 or re.search(r"[&|^~?:#;\"'\[\]]|!(?!=)|//|<<|>>|\+\+|--|\b0\d|\d_", python):
        return UNKNOWN
    try:
        return str(_evaluate(ast.parse(python.strip(), mode="eval").body, value, 0))
    except (_UnreadError, SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return UNKNOWN


def _evaluate(node: ast.expr, value: Callable[[str], str], depth: int) -> int:
    result = _evaluate_node(node, value, depth)
    if depth > 20 or abs(result) >= _LARGEST:
        raise _UnreadError
    return int(result)


def _evaluate_node(node: ast.expr, value: Callable[[str], str], depth: int) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return _number(value(node.id), value, depth)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _evaluate(node.operand, value, depth + 1)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.left, value, depth + 1), _evaluate(node.right, value, depth + 1))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        return _COMPARISONS[type(node.ops[0])](_evaluate(node.left, value, depth + 1), _evaluate(node.comparators[0], value, depth + 1))
    raise _UnreadError


def _number(said: str, value: Callable[[str], str], depth: int) -> int:
    """A variable's value, which may itself be a sum."""
    if re.fullmatch(r"\s*-?(?:0|[1-9]\d{0,18})\s*", said):
        return int(said)
    if not said.strip():
        return 0
    result = UNKNOWN if depth > 5 or not said.isascii() else evaluate_sum(said, lambda name: value(name) if name != said else UNKNOWN)
    if result == UNKNOWN:
        raise _UnreadError
    return int(result)
