"""Finds commands of a script that end processes by name, so that other jobs on the host, or Ray itself, end too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from cockpit.budget.demand import Line

_BROAD = re.compile(r"\^?(?:python[\d.]*|ray(?:let|::.*)?|gcs_server|vllm(?:::.*)?|sglang(?:::.*)?|pt_main_thread)\$?", re.IGNORECASE)
"""Names that processes of other jobs have too."""
BY_NAME = {"pkill", "killall"}
_NARROWED = re.compile(r"--(?:parent|pgroup|session|terminal|ns)\b.*|-[PgstO].*|-\w*[Pgst]")
"""Flags that limit `pkill` to children, or to one group, session or terminal."""
_WITH_VALUE = {"-u", "-U", "-G", "-F", "--euid", "--uid", "--group", "--pidfile", "--user", "--signal", "-s"}

RAY_STOP = Line(
    "doubt",
    "`ray stop` in the command stops every Ray of that user on its host, with all jobs, perhaps this one too",
    "remove it from the command; `cockpit recover` stops and starts Ray outside of the job",
)


def stop_lines(argv: Sequence[str]) -> Iterator[Line]:
    """Lines on processes of other jobs that a command would end, also if another program starts the command."""
    words = [word.rpartition("/")[2] for word in argv]
    at = next((at for at, word in enumerate(words) if word in BY_NAME or words[at : at + 2] == ["ray", "stop"]), None)
    if at is not None:
        yield from [RAY_STOP] if words[at] == "ray" else _by_name(words[at], argv[at + 1 :])


def _by_name(name: str, words: Sequence[str]) -> Iterator[Line]:
    flags = [word for word in words if word.startswith("-")]
    names = [word for before, word in itertools.pairwise(("", *words)) if not word.startswith("-") and before not in _WITH_VALUE]
    broad = next((word for word in names if _BROAD.fullmatch(word)), None)
    if broad is None or (name == "pkill" and any(_NARROWED.fullmatch(flag) for flag in flags)):
        return
    yield Line(
        "doubt",
        f"`{name} … {broad}` in the command kills every process with that name that it may kill on its host: other jobs, engines, workers",
        "remove it from the command; `cockpit kill-orphans` kills what earlier runs left, and nothing else",
    )
