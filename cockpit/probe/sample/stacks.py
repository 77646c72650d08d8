"""Reads the Python stacks of one process on this host by py-spy, without stopping the process."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any, Dict, List

from .. import programs, trust
from ..trust import TrustError
from .proc import make_legible, read_or_nothing
from .processes import lives, read_environ, read_stat, read_status

DUMP_TIMEOUT_S = 8.0
"""Seconds for py-spy: it reads the symbols of all mapped libraries, which takes long on a loaded host."""
TRIES = 3
"""A process that is not stopped may change its stack during the reading; py-spy then fails."""
PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
MAX_THREADS, MAX_FRAMES = 300, 150
NO_PY_SPY = (
    "py-spy is not on this host: `pip install py-spy` in the environment of Ray (it comes with ray[default]), or put it on the PATH of root"
)

Answer = Dict[str, Any]


def stack(pid: int, ticks: int) -> Answer:
    """The threads of exactly this process, or an error sentence. `ticks` 0: of any process that has the pid."""
    found = read_stat(pid)
    if found is None or (ticks and not lives(pid, ticks)):
        return {"error": f"Process {pid} has ended; that pid is free or another process's now."}
    program, reason = _find_py_spy(pid)
    if program is None:
        return {"error": f"{NO_PY_SPY}{f' ({reason})' if reason else ''}"}
    answer = _dump(program, pid)
    if not lives(pid, found.ticks):
        return {"error": f"Process {pid} has ended while it was read."}
    return answer if "error" in answer else {"pid": pid, "ticks": found.ticks, **answer}


def _dump(program: str, pid: int) -> Answer:
    errors = ""
    for _ in range(TRIES):
        words = [program, "dump", "--json", "--nonblocking", "--pid", str(pid)]
        try:
            ended = programs.run(words, programs.our_account(), {"PATH": os.defpath, "LANG": "C.UTF-8"}, limit_s=DUMP_TIMEOUT_S)
        except (OSError, TrustError) as error:
            return {"error": f"{program}: {(getattr(error, 'strerror', None) or str(error)).lower()}"}
        if ended.code is None:
            return {
                "error": f"py-spy has not answered in {DUMP_TIMEOUT_S:.0f} s: the process may be stopped or in uninterruptible sleep (D)"
            }
        if ended.code == 0:
            return _parse_threads(ended.out)
        errors = make_legible(ended.err.decode("utf-8", "surrogateescape"))
        if "ermission" in errors:
            break
    return {"error": _explain(errors, pid)}


def _parse_threads(printed: bytes) -> Answer:
    try:
        threads: List[Answer] = json.loads(printed)
        frames = [
            [
                {"name": str(frame["name"]), "file": str(frame.get("short_filename") or frame["filename"]), "line": int(frame["line"])}
                for frame in thread["frames"][:MAX_FRAMES]
            ]
            for thread in threads[:MAX_THREADS]
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return {"error": f"py-spy's output can't be read: {error}"}
    return {"threads": [{"frames": one} for one in frames]}


def _explain(errors: str, pid: int) -> str:
    """One sentence from the error output of py-spy."""
    if "ermission" in errors:
        # The rule of the kernel that forbids it (ptrace(2)).
        uid, _ = read_status(pid)
        scope = read_or_nothing(PTRACE_SCOPE).strip()  # empty if the kernel has no such rule
        why = "run cockpit as root (in a container: with the capability SYS_PTRACE)"
        if os.geteuid() not in (uid, trust.ROOT) and uid is not None:
            why = "it is another user's: run cockpit as root or as its user"
        elif scope not in ("", "0"):
            why = f"kernel.yama.ptrace_scope is {scope} on this host: run cockpit as root, or set it to 0 to read your own processes"
        return f"py-spy is not allowed to read process {pid}: {why}"
    if "python version" in errors or "python interpreter" in errors.lower():
        return f"process {pid} runs no Python that py-spy knows"
    line = next((line for line in reversed(errors.splitlines()) if line.strip() and not line.startswith((" ", "\t"))), "no output")
    return f"py-spy can't read process {pid}: {line.strip()[:300]}"


def _find_py_spy(pid: int) -> "tuple[str | None, str | None]":
    """Looks for py-spy beside our Python, on our PATH, then on the PATH of the process. The second value: why a py-spy is not run.

    A py-spy of the process is run only if nobody but root and us could have written it.
    """
    ours = [os.path.join(os.path.dirname(sys.executable), "py-spy"), shutil.which("py-spy") or ""]
    reasons: List[str] = []
    for path in [path for path in ours if path and os.access(path, os.X_OK)]:
        reason = trust.why_not_run(path, trust.ROOT) if os.geteuid() == trust.ROOT else None
        if reason is None:
            return path, None
        reasons.append(f"{path} is not run as root: {reason}")
    folders = [folder for folder in (read_environ(pid) or {}).get("PATH", "").split(os.pathsep) if folder.startswith("/")]
    theirs = (os.path.join(folder, "py-spy") for folder in folders)
    found = next((path for path in theirs if os.access(path, os.X_OK) and trust.why_not_run(path, os.geteuid()) is None), None)
    return found, next(iter(reasons), None)
