"""Parses the report of NCCL's RAS, as JSON (from 2.28.7 on) or as text (from 2.24.3 on). Pure; the text may be hostile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from cockpit.model import MAX_COMMUNICATORS, Communicator, CountGap, CountGroup, NcclRank, RankTrouble
from cockpit.sources.source import SourceError
from cockpit.text import plural

MAX_NAMED: Final = 16
"""Ranks that are kept of those with the same count or trouble."""
MAX_RANKS: Final = 20_000
"""Ranks that are read of a report as JSON; a communicator counts as one more. A rank takes 650 bytes, so the 4 MB that a probe sends have
at most 6,500."""
MAX_LINES: Final = 50_000
"""Lines that are read of a report as text. It has some ten lines for each communicator whose ranks differ, so real ones are far shorter.
4 MB could be 4 million lines, which would take seconds."""
MAX_GROUPS: Final = 8
"""Different counts of one collective that are kept: the highest and the lowest."""
MAX_COLLECTIVES: Final = 8
"""Kept of one communicator; NCCL counts five."""
MAX_WORD: Final = 40
"""Characters of a name in a report, such as that of a collective."""
NCCL_ERRORS: Final = {
    1: "an unhandled CUDA error", 2: "a system error", 3: "an internal error", 4: "an invalid argument", 5: "an invalid usage",
    6: "an error of a remote process", 7: "an operation in progress",
}  # fmt: skip
"""By the number of `ncclResult_t`, in nccl.h."""
IN_PROGRESS: Final = 7
Member = tuple[str, int]
"""The address and the pid of a process, as NCCL knows them."""
_Number = Annotated[int, Meta(ge=-1, le=1 << 62)]
_Count = Annotated[int, Meta(ge=0, le=1 << 62)]
_Item = TypeVar("_Item")


class ParsedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one report."""

    version: str
    communicators: tuple[Communicator, ...]
    number: int
    """The communicators that were read."""
    timeouts: int = 0
    members: frozenset[Member] | None = None
    """The processes that it is about; `None`: the text names only few."""
    processes: int | None = None
    """How many processes it is about; `None`: it does not tell."""
    troubles: tuple[str, ...] = ()
    cut: str = ""
    """Continues `node1: `, if the report is longer than the limits and was not read to its end; empty: it was."""


def parse_report(report: str) -> ParsedReport:
    """Parse a report. Raises `SourceError`."""
    if report.lstrip().startswith("{"):
        return _parse_json(report)
    if version := _VERSION.match(report.lstrip()):
        return _parse_text(report, version[1])
    raise SourceError("NCCL's report can't be read: it is neither its JSON nor its text")


# JSON. Without `gc=False` and tuples, Python's search for cycles takes most of the time of a report with very many ranks.


class _Status(msgspec.Struct, frozen=True, gc=False):
    init_state: _Number = 0
    async_error: _Number = 0
    finalize_called: bool = False
    destroy_flag: bool = False
    abort_flag: bool = False
    unresponsive: bool = False
    considered_dead: bool = False


class _Rank(msgspec.Struct, gc=False):
    rank: _Count
    host: str = ""
    pid: _Number = -1
    nvml_dev: _Number = -1
    status: _Status = _Status()
    collective_counts: dict[str, _Count] = {}


class _Communicator(msgspec.Struct, gc=False):
    hash: str
    secondary_hash: str = ""
    size: _Count = 0
    ranks: tuple[_Rank, ...] = ()
    missing_ranks: tuple[_Rank, ...] = ()


class _Ras(msgspec.Struct):
    timeouts_count: _Number = 0


class _Report(msgspec.Struct):
    nccl_version: str
    communicators: tuple[_Communicator, ...]
    ras: _Ras = msgspec.field(default_factory=_Ras)


_MISSING_COMMA: Final = re.compile(r'("nvml_dev": *-?\d{1,9})(\s{1,40}"status")')
"""2.28.7 and 2.28.9 forget the comma after `nvml_dev` of a missing rank."""
_decoder = msgspec.json.Decoder(_Report)


