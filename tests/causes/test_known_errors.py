"""Every row of the table of known errors, as a real job that writes that text and ends: `cockpit status --json` names the row.

`COCKPIT_ROWS=0:40 make causes` tries some of them.
"""

from __future__ import annotations

import os

import pytest

from cockpit.failures import known_errors
from tests.causes.failed_jobs import forget, reasons, submit
from tests.lab.cluster import Cluster
from tests.lab.observe import Facts

pytestmark = [pytest.mark.causes, pytest.mark.timeout(900)]

BATCH = 8
"""Jobs at once: more only wait for the two cores."""
BEGIN, _, END = os.environ.get("COCKPIT_ROWS", "").partition(":")
ROWS = known_errors()[int(BEGIN or 0) : int(END or len(known_errors()))]
BEFORE = "step 1 loss 0.93\nstep 2 loss 0.91\n"
AFTER = "\nshutting down\n"


class Batches:
    """Runs the jobs of some rows at once, when the first of them is asked for."""

    def __init__(self, ray: Cluster) -> None:
        self._ray, self._said = ray, dict[str, Facts]()

    def reason(self, number: int) -> Facts:
        """What cockpit says of the job of a row."""
        name = ROWS[number].name
        if name not in self._said:
            begin = number - number % BATCH
            batch = ROWS[begin : begin + BATCH]
            folder = self._ray.head.tmp / "texts"
            folder.mkdir(exist_ok=True)
            for row in batch:
                (folder / row.name).write_text(f"{BEFORE}{row.matches[0]}{AFTER}", encoding="utf-8")
                submit(self._ray, row.name, f"cat /tmp/texts/{row.name}; exit {1 + number % 3}")
            names = [row.name for row in batch]
            self._said |= reasons(self._ray, names)
            forget(self._ray, names)
        return self._said[name]


@pytest.fixture(scope="module")
def batches(ray: Cluster) -> Batches:
    return Batches(ray)


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.name for row in ROWS])
def test_a_job_that_writes_a_known_error_is_explained_by_its_row(batches: Batches, number: int):
    job, row = batches.reason(number), ROWS[number]
    assert job["status"] == "FAILED"
    assert job["failure"]["known"] == row.name
    said = "it last reported: " if row.is_warning else ""
    assert job["reason"] == f"{said}{job['failure']['cause']}"
    assert job["failure"]["remedy"]
