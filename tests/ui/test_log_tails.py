"""Of which log the last lines are kept, and for how many things."""

from __future__ import annotations

import asyncio

import pytest

from cockpit.monitor.logs import Log
from cockpit.sources.source import SourceError
from cockpit.ui.log_strips import MAX_KEY_LINES
from cockpit.ui.log_tails import LINES_READ, MAX_LINE_CHARS, MAX_READ_SHARE, MAX_TAILS, READ_INTERVAL_S, LogTails, fit_lines
from tests.ui.conftest import Clock
from tests.world import actor


def log(label, *batches, why="", endless=False):
    async def follow(lines, on):
        assert (lines, on) == (LINES_READ, False)
        if why:
            raise SourceError(why)
        for batch in batches:
            yield batch
        if endless:
            await asyncio.Event().wait()

    return Log(label, f"{label}.log", "node1", follow)


async def read(*logs, thing=None, tails=None):
    """What is known of an actor with these logs."""
    tails, thing = tails or LogTails(Clock()), thing or actor(1)

    async def find(_):
        return logs

    await tails.read(thing, find)
    return tails.known[thing.key]


MARKS = [":job_id:03000000", ":actor_name:RemoteRewardServer", ":task_name:score it"]
"""Ray's own lines at the begin of each log."""


@pytest.mark.parametrize(
    ("logs", "label", "lines", "keys"),
    [
        ([log("out", ["said"]), log("err", ["complained"])], "err", ["complained"], "l o"),
        ([log("out", ["said"]), log("err", ["", "  "])], "out", ["said"], "l"),
        ([log("out", [*MARKS, "said"]), log("err", MARKS)], "out", ["said"], "l"),
        ([log("out", ["said"]), log("err"), log("err-before", ["died"])], "out", ["said"], "l"),
        ([log("out"), log("err"), log("err-before", ["died"]), log("out-before", ["said"])], "err-before", ["died"], "l o o"),
        ([log("out"), log("job", ["step 1"])], "out", [], "l"),  # the driver's lines are not the actor's
        ([log("job", ["step 1"])], "job", ["step 1"], "l"),
        ([log("out", ["said"]), log("err", why="gone")], "out", ["said"], "l"),
        ([log("job", ["step 1"], ["step 2"], endless=True)], "job", ["step 1", "step 2"], "l"),  # it is still being written
    ],
)
async def test_err_comes_before_out_and_the_process_of_now_before_the_last_where_they_have_lines(logs, label, lines, keys):
    tail = await read(*logs)
    assert (tail.log.label, tail.lines, tail.keys) == (label, tuple(lines), keys)


@pytest.mark.parametrize(
    ("logs", "why"),
    [
        ([log("out"), log("err", why="gone")], "gone"),
        ([log("job", endless=True)], "job.log on node1: no answer within 10 s"),
    ],
)
async def test_a_log_that_cannot_be_read_is_not_called_empty(logs, why):
    assert (await read(*logs)).why == why


async def test_with_another_process_an_actors_logs_are_found_anew():
    tails = LogTails(Clock())
    await read(log("out", ["first"]), tails=tails, thing=actor(1, pid=7, restarts=0))
    assert (await read(log("out", ["second"]), tails=tails, thing=actor(1, pid=7, restarts=0))).lines == ("first",)
    assert (await read(log("out", ["third"]), tails=tails, thing=actor(1, pid=8, restarts=1))).lines == ("third",)


async def test_tails_of_only_so_many_things_are_kept():
    tails = LogTails(Clock())
    for number in range(MAX_TAILS + 2):
        await read(log("out"), tails=tails, thing=actor(number + 1))
    assert len(tails.known) == MAX_TAILS
    assert actor(1).key not in tails.known
    assert actor(MAX_TAILS + 2).key in tails.known


async def test_a_log_that_took_long_to_read_is_read_less_often():
    clock = Clock()
    tails = LogTails(clock)

    async def find(_):
        clock.now += 4
        return (log("out"),)

    await tails.read(actor(1), find)
    clock.now += READ_INTERVAL_S + 1
    assert not tails.is_due(actor(1), again=True)
    clock.now += 4 / MAX_READ_SHARE
    assert tails.is_due(actor(1), again=True)
    assert not tails.is_due(actor(1), again=False)
    assert tails.is_due(actor(2), again=False)


@pytest.mark.parametrize("before", [1, MAX_KEY_LINES - 10])
def test_a_private_key_that_begins_above_the_lines_shown_is_hidden(before):
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
    lines = fit_lines(["-----BEGIN PRIVATE KEY-----", *([body] * (before + 30))])
    assert not any(body in line for line in lines)


def test_a_line_is_cut_and_of_a_progress_bar_only_the_last_state_is_kept():
    assert fit_lines(["x" * 10 * MAX_LINE_CHARS])[0] == "x" * MAX_LINE_CHARS
    assert fit_lines(["10%\r20%\r30%", "\x1b[31mred\x1b[0m"]) == ("30%", "red")
