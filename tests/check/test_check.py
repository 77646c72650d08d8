"""A running job with the same command turns mistakes in the command into doubts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.budget import Line
from cockpit.check.result_text import verdict
from cockpit.model import Job
from tests.check.worlds import NOW, cluster, group, lines_of, machine, of
from tests.world import actor

MISTAKE = Line("never", "Neither --reward.model_name_or_path nor --reward.remote_url is given: there is no reward", "add one of them")
WORKER = replace(actor(1), job="02000000", state="ALIVE", internal=False)


def checked(status="RUNNING", entrypoint="python  train.py\n", actors=(WORKER,)):
    """Of a preset that runs `python train.py`, while there is this job."""
    job = Job("ppo-7b", "02000000", "ppo-7b", status, entrypoint, NOW - 900)
    return of(cluster(machine(1), jobs=(job,), actors=actors), group("actor", 4), lines=(MISTAKE,))


@pytest.mark.parametrize(("facts", "how"), [({}, "runs now"), ({"status": "SUCCEEDED", "actors": ()}, "has succeeded")])
def test_a_command_with_which_a_job_works_is_not_said_to_be_impossible(facts, how):
    found = checked(**facts)
    assert found.verdict == "now"
    assert lines_of(found, "doubt") == [
        f"{MISTAKE.text}, but job ppo-7b {how} with this command; cockpit can't know what its script or release of OpenRLHF does instead"
    ]
    assert verdict("ppo-7b", found) == "ppo-7b fits now, with 1 doubt"


@pytest.mark.parametrize(
    "facts",
    [
        {"actors": ()},
        {"actors": (replace(WORKER, state="PENDING_CREATION"),)},
        {"actors": (replace(WORKER, internal=True),)},
        {"actors": (replace(WORKER, job="09000000"),)},
        {"status": "FAILED"},
        {"entrypoint": "python train.py --else"},
        {"entrypoint": None},
    ],
)
def test_a_job_that_has_only_begun_or_failed_or_runs_something_else_proves_nothing(facts):
    found = checked(**facts)
    assert found.verdict == "never"
    assert verdict("ppo-7b", found) == f"ppo-7b can't run as written: {MISTAKE.text}"
