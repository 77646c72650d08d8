"""Carries out one request: one stage of one action."""

from __future__ import annotations

import json
from typing import Any, Callable

from . import clean, kill, ray, start, stop
from .host_state import Answer, HostScanner, describe_bug

ACTIONS = {"kill": kill, "stop": stop, "clean": clean, "ray": ray, "start": start}
"""The modules of the actions, each with a `plan` and a `do`."""
DOUBT = ": part of it may have been done"


def perform(text: str, write_line: Callable[[Answer], None]) -> None:
    """Writes progress lines, and then exactly one answer."""

    def on_progress(words: str, done: int | None = None, of: int | None = None) -> None:
        write_line({"tell": words, "done": done, "of": of})

    on_progress("checking")  # written first: without this line, the caller knows that nothing was done
    doubt = ""
    try:
        request = json.loads(text)
        action: Any = ACTIONS.get(request.get("act"))
        stage = {"plan": action.plan, "do": action.do}.get(request.get("stage")) if action else None
        if stage is None:
            answer = {"error": "The probe does not know this action: it may be of another cockpit version"}
        else:
            doubt = DOUBT if stage is action.do else ""
            answer = stage(request, HostScanner(request), on_progress)
    except OSError as error:
        answer = {"error": f"{error}{doubt}"}
    except Exception as error:  # noqa: BLE001 otherwise a traceback would be the only answer
        answer = {"error": describe_bug(error) + doubt}
    write_line(answer)
