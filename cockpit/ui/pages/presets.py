"""Presets: saved jobs and clusters, what each asks for, whether that would fit now, and how it went last."""

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
    from cockpit.check.result import CheckOutcome

VERDICT_TONES: Mapping[str, Tone] = {"now": "ok", "later": "warn", "never": "bad", "unknown": "dim"}


class PresetsPage(Page):
    """The user's own, then the ready-made ones, as they were when they were read last."""

    title = "Presets"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        columns: tuple[Column[PresetEntry], ...] = (
            text_column("PRESETS", 20, lambda entry, _: entry.name, name=True),
            Column("FITS", 8, _fits, sort=lambda entry, _: entry.checked.verdict if entry.checked else None),
            _resource("GPU"),
            _resource("CPU", rank=4),
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


def _hosts(entry: PresetEntry, _: View) -> Cell:
    """How many; of a Slurm job that nobody knows yet it is not known."""
    ray = entry.preset.ray if entry.preset else None
    return "" if ray is None else str(len(ray.nodes)) if isinstance(ray, RayStart) else UNKNOWN


def _why(entry: PresetEntry, _: View) -> Cell:
    """Why it can't be read, or does not fit now, or what speaks against it though it does."""
    if entry.mistake is not None:
        return ((entry.mistake, "bad"),)
    checked = entry.checked
    reason = checked and (checked.reason or next((line for line in checked.lines if line.level == "doubt"), None))
    return ((reason.text if reason else "", "dim"),)


def _resource(name: str, rank: int = 0) -> Column[PresetEntry]:
    def amount(entry: PresetEntry, _: View) -> float | None:
        return entry.checked.budget.amount(name) if entry.checked else None

    return Column(f"{name}S", 5, lambda entry, view: count(amount(entry, view)) if entry.checked else "", amount, right=True, rank=rank)


def _last(entry: PresetEntry, view: View) -> Cell:
    job = last_job(entry.name, view)
    if job is None:
        return ""
    return (*cells.state(job.status, view), (f" {cells.ago(job.ended or job.started, view)}", ""))


def last_job(name: str, view: View) -> Job | None:
    """The newest job that was launched from the preset of this name."""
    launched = (job for job in view.snapshot.jobs or () if job.preset == name)
    return max(launched, key=lambda job: job.started or 0, default=None)


def _about(entry: PresetEntry, _: View) -> Cell:
    return (entry.preset.about.partition("\n")[0] if entry.preset else "") or UNKNOWN


def preset_sections(entry: PresetEntry, view: View) -> Sequence[Section[Any]]:
    """All of one preset, what its job asks for, and every line of the check."""
    if entry.preset is None:
        return (facts("preset", "PRESET", [("file", entry.path), ("error", entry.mistake or UNKNOWN)], view.width),)
    parts: list[Section[Any]] = [facts("preset", "PRESET", list(_facts(entry, redact_preset(entry.preset), view)), view.width)]
    if entry.checked is not None:
        parts += [_groups(entry.checked), _check_section(entry.checked, view)]
    return parts


def _facts(entry: PresetEntry, preset: Preset, view: View) -> Pairs:
    from cockpit.check.text import headline  # deferred, here and below: only who opens a preset pays for what reads commands

    yield "about", preset.about or UNKNOWN
    yield "file", "ready-made; e makes your own copy" if Path(entry.path).parent == READY_MADE else abbreviate_home(Path(entry.path))
    if entry.checked is not None:
        word = headline(entry.name, entry.checked)
        yield "check", word if len(word) > view.width - 20 else ((word, VERDICT_TONES[entry.checked.verdict]),)
    if job := last_job(entry.name, view):
        yield "last launch", (*cells.state(job.status, view), (f"  {job.id}, {cells.ago(job.started, view)} ago", ""))
    if preset.job is not None:
        yield "entrypoint", preset.job.entrypoint
        yield "working_dir", preset.job.working_dir or "none: nothing is uploaded"
        yield from (("env", f"{name}={value}") for name, value in preset.job.env.items())
    yield from _cluster(preset, view)
    yield from (("warning", doubt) for doubt in doubts(preset))


def _cluster(preset: Preset, view: View) -> Pairs:
    if preset.ray is None:
        yield "cluster", "the running cluster; this preset starts none"
        return
    if isinstance(preset.ray, RayStart):
        if preset.ray.slurm:
            yield "cluster", f"the nodes of Slurm job {preset.ray.slurm}"
        for node in preset.ray.nodes:
            yield "head" if node is preset.ray.head else "worker", _with_flags(view.host_words(node.host), node.flags)
    else:
        yield "cluster", "the nodes of the Slurm job that cockpit runs in, or that --slurm names"
        yield "head", _with_flags("the first node", preset.ray.head)
        yield "workers", _with_flags("all other nodes", preset.ray.workers)
    yield from (("Ray env", f"{name}={value}") for name, value in preset.ray.env.items())


def _with_flags(host: str, flags: Mapping[str, Any]) -> str:
    return f"{host}  {' '.join(f'{name}={value}' for name, value in flags.items())}".strip()


def _groups(checked: CheckOutcome) -> Section[Item[Group]]:
    """In the order in which the framework makes them."""
    from cockpit.check.groups import bundles

    columns: tuple[Column[Item[Group]], ...] = (
        Column("ASKS FOR", 24, lambda row, _: row.of.name, name=True),
        Column("STRATEGY", 14, lambda row, _: row.of.strategy or "one by one"),
        Column("GPUS", 5, lambda row, _: count(row.of.amount("GPU")), right=True),
        Column("CPUS", 5, lambda row, _: count(row.of.amount("CPU")), right=True),
        Column("BUNDLES", 20, lambda row, _: bundles(row.of), grow=True),
    )
    groups = checked.budget.groups
    rows = None if groups is None else [Item(f"group:{number}", group) for number, group in enumerate(groups)]
    unknown = "unknown: the command can't be read"
    return Section("groups", "ASKS FOR", columns, rows, "nothing beyond its own command", lambda row: row.of.name, unknown=unknown)


def _check_section(checked: CheckOutcome, view: View) -> Section[Any]:
    """The worst first: it is what somebody came for."""
    from cockpit.check.text import SIGNS

    lines = sorted(checked.lines, key=lambda line: -tuple(SIGNS).index(line.level))
    texts = (f"{line.text}\n-> {line.change}" if line.change else line.text for line in lines)
    pairs = [(f"{SIGNS[line.level][view.ascii]} {line.level}", text) for line, text in zip(lines, texts, strict=True)]
    return facts("check", "CHECK", pairs, view.width)
