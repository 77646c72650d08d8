"""Writes a report as one HTML file for screens, phones and paper, without scripts and without anything loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cockpit.report.commands import remedy_command
from cockpit.report.incident import words
from cockpit.report.incident.account import Account, Episode
from cockpit.report.incident.charts import gpu_chart, memory_chart, phase_chart, share_bar, timeline
from cockpit.report.incident.markup import Html, tag
from cockpit.report.incident.style import CSS
from cockpit.report.usage import hours_words
from cockpit.text import UNKNOWN

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Even if a text from the cluster were taken for HTML, a browser would load and run nothing."""


def account_html(account: Account) -> str:
    """The HTML document."""
    title = f"cockpit report: {words.cluster_words(account)}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(CSS)),
    )
    body = tag("body", tag("main", *_sections(account, words.MomentFormatter(account.begin, account.end))))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _sections(account: Account, clock: words.MomentFormatter) -> Iterator[Html | None]:
    yield tag(
        "header",
        tag("h1", "What happened"),
        tag("p", words.cluster_words(account)),
        tag("p", words.watched_words(account)),
        tag("p", words.summary(account), class_="summary"),
    )
    still, over = words.open_findings(account), words.closed_findings(account)
    yield _findings("Findings that were open at the end", still, clock)
    charts = (timeline(account, clock), phase_chart(account, clock), gpu_chart(account, clock), memory_chart(account, clock))
    yield tag("section", tag("h2", "Timeline"), *charts)
    yield _findings("Findings that had cleared", over, clock)
    actions = [
        (clock.at(one.at), words.action_words(one), one.user or UNKNOWN, one.host or UNKNOWN, words.duration_words(one.at, one.end))
        for one in account.actions
    ]
    yield _section("Actions", "No actions.", _table("Actions, and who did them", ("At", "What", "By", "On", "Took"), actions))
    jobs = [
        (
            f"{job.id}{words.session_words(account, job.session)}",
            job.status,
            clock.at(job.started),
            clock.at(job.ended) if job.ended else "not yet",
            words.duration_words(job.started, job.ended or account.end),
            tag("code", job.entrypoint or UNKNOWN),
            job.error or job.message,
        )
        for job in account.jobs
    ]
    titles = ("Job", "Status", "Started", "Ended", "Ran", "Command", "Message")
    yield _section("Jobs", "No job ran.", _table("Jobs that ran", titles, jobs))
    yield _usage(account)
    yield _users(account)
    faults = [(clock.span(one.begin, one.end), words.fault_words(one)) for one in account.faults]
    yield _section("Failing sources", "None.", _table("What cockpit could not see", ("When", "What"), faults))
    gaps = [(clock.span(*gap), "nothing is recorded") for gap in account.gaps] + [("damage", text) for text in account.damage]
    yield _section("Gaps of the recording", "None.", _table("What is unknown", ("When", "What"), gaps))
    yield tag("footer", tag("p", f"Written by cockpit {account.cockpit}. Known secrets are hidden; read the report before you send it."))


Cell = str | None
"""A text, or `Html`."""


def _section(title: str, nothing: str, *inside: Html | None) -> Html:
    return tag("section", tag("h2", title), *(inside if any(inside) else (tag("p", nothing, class_="none"),)))


def _table(caption: str, titles: Sequence[str], rows: Iterable[Sequence[Cell]], numbers: range = range(0)) -> Html | None:
    """The first cell of a row is its heading; columns of `numbers` are aligned to the right."""
    body: list[Html] = []
    for first, *rest in rows:
        cells = (tag("td", cell, class_="number" if at in numbers else None) for at, cell in enumerate(rest, 1))
        body.append(tag("tr", tag("th", first, scope="row"), *cells))
    if not body:
        return None
    head = tag("tr", *(tag("th", title, scope="col", class_="number" if at in numbers else None) for at, title in enumerate(titles)))
    table = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _findings(title: str, found: Sequence[Episode], clock: words.MomentFormatter) -> Html:
    articles: list[Html] = []
    for one in found:
        heading = tag("h3", tag("span", one.level, class_=f"level {one.level}"), f" {one.text}")
        when = f"{clock.span(one.begin, one.end)}{words.times_words(one)}"
        facts = f"{when} · {one.subject} · {one.code} · {words.reported_at_words(one, clock)}"
        evidence = tag("ul", *(tag("li", tag("code", line)) for line in one.evidence)) if one.evidence else None
        command = remedy_command(one.action, one.about)
        action = (" (", tag("code", command), ")") if command else ()
        remedy = tag("p", tag("strong", "What to do: "), one.remedy, *action) if one.remedy else None
        articles.append(tag("article", heading, tag("p", facts, class_="when"), evidence, remedy))
    return _section(title, "None.", *articles)


def _usage(account: Account) -> Html:
    titles = ("Whose", "User", "Reserved", "Held", "Busy", "Idle", "Unknown", "Shares", "Idle because", "Fullest host", "Restarts", "Kills")
    rows: list[Sequence[Cell]] = []
    for row in account.usage:
        hours = row.hours
        numbers = (hours_words(value) for value in (hours.reserved, hours.held, hours.busy, hours.idle, hours.unknown))
        because, host = words.causes(hours.idle_by_cause), words.memory_words(row.fullest_host)
        name, user = words.owner_words(row, account), row.user or UNKNOWN
        rows.append((name, user, *numbers, share_bar(hours), because, host, str(row.restarts), str(row.kills)))
    table = _table("GPU-hours by job", titles, rows, range(2, 7))
    note = tag(
        "p",
        "GPU-hours. A GPU counts for a job while the job has reserved it or holds memory on it; busy + idle + unknown is that time. "
        "A GPU is busy when its utilization was above 5% and its job was not waiting at 100% for other ranks; "
        "unknown: there are no figures of its use.",
        class_="legend",
    )
    return _section("Who used what", "No GPU was used.", tag("p", words.fleet_words(account)), table, note)


def _users(account: Account) -> Html | None:
    titles = ("User", "Jobs", "GPU-hours", "Busy", "GPUs at the end", "GPU memory at the end", "Host memory at the end", "Shares")
    rows = ((*words.user_cells(row), share_bar(row.hours)) for row in account.users)
    table = _table("GPU-hours by user", titles, rows, range(1, 7))
    return tag("section", tag("h2", "Users"), table) if table else None
