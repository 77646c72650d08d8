"""Eight hosts at once, some in trouble: the others are served, each troubled one is named, nothing is done twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.lab import hosts
from tests.lab.many import DO, Many, Run, Trouble, many_hosts, troubled
from tests.lab.observe import Facts

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def eight() -> Iterator[Many]:
    """Hosts without Ray."""
    if reason := hosts.why_not():
        pytest.skip(reason)
    with many_hosts(8, f"e{os.getpid() % 100000}") as many:
        yield many


@pytest.fixture
def many(eight: Many) -> Many:
    """Gives each host one orphan and one raylet."""
    eight.lay_orphans()
    eight.lay_raylets()
    return eight


def run(many: Many, name: str) -> Run:
    found = many.run(DO[name], many.others)
    print(f"figure: {name} on {len(many.all)} hosts took {found.wall:.1f} s, exit code {found.code}")
    return found


def done(run: Run) -> list[str]:
    return sorted(row["host"] for row in run.facts["done"])


def are_named(errors: dict[str, str], trouble: Trouble, frozen: str) -> bool:
    """Whether each host in trouble has its own reason, and no other host has one."""
    right = {host.name: frozen for host in trouble.frozen} | {host.name: "Connection refused" for host in trouble.refused}
    return errors.keys() == right.keys() and all(words in errors[name] for name, words in right.items())


def probe_faults(status: Facts) -> dict[str, str]:
    return {fault["host"]: fault["text"] for fault in status["faults"] if fault["source"] == "probe"}


def failures(run: Run) -> dict[str, str]:
    return {row["host"]: row["error"] for row in run.facts["failed"]}


@pytest.mark.parametrize("name", ["kill-orphans", "stop"])
def test_one_command_ends_the_same_on_every_host_and_is_logged_once(many: Many, name: str):
    (orphans, raylets), log = (many.lay_orphans(), many.lay_raylets()), many.head.folder / "run/lab/home/.local/state/cockpit/acts.jsonl"
    log.unlink(missing_ok=True)
    ends, stays = (orphans, raylets) if name == "kill-orphans" else (raylets, orphans)
    first = run(many, name)
    assert (first.code, done(first), first.facts["failed"]) == (0, sorted(ends), [])
    assert not any(process.is_alive() for process in ends.values())
    assert all(process.is_alive() for process in stays.values())
    assert [json.loads(line)["act"] for line in log.read_text().splitlines()] == [name, name]
    assert run(many, name).facts["done"] == []


def test_actions_serve_the_healthy_hosts_and_do_nothing_later_on_the_others(many: Many):
    orphans = many.lay_orphans()
    with troubled(many, frozen=2, refused=1) as trouble:
        first = run(many, "kill-orphans")
        served = sorted(orphans.keys() - trouble.unreachable)
        assert (first.code, done(first)) == (1, served)
        assert trouble.full.name in served
        assert are_named(failures(first), trouble, "timed out"), failures(first)
        again = run(many, "kill-orphans")
        assert (again.code, again.facts["done"]) == (1, [])
    assert {name for name, process in orphans.items() if process.is_alive()} == trouble.unreachable
    last = run(many, "kill-orphans")
    assert (last.code, done(last)) == (0, sorted(trouble.unreachable))


def test_doctor_and_status_report_the_healthy_hosts_and_name_the_others(many: Many):
    with troubled(many, frozen=2, refused=1) as trouble:
        doctor, status = run(many, "doctor"), run(many, "status")
    assert (doctor.code, status.code) == (2, 2)
    for facts, frozen in ((doctor.facts["status"], "timed out"), (status.facts, "w")):
        assert are_named(probe_faults(facts), trouble, frozen), facts["faults"]
        seen = {process["host"] for process in facts["processes"] if process["kind"] == "orphan"}
        assert seen == {host.name for host in many.all} - trouble.unreachable
    (full,) = (finding["text"] for finding in doctor.facts["status"]["findings"] if finding["code"] == "disk-full")
    assert f"on {trouble.full.name} is 100% full" in full
