"""Computes sums as the shell does, with whole numbers."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

UNKNOWN = "\0"
"""Stands for an unknown value or an unknown part of one."""
SOMEWHERE = "…"
"""Stands for the path of the folder in which the script begins."""

_LARGEST = 2**63
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda one, other: abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1),
    ast.Mod: lambda one, other: abs(one) % abs(other) * (-1 if one < 0 else 1),
}


class _UnreadError(Exception):
    """A sum that is not evaluated."""


def evaluate_sum(expression: str, value: Callable[[str], str]) -> str:
    """The result, or `UNKNOWN`. Comparisons, assignments, and operators whose precedence differs from Python's are not evaluated."""
    if not expression.strip():
        return "0"
    python = expression.replace("\n", " ").replace("\t", " ")
    if UNKNOWN in python or len(python) > 500 or re.search(r"[&|^~?:#;\"'\[\]]|!(?!=)|//|<<|>>|\+\+|--|\b0\d|\d_", python):
        return UNKNOWN
    try:
        return str(_evaluate(ast.parse(python.strip(), mode="eval").body, value))
    except (_UnreadError, SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return UNKNOWN


def _evaluate(node: ast.expr, value: Callable[[str], str]) -> int:
    result = _evaluate_node(node, value)
    if abs(result) >= _LARGEST:
        raise _UnreadError
    return result


def _evaluate_node(node: ast.expr, value: Callable[[str], str]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return _number(value(node.id))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.left, value), _evaluate(node.right, value))
    raise _UnreadError


def _number(said: str) -> int:
    """The value of a variable as a number."""
    if not re.fullmatch(r"\s*-?(?:0|[1-9]\d{0,18})\s*", said):
        raise _UnreadError
    return int(said)