def _parse_json(report: str) -> ParsedReport:
    try:
        found = _decoder.decode(_MISSING_COMMA.sub(r"\1,\2", report))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SourceError(f"NCCL's report can't be read: {error}") from error
    read = list(_within_limit(found.communicators))
    all_of_them, is_cut = len(found.communicators), len(read) < len(found.communicators)
    members = frozenset((rank.host, rank.pid) for one in read for rank in (*one.ranks, *one.missing_ranks) if rank.pid > 0)
    return ParsedReport(
        version=found.nccl_version[:MAX_WORD],
        communicators=_first(map(_communicator, read)),
        number=len(read),
        timeouts=max(0, found.ras.timeouts_count),
        members=members,
        processes=len(members),
        cut=f"its report is too long: only {len(read):,} of its {all_of_them:,} communicators were read" if is_cut else "",
    )


def _within_limit(communicators: Iterable[_Communicator]) -> Iterator[_Communicator]:
    """The first ones. One that was read only in part would show differences that are none."""
    left = MAX_RANKS
    for one in communicators:
        left -= 1 + len(one.ranks) + len(one.missing_ranks)
        if left < 0:
            return
        yield one


def _communicator(one: _Communicator) -> Communicator:
    counts: dict[str, int] = {}
    gaps: list[CountGap] = []
    collectives = dict.fromkeys(name for rank in one.ranks for name in rank.collective_counts)
    for name in islice(collectives, MAX_COLLECTIVES):
        by_count: dict[int, list[_Rank]] = {}
        for rank in one.ranks:
            by_count.setdefault(rank.collective_counts.get(name, 0), []).append(rank)
        if len(by_count) == 1:
            counts[name[:MAX_WORD]] = next(iter(by_count))
        else:
            groups = (CountGroup(launched, len(ranks), _named(ranks)) for launched, ranks in _highest_first(by_count.items()))
            gaps.append(CountGap(name[:MAX_WORD], tuple(groups)))
    wrong: dict[str, list[_Rank]] = {}
    for rank in one.missing_ranks:
        what = "considered dead" if rank.status.considered_dead else "no answer" if rank.status.unresponsive else "has left it"
        wrong.setdefault(what, []).append(rank)
    for rank in one.ranks:
        if what := _trouble(rank.status):
            wrong.setdefault(what, []).append(rank)
    return Communicator(
        hash=f"{one.hash} {one.secondary_hash}"[: 3 * MAX_WORD].strip(),
        size=one.size,
        answered=len(one.ranks),
        counts=counts,
        gaps=tuple(gaps),
        troubles=tuple(RankTrouble(what, len(ranks), _named(ranks)) for what, ranks in wrong.items()),
    )


def _trouble(status: _Status) -> str:
    """What is wrong with a rank that has answered; empty: nothing."""
    if status.abort_flag:
        return "aborted"
    if status.finalize_called or status.destroy_flag:
        return "finalized"
    if status.init_state == IN_PROGRESS:
        return "still initializing"
    if status.init_state != 0:
        return f"initialization failed with {NCCL_ERRORS.get(status.init_state, 'an unknown error')}"
    if status.async_error not in (0, IN_PROGRESS):
        return f"reports {NCCL_ERRORS.get(status.async_error, 'an unknown error')}"
    return ""


def _named(ranks: Sequence[_Rank]) -> tuple[NcclRank, ...]:
    return tuple(
        NcclRank(
            rank=one.rank,
            address=one.host[:MAX_WORD],
            pid=one.pid if one.pid > 0 else None,
            gpu=one.nvml_dev if one.nvml_dev >= 0 else None,
        )
        for one in ranks[:MAX_NAMED]
    )


def _highest_first(by_count: Iterable[tuple[int, _Item]]) -> Sequence[tuple[int, _Item]]:
    """The counts that are kept. Only their ranks are named afterwards, because names take the most time."""
    ordered = sorted(by_count, key=itemgetter(0), reverse=True)
    return ordered if len(ordered) <= MAX_GROUPS else [ordered[0], *ordered[1 - MAX_GROUPS :]]


def _first(communicators: Iterable[Communicator]) -> tuple[Communicator, ...]:
    """Those with something to say, then the largest."""
    ordered = sorted(communicators, key=lambda one: (not (one.gaps or one.troubles), -(one.size or 0)))
    return tuple(ordered[:MAX_COMMUNICATORS])


