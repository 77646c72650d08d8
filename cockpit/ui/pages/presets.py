"""Makes the page of presets: the needs of each, whether they fit the cluster now, and the last job launched from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cockpit.check.preset_list import PresetEntry
from cockpit.config.document import abbreviate_home
from cockpit.model import Job
from cockpit.presets import Preset, RayStart, doubts, redact_preset
from cockpit.presets.folder import READY_MADE
from cockpit.text import UNKNOWN, count
from cockpit.ui import cells
from cockpit.ui.columns import text_column
from cockpit.ui.marks import Tone
from cockpit.ui.section import MAX_TEXT_LINES, Cell, Column, Item, Page, Pairs, Section, facts
from cockpit.ui.view import View

if TYPE_CHECKING:
    from cockpit.budget import Group

VERDICT_TONES: Mapping[str, Tone] = {"now": "ok", "later": "warn", "never": "bad", "unknown": "dim"}


class PresetsPage(Page):
    """The user's own presets, then the ready-made ones, as they were when they were last read."""

    title = "Presets"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        columns: tuple[Column[PresetEntry], ...] = (
            text_column("PRESETS", 20, lambda entry, _: entry.name, name=True),
            Column("FITS", 8, _fits, sort=lambda entry, _: entry.checked.verdict if entry.checked else None),
            _resource_column("GPU"),
            _resource_column("CPU", rank=4),
            Column("HOSTS", 5, _hosts, right=True, rank=3),
            Column("LAST", 18, _last, rank=1),
            Column("WHY", 24, _why, grow=True, fold=MAX_TEXT_LINES),
            Column("ABOUT", 18, _about, grow=True, rank=2, fold=MAX_TEXT_LINES),
        )
        unknown = "loading" if view.ago is None else "not recorded"
        return (Section("presets", "PRESETS", columns, view.preset_entries, "none", lambda row: f"{row.name} {row.path}", unknown=unknown),)


def _fits(entry: PresetEntry, _: View) -> Cell:
    if entry.mistake is not None:
        return (("invalid", "bad"),)
    if (checked := entry.checked) is None:
        return ""
    if checked.verdict == "never" and checked.has_mistake_in_command:
        return (("mistake", "bad"),)
    return (("now !", "warn"),) if checked.verdict == "now" and checked.doubts else ((checked.verdict, VERDICT_TONES[checked.verdict]),)


def _resource_column(name: str, rank: int = 0) -> Column[PresetEntry]:
    def amount(entry: PresetEntry, _: View) -> float | None:
        return entry.checked.budget.amount(name) if entry.checked else None

    return Column(f"{name}S", 5, lambda entry, view: count(amount(entry, view)) if entry.checked else "", amount, right=True, rank=rank)


def _hosts(entry: PresetEntry, _: View) -> Cell:
    """The number of hosts; unknown if the Slurm job is not known yet."""
    ray = entry.preset.ray if entry.preset else None
    return "" if ray is None else str(len(ray.nodes)) if isinstance(ray, RayStart) else UNKNOWN


def _about(entry: PresetEntry, _: View) -> Cell:
    return (entry.preset.about.partition("\n")[0] if entry.preset else "") or UNKNOWN


def _last(entry: PresetEntry, view: View) -> Cell:
    job = last_job(entry.name, view)
    return "" if job is None else (*cells.state(job.status, view), (f" {cells.time_since(job.ended or job.started, view)}", ""))


def _why(entry: PresetEntry, _: View) -> Cell:
    """Why the file can't be read, or why its job does not fit now, or the first doubt about a job that fits."""
    if entry.mistake is not None:
        return ((entry.mistake, "bad"),)
    checked = entry.checked
    reason = checked and (checked.reason or next((line for line in checked.lines if line.level == "doubt"), None))
    return ((reason.text if reason else "", "dim"),)


def last_job(name: str, view: View) -> Job | None:
    """The newest job that was launched from the preset with this name."""
    launched = (job for job in view.snapshot.jobs or () if job.preset == name)
    return max(launched, key=lambda job: job.started or 0, default=None)


