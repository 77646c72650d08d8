"""Writes plans and receipts as lines of text, the same for the screen and the command line; every line is safe to draw."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from cockpit.actions.audit import title_of
from cockpit.actions.plan import APIS, Plan, Receipt, Target, Unreached, count_missed
from cockpit.actions.table import nouns
from cockpit.text import age, clean, plural, size
from cockpit.text.grouping import group_by

MAX_COMMAND_CHARS = 240
MAX_LINE_CHARS = 1000
MAX_NAMED = 8
"""Targets that are named for one reason; `--json` has all of them."""
_HOST_NAME = r"[\w.:-]+(?: \([0-9a-f]{0,8}\))?"
_HEADINGS = ("ray cluster", "unknown", "refused", "unreachable", "note")
"""Headings of cockpit's own that a host could have as its name."""


def plan_lines(plan: Plan, now: float) -> list[str]:
    """Return the whole plan: its targets, what ends with it, what is refused, and the hosts that could not be asked."""
    lines = [headline(plan), ""]
    if plan.beside:
        lines += _section("Ray cluster", [name_ray(plan), f"other Ray sessions here: {', '.join(plan.beside)}"])
    lines += _section("Unknown", plan.unknown)
    lines += _section("What ends with it", plan.losses)
    for host, targets in groupby(plan.targets, lambda target: target.host):
        lines.append(_host_heading(plan.titles.get(host, host)))
        for target in targets:
            facts = _process_facts(target, now) if target.what == "process" else _other_facts(target)
            lines.append(f"  {'  '.join(filter(None, facts))}")
            if why := "; ".join(target.why):
                lines.append(f"      {why}")
            lines += [f"      kept: {kept}" for kept in target.keeps]
        lines.append("")
    lines += _section("Refused", reasons(plan.refused, plan.titles))
    lines += _section("Unreachable", _unreached_hosts(plan.unreached, plan.titles))
    lines += _section("Note", plan.notes)
    return [_cut(clean(line)) for line in lines]


def name_ray(plan: Plan) -> str:
    """Return the Ray session that a plan means, and its dashboard, which has named the session: so both are cleaned and cut."""
    return _cut(clean(f"{plan.session or 'unknown'}{f' at {plan.address}' if plan.address else ''}"))


def _cut(line: str) -> str:
    """Return a line that hides no other by its length: jobs name their actors, and write the message of their end."""
    return line if len(line) <= MAX_LINE_CHARS else line[: MAX_LINE_CHARS - 1] + "…"


def _host_heading(title: str) -> str:
    """Return the line above the targets of a host. Whoever starts a node names it, perhaps `Refused`: that is no heading of cockpit's."""
    is_name = re.fullmatch(_HOST_NAME, title) and title.casefold() not in _HEADINGS
    return title if is_name else f"host {title}"


def headline(plan: Plan) -> str:
    """Return the first line, such as `Kill: 3 processes on 2 hosts, 79G of GPU memory`."""
    hosts = len({target.host for target in plan.targets}) or len(plan.hosts)
    where = _reached_hosts(plan) if count_missed(plan) or plan.hosts in APIS else f" on {plural(hosts, 'host')}"
    held = [target.gpu_memory for target in plan.targets if target.gpu_memory is not None]
    sizes = [target.size for target in plan.targets if target.size is not None]
    extra = [f"{size(sum(held))} of GPU memory"] if held else []
    extra += [size(sum(sizes))] if sizes else []
    what = "nothing found" if plan.empty and plan.unknown else count_targets(plan.targets)
    but = "; not everything could be checked" if plan.unknown else ""
    return f"{plan.title}: " + ", ".join([f"{what}{where}", *extra]) + but


def reasons(targets: Iterable[Target], titles: Mapping[str, str] | None = None) -> list[str]:
    """Return each reason of a refusal or failure once: `16 processes on w1 (pids 1, 2, …, 8 more): it is a worker`.

    `titles` maps hosts to the names that people use.
    """
    titles = titles or {}
    groups = group_by(targets, lambda target: (target.what, (target.reason or target.error or "").removeprefix(f"{target.host}: ")))
    return [f"{_name_together(group, titles)}: {reason}" for (_, reason), group in groups.items()]


def _name_together(targets: Sequence[Target], titles: Mapping[str, str]) -> str:
    """Name targets of one kind."""
    if len(targets) == 1:
        return name_target(targets[0], titles)
    what, hosts = targets[0].what, [*dict.fromkeys(titles.get(target.host, target.host) for target in targets)]
    label = ""
    if len(hosts) > 1 or what == "host":
        names = [name_target(target, titles) for target in targets[:MAX_NAMED]]
    elif what == "process":
        label, names = "pids ", [str(target.pid) for target in targets[:MAX_NAMED]]
    else:
        names = [title_of(target) for target in targets[:MAX_NAMED]]
    more = [f"{len(targets) - MAX_NAMED} more"] if len(targets) > MAX_NAMED else []
    where = "" if what == "host" else f" on {hosts[0] if len(hosts) == 1 else plural(len(hosts), 'host')}"
    return f"{count_targets(targets)}{where} ({label}{', '.join([*names, *more])})"