# Text

_VERSION: Final = re.compile(r"NCCL version (\S{1,40})")
_PROCESSES: Final = re.compile(r"\(total\)   per node  per process    \(total\)  \(total\)\n\s*\d+\s+\d+\s+\d+\s+(\d{1,9})\s+\d+\n")
_PROCESSES_OF_SOME: Final = re.compile(r"\(total\)    \(total\)      \(total\)\n\s*\d+\s+(\d{1,9})\s+\d+\n")
"""Where nodes or processes differ in their numbers."""
_TABLE_ROW: Final = re.compile(r"\s*(\d{1,9})\s+(\d{1,9})\s+\d+\s+[\d-]+\s+(\d{1,9})\s+\d+\s+([A-Z]{2,10})\s+([A-Z,]{2,40})")
"""Group, communicators in it, ranks of each, the last status of a rank, errors: with a mismatch the statuses may differ."""
_TIMEOUTS: Final = re.compile(r"Encountered (\d{1,9}) communication timeout")
_BLOCK: Final = re.compile(r"#(\d{1,9})-\d{1,9} \(([0-9a-f]{1,16})\) [A-Z]+")
_DIFFERENT: Final = re.compile(r"Communicator ranks have different (\S{1,40}) operation counts")
_LAUNCHED: Final = re.compile(
    r"(?:(\d{1,9}) ranks have|Rank (\d{1,9}) has) (?:launched up to operation (\d{1,18})|not launched any operations)"
)
_STATUS: Final = re.compile(r"(?:(\d{1,9}) ranks have|Rank (\d{1,9}) has) status ([A-Z]{2,10})")
_REPORTED: Final = re.compile(r"(?:(\d{1,9}) ranks|Rank (\d{1,9})) reported ([A-Za-z ]{1,60}?)(?: --|$)")
_MISSING: Final = re.compile(r"Missing communicator data from (\d{1,9}) ranks?")
_ONE_MORE: Final = re.compile(r"Rank (\d{1,9}) -- ")
_RANK: Final = re.compile(r"Rank (\d{1,9}) ")
_PLACE: Final = re.compile(r"GPU (\d{1,4})(?: \(NVML (\d{1,4})\))? managed by process (\d{1,9}) on node (\S{1,40})$")
_STATUS_WORDS: Final = {"NOCOMM": "has left it", "INIT": "still initializing", "FINALIZE": "finalized", "ABORT": "aborted"}
_OF_THE_JOB: Final = re.compile(
    r"^(?:INCOMPLETE\n  Missing communicator data from (\d{1,9}) job process|DEAD\n  (\d{1,9}) job process)[^\n]*\n"
    r"((?:  Process [^\n]*\n){0,16})",
    re.MULTILINE,
)


class _Group(msgspec.Struct):
    """Ranks of which a text says the same."""

    number: int
    launched: int | None = None
    collective: str = ""
    what: str = ""
    lines: list[str] = []
    """Those that name a rank."""


