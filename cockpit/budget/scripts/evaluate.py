"""Evaluates the sums and the conditions of a shell, if their values are known. Patterns and tests of files are not evaluated."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from cockpit.budget.scripts.scope import SOMEWHERE, UNKNOWN

_LARGEST = 2**63
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda one, other: abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1),
    ast.Mod: lambda one, other: abs(one) % abs(other) * (-1 if one < 0 else 1),
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-lt": operator.lt, "-le": operator.le, "-gt": operator.gt, "-ge": operator.ge,
}  # fmt: skip


def evaluate_sum(expression: str, value: Callable[[str], str]) -> str:
    """The result, or `UNKNOWN`. Only `+ - * / %` and parentheses are evaluated, with the whole numbers of a shell."""
    python = expression.replace("\n", " ").replace("\t", " ").strip()
    if len(python) > 500 or re.search(r"[^\w\s()+*/%-]|\*\*|//|\+\+|--|\b0\d|\d_", python):
        return UNKNOWN
    try:
        return str(_evaluate(ast.parse(python, mode="eval").body, value)) if python else "0"
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return UNKNOWN


def _evaluate(node: ast.expr, value: Callable[[str], str]) -> int:
    """The value of an expression. Raises `ValueError` if it is not evaluated."""
    result: object = None
    if isinstance(node, ast.Constant):
        result = node.value
    elif isinstance(node, ast.Name) and re.fullmatch(r"\s*-?(?:0|[1-9]\d{0,18})\s*", value(node.id)):
        result = int(value(node.id))
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result = _OPERATORS[type(node.op)](_evaluate(node.left, value), _evaluate(node.right, value))
    if type(result) is not int or abs(result) >= _LARGEST:
        raise ValueError
    return result


def holds(words: list[str]) -> bool | None:
    """Whether a condition holds; `None`: unknown."""
    for joint in ("||", "&&"):
        if len(words) > 4 and joint in words[1:-1]:
            place = words.index(joint, 1)
            sides = (holds(words[:place]), holds(words[place + 1 :]))
            strong = joint == "||"
            return strong if strong in sides else None if None in sides else not strong
    match words:
        case ["-z" | "-n" as sign, value]:
            return None if value and not value.strip(UNKNOWN) else (sign == "-n") == bool(value)
        case [one, sign, other] if not {UNKNOWN, SOMEWHERE} & {*one, *other}:
            if sign in _COMPARISONS:
                numbers = [re.fullmatch(r"-?\d{1,18}", each.strip() or "0") for each in (one, other)]
                return _COMPARISONS[sign](*(int(found[0]) for found in numbers if found)) if all(numbers) else None
            # In `[[ … ]]` these characters make a pattern; in `[ … ]` the value depends on files.
            if sign in {"=", "==", "!="} and not set(other) & set("*?[("):
                return (one == other) == (sign != "!=")
    return None
