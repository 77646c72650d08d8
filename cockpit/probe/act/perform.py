"""Carries out one request: the act it names, in the stage it names."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, Mapping, Tuple

from . import clean, kill, ray, stop
from .look import Request, Tell, Watcher

Answer = Dict[str, Any]
Stage = Callable[[Request, Watcher, Tell], Answer]


class RequestError(Exception):
    """The request makes no sense here; its text is one sentence."""


def perform(text: str, say: Callable[[Answer], None]) -> None:
    """Answers with exactly one line that is no progress."""

    def tell(words: str, done: int | None = None, of: int | None = None) -> None:
        say({"tell": words, "done": done, "of": of})

    try:
        request = json.loads(text)
        stage = _stage(request)
        say(stage(request, Watcher(request), tell))
    except (RequestError, OSError) as error:
        say({"error": str(error)})


def _stage(request: Mapping[str, Any]) -> Stage:
    stages = ACTS.get(str(request.get("act")))
    if stages is None or request.get("stage") not in ("plan", "do"):
        raise RequestError("This probe doesn't know that act; is it of another version of cockpit?")
    return stages[request["stage"] == "do"]


ACTS: Mapping[str, Tuple[Stage, Stage]] = {
    "kill": (kill.plan, kill.do),
    "clean": (clean.plan, clean.do),
    "ray": (ray.plan, ray.do),
    "stop": (stop.plan, stop.do),
}
"""Each with its plan and its deed."""
