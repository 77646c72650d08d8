"""Reports of all versions of NCCL become the same values; text shows counts only where ranks differ; hostile reports are refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from cockpit.model import MAX_COMMUNICATORS, Communicator, CountGap, CountGroup, NcclRank, RankTrouble
from cockpit.sources.probes import nccl_report
from cockpit.sources.probes.nccl_report import MAX_GROUPS, MAX_LINES, MAX_NAMED, MAX_RANKS, parse_report
from cockpit.sources.source import SourceError
from tests.nccl_reports import (
    HEALTHY_ROW,
    MISMATCH,
    MISMATCH_ROW,
    communicator,
    json_report,
    missing,
    rank,
    text_report,
    without_comma,
)

THIRD = NcclRank(rank=3, address="10.0.0.1", pid=4003, gpu=3)


def only(report: str) -> Communicator:
    (found,) = parse_report(report).communicators
    return found


def test_a_rank_that_has_launched_less_is_named_with_its_count_and_place():
    found = only(json_report(communicator(*(rank(number, AllReduce=411 if number == 3 else 412) for number in range(8)))))
    (gap,) = found.gaps
    assert (gap.collective, [(group.launched, group.number) for group in gap.groups]) == ("AllReduce", [(412, 7), (411, 1)])
    assert gap.groups[1].ranks == (THIRD,)
    assert found.counts == {"Broadcast": 12, "Reduce": 0, "AllGather": 40, "ReduceScatter": 40}
    assert (found.hash, found.size, found.answered, found.troubles) == ("0x1111 0x2222:0x3333", 8, 8, ())


def test_the_text_of_an_older_nccl_says_the_same_without_the_counts_that_agree():
    parsed = parse_report(text_report(MISMATCH_ROW, warnings=MISMATCH))
    gap = CountGap("AllReduce", (CountGroup(412, 7), CountGroup(411, 1, (THIRD,))))
    assert parsed.communicators == (Communicator(hash="0x1111111111111111", size=8, gaps=(gap,)),)
    assert (parsed.version, parsed.number, parsed.processes, parsed.members) == ("2.27.5", 1, 8, None)


def test_healthy_text_has_no_counts_and_so_no_communicator_that_could_claim_progress():
    parsed = parse_report(text_report(HEALTHY_ROW))
    assert (parsed.communicators, parsed.number, parsed.troubles) == ((), 4, ())


def test_2_24_counts_all_collectives_together_and_names_several_ranks():
    text = """#0-0 (00000000000000ab) MISMATCH
  Communicator ranks have different collective operation counts
  30 ranks have launched up to operation 6650
  2 ranks have not launched any operations
  Rank 0 -- GPU 0 managed by process 4000 on node 10.0.0.1
  Rank 9 -- [process information not found]

"""
    found = only(text_report(MISMATCH_ROW, warnings=text, version="2.24.3"))
    few = CountGroup(0, 2, (NcclRank(rank=0, address="10.0.0.1", pid=4000, gpu=0), NcclRank(rank=9)))
    assert (found.hash, found.gaps) == ("0xab", (CountGap("collective", (CountGroup(6650, 30), few)),))


def test_text_with_missing_dead_failed_and_aborted_ranks():
    row = "    0         1         1         7         8         7     ABORT  INCOMPLETE,ERROR,MISMATCH"
    errors = """INCOMPLETE
  Missing communicator data from 1 job process
  Process 4007 on node 10.0.0.1 managing GPU 7

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4009 on node 10.0.0.2 managing GPU 1

#0-0 (1111111111111111) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 7 -- GPU 7 managed by process 4007 on node 10.0.0.1

#0-0 (1111111111111111) ERROR
  Asynchronous error on 1 rank
  Rank 2 reported Remote process error -- GPU 2 managed by process 4002 on node 10.0.0.1

"""
    warnings = """TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (1111111111111111) MISMATCH
  Communicator ranks have different status
  6 ranks have status RUNNING
  Rank 2 has status ABORT -- GPU 2 managed by process 4002 on node 10.0.0.1
