"""The help page, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.binding import Binding
from textual.dom import DOMNode

from cockpit.actions.table import Act

_KEYS = {
    "question_mark": "?", "slash": "/", "colon": ":", "plus": "+", "minus": "-", "less_than_sign": "<", "greater_than_sign": ">",
    "escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "space": "Space", "enter": "Enter", "tab": "Tab", "shift+tab": "Shift+Tab",
    "f9": "F9",
}  # fmt: skip
LEGEND = """
Every number is a fact or a – (not known). What is drawn grey is old; its age is in the AGE column.
● alive  ✖ dead  ○ no Ray there  * head (after a node's name)  * tagged (at the left edge)
GPU MEM and UTIL have one cell a GPU: the higher, the fuller or busier; ✖ is a GPU that is lost.
RESV is what Ray has handed out; MEM% is what is really used: they are different things.
│ in HOST MEM is the line above which Ray kills workers.

Findings
◆ critical: work is lost, or will be soon  ▲ warning: worth a look  i: worth knowing
At the left edge of a row: something was found about it; Enter tells what. KEY is the act that mends it, on the finding and nowhere else.
x hides a finding until it ends, and shows a hidden one again. A new critical one rings and notifies, unless --quiet.

Kinds of processes
ray      raylet, GCS, dashboard, agents of a live session
worker   a worker of a live session           driver  a job's own process
child    a living descendant of one of these, also in a session of its own
stale    a Ray process whose session is dead
orphan   comes from Ray, and what owned it is dead
foreign  everything else that is alive        unknown  can't be seen, or its evidence contradicts itself

A filter looks at the whole row; ! in front of it keeps the rows without it. Click a heading to sort, a row twice to open it.
"""


def help_text(nodes: Iterable[DOMNode], acts: Iterable[Act]) -> str:
    """All keys of these, the acts, and what the signs mean."""
    return "\n".join([*(line for node in nodes for line in _lines(node)), *_acts(acts)]) + "\n" + LEGEND


def _acts(acts: Iterable[Act]) -> Iterator[str]:
    lines = [_line(act.keys, act.title, act.help) for act in acts]
    if lines:
        yield from ("", "Acts: each first shows its plan, and does nothing before you agree", *lines)


def _lines(node: DOMNode) -> Iterator[str]:
    for binding in type(node).BINDINGS:
        if isinstance(binding, Binding):
            act = getattr(node, f"action_{binding.action.partition('(')[0]}", None)
            said = (act.__doc__ or "").splitlines()[0] if act and "(" not in binding.action else ""
            yield _line(binding.key, binding.description, said)


def _line(keys: str, name: str, said: str) -> str:
    return f"{' '.join(_KEYS.get(key, key) for key in keys.split(',')):<16} {name:<13} {said}".rstrip()
