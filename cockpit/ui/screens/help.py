"""Makes the help text from the key bindings of the screen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace
from textual.binding import Binding
from textual.dom import DOMNode

from cockpit.actions.table import ACTIONS
from cockpit.ui.keys import SWITCHES
from cockpit.ui.screens.dialogs import TextScreen

KEY_NAMES = {
    "question_mark": "?", "slash": "/", "colon": ":", "plus": "+", "minus": "-", "less_than_sign": "<", "greater_than_sign": ">",
    "escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "space": "Space", "enter": "Enter", "tab": "Tab", "shift+tab": "Shift+Tab",
    "f1": "F1", "f5": "F5", "f9": "F9", "up": "Up", "down": "Down", "home": "Home", "end": "End",
    "ampersand": "&", "at": "@",
    "left_square_bracket": "[", "right_square_bracket": "]", "left_curly_bracket": "{", "right_curly_bracket": "}",
    "left": "Left", "right": "Right",
}  # fmt: skip
HELP_INDENT = 31
"""Cells before the description of a key: 16 for the key, 13 for its label, and the blanks after them."""
LEGEND = """
–        unknown
grey     a row with old data; for a node, column SEEN shows its age
●        alive       ✖  dead       ○  no Ray on this host
*        after a name: head node; at the left edge: tagged
GPU MEM  one cell for each GPU: the higher the fuller; ✖ is a lost GPU
UTIL     one cell for each GPU: the higher the busier
RESV     GPUs that Ray has reserved for jobs, whether they are used or not
MEM%     GPU memory really in use: it can differ from RESV
NOT GIVEN  GPUs that Ray never hands out: its raylet was started without them
RESERVED BY  job and placement group of the actors there; free: Ray can still assign it; reserved: Ray does not report for whom
HELD BY  whose processes hold memory of the GPU, reserved or not; none: nobody's
IDLE     for how long a GPU's use has been 5% or less
XID      the last error of the GPU that the driver reported in the last 24 h
PCIE     gen5 x16: usual of H100 and later; gen4 x16 of A100; less gen while idle; x8/16: 8 of 16 lanes
NVLINK   active links, of how many        CLOCK  MHz
HOST     host memory in use; │ is the kill line: above it Ray kills workers
HOLDS    memory of the processes; shared memory is counted once
OBJ      object store       SHM  /dev/shm       RST  restarts of an actor
FOR      how long; > means at least
UTIL 2 MIN, HOST 2 MIN, …  the newest at the right; blank where nothing is known
actors   20/23: 20 of 23 are alive, the others pending or restarting

BUSY OR IDLE  mean use of a running job's GPUs: █ 50% and more, ▄ less, ▁ idle, · idle and no memory in use (--ascii: # = _ .)

Phases of jobs, each in its colour
R rollout   S scoring: log-probabilities, reference, reward, values   T training   W weight sync   C checkpoint   E evaluation   L loading
·        waiting: no worker works, by its title and its GPUs        –  unknown        blank  nothing is known of that time
STEP, STEP TIME  the number of the running step, and how long one usually takes
RANKS    a cell for each worker: the phase of its method; · idle by its title; m a method without a phase;
         ! still in a method that the others of its class have ended

The timeline of a recording
◆ ▲ i    a finding starts or gets worse     ◇  it clears, or a source works again     ✖  a source fails
● ○      a job starts, ends   »  an action  ·  nothing is recorded     ┃  the moment shown

Findings
◆ critical   work is lost, or will be soon
▲ warning    needs attention
i info       good to know
At the left edge of a row: there is a finding about it; Enter shows it.
KEY: the key to press next: it shows the cause, or the plan of an action that kills no live process.
x hides a finding until it clears; x on a hidden finding, or z on any page, shows it again.
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

Filter: searches the whole row; !text keeps the rows without text.
Mouse: click a heading to sort, double-click a row to open it.
"""
LOG_LEGEND = """
Search and filter ignore upper and lower case; . and * have no special meaning.
Each matching line counts once. Esc clears what was opened last, search or filter, then goes back.
▌ (--ascii: >)   at the left edge: a marked line, which a finding quotes; without a search n and N go through them
› (--ascii: >)   at the right edge: the line continues; Right moves sideways, w wraps
‹ (--ascii: <)   at the left edge: this line alone is moved sideways, so that its match is seen; Left moves back
Times are shown as the log has them.
"""


ROW_KEYS = ("log", "hide", "edit", "environment", "save", "stack", "nccl", "row-action")
TIME = ("Time: what was recorded", ("play", "moment", "now", "step", "event", "zoom"))
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Any row", ("memory", "raw", "copy", "open", "tag", "untag")),
    ("Move", ("pages", "back", "move page", "jump")),
    ("Find", ("filter", "gpu_memory", "faults", "address", "sort")),
    ("Display", ("pane", "unhide", "pause", "refresh", "interval")),
    TIME,
    ("cockpit", ("help", "quit", "export", "command_palette", "suspend_process")),
    ("Actions: each shows its plan first and changes nothing before you confirm", ("action row-action",)),
    ("On other pages and rows", ("tree", "dead", "growth", *ROW_KEYS, "user")),
)
"""The groups after the keys of the open page and of the selected row: a heading, and its actions in order.

