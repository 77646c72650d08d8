"""Finds commands of a script that end processes by name, so that other jobs on the host, or Ray itself, end too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence

from cockpit.budget.demand import Line

_BROAD = re.compile(r"\^?(?:python[\d.]*|ray(?:let|::.*)?|gcs_server|vllm(?:::.*)?|sglang(?:::.*)?|pt_main_thread)\$?", re.IGNORECASE)
"""Names that processes of other jobs have too."""
BY_NAME = {"pkill", "killall"}
RAY_STOP = "ray stop"
_NARROWED = re.compile(r"--(?:parent|pgroup|session|terminal|ns)\b.*|-[PgstO].*|-\w*[Pgst]")
"""Flags that limit `pkill` to children, or to one group, session or terminal."""
_WITH_VALUE = {"-u", "-U", "-G", "-F", "--euid", "--uid", "--group", "--pidfile", "--user", "--signal", "-s"}


def broad_stop(argv: Sequence[str]) -> str | None:
    """What ends processes of other jobs in a command, such as `pkill … python`, also if another program starts it."""
    words = [word.rpartition("/")[2] for word in argv]
    at = next((at for at, word in enumerate(words) if word in BY_NAME or words[at : at + 2] == ["ray", "stop"]), None)
    if at is None or words[at] == "ray":
        return None if at is None else RAY_STOP
    rest = argv[at + 1 :]
    names = [word for before, word in itertools.pairwise(("", *rest)) if not word.startswith("-") and before not in _WITH_VALUE]
    broad = next((word for word in names if _BROAD.fullmatch(word)), None)
    is_narrowed = words[at] == "pkill" and any(_NARROWED.fullmatch(word) for word in rest if word.startswith("-"))
    return None if broad is None or is_narrowed else f"{words[at]} … {broad}"


def stop_lines(stops: Collection[str], *, starts_ray: bool) -> Iterator[Line]:
    """Lines on commands that end processes of other people. A script that starts its own Ray may stop it, so that is not listed."""
    if RAY_STOP in stops and not starts_ray:
        yield Line(
            "doubt",
            f"`{RAY_STOP}` in the command stops every Ray of that user on its host, with all jobs, perhaps this one too",
            "remove it from the command; `cockpit recover` stops and starts Ray outside of the job",
        )
    if by_name := ", ".join(f"`{stop}`" for stop in stops if stop != RAY_STOP):
        yield Line(
            "doubt",
            f"{by_name} in the command kills every process with that name that it may kill on its host: other jobs, engines, workers",
            "remove it from the command; `cockpit kill-orphans` kills what earlier runs left, and nothing else",
        )