def preset_sections(entry: PresetEntry, view: View) -> Sequence[Section[Any]]:
    """The sections of one preset: its facts, the needs of its job, and every line of the check."""
    # Deferred: only a person who opens a preset waits for the import of what reads commands.
    from cockpit.check.groups import describe_bundles
    from cockpit.check.result_text import SIGNS

    if entry.preset is None:
        return (facts("preset", "PRESET", [("file", entry.path), ("error", entry.mistake or UNKNOWN)], view.width),)
    about = facts("preset", "PRESET", _facts(entry, redact_preset(entry.preset), view), view.width)
    if entry.checked is None:
        return (about,)

    # The groups, in the order in which the framework makes them.
    columns: tuple[Column[Item[Group]], ...] = (
        Column("ASKS FOR", 24, lambda row, _: row.value.name, name=True),
        Column("STRATEGY", 14, lambda row, _: row.value.strategy or "one by one"),
        Column("GPUS", 5, lambda row, _: count(row.value.amount("GPU")), right=True),
        Column("CPUS", 5, lambda row, _: count(row.value.amount("CPU")), right=True),
        Column("BUNDLES", 20, lambda row, _: describe_bundles(row.value), grow=True),
    )
    groups = entry.checked.budget.groups
    rows = None if groups is None else [Item(f"group:{number}", group) for number, group in enumerate(groups)]
    nothing, unknown = "nothing beyond its own command", "unknown: the command can't be read"
    asks = Section("groups", "ASKS FOR", columns, rows, nothing, lambda row: row.value.name, unknown=unknown)

    # The lines of the check, the worst first.
    pairs = [
        (f"{SIGNS[line.level][view.ascii]} {line.level}", f"{line.text}\n-> {line.change}" if line.change else line.text)
        for line in sorted(entry.checked.lines, key=lambda line: -tuple(SIGNS).index(line.level))
    ]
    return (about, asks, facts("check", "CHECK", pairs, view.width))


def _facts(entry: PresetEntry, preset: Preset, view: View) -> Pairs:
    """`preset`: the preset of the entry, without its secrets."""
    from cockpit.check.result_text import headline

    yield "about", preset.about or UNKNOWN
    yield "file", "ready-made; e makes your own copy" if Path(entry.path).parent == READY_MADE else abbreviate_home(Path(entry.path))
    if entry.checked is not None:
        word = headline(entry.name, entry.checked)
        yield "check", word if len(word) > view.width - 20 else ((word, VERDICT_TONES[entry.checked.verdict]),)
    if job := last_job(entry.name, view):
        yield "last launch", (*cells.state(job.status, view), (f"  {job.id}, {cells.time_since(job.started, view)} ago", ""))
    if preset.job is not None:
        yield "entrypoint", preset.job.entrypoint
        yield "working_dir", preset.job.working_dir or "none: nothing is uploaded"
        yield from (("env", f"{name}={value}") for name, value in preset.job.env.items())

    # Ray
    if preset.ray is None:
        yield "cluster", "the running cluster; this preset starts none"
    elif isinstance(preset.ray, RayStart):
        if preset.ray.slurm:
            yield "cluster", f"the nodes of Slurm job {preset.ray.slurm}"
        for node in preset.ray.nodes:
            yield "head" if node is preset.ray.head else "worker", _with_flags(view.host_words(node.host), node.flags)
    else:
        yield "cluster", "the nodes of the Slurm job that cockpit runs in, or that --slurm names"
        yield "head", _with_flags("the first node", preset.ray.head)
        yield "workers", _with_flags("all other nodes", preset.ray.workers)
    if preset.ray is not None:
        yield from (("Ray env", f"{name}={value}") for name, value in preset.ray.env.items())
    yield from (("warning", doubt) for doubt in doubts(preset))


def _with_flags(host: str, flags: Mapping[str, Any]) -> str:
    return f"{host}  {' '.join(f'{name}={value}' for name, value in flags.items())}".strip()
