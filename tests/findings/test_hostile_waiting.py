"""A cluster may report anything about waiting and ended work: no detector raises an error, and every sentence makes sense."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.findings.actors import leaks, restart_loops
from cockpit.findings.jobs import failed_jobs, pending_jobs
from cockpit.findings.waiting import deadlocks, waiting_actors, waiting_groups
from cockpit.model import Actor, Bundle, Job, PlacementGroup
from tests.findings.detection import detect
from tests.world import NOW, snapshot

ALONE = (waiting_groups, waiting_actors, deadlocks, pending_jobs, failed_jobs, leaks, restart_loops)
NAMES = st.sampled_from(["", "a", "\x1b[31mred", "x" * 500, "two\nlines", "\u202eevil"]) | st.text(string.printable, max_size=8).filter(
    lambda name: not re.search("nan|inf|None", name)
)
TIMES = st.none() | st.sampled_from([NOW - 600, NOW - 50, NOW, NOW + 1e9, -1.0, 0.0, float("nan"), float("inf"), 1e300])
JOB_IDS = st.none() | st.sampled_from(["01000000", "02000000", ""])
NEEDS = st.dictionaries(st.sampled_from(["GPU", "CPU", "memory", "\x1b"]), st.floats(), max_size=3)
WAITS = st.none() | st.sampled_from(["never", "held", "deadlock", "itself", "group", "removed", "starting", "room"])
IDS = st.sampled_from(["1" * 32, "2" * 32, "3" * 32])
ACTORS = st.builds(
    Actor, id=IDS, class_=NAMES, state=st.sampled_from(["PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING", "ALIVE", "?"]),
    job=JOB_IDS, needs=NEEDS, placement_group=st.none() | IDS, restarts=st.none() | st.integers(), since=TIMES, wait=WAITS,
    at_least=st.booleans(), why=st.none() | st.just("why"), internal=st.booleans(),
)  # fmt: skip
GROUPS = st.builds(
    PlacementGroup, id=IDS, name=NAMES, state=st.sampled_from(["PENDING", "CREATED", "RESCHEDULING", "PREPARED", "?"]), job=JOB_IDS,
    bundles=st.lists(st.builds(Bundle, NEEDS, node=st.none() | st.just("n")), max_size=3).map(tuple), since=TIMES, wait=WAITS,
    why=st.none() | st.just("why"), detached=st.none() | st.booleans(),
)  # fmt: skip
JOBS = st.builds(
    Job, id=NAMES, job=JOB_IDS, submission=st.none() | NAMES, status=st.sampled_from(["PENDING", "RUNNING", "FAILED", "STOPPED", ""]),
    entrypoint=st.none() | NAMES, started=TIMES, ended=TIMES, message=st.none() | NAMES, error_type=st.none() | NAMES,
    exit_code=st.none() | st.integers(),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=200)
@given(st.none() | st.lists(ACTORS, max_size=6).map(tuple), st.none() | st.lists(GROUPS, max_size=5).map(tuple),
       st.none() | st.lists(JOBS, max_size=5).map(tuple))  # fmt: skip
def test_hostile_facts_make_no_nonsense(actors, groups, jobs):
    found = detect(snapshot(actors=actors, placement_groups=groups, jobs=jobs), 10, detectors=ALONE)
    for finding in found:
        reported = " ".join((finding.subject, finding.text, *finding.evidence, finding.remedy.text if finding.remedy else ""))
        assert reported.isprintable()
        assert not re.search(r"\b(?:nan|inf|None)\b", reported)
        assert len(finding.text) < 1000
        assert finding.since is not None
        assert 0 < finding.since <= NOW
    assert len({finding.key for finding in found}) == len(found)
