"""Plans and receipts in words, the same on the screen and on the command line. Every line is safe to draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from cockpit.acts.audit import title_of
from cockpit.acts.plan import APIS, Plan, Receipt, Target, Unreached, count_missed
from cockpit.acts.table import nouns
from cockpit.text import age, clean, plural, size

MAX_COMMAND_CHARS = 240
"""Characters of a command."""
MAX_NAMED = 8
"""Of several things with one reason; `--json` has all of them."""


def plan_lines(plan: Plan, now: float) -> list[str]:
    """The whole plan: what would be hit, what ends with it, what is refused, and whom nobody could ask."""
    lines = [headline(plan), "", *_ray_lines(plan)]
    lines += _section("Unknown", plan.unknown)
    lines += _section("What ends with it", plan.losses)
    by_host = groupby(plan.targets, lambda target: target.host)
    lines += [line for host, targets in by_host for line in _host_lines(plan.titles.get(host, host), targets, now)]
    lines += _section("Refused", reasons(plan.refused, plan.titles))
    lines += _section("Unreachable", _unreached_hosts(plan.unreached, plan.titles))
    lines += _section("Note", plan.notes)
    return [clean(line) for line in lines]


def _ray_lines(plan: Plan) -> list[str]:
    """Which Ray is meant, where several live on the hosts, or another one than the one that is meant."""
    if not plan.beside:
        return []
    meant = f"{plan.session or 'unknown'}{f' at {plan.address}' if plan.address else ''}"
    return [*_section("Ray cluster", [meant, f"other Ray sessions here: {', '.join(plan.beside)}"])]


def headline(plan: Plan) -> str:
    """`Kill: 3 processes on 2 hosts, 79G of GPU memory`."""
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
    """Why they were refused, or have failed, each reason once: `16 processes on w1 (pids 1, 2, …, 8 more): it is a worker`.

    `titles`: by host, what people call it.
    """
    alike: dict[tuple[str, str], list[Target]] = {}
    for target in targets:
        reason = (target.reason or target.error or "").removeprefix(f"{target.host}: ")
        alike.setdefault((target.what, reason), []).append(target)
    return [f"{_named_together(group, titles or {})}: {reason}" for (_, reason), group in alike.items()]


def _named_together(targets: Sequence[Target], titles: Mapping[str, str]) -> str:
    if len(targets) == 1:
        return name_target(targets[0], titles)
    hosts = [*dict.fromkeys(titles.get(target.host, target.host) for target in targets)]
    by_host = len(hosts) > 1 or targets[0].what == "host"
    names = [name_target(target, titles) if by_host else _name_on_host(target) for target in targets[:MAX_NAMED]]
    more = [f"{len(targets) - MAX_NAMED} more"] if len(targets) > MAX_NAMED else []
    where = "" if targets[0].what == "host" else f" on {hosts[0] if len(hosts) == 1 else plural(len(hosts), 'host')}"
    label = "pids " if not by_host and targets[0].what == "process" else ""
    return f"{count_targets(targets)}{where} ({label}{', '.join([*names, *more])})"


def _name_on_host(target: Target) -> str:
    return str(target.pid) if target.what == "process" else title_of(target)


def count_targets(targets: Sequence[Target]) -> str:
    """`2 processes and 1 link`; `nothing` when there is none."""
    counts = {words: sum(target.what == what for target in targets) for what, words in nouns().items()}
    words = [plural(number, *words) for words, number in counts.items() if number]
    return " and ".join(words) or "nothing"


def _host_lines(host: str, targets: Iterable[Target], now: float) -> Iterator[str]:
    yield host
    for target in targets:
        yield f"  {_facts(target, now)}"
        why = "; ".join(target.why)
        if why:
            yield f"      {why}"
        for kept in target.keeps:
            yield f"      kept: {kept}"
    yield ""


def _facts(target: Target, now: float) -> str:
    return "  ".join(word for word in (_process_facts if target.what == "process" else _other_facts)(target, now) if word)


def _process_facts(target: Target, now: float) -> Iterator[str]:
    yield f"pid {target.pid:<8}{target.part or target.kind or ''}"
    yield target.user or ""
    yield f"started {age(max(0.0, now - target.started))} ago" if target.started is not None else ""
    if target.gpus:
        gpus = ",".join(str(hold.index) for hold in target.gpus)
        yield f"{size(target.gpu_memory)} of GPU {gpus}"
    yield "NOT in that session" if target.beyond else ""
    yield _short(target)


def _short(target: Target) -> str:
    """Ray's own parts are known by their part; their command lines are a screen long each. The whole is in `--json`."""
    command = target.command or ""
    if target.kind == "ray" and target.part:
        return command.partition(" ")[0].rpartition("/")[2]
    return command if len(command) <= MAX_COMMAND_CHARS else command[: MAX_COMMAND_CHARS - 1] + "…"


def _other_facts(target: Target, now: float) -> Iterator[str]:  # noqa: ARG001 as its sister
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
    """What really happened: first the sum, then each target."""
    lines = [summary(receipt), ""]
    lines += _section("Failed", reasons(receipt.failed, receipt.titles))
    lines += _section("Refused", reasons(receipt.refused, receipt.titles))
    lines += _section("Unreachable", _unreached_hosts(receipt.unreached, receipt.titles))
    lines += _section("Done", [f"{name_target(target, receipt.titles)}: {target.outcome or 'done'}" for target in receipt.done])
    lines += _section("Note", receipt.notes)
    return [clean(line) for line in lines]


def summary(receipt: Receipt) -> str:
    """`Kill: 3 of 4 processes on 31 of 32 hosts (w7: timed out), 79G of GPU memory freed (measured), 2.1 s`."""
    everything = (*receipt.done, *receipt.refused, *receipt.failed)
    of = "" if len(receipt.done) == len(everything) else f" of {len(everything)}"
    what = count_targets(receipt.done) if receipt.done else "nothing was done" if not everything else "nothing"
    but = f" ({'; '.join(_unreached_hosts(receipt.unreached[:3], receipt.titles))})" if receipt.unreached else ""
    amounts = ((receipt.freed.gpu, "of GPU memory"), (receipt.freed.disk, "of disk"), (receipt.freed.shm, "of /dev/shm"))
    freed = [f"{size(amount)} {where} freed (measured)" for amount, where in amounts if amount]
    return f"{receipt.title}: " + ", ".join([f"{what}{of}{_reached_hosts(receipt)}{but}", *freed, f"{receipt.took:.1f} s"])


def _reached_hosts(whole: Plan | Receipt) -> str:
    """Which part of the hosts; nothing where Ray itself or Kubernetes was asked."""
    asked, silent = len(whole.hosts), count_missed(whole)
    if whole.hosts in APIS:
        return ""
    return f" on {asked - silent} of {plural(asked, 'host')}" if silent else f" on {plural(asked, 'host')}"


def name_target(target: Target, titles: Mapping[str, str]) -> str:
    """What people call its host, and its name."""
    host = titles.get(target.host, target.host)
    return host if target.what == "host" and target.path is None else f"{'' if target.what == 'host' else host} {title_of(target)}".strip()


def _unreached_hosts(hosts: Iterable[Unreached], titles: Mapping[str, str]) -> list[str]:
    named = [(titles.get(one.host, one.host), one.error.removeprefix(one.host), one) for one in hosts]
    return [f"{title}{rest}" if rest != one.error else f"{title}: {rest}" for title, rest, one in named]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines), ""] if lines else []
