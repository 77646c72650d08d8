"""Every command that cockpit tells people to type, from its source: with the file that says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import cockpit

SOURCE = Path(cockpit.__file__).parent
PROGRAMS = (
    "cockpit", "ray", "nvidia-smi", "dcgmi", "kill", "prlimit", "ulimit", "unset", "sysctl", "srun", "sbatch", "scontrol", "sinfo",
    "squeue", "kubectl", "podman", "docker", "fuser", "lspci", "dmesg",
    "ps", "ss", "find", "du", "df", "ls", "free", "py-spy", "pip", "tmux", "make",
)  # fmt: skip
"""Programs with which a command begins."""
HOLE = "…"
"""Where the source puts a value: a pid, a host, a number."""
_COMMAND = re.compile(r"`([^`\n]+)`")
_NOT_SAID = ("probe/", "ui/help.py", "cli/options.py", "failures/known/")
"""Files whose texts are no advice: the probe's own docstrings, and help, which tests/test_docs.py checks.
The rows of the table of known errors have a `source` each; tests/failures/test_known.py checks with which programs their commands begin."""


def commands_in(text: str) -> list[str]:
    """The commands in backticks, without what is only named."""
    return [found for found in _COMMAND.findall(text) if found.split(" ", 1)[0] in PROGRAMS or re.match(r"--|[A-Z_]+=", found)]


def form_of(command: str) -> str:
    """The command with a hole for each value, so that the source's and a finding's are the same."""
    text = re.sub(r"\{[^{}]*\}|'[^']*'|https?://\S+|(?<!\w)/(?!dev/)[\w./*-]{3,}", HOLE, command)
    text = re.sub(r"(?<=[ =,:])[\w.]*\d[\w.:,-]*", HOLE, text)
    text = re.sub(r"\b(?:PID|INDEX|HOST|NODE|WATTS|HEAD|JOBID|PRESET|SCRIPT|NAME|TARGET|POD|CONTAINER|NAMESPACE)\b", HOLE, text)
    return re.sub(rf"{HOLE}(?:[,:]?{HOLE})*", HOLE, text)


def said_commands() -> dict[str, set[str]]:
    """By form: the files that say it, below `cockpit/`."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        source = path.read_text()
        if name.startswith(_NOT_SAID) or "`" not in source:
            continue
        for text in _texts(ast.parse(source)):
            for command in commands_in(text):
                found.setdefault(form_of(command), set()).add(name)
    return found


def _texts(tree: ast.Module) -> Iterator[str]:
    """All strings but docstrings; of an f-string the whole, with a hole for each value."""
    skipped = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield "".join(part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else HOLE for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def _docstrings(tree: ast.Module) -> Iterable[ast.Constant]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
