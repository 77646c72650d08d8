"""Carries out one request: the act it names, in the stage it names."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Callable

from .host_state import Answer, HostScanner, Request, Tell, unforeseen

Stage = Callable[[Request, HostScanner, Tell], Answer]


def perform(text: str, say: Callable[[Answer], None]) -> None:
    """Answers with exactly one line that is no progress."""

    def tell(words: str, done: int | None = None, of: int | None = None) -> None:
        say({"tell": words, "done": done, "of": of})

    tell("checking")  # before anything is done: a caller that has heard nothing may take it that nothing was
    say(_answer(text, tell))


def _answer(text: str, tell: Tell) -> Answer:
    doubt = ""
    try:
        request = json.loads(text)
        act, stage = request.get("act"), request.get("stage")
        if act not in ACTS or stage not in ("plan", "do"):
            return {"error": "The probe does not know this action: it may be of another cockpit version"}
        # only the act that is asked for: from source an import is a tenth of a second, and somebody waits
        perform_stage: Stage = getattr(import_module(f".{act}", __package__), stage)
        doubt = DOUBT if stage == "do" else ""
        return perform_stage(request, HostScanner(request), tell)
    except OSError as error:
        return {"error": f"{error}{doubt}"}
    except Exception as error:  # noqa: BLE001 a traceback would be all that is known of what was done
        return {"error": unforeseen(error) + doubt}


DOUBT = ": part of it may have been done"
ACTS = ("kill", "stop", "clean", "ray", "start")
"""Modules beside this one, each with a `plan` and its `do`."""