def count_targets(targets: Sequence[Target]) -> str:
    """Return `2 processes and 1 link`, or `nothing`."""
    counts = {words: sum(target.what == what for target in targets) for what, words in nouns().items()}
    words = [plural(number, *words) for words, number in counts.items() if number]
    return " and ".join(words) or "nothing"


def _process_facts(target: Target, now: float) -> Iterator[str]:
    yield f"pid {target.pid:<8}{target.part or target.kind or ''}"
    yield target.user or ""
    yield f"started {age(max(0.0, now - target.started))} ago" if target.started is not None else ""
    if target.gpus:
        gpus = ",".join(str(hold.index) for hold in target.gpus)
        yield f"{size(target.gpu_memory)} of GPU {gpus}"
    yield "NOT in that session" if target.beyond else ""
    command = target.command or ""
    if target.kind == "ray" and target.part:
        # The command lines of Ray's own parts are a screen long each; `--json` has all of it.
        yield command.partition(" ")[0].rpartition("/")[2]
    else:
        yield command if len(command) <= MAX_COMMAND_CHARS else command[: MAX_COMMAND_CHARS - 1] + "…"


def _other_facts(target: Target) -> Iterator[str]:
    yield title_of(target)
    yield target.class_ if target.class_ and target.name else ""
    yield target.id[:12] if target.id and target.class_ and not target.name else ""
    yield target.state or ""
    yield size(target.size) if target.size is not None else ""
    yield plural(target.files, "file") if target.files is not None else ""
    yield f"{age(target.age)} old" if target.age is not None else ""
    yield f"of {target.owner}" if target.owner else ""
    yield "detached" if target.detached else ""
    yield "LEAKED: its job is over" if target.leaked else ""


def receipt_lines(receipt: Receipt) -> list[str]:
    """Return the result: first the summary, then each target."""
    lines = [summary(receipt), ""]
    lines += _section("Failed", reasons(receipt.failed, receipt.titles))
    lines += _section("Refused", reasons(receipt.refused, receipt.titles))
    lines += _section("Unreachable", _unreached_hosts(receipt.unreached, receipt.titles))
    lines += _section("Done", [f"{name_target(target, receipt.titles)}: {target.outcome or 'done'}" for target in receipt.done])
    lines += _section("Note", receipt.notes)
    return [clean(line) for line in lines]


def summary(receipt: Receipt) -> str:
    """Return `Kill: 3 of 4 processes on 31 of 32 hosts (w7: timed out), 79G of GPU memory freed (measured), 2.1 s`."""
    everything = (*receipt.done, *receipt.refused, *receipt.failed)
    of = "" if len(receipt.done) == len(everything) else f" of {len(everything)}"
    what = count_targets(receipt.done) if receipt.done else "nothing was done" if not everything else "nothing"
    but = f" ({'; '.join(_unreached_hosts(receipt.unreached[:3], receipt.titles))})" if receipt.unreached else ""
    amounts = ((receipt.freed.gpu, "of GPU memory"), (receipt.freed.disk, "of disk"), (receipt.freed.shm, "of /dev/shm"))
    freed = [f"{size(amount)} {where} freed (measured)" for amount, where in amounts if amount]
    return f"{receipt.title}: " + ", ".join([f"{what}{of}{_reached_hosts(receipt)}{but}", *freed, f"{receipt.took:.1f} s"])


def _reached_hosts(whole: Plan | Receipt) -> str:
    """Return how many of the hosts were reached; empty for an API."""
    asked, silent = len(whole.hosts), count_missed(whole)
    if whole.hosts in APIS:
        return ""
    return f" on {asked - silent} of {plural(asked, 'host')}" if silent else f" on {plural(asked, 'host')}"


def name_target(target: Target, titles: Mapping[str, str]) -> str:
    """Return the target's name after the name of its host."""
    host = titles.get(target.host, target.host)
    if target.what == "host":
        return title_of(target) if target.path is not None else host
    return f"{host} {title_of(target)}".strip()


def _unreached_hosts(hosts: Iterable[Unreached], titles: Mapping[str, str]) -> list[str]:
    lines = []
    for one in hosts:
        title = titles.get(one.host, one.host)
        lines.append(title + one.error.removeprefix(one.host) if one.error.startswith(one.host) else f"{title}: {one.error}")
    return lines


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines), ""] if lines else []
