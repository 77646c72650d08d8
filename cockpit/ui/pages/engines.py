"""Makes the section with the inference engines of a job, for the page of the job."""

from __future__ import annotations

from cockpit.model import ENGINE_FRESH_S, SOFTWARE_NAMES, Engine, Job
from cockpit.text import UNKNOWN, age, percent
from cockpit.ui.columns import number_column, text_column
from cockpit.ui.section import Cell, Column, Section
from cockpit.ui.view import View


def engines_section(job: Job, view: View) -> Section[Engine] | None:
    """The section with the engines of a job; `None`: no engine is known."""
    engines = [engine for engine in view.snapshot.engines or () if job.job and engine.job == job.job]
    if not engines:
        return None
    columns: tuple[Column[Engine], ...] = (
        text_column("NODE", 8, lambda engine, view: view.node_title(engine.node) or None, name=True),
        Column("ENGINE", 17, lambda engine, _: engine.title, sort=lambda engine, _: engine.title),
        number_column("RUNNING", 7, lambda engine, _: engine.running, _whole),
        number_column("WAITING", 7, lambda engine, _: engine.waiting, _whole),
        number_column("KV CACHE", 8, lambda engine, _: engine.kv_cache, lambda share: percent(None if share is None else 100 * share)),
        number_column("TOK/S", 6, lambda engine, _: engine.tokens_per_second, _whole),
        number_column("PREEMPTIONS", 11, lambda engine, _: engine.preemptions_per_minute, _preemptions, rank=1),
        Column("STATE", 6, _state, grow=True),
    )
    return Section(
        "job-engines",
        "ENGINES",
        columns,
        engines,
        search=lambda engine: f"{SOFTWARE_NAMES.get(engine.software, '')} {engine.pid} {engine.model}",
        is_old=lambda engine, view: engine.read is not None and view.now - engine.read > ENGINE_FRESH_S,
    )


def _whole(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:.0f}"


def _preemptions(rate: float | None) -> str:
    return UNKNOWN if rate is None else f"{rate:.0f}/min"


def _state(engine: Engine, view: View) -> Cell:
    """What is wrong with the engine; if nothing is, its model."""
    if engine.ended is not None:
        return ((f"ended {age(view.now - engine.ended)} ago", "bad"),)
    if engine.unanswered is not None:
        return ((f"no answer for {age(view.now - engine.unanswered)}", "warn"),)
    if engine.by == "processes":
        return (("reports no numbers", "dim"),)
    return ((engine.model or "", "dim"),)
