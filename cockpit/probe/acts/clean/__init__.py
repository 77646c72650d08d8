"""Removes what is left over on a host: dead sessions, links and files that point at nothing, files in /dev/shm.

The request adds: `sessions` ([name or path, …], or `null` for every dead one; when some are named, nothing else is cleaned but the links
that point at them), `older_than` (seconds; sessions alone), `protected` ([path, …]: protected and named one by one, to go too), `ended`
([name, …]: whose asker has just ended them, so that nobody waits whether they come alive).

A session is dead when no raylet listens on its socket *and* no process of it runs; when either can't be told it stays. On a file system
that other hosts share it never can: the session may live there. Both are asked again all the time while it is removed, so that one that
comes alive midway loses no more. What is protected in it (`look.sizes`) stays, with the folders above it. In its target `size` is
what lies on the disk, `age` the seconds since anything in it was last written, `keeps` what stays, from the folder on. A path holds
`\\xff` where it is no UTF-8, and a backslash twice.

`freed` counts the blocks of the files whose last name was removed and which nobody was seen to hold open: `disk` those on disks, `shm`
those in /dev/shm. It is not the difference of the file system's free space, which others fill and empty meanwhile.
"""

from __future__ import annotations

import os
from typing import Callable, Mapping

from ...look.tree import MovedError, decode_path
from ..holders import describe_uses, find_file_uses, why_in_use
from ..host_state import Answer, HostScanner, HostState, OnProgress, Request, Target, describe_bug, report_seldom
from ..removal import PROGRESS_INTERVAL_S
from . import dead_sessions, pointers, shm
from .request import Cleaning, CleanRefusedError, FailedError, sentence

MOST_NAMED = 10
"""Processes that do not answer."""


def plan(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Every dead session that is meant, and what else is left over."""
    cleaning = Cleaning(request, scanner, on_progress, {"targets": [], "refused": [], "notes": []})
    look = dead_sessions.wait_and_look(cleaning)
    for text in dead_sessions.describe_unknown(request, look):
        cleaning.note(text)
    leaving = [target for folder in dead_sessions.select_sessions(request, look) if (target := dead_sessions.plan(cleaning, look, folder))]
    leaving = _drop_used(cleaning, look, leaving)
    cleaning.answer["targets"] += leaving
    for temp in look.sessions.temps:
        pointers.plan(cleaning, look, temp, {str(target["name"]) for target in leaving if _goes_whole(target, temp)})
    if cleaning.everything:
        shm.plan(cleaning, look)
    return cleaning.answer


def _goes_whole(target: Target, temp: str) -> bool:
    return os.path.dirname(decode_path(target["path"])) == temp and not target["keeps"] and target["size"] is not None


def _drop_used(cleaning: Cleaning, look: HostState, leaving: list[Target]) -> list[Target]:
    """Those that no live Ray works with; of what others hold open it is told."""
    if not leaving:
        return leaving
    used, hanging = find_file_uses(look.table, cleaning.on_progress)
    for pid in hanging[:MOST_NAMED]:
        cleaning.note(
            f"the open files of process {pid} could not all be read: it hangs, has too much mapped, or its user's processes take too long"
        )
    if len(hanging) > MOST_NAMED:
        more = len(hanging) - MOST_NAMED
        cleaning.note(f"the open files of {more} more process{'' if more == 1 else 'es'} could not all be read")
    kept = []
    for target in leaving:
        in_use = why_in_use(look, used, hanging, str(target["name"]), int(target["uid"]))
        if in_use is not None:
            cleaning.add_target(target, in_use)
            continue
        kept.append(target)
        for text in describe_uses(used, look.table, str(target["name"])):
            cleaning.note(text)
    return kept


def do(request: Request, scanner: HostScanner, on_progress: OnProgress) -> Answer:
    """Removes exactly the planned things that are still what they were, and still dead: sessions first, then what points at them."""
    answer: Answer = {"done": [], "refused": [], "failed": [], "freed": {"disk": 0, "shm": 0}, "notes": []}
    cleaning = Cleaning(request, scanner, on_progress, answer)
    targets = sorted(request["targets"], key=_turn)
    say = report_seldom(on_progress, PROGRESS_INTERVAL_S)
    for done, target in enumerate(targets):
        say(f"{done} of {len(targets)} done", done, len(targets))
        _do(cleaning, target)
    return answer


def _turn(target: Target) -> int:
    return list(DEEDS).index(target["what"]) if target["what"] in DEEDS else len(DEEDS)


def _do(cleaning: Cleaning, target: Target) -> None:
    deed = DEEDS.get(target["what"])
    if deed is None:
        cleaning.answer["refused"].append({**target, "reason": "not something that clean removes"})
        return
    try:
        cleaning.answer["done"].append({**target, "outcome": deed(cleaning, target)})
    except CleanRefusedError as error:
        cleaning.answer["refused"].append({**target, "reason": str(error)})
    except (OSError, MovedError, FailedError) as error:
        cleaning.answer["failed"].append({**target, "error": sentence(error)})
    except Exception as error:  # noqa: BLE001 what became of the other targets would not be known
        cleaning.answer["failed"].append({**target, "error": describe_bug(error)})


DEEDS: Mapping[str, Callable[[Cleaning, Target], str]] = {
    "session": dead_sessions.do,
    "link": pointers.do,
    "file": pointers.do,
    "shm": shm.do,
}
"""In the order in which they are done."""
