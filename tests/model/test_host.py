"""A sample of a host takes over the titles of an earlier one that was in no snapshot."""

from __future__ import annotations

from msgspec.structs import replace

from cockpit.model import Host
from tests.world import process

WORKER = process(7, host="node1", kind="worker", command="ray::A.run")
EARLIER = replace(WORKER, titles=((1.0, "ray::A.begin"),))


def test_a_worker_that_still_runs_has_the_titles_of_both():
    later = replace(WORKER, titles=((2.0, "ray::A.run"),))
    found = Host("node1", (), 2.0, processes=(later,)).with_titles_of(Host("node1", (), 1.0, processes=(EARLIER,)))
    assert found.processes == (replace(WORKER, titles=(*EARLIER.titles, *later.titles)),)
    assert found.ended == ()


def test_a_worker_that_has_ended_since_keeps_its_titles():
    last = replace(WORKER, titles=((2.0, "ray::A"),))
    found = Host("node1", (), 3.0, processes=(), ended=(last,)).with_titles_of(Host("node1", (), 1.0, processes=(EARLIER,)))
    assert found.ended == (EARLIER, last)
    again = Host("node1", (), 4.0, processes=()).with_titles_of(found)
    assert again.ended == (EARLIER, last)
