"""NCCL's report in words: who is behind, who says what, and nothing that the report does not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from cockpit.findings.nccl import COUNTS_ONLY_WHERE_DIFFERENT, NcclWords, evidence_lines, report_lines
from cockpit.findings.stalls import stalled_jobs
from cockpit.model import (
    MAX_COMMUNICATORS,
    Communicator,
    CountGap,
    CountGroup,
    Finding,
    Hold,
    Job,
    NcclRank,
    NcclReport,
    Process,
    RankTrouble,
    Snapshot,
)
from tests.findings.detection import detect, only
from tests.world import GIB, NOW, actor, gpu, node, process, snapshot

JOB = Job("ppo-7b", "02000000", "ppo-7b", "RUNNING", started=NOW - 9000)


def worker(number: int, **more: Any) -> Process:
    facts = {"actor": f"{number:032x}", "job": "02000000", "gpus": (Hold(number, 59 * GIB),), "name": "ray::WorkerDict", "command": None}
    return process(4000 + number, **{**facts, **more})


WORKERS = tuple(worker(number) for number in range(8))
BEHIND = NcclRank(rank=3, address="10.0.0.1", pid=4003, gpu=3, process=WORKERS[3].key)
GAP = CountGap("AllReduce", (CountGroup(412, 7), CountGroup(411, 1, (BEHIND,))))


def world(*reports: NcclReport, processes: tuple[Process, ...] = WORKERS, odd: int | None = None, **more: Any) -> Snapshot:
    """Eight ranks that wait at 100 %; `odd`: the GPU that is idle instead."""
    gpus = tuple(gpu(number, 60, utilization=0.0 if number == odd else 100.0, power=120.0) for number in range(8))
    actors = tuple(actor(number, class_="WorkerDict") for number in range(8))
    return snapshot(processes=processes, nodes=(node(1, gpus=gpus, seen=NOW),), jobs=(JOB,), actors=actors, nccl=reports, faults=(), **more)


def report(*communicators: Communicator, **more: Any) -> NcclReport:
    facts = {"job": JOB.key, "asked": NOW - 3, "versions": ("2.29.7",), "number": len(communicators), "communicators": communicators}
    return NcclReport(**{**facts, **more})


def said(found: NcclReport, shown: Snapshot | None = None) -> list[str]:
    return list(NcclWords(found, shown or world()).sentences())


def of(*groups: CountGroup, **more: Any) -> NcclReport:
    return report(Communicator(hash="0x1", gaps=(CountGap("AllReduce", groups),), **more))


def test_the_rank_that_is_behind_is_named_with_its_actor_node_gpu_and_pid():
    assert said(report(Communicator(hash="0x1", size=8, gaps=(GAP,)))) == [
        "rank 3 (WorkerDict actor3, node1 GPU 3, pid 4003) is 1 AllReduce behind the 7 others (411 launched, not 412)"
    ]


def test_a_rank_that_is_no_known_process_is_named_as_nccl_knows_it():
    assert said(of(CountGroup(412, 7), CountGroup(400, 1, (replace(BEHIND, process=None),)))) == [
        "rank 3 (GPU 3, pid 4003, 10.0.0.1) is 12 AllReduce behind the 7 others (400 launched, not 412)"
    ]
    assert said(of(CountGroup(412, 7), CountGroup(400, 1, (NcclRank(rank=3),))))[0].startswith("rank 3 is 12 AllReduce behind")


def test_who_differs_is_who_is_few():
    one, two = NcclRank(rank=1), NcclRank(rank=2)
    assert said(of(CountGroup(13, 1, (one,)), CountGroup(12, 7))) == ["rank 1 is 1 AllReduce ahead of the 7 others (13 launched, not 12)"]
    assert said(of(CountGroup(13, 1, (one,)), CountGroup(12, 1, (two,)))) == [
        "rank 2 is 1 AllReduce behind the other rank (12 launched, not 13)"
    ]
    assert said(of(CountGroup(14, 1, (one,)), CountGroup(13, 9), CountGroup(12, 2, (two,)))) == [
        "rank 1 is 1 AllReduce ahead of most ranks (14 launched, not 13)",
        "2 ranks, among them rank 2 are 1 AllReduce behind most ranks (12 launched, not 13)",
    ]


def test_troubles_come_after_counts():
    one = Communicator(hash="0x1", troubles=(RankTrouble("no answer", 1, (BEHIND,)), RankTrouble("aborted", 20)))
    found = said(report(one, Communicator(hash="0x2", gaps=(GAP,)), troubles=("1 process considered dead: pid 9 on node 10.0.0.2",)))
    assert [sentence.partition(" (")[0] for sentence in found] == [
        "rank 3", "rank 3", "20 ranks: aborted", "1 process considered dead: pid 9 on node 10.0.0.2",
    ]  # fmt: skip
    assert found[1].endswith(": no answer")


def test_the_whole_report():
    quiet = Communicator(hash="0x22 0x3", size=8, answered=8, counts={"AllGather": 1240, "Reduce": 0}, unchanged_since=NOW - 63)
    found = report(Communicator(hash="0x1 0x9", size=8, answered=8, gaps=(GAP,), counts={"Broadcast": 12}), quiet, number=7, timeouts=1)
    lines = report_lines(found, world(found), NOW)
    assert lines[0] == "NCCL 2.29.7, asked 3s ago: 7 communicators, 1 timeout while its processes asked each other"
    assert lines[2:10] == [
        "Communicator 0x1 of 8 ranks",
        "  rank 3 (WorkerDict actor3, node1 GPU 3, pid 4003) is 1 AllReduce behind the 7 others (411 launched, not 412)",
        "  launched by each rank: 12 Broadcast",
        "Communicator 0x22 of 8 ranks",
        "  launched by each rank: 1,240 AllGather",
        "  no count has changed for 1m03s",
        "5 more communicators have no difference",
        "",
    ]
    assert COUNTS_ONLY_WHERE_DIFFERENT not in lines


class Walked(tuple[Process, ...]):  # noqa: SLOT001 a tuple can't have slots with names
    """Processes that count how often all of them are visited."""

    times = 0

    def __iter__(self) -> Iterator[Process]:
        self.times += 1
        return super().__iter__()


def test_many_communicators_do_not_visit_all_processes_more_often_than_one():
    def visits(number: int) -> int:
        processes, found = Walked(WORKERS), report(*(Communicator(hash=f"{one:#x}", gaps=(GAP,)) for one in range(number)))
        lines = report_lines(found, world(found, processes=processes), NOW)
        assert sum("actor3" in line and "1 AllReduce behind" in line for line in lines) == number + 1, "the first one is a witness too"
        return processes.times

    assert visits(60) == visits(1) > 0


def test_of_very_many_communicators_with_differences_the_others_are_not_said_to_have_none():
    many = tuple(Communicator(hash=f"{number:#x}", gaps=(GAP,)) for number in range(MAX_COMMUNICATORS))
    lines = report_lines(report(*many, number=MAX_COMMUNICATORS + 5), world(), NOW)
    assert "5 more communicators are not listed" in lines
    assert not any("no difference" in line for line in lines)


def test_healthy_text_claims_no_progress():
    lines = report_lines(report(versions=("2.27.5",), number=4), world(), NOW)
    assert lines[0] == "NCCL 2.27.5, asked 3s ago: 4 communicators"
    assert "4 communicators have no difference" in lines
    assert COUNTS_ONLY_WHERE_DIFFERENT in lines


def test_without_any_report_only_the_reasons_are_said():
    found = report(versions=(), problems=("node1: NCCL's RAS is switched off there (NCCL_RAS_ENABLE=0)",), not_covered=3)
    assert report_lines(found, world(), NOW) == [
        "NCCL, asked 3s ago: no report", "", "Not known", "  node1: NCCL's RAS is switched off there (NCCL_RAS_ENABLE=0)",
        "  3 processes of the job with GPUs: no report is about them",
    ]  # fmt: skip


def test_each_witness_says_what_it_knows():
    titled = tuple(worker(number, name="ray::WorkerDict.update_actor" if number == 3 else "ray::WorkerDict") for number in range(8))
    hung = Finding("job-hung", "critical", "job ppo-7b", "…", about=(JOB.key, titled[5].key))
    shown = world(processes=titled, findings=(hung,))
    third = "WorkerDict actor3, node1 GPU 3, pid 4003"
    lines = list(NcclWords(report(Communicator(hash="0x1", gaps=(GAP,))), shown).witnesses())
    assert lines == [
        "NCCL    rank 3 (WorkerDict actor3, node1 GPU 3, pid 4003) is 1 AllReduce behind the 7 others (411 launched, not 412)",
        "power   different from the others: WorkerDict actor5, node1 GPU 5, pid 4005",
        "        WorkerDict actor3, node1 GPU 3, pid 4003: GPU 3 at 100%, 120 W",
        "titles  ray::WorkerDict.update_actor (pid 4003); 7 of the others are ray::WorkerDict",
        "stacks  not read with it: s on the job reads them",
        f"NCCL and power disagree: NCCL names {third}; by GPU power it is WorkerDict actor5, node1 GPU 5, pid 4005",
    ]


def test_hostile_names_are_cleaned():
    evil = NcclRank(rank=3, address="\x1b[31m10.0.0.1", pid=4003)
    found = of(CountGroup(412, 7), CountGroup(411, 1, (evil,)))
    text = "\n".join([*report_lines(found, world(), NOW), *evidence_lines(found, world(), (), NOW)])
    assert "\x1b" not in text


# In the finding about a stuck job


def hung(shown: Snapshot) -> Finding:
    return only(detect(shown, 1200, detectors=(stalled_jobs,)), "job-hung")


def test_a_stuck_job_has_nccls_word():
    finding = hung(world(report(Communicator(hash="0x1", gaps=(GAP,), unchanged_since=NOW - 90))))
    assert "NCCL's RAS, asked 3s ago: rank 3 (WorkerDict actor3, node1 GPU 3, pid 4003) is 1 AllReduce behind the 7 others" in str(finding)
    assert "NCCL's counts have not changed for 1m30s, in each report since" in finding.evidence
    assert finding.about == (JOB.key,), "what it is about is the odd one by its power, and so another witness"


def test_where_power_and_nccl_name_different_ranks_the_finding_says_so():
    disagreeing = hung(world(report(Communicator(hash="0x1", gaps=(GAP,))), odd=5))
    assert any(line.startswith("NCCL and power disagree: NCCL names WorkerDict actor3") for line in disagreeing.evidence)
    agreeing = hung(world(report(Communicator(hash="0x1", gaps=(GAP,))), odd=3))
    assert not any("disagree" in line for line in agreeing.evidence)


def test_a_report_from_before_the_hang_is_not_its_evidence():
    finding = hung(world(report(Communicator(hash="0x1", gaps=(GAP,)), asked=NOW - 9000)))
    assert "NCCL" not in "\n".join(finding.evidence)


def test_no_difference_and_a_reason_are_said_in_one_line_each():
    none = report(Communicator(hash="0x1", counts={"AllReduce": 4}))
    assert "NCCL 2.29.7, asked 3s ago: 1 communicator, no difference between ranks" in hung(world(none)).evidence
    text = report(versions=("2.27.5",), number=1)
    assert "NCCL 2.27.5, asked 3s ago: 1 communicator, no difference between ranks; it has no counts" in hung(world(text)).evidence
    off = report(versions=(), problems=("node1: switched off",))
    assert "NCCL's RAS: node1: switched off" in hung(world(off)).evidence
