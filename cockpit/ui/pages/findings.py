"""Makes the pages of findings, of one finding and of failing sources; and the sections of findings that other pages show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from cockpit.model import LEVELS, Actor, Demand, Fault, Finding, Node, PlacementGroup, Process, Session
from cockpit.model.about import find_things
from cockpit.placement import needs_words
from cockpit.report.faults import also_down, by_cause
from cockpit.text import UNKNOWN
from cockpit.ui import cells
from cockpit.ui.columns import age_column, text_column
from cockpit.ui.findings import next_steps
from cockpit.ui.section import MAX_TEXT_LINES, VALUE_COLUMN, Column, FactRow, Item, Page, Pairs, Section, facts, paragraphs
from cockpit.ui.view import View

MAX_ABOUT_ROWS = 200


class FindingsPage(Page):
    """Visible findings, and below them the hidden ones."""

    title = "Findings"
    short_title = "Finds"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """The visible findings; the hidden ones only if there are some."""
        found = view.index.findings
        rows = found.visible if view.snapshot.findings_as_of is not None or found.visible else None
        visible = _section("findings", "FINDINGS", rows, "none: cockpit sees nothing wrong", what="WHAT (x: hide)")
        return (visible, _hidden_section(found.hidden)) if found.hidden else (visible,)


def _hidden_section(findings: Sequence[Finding]) -> Section[Any]:
    """Hidden findings have rows with keys of their own, so that the cursor does not follow a finding that is hidden."""

    def of_item(column: Column[Finding]) -> Column[Any]:
        sort = column.sort
        by = None if sort is None else lambda row, view: sort(row.value, view)
        return replace(column, cell=lambda row, view: column.cell(row.value, view), sort=by, fold=1)

    columns = _section("hidden", "HIDDEN", findings, what="WHAT (x: show again)").columns
    rows = [Item(f"hidden:{finding.key}", finding, finding) for finding in findings]
    return Section("hidden", "HIDDEN", tuple(map(of_item, columns)), rows, search=lambda row: _search(row.value))


def worst_section(view: View) -> Iterator[Section[Finding]]:
    """The worst findings, with room left for the nodes; no section if nothing is wrong."""
    found = view.index.findings.visible
    if found:
        yield replace(_section("worst", "FINDINGS", found), min_rows=max(2, view.height // 8), more_hint="press 6")


def about_section(key: str, view: View) -> Iterator[Section[Finding]]:
    """The findings about the thing with this key; no section if there are none."""
    if found := view.index.findings.about(key):
        yield _section("about", "FINDINGS", found)


def _section(key: str, title: str, rows: Sequence[Finding] | None, nothing: str = "none", *, what: str = "WHAT") -> Section[Finding]:
    columns: tuple[Column[Finding], ...] = (
        Column(title, 10, lambda finding, view: cells.level(finding.level, view), sort=lambda finding, _: LEVELS.index(finding.level)),
        age_column("FOR", 6, lambda finding, view: None if (held := finding.lasted(view.now)) is None else view.now - held),
        Column(
            "KEY", 5, lambda finding, view: ((next_steps(finding, has_actions=view.actions, past=view.ago is not None)[0].key, "accent"),)
        ),
        # It does not grow: the sentence has the room, which begins with what is wrong; a long id would push it aside.
        Column("ABOUT", 16, lambda finding, _: finding.subject, lambda finding, _: finding.subject, cut="middle", rank=1, fold=2),
        Column(what, 44, lambda finding, _: finding.text, grow=True, fold=MAX_TEXT_LINES),
    )
    return Section(key, title, columns, rows, nothing, _search, lambda finding, _: finding.seen is not None, unknown="unknown yet")


def _search(finding: Finding) -> str:
    return f"{finding.level} {finding.code} {finding.subject} {finding.text}"


def finding_sections(finding: Finding, view: View) -> Sequence[Section[Any]]:
    """The sections of one finding: its facts, its evidence, and the things that it is about."""

    def pairs() -> Pairs:
        yield "level", cells.level(finding.level, view)
        yield "about", finding.subject
        yield "what", finding.text
        yield "since", cells.moment(finding.since, view)
        if finding.seen is not None:
            yield "data from", cells.moment(finding.seen, view)
        if finding.remedy:
            yield "what to do", finding.remedy.text
        steps = [step for step in next_steps(finding, has_actions=view.actions, past=view.ago is not None) if step.key != "Enter"]
        for name, step in zip(("press", *("then" for _ in steps)), steps, strict=False):
            yield name, ((f"{step.key:<3}", "accent"), (step.text, ""))
        yield "code", finding.code

    about = find_things(finding, view.snapshot)
    kinds = {"pg": "group"}
    rows = [
        FactRow(f"of:{thing.key}", kinds.get(kind := thing.key.partition(":")[0], kind), _thing_title(thing, view), thing)
        for thing in about
    ]
    columns: tuple[Column[FactRow], ...] = (Column("ABOUT", 8, lambda line, _: ((line.name, "dim"),)), VALUE_COLUMN)
    things = Section("rows", "ABOUT", columns, rows[:MAX_ABOUT_ROWS], search=lambda line: str(line.value), total=len(rows))
    return (
        facts("finding", "FINDING", pairs(), view.width),
        paragraphs("evidence", "EVIDENCE", finding.evidence, view.width),
        *([things] if rows else []),
    )


def _thing_title(thing: Any, view: View) -> str:
    if isinstance(thing, Node):
        return f"{view.cluster.titles.of_node(thing)} {thing.ip}".strip()
    if isinstance(thing, Process):
        return f"{thing.pid} on {cells.place(thing, view)}: {cells.command(thing)}"
    if isinstance(thing, Session):
        return f"{thing.path} on {view.host_title(thing.host)}"
    if isinstance(thing, Actor):
        return f"{thing.class_} {thing.name} {thing.state}"
    if isinstance(thing, PlacementGroup):
        return f"{cells.title(thing)} {thing.state}"
    if isinstance(thing, Demand):
        return f"{thing.count} for {needs_words(thing.needs)}"
    return str(getattr(thing, "id", UNKNOWN))


class FaultsPage(Page):
    """Failing sources and old data by cause, and since when."""

    title = "Failing sources"

    def sections(self, view: View) -> Sequence[Section[Any]]:
        """One section, the oldest fault first."""
        columns: tuple[Column[Fault], ...] = (
            Column("FAILING SOURCES", 20, lambda fault, _: ((fault.source, "bad"),), sort=lambda fault, _: fault.source),
            text_column("HOST", 10, lambda fault, view: view.host_title(fault.host) if fault.host else None, rank=1, name=True),
            age_column("SINCE", 6, lambda fault, _: fault.since),
            Column("WHAT", 30, lambda fault, _: f"{fault.text}{also_down(fault)}", grow=True, fold=MAX_TEXT_LINES),
        )
        return (
            Section(
                "faults",
                "FAILING SOURCES",
                columns,
                by_cause(view.snapshot.faults),
                "none: all sources answer",
                lambda fault: f"{' '.join(fault.sources)} {fault.host} {fault.text}",
            ),
        )
