"""Stacks of several ranks: equal ones are one, the odd one out comes first."""

from __future__ import annotations

import asyncio

from cockpit.model import Finding, Hold, Host, Job
from cockpit.sources.probes.decode import StackFrame, StackThread
from cockpit.sources.source import SourceError
from cockpit.ui.screens.stacks import MAX_REQUESTS, Stack, processes_of, read_stacks, stacks_text
from cockpit.ui.view import Index, View
from tests.world import GIB, actor, node, process, snapshot

REDUCE = (StackFrame("all_reduce", "torch/distributed/distributed_c10d.py", 2000), StackFrame("step", "ppo.py", 40))
LOAD = (StackFrame("load", "dataset.py", 7), StackFrame("step", "ppo.py", 40))
IDLE = (StackFrame("wait", "threading.py", 320), StackFrame("_bootstrap", "threading.py", 1002))


def test_the_odd_one_out_comes_first_and_its_own_calls_are_marked():
    ranks = [Stack(f"pid {pid}", (IDLE, REDUCE)) for pid in range(1, 8)] + [Stack("pid 8", (LOAD,))]
    lines = stacks_text(ranks, 80).splitlines()
    assert lines[:4] == ["1 of 8: pid 8", "", "  > load (dataset.py:7)", "    step (ppo.py:40)"]
    assert "7 of 8: pid 1, pid 2, pid 3, pid 4, pid 5, pid 6, and 1 more" in lines
    assert "  > all_reduce (torch/distributed/distributed_c10d.py:2000)" in lines
    assert "    1 idle thread" in lines


def test_where_there_is_room_they_lie_side_by_side():
    both = [Stack("pid 1", (REDUCE,)), Stack("pid 2", (LOAD,))]
    lines = stacks_text(both, 160).splitlines()
    assert "1 of 2: pid 1" in lines[0]
    assert "│ 1 of 2: pid 2" in lines[0]
    assert "all_reduce" in lines[2]
    assert "load (dataset.py:7)" in lines[2]
    assert "| 1 of 2: pid 2" in stacks_text(both, 160, ascii=True).splitlines()[0]
    long = (StackFrame("f", "x" * 100 + ".py", 1),)
    assert stacks_text([Stack("pid 1", (long,)), both[1]], 120).count("x") == 100, "a long name is wrapped and not cut"


def test_one_that_waits_for_work_has_nothing_to_do_and_one_that_cannot_be_read_has_the_reason():
    assert stacks_text([Stack("pid 1", (IDLE,))], 80).splitlines() == ["pid 1", "", "    idle: waits for work (1 thread)"]
    assert stacks_text([Stack("pid 1", error="py-spy is not on this host")], 80) == "pid 1: py-spy is not on this host"


STEP = (StackThread((StackFrame("step", "ppo.py", 40),)),)


def seen(**facts):
    shown = snapshot(**facts)
    return View(shown, Index(shown))


RANK = process(1001, actor=f"{1:032x}", job="02000000", gpus=(Hold(0, GIB),))
SAVER = process(1002, job="02000000")


def test_a_job_stands_for_its_ranks_and_an_actor_for_its_worker():
    view = seen(processes=(RANK, SAVER), actors=(actor(1), actor(5, pid=77)))
    assert processes_of([Job("ppo", "02000000")], view) == [RANK]
    assert processes_of([actor(1), RANK], view) == [RANK]
    (elsewhere,) = processes_of([actor(5, pid=77)], view)
    assert (elsewhere.host, elsewhere.pid, elsewhere.ticks) == ("node1", 77, None)
    hung = Finding("job-hung", "critical", "job ppo-7b", "…", about=("job:ppo-7b", "node:1"))
    assert processes_of([hung], view) == [RANK]
    assert processes_of([actor(6, state="PENDING_CREATION", pid=None, node=None), Job("new")], view) == []


def test_a_job_that_holds_no_gpu_yet_stands_for_its_driver():
    """What waits for placement waits there."""
    driver = process(1003, job="02000000", kind="driver")
    assert processes_of([Job("ppo", "02000000")], seen(processes=(SAVER, driver))) == [driver]
    assert processes_of([Job("ppo", "02000000")], seen(processes=(SAVER, driver, RANK))) == [RANK]


async def test_every_rank_of_a_large_job_is_asked_so_many_at_a_time():
    ranks = [process(number, job="02000000", gpus=(Hold(0, GIB),)) for number in range(300)]
    asked, most = 0, 0

    async def ask(_):
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0)
        asked -= 1
        return STEP

    assert len(await read_stacks(ask, ranks, seen(processes=ranks))) == 300
    assert most == MAX_REQUESTS


async def test_a_stack_is_titled_with_its_actor_or_job_and_with_the_name_of_its_node():
    async def ask(_):
        return STEP

    engine = process(1003, actor=f"{1:032x}", kind="child", name="VLLM::EngineCore", host="vm")
    driver = process(1004, job="02000000", kind="driver", host="vm")
    hosts = {"vm": Host("vm", nodes=(node(1).id,))}
    shown = seen(processes=(engine, driver), actors=(actor(1),), jobs=(Job("ppo", "02000000"),), nodes=(node(1),), hosts=hosts)
    titles = [stack.title for stack in await read_stacks(ask, [engine, driver], shown)]
    assert titles == ["VLLM::EngineCore of PolicyModelActor actor1 (pid 1003 on node1)", "driver of job ppo (pid 1004 on node1)"]


async def test_all_are_asked_at_once_and_one_that_fails_hides_no_other():
    async def ask(each):
        if each is SAVER:
            raise SourceError("w1: connection refused")
        return STEP

    good, bad = await read_stacks(ask, [RANK, SAVER], seen(processes=(RANK, SAVER), actors=(actor(1),)))
    assert good.title == "PolicyModelActor actor1 (pid 1001 on node1, GPU 0)"
    assert good.busy_threads == {(StackFrame("step", "ppo.py", 40),)}
    assert (bad.title, bad.error) == ("python (pid 1002 on node1)", "w1: connection refused")
