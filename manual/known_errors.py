"""The page of known errors: of each row its name, its cause, what helps, and where it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from cockpit.actions.table import ACTIONS
from cockpit.failures import KnownError, known_errors
from cockpit.failures import known as package

HEAD = """\
# Known errors

The table that [failed jobs](failed-jobs.md) are explained by, made from the code: {count} rows. A word in braces is a part of the error's
own text, such as a port or a file. Where several rows match the same text, the first one counts.
"""


def known_errors_page() -> str:
    """Every row, by kind."""
    rows = known_errors()
    kinds: dict[str, list[KnownError]] = {}
    kind_of = {id(row): kind for kind, of_kind in _tables().items() for row in of_kind}
    for row in rows:
        kinds.setdefault(kind_of.get(id(row), "others"), []).append(row)
    parts = [HEAD.format(count=len(rows))]
    for kind, listed in kinds.items():
        title = kind.replace("_", " ").capitalize().replace("Gpu", "GPU")
        parts.append(f"\n## {title}\n\n| name | cause | what to do | source |\n|---|---|---|---|\n")
        parts += [_line(row) for row in listed]
    return "".join(parts)


def _tables() -> dict[str, Sequence[KnownError]]:
    """The rows of each module of the table, by its name."""
    folder = Path(package.__file__ or "").parent
    found: dict[str, Sequence[KnownError]] = {}
    for module in iter_modules([str(folder)]):
        rows = [value for value in vars(import_module(f"{package.__name__}.{module.name}")).values() if isinstance(value, tuple)]
        found[module.name] = [row for table in rows for row in table if isinstance(row, KnownError)]
    return found


def _line(row: KnownError) -> str:
    return f"| `{row.name}` | {_escape(row.cause)} | {_escape(row.remedy)}{_key(row.action)} | {_escape(row.source)} |\n"


def _key(name: str | None) -> str:
    action = next((action for action in ACTIONS if action.id == name), None)
    return f" (`{action.first_key}`: {action.title})" if action else ""


def _escape(text: str) -> str:
    """Outside of `…`, what Markdown or HTML would read; a bar would end the cell everywhere."""
    parts = " ".join(text.split()).split("`")
    whole = "`".join(part if place % 2 else re.sub(r"([\\*\[\]<>_])", r"\\\1", part) for place, part in enumerate(parts))
    return whole.replace("|", "\\|")
