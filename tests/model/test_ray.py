"""What follows from Ray's facts themselves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.model import Actor, Process

ACTOR = Actor("a1", "Rank", state="ALIVE", job="03000000", node="n1", pid=751)
WORKER = Process(host="w1", pid=751, node="n1", job="03000000", kind="worker")


def test_a_worker_belongs_to_an_actor_by_its_agents_report_and_before_that_by_its_pid():
    assert ACTOR.is_run_by(replace(WORKER, actor="a1", pid=9))
    assert ACTOR.is_run_by(WORKER)
    assert ACTOR.is_run_by(replace(WORKER, pid=12751, ns_pid=751)), "Ray counts pids as its container does"


@pytest.mark.parametrize(
    "other",
    [
        replace(WORKER, actor="a2"),
        replace(WORKER, pid=752),
        replace(WORKER, node="n2"),
        replace(WORKER, node=None),
        replace(WORKER, job="04000000"),
        replace(WORKER, job=None),
        replace(WORKER, pid=751, ns_pid=33),
    ],
)
def test_another_process_is_not(other: Process):
    assert not ACTOR.is_run_by(other)


def test_an_actor_without_a_process_has_none():
    assert not replace(ACTOR, pid=None).is_run_by(WORKER)
    assert not replace(ACTOR, job=None, node=None).is_run_by(replace(WORKER, job=None, node=None))
