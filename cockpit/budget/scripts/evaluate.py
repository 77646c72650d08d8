"""Evaluates sums and conditions whose values are known. Patterns and tests of files are not evaluated."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from cockpit.budget.scripts.scope import SOMEWHERE, UNKNOWN

_LARGEST = 2**63
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-lt": operator.lt, "-le": operator.le, "-gt": operator.gt, "-ge": operator.ge,
}  # fmt: skip


def evaluate_sum(expression: str, value: Callable[[str], str]) -> str:
    """The result of a shell's sum, or `UNKNOWN`. Only `+ - * / %` and parentheses are evaluated, with whole numbers."""
    python = expression.replace("\n", " ").replace("\t", " ").strip()
    if len(python) > 500 or re.search(r"[^\w\s()+*/%-]|\*\*|//|\+\+|--|\b0\d|\d_|\w\s+\w", python):
        return UNKNOWN

    def number(name: str) -> object:
        return int(value(name)) if re.fullmatch(r"\s*-?(?:0|[1-9]\d{0,18})\s*", value(name)) else None

    try:
        found = evaluate(ast.parse(python.replace("/", "//"), mode="eval").body, number) if python else 0
        return str(found) if type(found) is int else UNKNOWN
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return UNKNOWN


def evaluate(node: ast.expr, value: Callable[[str], object], call: Callable[[str, list[object]], object] | None = None) -> object:
    """The value of a Python expression, in which `value` and `call` know the names and the calls. Raises `ValueError` if it has none."""
    match node:
        case ast.Constant() if not isinstance(node.value, int) or node.value < _LARGEST:
            return node.value
        case ast.Name():
            return value(node.id)
        case ast.IfExp():
            return evaluate(node.body if evaluate(node.test, value, call) else node.orelse, value, call)
        case ast.UnaryOp(op=ast.Not()):
            return not evaluate(node.operand, value, call)
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() as sign]):
            same = evaluate(node.left, value, call) == evaluate(node.comparators[0], value, call)
            return same is isinstance(sign, ast.Eq)
        case ast.Call() if call:
            return call(ast.unparse(node.func), [evaluate(each, value, call) for each in node.args])
        case ast.BinOp() if type(node.op) in _OPERATORS:
            left, right = evaluate(node.left, value, call), evaluate(node.right, value, call)
            if type(left) is int and type(right) is int and (min(left, right) >= 0 or not isinstance(node.op, ast.FloorDiv | ast.Mod)):
                result = _OPERATORS[type(node.op)](left, right)
                if abs(result) < _LARGEST:
                    return result
    raise ValueError


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
