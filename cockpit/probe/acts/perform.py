"""Carries out one request: one stage of one act."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Callable

from .host_state import Answer, HostScanner, OnProgress, Request, describe_bug

Stage = Callable[[Request, HostScanner, OnProgress], Answer]


def perform(text: str, write_line: Callable[[Answer], None]) -> None:
    """Writes progress lines, and then exactly one answer."""

    def on_progress(words: str, done: int | None = None, of: int | None = None) -> None:
        write_line({"tell": words, "done": done, "of": of})

    on_progress("checking")  # written first: without this line, the caller knows that nothing was done
    write_line(_carry_out(text, on_progress))


def _carry_out(text: str, on_progress: OnProgress) -> Answer:
    doubt = ""
    try:
        request = json.loads(text)
        act, stage = request.get("act"), request.get("stage")
        if act not in ACTS or stage not in ("plan", "do"):
            return {"error": "The probe does not know this action: it may be of another cockpit version"}
        # Only this act is imported: an import from source takes a tenth of a second, and a person waits.
        perform_stage: Stage = getattr(import_module(f".{act}", __package__), stage)
        doubt = DOUBT if stage == "do" else ""
        return perform_stage(request, HostScanner(request), on_progress)
    except OSError as error:
        return {"error": f"{error}{doubt}"}
    except Exception as error:  # noqa: BLE001 otherwise a traceback would be the only answer
        return {"error": describe_bug(error) + doubt}


DOUBT = ": part of it may have been done"
ACTS = ("kill", "stop", "clean", "ray", "start")
"""The modules of the acts, each with a `plan` and a `do`."""