"""
    parsed = parse_report(text_report(row, errors, warnings))
    (found,) = parsed.communicators
    second = NcclRank(rank=2, address="10.0.0.1", pid=4002, gpu=2)
    assert found.troubles == (
        RankTrouble("no answer", 1, (NcclRank(rank=7, address="10.0.0.1", pid=4007, gpu=7),)),
        RankTrouble("reports remote process error", 1, (second,)),
        RankTrouble("aborted", 1, (second,)),
    )
    assert found.gaps == ()
    assert parsed.timeouts == 2
    assert parsed.troubles == (
        "1 process without an answer: pid 4007 on node 10.0.0.1",
        "1 process considered dead: pid 4009 on node 10.0.0.2",
    )


def test_ranks_that_all_still_initialize_are_said_in_both_forms():
    row = "    0         2         1         8         8         8      INIT      OK"
    assert parse_report(text_report(row)).troubles == ("2 communicators of 8 ranks: still initializing",)
    found = only(json_report(communicator(rank(0, status={"init_state": 7}), rank(1, status={"init_state": 7}))))
    assert [(trouble.what, trouble.number) for trouble in found.troubles] == [("still initializing", 2)]


@pytest.mark.parametrize(
    ("status", "what"),
    [
        ({"async_error": 6}, "reports an error of a remote process"),
        ({"async_error": 7}, None),
        ({"async_error": 99}, "reports an unknown error"),
        ({"init_state": 2}, "initialization failed with a system error"),
        ({"abort_flag": True}, "aborted"),
        ({"destroy_flag": True}, "finalized"),
        ({"finalize_called": True}, "finalized"),
    ],
)
def test_the_status_of_a_rank_in_json(status: dict[str, object], what: str | None):
    found = only(json_report(communicator(rank(0), rank(1, status=status))))
    assert [trouble.what for trouble in found.troubles] == ([what] if what else [])


@pytest.mark.parametrize("mend", [str, without_comma])
def test_missing_ranks_also_without_the_comma_that_2_28_forgets(mend):
    absent = (missing(1), missing(2, dead=True), missing(3, unresponsive=False))
    report = mend(json_report(communicator(rank(0), absent=absent), version="2.28.9", timeouts=1))
    parsed = parse_report(report)
    (found,) = parsed.communicators
    found_troubles = [(trouble.what, trouble.ranks[0].rank) for trouble in found.troubles]
    assert found_troubles == [("no answer", 1), ("considered dead", 2), ("has left it", 3)]
    assert (found.size, found.answered, parsed.timeouts) == (4, 1, 1)
    assert parsed.members == {("10.0.0.1", 4000 + number) for number in range(4)}


def test_the_fault_of_2_28_is_one_that_a_json_reader_refuses():
    broken = without_comma(json_report(communicator(rank(0), absent=(missing(1),))))
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(broken)


def test_a_rank_whose_process_nccl_does_not_know_has_no_pid():
    found = only(json_report(communicator(rank(0), rank(1, "unknown", -1, AllReduce=1))))
    assert found.gaps[0].groups[1].ranks == (NcclRank(rank=1, address="unknown", gpu=1),)


def test_large_reports_keep_what_differs():
    """64 of 300 communicators, 16 of 500 ranks, 8 of 500 different counts."""
    quiet = [communicator(rank(0), rank(1), name=f"{number:#x}") for number in range(300)]
    odd = communicator(*(rank(number, AllReduce=number, Broadcast=int(number < 100)) for number in range(500)), name="0xffff")
    parsed = parse_report(json_report(*quiet, odd))
    assert (parsed.number, len(parsed.communicators)) == (301, MAX_COMMUNICATORS)
    first = parsed.communicators[0]
    assert first.hash.startswith("0xffff")
    by_name = {gap.collective: gap.groups for gap in first.gaps}
    assert len(by_name["AllReduce"]) == MAX_GROUPS
    assert (by_name["AllReduce"][0].launched, by_name["AllReduce"][-1].launched) == (499, 0)
    assert [(group.number, len(group.ranks)) for group in by_name["Broadcast"]] == [(100, MAX_NAMED), (400, MAX_NAMED)]


def test_only_ranks_that_are_kept_are_named(monkeypatch):
    named: list[int] = []

    def count(**facts: Any) -> NcclRank:
        named.append(facts["rank"])
        return NcclRank(**facts)

    monkeypatch.setattr(nccl_report, "NcclRank", count)
    parse_report(json_report(communicator(*(rank(number, AllReduce=number) for number in range(500)))))
    assert len(named) == MAX_GROUPS
    lines = "".join(f"  Rank {number} has launched up to operation {number}\n" for number in range(500))
    only(text_report(MISMATCH_ROW, warnings=f"#0-0 (1) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n{lines}"))
    assert len(named) == 2 * MAX_GROUPS


def test_a_json_with_too_many_ranks_is_read_up_to_a_whole_communicator_and_says_so():
    small = communicator(rank(0), rank(1, AllReduce=7), name="0x1")
    large = {"hash": "0x2", "ranks": [{"rank": number, "pid": 9} for number in range(MAX_RANKS)]}
    parsed = parse_report(json_report(small, large, small))
    assert (parsed.number, [one.hash[:3] for one in parsed.communicators]) == (1, ["0x1"])
    assert parsed.members == {("10.0.0.1", 4000), ("10.0.0.1", 4001)}
    assert parsed.cut == "its report is too long: only 1 of its 3 communicators were read"
    assert parse_report(json_report(*[small] * 300)).cut == ""


def test_a_text_with_too_many_lines_is_read_up_to_a_whole_communicator_and_says_so():
    """Half a communicator could lack the ranks that most others differ from."""
    group = MISMATCH.removesuffix("\n")
    lines = MAX_LINES - len(text_report(HEALTHY_ROW).split("\n")) - len(group.split("\n"))
    long = text_report(HEALTHY_ROW, warnings=group + "\n" * lines + group.replace("(1", "(2") + group.replace("(1", "(3"))
    parsed = parse_report(long)
    assert [one.hash[:3] for one in parsed.communicators] == ["0x1"]
    assert parsed.number == 1, "what the communicators that were not read have is unknown"
    assert parsed.cut == "its report is too long: only its first 50,000 lines were read"
    assert parse_report(text_report(MISMATCH_ROW, warnings=MISMATCH * 1000)).cut == ""


@pytest.mark.parametrize(
    "report",
    [
        "",
        "{",
        "{}",
        "HTTP/1.1 400 Bad Request",
        '{"nccl_version": 7, "communicators": []}',
        '{"nccl_version": "2.29.7", "communicators": [{"hash": "0x1", "ranks": [{"rank": -5}]}]}',
        '{"nccl_version": "2.29.7", "communicators": [{"hash": "0x1", "ranks": [{"rank": 1e300}]}]}',
        json_report(communicator(rank(0, AllReduce=-1))),
        json_report(communicator(rank(0, AllReduce=1 << 80))),
        "[" * 100_000,
        '{"nccl_version": "2.29.7", "communicators": ' + "[" * 100_000,
    ],
)
def test_a_report_of_another_shape_is_refused_in_one_sentence(report: str):
    with pytest.raises(SourceError, match="NCCL's report can't be read"):
        parse_report(report)


OTHER_COLLECTIVE = """  Communicator ranks have different {} operation counts
  7 ranks have launched up to operation 2
  Rank 3 has launched up to operation 1
