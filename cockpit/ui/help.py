"""The help page, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.binding import Binding
from textual.dom import DOMNode

from cockpit.acts.act import Operation

KEY_NAMES = {
    "question_mark": "?", "slash": "/", "colon": ":", "plus": "+", "minus": "-", "less_than_sign": "<", "greater_than_sign": ">",
    "escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "space": "Space", "enter": "Enter", "tab": "Tab", "shift+tab": "Shift+Tab",
    "f1": "F1", "f5": "F5", "f9": "F9", "up": "Up", "down": "Down", "home": "Home", "end": "End",
}  # fmt: skip
HELP_INDENT = 31
"""Cells before what a key does: 16 for its name, 13 for its label, and the blanks after them."""
LEGEND = """
–        not known
grey     a row of old facts; of a node the column SEEN says how old
●        alive       ✖  dead       ○  no Ray on this host
*        after a name: head node; at the left edge: tagged
GPU MEM  one cell for each GPU: the higher the fuller; ✖ is a lost GPU
UTIL     one cell for each GPU: the higher the busier
RESV     GPUs that Ray has reserved
MEM%     GPU memory really in use: it can differ from RESV
HOST     host memory in use; │ is the kill line: above it Ray kills workers
OBJ      object store       SHM  /dev/shm       RST  restarts of an actor
FOR      how long; > means at least
actors   20/2p/1r: 20 alive, 2 pending, 1 restarting

█ ▄ ▁ ·  of a running job, mean use of its GPUs: high from 50 %, low, idle at 0 %, empty: idle and no memory in use

Findings
◆ critical   work is lost, or will be soon
▲ warning    needs attention
i info       good to know
At the left edge of a row: there is a finding about it; Enter shows it.
KEY: this key starts the act that fixes it, with the cursor on the finding.
x hides a finding until it ends; x on a hidden finding shows it again.
A new critical finding rings the bell and notifies, unless --quiet.

Kinds of processes
ray      raylet, GCS, dashboard or agent of a live session
worker   worker of a live session
driver   main process of a job
child    live process below a worker or driver, even after setsid
stale    Ray process or worker of a dead session
orphan   left over from Ray: the process that owned it is dead
foreign  any other live process
unknown  can't be seen, or the evidence contradicts itself
The list ORPHANS on the page Overview holds orphan and stale processes.

Filter: searches the whole row; !text keeps the rows without text.
Mouse: click a heading to sort, double-click a row to open it.
"""


def help_text(nodes: Iterable[DOMNode], acts: Iterable[Operation]) -> str:
    """All keys of these, the acts, and what the signs mean."""
    return "\n".join([*(line for node in nodes for line in _lines(node)), *_acts(acts)]) + "\n" + LEGEND


def _acts(acts: Iterable[Operation]) -> Iterator[str]:
    lines = [_line(act.keys, act.title, act.help) for act in acts]
    if lines:
        yield from ("", "Acts: each shows its plan first and changes nothing before you confirm", *lines)


def _lines(node: DOMNode) -> Iterator[str]:
    for binding in type(node).BINDINGS:
        if isinstance(binding, Binding):
            act = getattr(node, f"action_{binding.action.partition('(')[0]}", None)
            description = (act.__doc__ or "").splitlines()[0] if act and "(" not in binding.action else ""
            yield _line(binding.key, binding.description, description)


def _line(keys: str, name: str, description: str) -> str:
    return f"{' '.join(map(key_name, keys.split(','))):<16} {name:<13} {description}".rstrip()


def key_name(key: str) -> str:
    """What is printed on the key, for Textual's name of it."""
    return KEY_NAMES.get(key, key)
