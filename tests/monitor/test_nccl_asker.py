"""NCCL is asked when a person wants it, host by host until all processes of the job are covered, and by itself only where that is safe."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.config.settings import Config
from cockpit.model import Finding, Hold, Host, Job, NcclReport, Process, Snapshot
from cockpit.monitor.nccl_asker import ASK_EVERY_S, MAX_ASKS, NcclAsker, OldNcclError
from cockpit.sources.probes import nccl_report
from cockpit.sources.probes.pool import ProbePool
from cockpit.sources.source import SourceError
from tests.nccl_ranks import Rank
from tests.nccl_reports import HEALTHY_ROW, communicator, json_report, missing, rank, text_report, without_comma
from tests.sources.probes.recording_listener import RecordingListener
from tests.world import GIB, NOW, node, process, snapshot

JOB = Job("ppo-7b", "02000000", "ppo-7b", "RUNNING")
OLD = {"pid": 4000, "version": "2.27.5", "report": None}
Answer = dict[str, Any] | str
PID = 1234567
"""Stands for the pid of a real process."""
INCOMPLETE_ROW = "    0         1         1         1         2         1   RUNNING  INCOMPLETE"
INCOMPLETE = """#0-0 (1111111111111111) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 1 -- GPU 1 managed by process 4001 on node 10.0.0.1