"""
HOSTILE = {
    "many names": json_report(communicator(*({**rank(n), "collective_counts": {f"{n}-{i}": i for i in range(200)}} for n in range(300)))),
    "long lines": "NCCL version 2.27.5\n" + "#0-0 (" * 300_000,
    "many blocks": "NCCL version 2.27.5\n" + MISMATCH * 12_000,
    "one block": "NCCL version 2.27.5\n#0-0 (1) MISMATCH\n" + "  3 ranks have status ABORT\n  Rank 1 -- GPU 1 managed by\n" * 40_000,
    "spaces": "NCCL version 2.27.5\n" + " " * 3_000_000,
    "digits": "NCCL version 2.27.5\n" + "1" * 3_000_000,
    "columns": "NCCL version 2.27.5\n" + ("1 " * 500_000) + "\n" + "(total)    (total)      (total)\n" * 50_000,
    "json spaces": '{"nvml_dev": 1' + " " * 3_000_000,
    "json devices": '{"nvml_dev": 1 ' * 200_000,
    "empty lines": "NCCL version 2.27.5\n" + "\n" * (4 << 20),
    "statuses": "NCCL version 2.27.5\n#0-0 (1) MISMATCH\n" + "Rank 1 has status INIT\n" * 180_000,
    "other blocks": "NCCL version 2.27.5\n" + "".join(f"#0-0 ({number:x}) X\n" for number in range(230_000)),
    "other collectives": "NCCL version 2.27.5\n#0-0 (1) MISMATCH\n" + "".join(map(OTHER_COLLECTIVE.format, range(30_000))),
    "long process": "NCCL version 2.27.5\nDEAD\n  1 job process\n  Process " + "x" * (4 << 20) + "\n",
    "json communicators": '{"nccl_version": "2.29.7", "communicators": [' + ",".join(['{"hash":""}'] * 340_000) + "]}",
    "json ranks": '{"nccl_version": "2.29.7", "communicators": [{"hash": "", "ranks": [' + ",".join(['{"rank":1}'] * 380_000) + "]}]}",
}


@pytest.mark.parametrize("report", HOSTILE.values(), ids=HOSTILE)
def test_no_report_keeps_the_reader_busy(report: str):
    began = time.thread_time()
    try:
        parsed = parse_report(report)
    except SourceError:
        pass
    else:
        assert len(str(parsed)) < 1_000_000
    assert time.thread_time() - began < 1
