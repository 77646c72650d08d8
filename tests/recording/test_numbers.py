from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cockpit.model import AgentReport, Amount, Gpu, GpuLinks, Node, RayProcess, TaskLimit
from cockpit.recording.numbers import AMOUNT, LETTER, MOMENT, PERCENT, codes_of, rest_of, with_codes
from cockpit.text import size
from tests import world

AMOUNTS = st.integers(0, 1 << 60)


@given(AMOUNTS)
def test_an_amount_is_rounded_by_at_most_a_two_thousandth(amount):
    assert abs(AMOUNT.decode(AMOUNT.encode(amount)) - amount) <= amount / 2048


@given(AMOUNTS)
def test_a_rounded_amount_is_not_rounded_further(amount):
    code = AMOUNT.encode(amount)
    assert AMOUNT.encode(AMOUNT.decode(code)) == code


@given(AMOUNTS, AMOUNTS)
def test_codes_of_amounts_keep_their_order(one, other):
    assert (AMOUNT.encode(one) <= AMOUNT.encode(other)) == (AMOUNT.encode(one) == AMOUNT.encode(other) or one < other)


def test_a_page_shows_the_same_size():
    assert [size(AMOUNT.decode(AMOUNT.encode(amount))) for amount in (0, 512 << 20, 72 << 30, 1 << 40)] == ["0B", "512M", "72G", "1.0T"]


def test_zero_is_not_unknown_and_impossible_numbers_are_unknown():
    assert (PERCENT.encode(None), PERCENT.encode(0.0), PERCENT.decode(PERCENT.encode(0.0))) == (0, 1, 0.0)
    assert [PERCENT.encode(value) for value in (math.nan, math.inf, -1.0)] == [0, 0, 0]
    assert [AMOUNT.encode(value) for value in (-1, 1 << 80)] == [0, 0]
    assert LETTER.encode("running") == 0
    assert MOMENT.decode(MOMENT.encode(world.NOW + 0.3)) == world.NOW + 0.5


def test_rows_that_differ_only_in_numbers_have_the_same_rest():
    node = world.node(1)
    busier = world.with_figures(node, cpu=99.0, gpus=tuple(replace(gpu, utilization=3.0) for gpu in node.agent.gpus or ()))
    assert rest_of(node) == rest_of(busier)
    assert codes_of(node) != codes_of(busier)
    assert rest_of(node) != rest_of(replace(node, state="DEAD"))
    assert rest_of(node) != rest_of(world.with_figures(node, gpus=node.agent.gpus[:-1]))


def test_clocks_are_rounded_to_fifty_megahertz_and_reasons_are_exact():
    calm, busy = (Gpu(0, clock=clock, clock_reasons=bits, links=GpuLinks(5, 5, 16, 16)) for clock, bits in ((1980, 0), (1213, 0x44)))
    changed = with_codes(calm, iter(codes_of(busy)))
    assert (changed.clock, changed.clock_reasons, changed.links) == (1200, 0x44, GpuLinks(5, 5, 16, 16))
    assert type(changed.clock) is int
    assert with_codes(busy, iter(codes_of(Gpu(0)))).clock_reasons is None


def test_a_row_gets_new_numbers_and_an_equal_code_is_not_rounded_again():
    node = world.node(1)
    gpus = tuple(replace(gpu, utilization=None) for gpu in node.agent.gpus or ())
    later = world.with_figures(node, cpu=12.0, shm=Amount(5, node.agent.shm.total), gpus=gpus)
    assert with_codes(node, iter(codes_of(later))) == later
    node = Node("1", "w1", agent=AgentReport(cpu=39.37, gpus=(Gpu(0, memory_used=123_456_789),)))
    assert with_codes(node, iter(codes_of(node))) == node


def test_the_number_of_tasks_may_change_and_an_older_row_has_none():
    raylet = RayProcess("raylet", 7, state="S", files=9, tasks=(TaskLimit("user", 1000, 4096), TaskLimit("pids", None, 9)))
    later = replace(raylet, tasks=(TaskLimit("user", 1200, 4096), TaskLimit("pids", None, 9)))
    assert rest_of(raylet) == rest_of(later)
    assert with_codes(raylet, iter(codes_of(later))) == later
    assert len(codes_of(replace(raylet, tasks=None))) == 2