"""


def worker(number: int, host: int = 1, **more: Any) -> Process:
    facts = {"host": f"node{host}", "node": node(host).id, "job": "02000000", "gpus": (Hold(number, GIB),), "ticks": 7, **more}
    return process(4000 + number, **facts)


def world(*processes: Process, **more: Any) -> Snapshot:
    hosts = {f"node{number}": Host(f"node{number}", (f"10.0.0.{number}",), NOW, nodes=(node(number).id,)) for number in (1, 2)}
    return snapshot(processes=processes, jobs=(JOB,), hosts=hosts, nodes=(node(1), node(2)), **more)


class Poller:
    def __init__(self, shown: Snapshot) -> None:
        self.now, self.snapshot, self.nccl = NOW, shown, ()

    def clock(self) -> float:
        return self.now

    def set_nccl(self, reports: tuple[NcclReport, ...]) -> None:
        self.nccl: tuple[NcclReport, ...] = reports


class Pool:
    def __init__(self, answers: Mapping[str, Answer] | Callable[..., Answer]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []

    async def ask(self, host: str, words: tuple[str, ...], entry: object = None) -> dict[str, Any]:
        self.asked.append((host, *words))
        answer = self.answers(host, words) if callable(self.answers) else self.answers[host]
        if isinstance(answer, str):
            raise SourceError(answer)
        return answer


class Selection:
    def entry(self, node: object) -> None:
        return None


def made(shown: Snapshot, answers: Any, *, by_itself: bool = False) -> tuple[Poller, Pool, NcclAsker]:
    poller, pool = Poller(shown), Pool(answers)
    return poller, pool, NcclAsker(poller, pool, Selection(), by_itself=by_itself)  # type: ignore[arg-type]  # all that it uses of them


def reported(*communicators: dict[str, Any], version: str = "2.29.7") -> dict[str, Any]:
    return {"pid": 4000, "version": version, "report": json_report(*communicators, version=version)}


async def test_one_report_covers_the_processes_of_all_hosts_that_it_names():
    ranks = communicator(rank(0), rank(1, "10.0.0.2", AllReduce=411))
    poller, pool, asker = made(world(worker(0), worker(1, host=2)), {"node1": reported(ranks)})
    report = await asker.ask(JOB)
    assert pool.asked == [("node1", "nccl", "4000:7")]
    assert poller.nccl == (report,)
    assert (report.job, report.asked, report.versions, report.number, report.not_covered) == ("job:ppo-7b", NOW, ("2.29.7",), 1, 0)
    (behind,) = report.communicators[0].gaps[0].groups[1].ranks
    assert behind.process == worker(1, host=2).key


async def test_where_a_report_covers_only_an_island_the_others_are_asked_too_and_a_silent_host_is_one_sentence():
    answers = {"node1": reported(communicator(rank(0))), "node2": "NCCL's RAS is switched off there (NCCL_RAS_ENABLE=0)"}
    _, pool, asker = made(world(worker(0), worker(1), worker(2, host=2)), answers)
    report = await asker.ask(JOB)
    assert [words[0] for words in pool.asked] == ["node1", "node1", "node2"]
    assert pool.asked[1][2:] == ("4001:7",), "only those that no report was about"
    assert report.problems == ("node2: NCCL's RAS is switched off there (NCCL_RAS_ENABLE=0)",)
    assert len(report.communicators) == 1, "the same communicator of two reports is one"


async def test_a_text_report_covers_as_many_processes_as_it_says():
    answers = {"node1": {"report": text_report(HEALTHY_ROW, processes=2)}, "node2": {"report": text_report(HEALTHY_ROW, processes=2)}}
    _, pool, asker = made(world(worker(0), worker(1, host=2)), answers)
    assert (await asker.ask(JOB)).communicators == ()
    assert len(pool.asked) == 1
    _, pool, asker = made(world(worker(0), worker(1, host=2), worker(2, host=2)), answers)
    await asker.ask(JOB)
    assert [words[0] for words in pool.asked] == ["node1", "node2"]


async def test_an_old_nccl_is_asked_only_if_a_person_wants_it():
    def answer(host: str, words: tuple[str, ...]) -> Answer:
        return {"report": text_report(HEALTHY_ROW)} if "--even-old" in words else OLD

    poller, _, asker = made(world(worker(0)), answer)
    with pytest.raises(OldNcclError, match=r"^NCCL 2\.27\.5 runs on node1$"):
        await asker.ask(JOB)
    assert poller.nccl == ()
    assert (await asker.ask(JOB, even_old=True)).versions == ("2.27.5",)
    _, _, asker = made(world(worker(0)), {"node1": {**OLD, "version": None}})
    with pytest.raises(OldNcclError, match="an NCCL of unknown version runs on node1"):
        await asker.ask(JOB)


async def test_the_report_of_another_job_is_refused_and_said():
    theirs = communicator(rank(0, pid=9000), rank(1, pid=9001))
    report = await made(world(worker(0)), {"node1": reported(theirs)})[2].ask(JOB)
    assert report.problems == ("node1: its report is refused: it is about other processes, such as pid 9000 at 10.0.0.1",)
    assert (report.communicators, report.versions) == ((), ())


async def test_a_rank_in_a_container_is_found_by_its_pid_there_and_never_guessed_among_several():
    inside = worker(0, ns_pid=31)
    odd = communicator(rank(0, "172.17.0.2", 31, AllReduce=1), rank(1))
    (group,) = (await made(world(inside), {"node1": reported(odd)})[2].ask(JOB)).communicators[0].gaps[0].groups[1:]
    assert group.ranks[0].process == inside.key
    both = world(inside, worker(1, host=2, ns_pid=31))
    report = await made(both, {"node1": reported(odd), "node2": reported(odd)})[2].ask(JOB)
    assert report.communicators[0].gaps[0].groups[1].ranks[0].process is None
    here = communicator(rank(0, "10.0.0.2", 31, AllReduce=1), rank(1))
    report = await made(both, {"node1": reported(here), "node2": reported(here)})[2].ask(JOB)
    assert report.communicators[0].gaps[0].groups[1].ranks[0].process == worker(1, host=2).key


async def test_counts_that_stand_still_are_dated_by_the_reports_before():
    still = reported(communicator(rank(0, AllReduce=5), rank(1)))
    poller, pool, asker = made(world(worker(0), worker(1)), {"node1": still})
    assert (await asker.ask(JOB)).communicators[0].unchanged_since is None
    for seconds in (60, 120):
        poller.now = NOW + seconds
        assert (await asker.ask(JOB)).communicators[0].unchanged_since == NOW
    pool.answers = {"node1": reported(communicator(rank(0, AllReduce=5), rank(1, AllReduce=413)))}
    assert (await asker.ask(JOB)).communicators[0].unchanged_since is None


async def test_no_more_hosts_are_asked_than_the_limit_and_the_rest_is_counted():
    hosts = {f"node{number}": Host(f"node{number}", nodes=()) for number in range(1, 21)}
    many = [worker(number, host=number, node=None) for number in range(1, 21)]
    shown = replace(world(*many), hosts=hosts)
    _, pool, asker = made(shown, dict.fromkeys(hosts, "ssh: connection refused"))
    report = await asker.ask(JOB)
    assert (len(pool.asked), len(report.problems), report.not_covered) == (MAX_ASKS, MAX_ASKS, 20 - MAX_ASKS)


async def test_containers_of_one_host_are_asked_one_by_one():
    def answer(host: str, words: tuple[str, ...]) -> Answer:
        return "switched off" if "4000:7" in words else reported(communicator(rank(1, pid=31)))

    _, pool, asker = made(world(worker(0, inside="pid:[1]"), worker(1, inside="pid:[2]", ns_pid=31)), answer)
    report = await asker.ask(JOB)
    assert [words[2:] for words in pool.asked] == [("4000:7",), ("4001:7",)]
    assert (report.problems, report.versions) == (("node1: switched off",), ("2.29.7",))


async def test_the_report_about_a_job_of_another_ray_is_forgotten():
    shown = world(worker(0))
    poller, _, asker = made(shown, {"node1": reported(communicator(rank(0)))})
    await asker.ask(JOB)
    asker.on_snapshot(shown)
    assert len(poller.nccl) == 1
    asker.on_snapshot(replace(shown, cluster=replace(shown.cluster, session="session_2")))
    assert poller.nccl == ()


async def test_a_report_that_comes_when_another_ray_answers_is_not_kept():
    def answer(*_: object) -> Answer:
        poller.snapshot = replace(shown, cluster=replace(shown.cluster, session="session_2"))
        return reported(communicator(rank(0)))

    shown = world(worker(0))
    poller, _, asker = made(shown, answer)
    with pytest.raises(SourceError, match="another Ray answers"):
        await asker.ask(JOB)
    assert poller.nccl == ()


@pytest.mark.parametrize("now", [replace(JOB, status="STOPPED"), replace(JOB, started=NOW), replace(JOB, job="03000000")])
async def test_only_a_job_that_runs_now_is_asked_not_another_one_with_its_name(now: Job):
    shown = replace(world(worker(0)), jobs=(now,))
    _, pool, asker = made(shown, {"node1": reported(communicator(rank(0)))})
    with pytest.raises(SourceError, match="is not known to run now"):
        await asker.ask(JOB, even_old=True)
    assert pool.asked == []


async def test_a_job_without_a_known_process_with_gpus_cannot_be_asked():
    with pytest.raises(SourceError, match="no process of job ppo-7b with a GPU is known"):
        await made(world(worker(0, gpus=())), {})[2].ask(JOB)


@pytest.mark.parametrize("answer", [{"report": 7}, {"report": "no report at all"}, {}])
async def test_an_invalid_answer_is_one_sentence(answer: dict[str, Any]):
    asker = made(world(worker(0)), {"node1": answer})[2]
    try:
        report = await asker.ask(JOB)
    except OldNcclError:
        assert answer == {}, "nothing was asked"
        return
    assert "can't be read" in report.problems[0]


async def test_while_a_report_is_read_the_screen_goes_on(monkeypatch):
    went_on, parse = threading.Event(), nccl_report.parse_report

    def wait_and_parse(report: str) -> nccl_report.ParsedReport:
        assert went_on.wait(5), "nothing else ran"
        return parse(report)

    monkeypatch.setattr(nccl_report, "parse_report", wait_and_parse)
    asking = asyncio.ensure_future(made(world(worker(0)), {"node1": reported(communicator(rank(0)))})[2].ask(JOB))
    asyncio.get_running_loop().call_soon(went_on.set)
    assert (await asking).versions == ("2.29.7",)


async def test_a_report_that_was_not_read_to_its_end_says_so_in_one_line():
    long = {"report": text_report(HEALTHY_ROW, warnings="\n" * nccl_report.MAX_LINES, processes=1)}
    report = await made(world(worker(0)), {"node1": long})[2].ask(JOB)
    assert report.problems == ("node1: its report is too long: only its first 50,000 lines were read",)
    assert (report.versions, report.number) == (("2.27.5",), 0)


# By itself


STUCK = Finding("job-hung", "critical", "job ppo-7b", "…", about=(JOB.key,))


async def publish(asker: NcclAsker, shown: Snapshot) -> None:
    asker.on_snapshot(shown)
    await asker._asking.finish(20)


async def test_without_the_config_nothing_is_asked_by_itself():
    shown = world(worker(0), findings=(STUCK,))
    _, pool, asker = made(shown, {"node1": reported(communicator(rank(0)))})
    await publish(asker, shown)
    assert pool.asked == []


async def test_with_the_config_a_stuck_job_is_asked_once_a_minute_and_forgotten_when_it_ends():
    shown = world(worker(0), findings=(STUCK,))
    poller, pool, asker = made(shown, {"node1": reported(communicator(rank(0), absent=(missing(1),)))}, by_itself=True)
    await publish(asker, replace(shown, findings=()))
    assert pool.asked == [], "the job is not stuck"
    for _ in range(3):
        await publish(asker, shown)
    assert len(pool.asked) == 1
    assert "--even-old" not in pool.asked[0]
    assert poller.nccl[0].communicators[0].troubles[0].what == "no answer"
    poller.now += ASK_EVERY_S
    await publish(asker, shown)
    assert len(pool.asked) == 2
    await publish(asker, replace(shown, jobs=(replace(JOB, status="SUCCEEDED"),)))
    assert poller.nccl == ()


async def test_an_old_nccl_is_not_asked_by_itself_and_that_is_said():
    shown = world(worker(0), findings=(STUCK,))
    poller, pool, asker = made(shown, {"node1": OLD}, by_itself=True)
    await publish(asker, shown)
    assert all("--even-old" not in words for words in pool.asked)
    assert poller.nccl[0].problems == ("NCCL 2.27.5 runs on node1, and is not asked automatically: press N to ask it",)
    pool.answers = {"node1": reported(communicator(rank(0)))}
    wanted = await asker.ask(JOB)
    pool.answers = {"node1": OLD}
    poller.now += ASK_EVERY_S
    await publish(asker, shown)
    assert poller.nccl == (wanted,), "the report that a person wanted stays"


# With real processes and a real probe


@pytest.mark.process
@pytest.mark.parametrize(
    ("library", "mode", "report", "version"),
    [
        ("libnccl.so.2.29.7", "json", json_report(communicator(rank(0, pid=PID), absent=(missing(1),))), "2.29.7"),
        (
            "libnccl.so.2.28.9",
            "json",
            without_comma(json_report(communicator(rank(0, pid=PID), absent=(missing(1),)), version="2.28.9")),
            "2.28.9",
        ),
        ("libnccl.so.2.27.5", "old", text_report(INCOMPLETE_ROW, INCOMPLETE, processes=1), "2.27.5"),
    ],
)
async def test_from_the_key_to_the_port_and_back(tmp_path: Path, library: str, mode: str, report: str, version: str):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with closing(Rank(mode, port, tmp_path, library)) as one, closing(ProbePool(Config(), RecordingListener())) as pool:
        for form in ("json", "text"):
            (tmp_path / f"report.{form}").write_text(report.replace(str(PID), str(one.identity[0])))
        mine = worker(0, host=1, node=None)
        mine = replace(mine, host=pool.local, pid=one.identity[0], ticks=one.identity[1])
        poller = Poller(replace(world(mine), hosts={pool.local: Host(pool.local, ("10.0.0.1",))}))
        asker = NcclAsker(poller, pool, Selection(), by_itself=False)  # type: ignore[arg-type]
        if version != "2.29.7":
            with pytest.raises(OldNcclError, match=f"NCCL {version}"):
                await asker.ask(JOB)
        found = await asker.ask(JOB, even_old=True)
    assert (found.versions, found.problems, found.not_covered) == ((version,), (), 0)
    (trouble,) = found.communicators[0].troubles
    assert (trouble.what, trouble.ranks[0].rank) == ("no answer", 1)