def _parse_text(report: str, version: str) -> ParsedReport:
    lines = report.split("\n", MAX_LINES)
    is_cut = len(lines) > MAX_LINES
    if is_cut:
        lines = lines[:MAX_LINES]
        report = "\n".join(lines)
    rows = [row for line in lines if (row := _TABLE_ROW.fullmatch(line.rstrip("\r")))]
    sizes = {row[1]: int(row[3]) for row in rows}
    odd_rows = (row for row in rows if row[4] in _STATUS_WORDS and "MISMATCH" not in row[5])
    troubles = [
        f"{plural(int(row[2]), 'communicator')} of {plural(int(row[3]), 'rank')}: {_STATUS_WORDS[row[4]]}"
        for row in islice(odd_rows, MAX_NAMED)
    ]
    for found in islice(_OF_THE_JOB.finditer(report), MAX_NAMED):
        missing, dead, processes = found.groups(default="")
        names = [" ".join(word[:MAX_WORD] for word in line.split(maxsplit=5)[1:5]) for line in processes.splitlines()]
        which = f": {', '.join(f'pid {name}' for name in names)}" if names else ""
        words = "considered dead" if dead else "without an answer"
        troubles.append(f"{plural(int(dead or missing), 'process', 'processes')} {words}{which}")
    by_hash: dict[str, list[_Group]] = {}
    size_of: dict[str, int | None] = {}
    blocks = _read_blocks(lines)
    if is_cut:
        del blocks[-1:]  # of the last one, the ranks that most others differ from may be missing
    for group_number, name, groups in blocks:
        by_hash.setdefault(name, []).extend(groups)
        size_of[name] = sizes.get(group_number)
    communicators = [_from_groups(name, size_of[name], groups) for name, groups in by_hash.items()]
    processes_found = _PROCESSES.search(report) or _PROCESSES_OF_SOME.search(report)
    timeouts = _TIMEOUTS.search(report)
    return ParsedReport(
        version=version,
        communicators=_first(communicators),
        number=len(communicators) if is_cut else max(len(communicators), sum(int(row[2]) for row in rows)),
        timeouts=int(timeouts[1]) if timeouts else 0,
        processes=int(processes_found[1]) if processes_found else None,
        troubles=tuple(troubles[:MAX_NAMED]),
        cut=f"its report is too long: only its first {MAX_LINES:,} lines were read" if is_cut else "",
    )


def _read_blocks(lines: Iterable[str]) -> list[tuple[str, str, list[_Group]]]:
    """The number of its group, its hash, and what is said of a communicator; one may have several blocks."""
    blocks: list[tuple[str, str, list[_Group]]] = []
    groups: list[_Group] | None = None
    collective = ""
    for line in lines:
        text = line.strip()
        if not text:
            continue
        if head := _BLOCK.fullmatch(text):
            groups, collective = [], ""
            blocks.append((head[1], head[2], groups))
        elif groups is None:
            continue
        elif found := _DIFFERENT.fullmatch(text):
            collective = found[1]
        elif found := _LAUNCHED.match(text):
            groups.append(_Group(int(found[1] or 1), int(found[3] or 0), collective, lines=[text] if found[2] else []))
        elif found := _STATUS.match(text):
            groups.append(_Group(int(found[1] or 1), what=_STATUS_WORDS.get(found[3], ""), lines=[text] if found[2] else []))
        elif found := _REPORTED.match(text):
            groups.append(_Group(int(found[1] or 1), what=f"reports {found[3].lower()}", lines=[text] if found[2] else []))
        elif found := _MISSING.fullmatch(text):
            groups.append(_Group(int(found[1]), what="no answer"))
        elif groups and _ONE_MORE.match(text) and len(groups[-1].lines) < MAX_NAMED:
            groups[-1].lines.append(text)
    return blocks


def _from_groups(name: str, size: int | None, groups: Sequence[_Group]) -> Communicator:
    by_collective: dict[str, list[tuple[int, _Group]]] = {}
    for one in groups:
        if one.launched is not None:
            by_collective.setdefault(one.collective, []).append((one.launched, one))
    different = ((collective, of) for collective, of in by_collective.items() if len(of) > 1)
    gaps: list[CountGap] = []
    for collective, of in islice(different, MAX_COLLECTIVES):
        kept = (CountGroup(launched, one.number, _read_ranks(one.lines)) for launched, one in _highest_first(of))
        gaps.append(CountGap(collective, tuple(kept)))
    wrong = islice((one for one in groups if one.what), MAX_NAMED)
    troubles = tuple(RankTrouble(one.what, one.number, _read_ranks(one.lines)) for one in wrong)
    return Communicator(hash=f"0x{name.lstrip('0')}", size=size, gaps=tuple(gaps), troubles=troubles)


def _read_ranks(lines: Iterable[str]) -> tuple[NcclRank, ...]:
    ranks: list[NcclRank] = []
    for line in lines:
        if (named := _RANK.match(line)) is None:
            continue
        number, place = int(named[1]), _PLACE.search(line)
        if place is None:
            ranks.append(NcclRank(rank=number))
        else:
            ranks.append(NcclRank(rank=number, address=place[4], pid=int(place[3]), gpu=int(place[2] or place[1])))
    return tuple(ranks)
