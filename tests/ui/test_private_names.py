"""Private names of Textual are used in one file alone, so that a new Textual breaks one file."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import cockpit.ui

ONE_FILE = "textual_internals"
UI = Path(cockpit.ui.__file__).parent
MODULES = sorted(UI.rglob("*.py"))


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def test_no_other_module_reads_a_private_name_of_something_else():
    """What a module reads of `self`, of its own classes and of its own values has names of its own."""
    found = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
        found += [
            f"{path.name}:{node.lineno} {node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own and path.stem != ONE_FILE
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os"))
        ]
    assert not found


def test_no_other_class_has_a_private_member_that_textual_has_too():
    """It would replace that of Textual without a word."""
    found = []
    for path in MODULES:
        name = ".".join(("cockpit", *path.relative_to(Path(cockpit.ui.__file__).parents[1]).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        module = importlib.import_module(name)
        for kind in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef) and path.stem != ONE_FILE):
            bases = getattr(getattr(module, kind.name, None), "__mro__", ())
            theirs = {member for base in bases if base.__module__.startswith("textual.") for member in vars(base) if is_private(member)}
            mine = {node.name for node in kind.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
            mine |= {node.attr for node in ast.walk(kind) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
            found += [f"{name}.{kind.name}: {member}" for member in sorted(theirs & mine)]
    assert not found
