"""Removes left-over files on a host: dead sessions, links and files that point to nothing, files in /dev/shm.

The request adds: `sessions` ([name or path, …], or `null` for all dead ones; if some are named, only they and the links that point to them
are removed), `older_than` (seconds; only for sessions), `protected` ([path, …]: protected files that a person named, to be removed too),
`ended` ([name, …]: sessions that the caller has just ended, so there is no need to wait whether they come alive).

A session is dead if no raylet listens on its socket *and* no process of it runs; if either is unknown, the session stays. On a file system
that other hosts share it is always unknown, because the session may live there. Both are checked again and again during the removal, so
that a session that comes alive midway loses no more. Protected files (`sample.sizes`) stay, with the folders above them. In a target,
`size` is the bytes on disk, `age` the seconds since the last write to anything in it, and `keeps` the paths that stay, relative to the
folder. In a path, bytes that are not UTF-8 are written as `\\xff`, and a backslash is doubled.

`freed` counts the blocks of files whose last name was removed and that no known process holds open: `disk` on disks, `shm` in /dev/shm. It
is not the difference of the free space, because others write and remove files meanwhile.
"""

from __future__ import annotations

import os
from typing import Callable, Mapping

from ...sample.tree import MovedError, decode_path
from ..holders import describe_uses, find_file_uses, why_in_use
from ..host_state import Answer, HostScanner, OnProgress, Request, Target, describe_bug, report_seldom
from ..removal import PROGRESS_INTERVAL_S
from . import dead_sessions, pointers, shm
from .request import Cleaning, CleanRefusedError, FailedError, sentence

MAX_NAMED = 10
"""Processes with unreadable open files that are named in notes."""


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Finds the dead sessions that the request asks for, and the other left-over files."""
    cleaning = Cleaning(request, scanner, on_progress, {"targets": [], "refused": [], "notes": []})
    state = dead_sessions.wait_and_scan(cleaning)
    for text in dead_sessions.describe_unknown(request, state):
        cleaning.note(text)
    dead = [target for folder in dead_sessions.select_sessions(request, state) if (target := dead_sessions.plan(cleaning, state, folder))]

    # Sessions whose files a live Ray uses are refused; notes report the files that other processes hold open.
    used, hanging = find_file_uses(state.table, on_progress) if dead else ((), ())
    for pid in hanging[:MAX_NAMED]:
        cleaning.note(
            f"the open files of process {pid} could not all be read: it hangs, has too much mapped, or its user's processes take too long"
        )
    if len(hanging) > MAX_NAMED:
        more = len(hanging) - MAX_NAMED
        cleaning.note(f"the open files of {more} more process{'' if more == 1 else 'es'} could not all be read")
    unused = []
    for target in dead:
        in_use = why_in_use(state, used, hanging, str(target["name"]), int(target["uid"]))
        cleaning.add_target(target, in_use)
        if in_use is None:
            unused.append(target)
            for text in describe_uses(used, state.table, str(target["name"])):
                cleaning.note(text)

    removed_whole = [decode_path(target["path"]) for target in unused if not target["keeps"] and target["size"] is not None]
    for temp in state.sessions.temps:
        pointers.plan(cleaning, state, temp, {os.path.basename(path) for path in removed_whole if os.path.dirname(path) == temp})
    if cleaning.everything:
        shm.plan(cleaning, state)
    return cleaning.answer


def do(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Removes exactly the planned things that have not changed and are still dead: sessions first, then the pointers to them."""
    answer: Answer = {"done": [], "refused": [], "failed": [], "freed": {"disk": 0, "shm": 0}, "notes": []}
    cleaning = Cleaning(request, scanner, on_progress, answer)
    order = list(REMOVERS)
    targets = sorted(request["targets"], key=lambda one: order.index(one["what"]) if one["what"] in REMOVERS else len(order))
    report = report_seldom(on_progress, PROGRESS_INTERVAL_S)
    for done, target in enumerate(targets):
        report(f"{done} of {len(targets)} done", done, len(targets))
        if target["what"] not in REMOVERS:
            answer["refused"].append({**target, "reason": "not something that clean removes"})
            continue
        try:
            answer["done"].append({**target, "outcome": REMOVERS[target["what"]](cleaning, target)})
        except CleanRefusedError as error:
            answer["refused"].append({**target, "reason": str(error)})
        except (OSError, MovedError, FailedError) as error:
            answer["failed"].append({**target, "error": sentence(error)})
        except Exception as error:  # noqa: BLE001 otherwise the outcome of the other targets would be lost
            answer["failed"].append({**target, "error": describe_bug(error)})
    return answer


REMOVERS: Mapping[str, Callable[[Cleaning, Target], str]] = {
    "session": dead_sessions.do,
    "link": pointers.do,
    "file": pointers.do,
    "shm": shm.do,
}
"""By type of target, in the order of removal."""