Actions named in one string keep the order of their bindings.
"""


class HelpScreen(TextScreen):
    """Shows all keys of the screen below it, and the meaning of its symbols."""

    def __init__(self, title: str, text: str) -> None:
        super().__init__(title, text, hang=HELP_INDENT)


class Entry(msgspec.Struct, frozen=True):
    """An action with its keys, in Textual's names for them."""

    group: str
    keys: tuple[str, ...]
    label: str
    text: str = ""
    is_here: bool = False
    """Whether it does something for the open page and the selected rows."""


def help_text(page: str, entries: Sequence[Entry]) -> str:
    """List all keys in groups, each key once: first the keys for this page and row. Then explain the symbols."""
    here = [entry for entry in entries if entry.is_here]
    lines: list[str] = []
    listed: set[str] = set()
    is_past = any(entry.group == "play" for entry in here)
    groups = dict.fromkeys((TIME, *GROUPS) if is_past else GROUPS)
    for title, names, among in ((page, SWITCHES, here), ("This row", ROW_KEYS, here), *((*group, entries) for group in groups)):
        grouped = [entry for name in names for entry in among if entry.group in name.split()]
        chosen = [entry for entry in grouped if not listed.issuperset(entry.keys)]
        lines += ["", title, *_lines(chosen)] if chosen else []
        listed.update(key for entry in chosen for key in entry.keys)
    return "\n".join(lines[1:]) + "\n" + LEGEND


def action_entries(fitting: Collection[str]) -> Iterator[Entry]:
    """Entries of all actions. `fitting`: ids of the actions that fit the selection."""
    for action in ACTIONS:
        yield Entry(
            "row-action" if action.takes else "action", tuple(action.keys.split(",")), action.title, action.help, action.id in fitting
        )


def key_entries(nodes: Iterable[DOMNode], is_offered: Callable[[DOMNode, Binding], bool]) -> Iterator[Entry]:
    """Entries of all actions that these nodes bind, each with all its keys. The pages share one entry."""
    bindings = [(node, binding) for node in nodes for binding in own_bindings(node)]
    pages = [binding for _, binding in bindings if binding.key.isdigit()]
    if pages:
        yield Entry("pages", (f"1-{len(pages)}",), "Pages", ", ".join(binding.description for binding in pages))
    found: dict[str, Entry] = {}
    for node, binding in (each for each in bindings if each[1] not in pages):
        name = binding.action.partition("(")[0]
        fresh = Entry(name, (), binding.description, binding_help(node, binding), is_offered(node, binding))
        known = found.get(binding.action, fresh)
        found[binding.action] = replace(known, keys=(*known.keys, *binding.key.split(",")))
    yield from found.values()


def log_help_text(nodes: Iterable[DOMNode]) -> str:
    """List all keys of a log screen and explain its symbols."""
    return "\n".join(_lines(key_entries(nodes, lambda *_: True))) + "\n" + LOG_LEGEND


def own_bindings(node: DOMNode) -> Iterator[Binding]:
    """Bindings of the node's own class, except for actions (`ACTIONS` lists them) and for keys that only say why they do nothing."""
    for binding in type(node).BINDINGS:
        if isinstance(binding, Binding) and binding.action.partition("(")[0] not in ("act", "not_recorded", "no_action"):
            yield binding


def binding_help(node: DOMNode, binding: Binding) -> str:
    """First line of the docstring of the binding's action method; empty if it has none."""
    return (getattr(getattr(node, f"action_{binding.action}", None), "__doc__", None) or "").partition("\n")[0]


def _lines(entries: Iterable[Entry]) -> Iterator[str]:
    """One line for each entry. Entries of one key follow each other; entries without a text come last, two in a line."""
    by_key: dict[str, list[Entry]] = {}
    for entry in entries:
        by_key.setdefault(entry.keys[0], []).append(entry)
    short = []
    for same in by_key.values():
        for number, entry in enumerate(same):
            line = f"{'' if number else ' '.join(map(key_name, entry.keys)):<16} {entry.label:<13} {entry.text}".rstrip()
            if entry.text:
                yield line
            else:
                short.append(line)
    yield from ("".join(f"{line:<40}" for line in short[place : place + 2]).rstrip() for place in range(0, len(short), 2))


def key_name(key: str) -> str:
    """The name on the keyboard for Textual's name of a key."""
    return KEY_NAMES.get(key, key)
