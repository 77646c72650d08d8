"""Requests to real probes: on this host, through real programs in place of ssh, and on every Python that is installed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.config.reach import HostEntry, last_words
from cockpit.config.settings import Config
from cockpit.sources.probes.ray_tunnel import RayPlace
from cockpit.sources.probes.requests import HOSTS_AT_ONCE, HostAnswer, ProbeRequests, Progress
from tests.pythons import python_or_skip
from tests.sources.probes.ray_stop import WORDS_OF_RAY_STOP

pytestmark = pytest.mark.process

PLAN = {"act": "kill", "stage": "plan"}
NEVER = "sh -c 'echo $$ >> {folder}/pids; exec sleep 600'"
"""A reach to a host that connects and then stays silent."""


class ProgressLog:
    """Records all progress."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, Progress]] = []

    def __call__(self, host: str, progress: Progress) -> None:
        self.entries.append((host, progress))

    def of(self, host: str) -> list[str]:
        return [progress.text for name, progress in self.entries if name == host]


def script(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def requests_to(reach: str, *names: str, python: str = sys.executable, places: dict[str, RayPlace] | None = None) -> ProbeRequests:
    return ProbeRequests(Config(reach=reach), "here", {name: HostEntry(name, python=python) for name in names}, places)


async def answer_of(
    sent: ProbeRequests, host: str, request: dict[str, Any] | None = None, hear: ProgressLog | None = None, *, allows_ray: bool = True
) -> HostAnswer:
    return (await sent.send({host: request or PLAN}, hear or ProgressLog(), allows_ray=allows_ray))[host]


def alive(folder: Path) -> list[int]:
    pids = [int(pid) for pid in (folder / "pids").read_text().split()] if (folder / "pids").exists() else []
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def until(fact: Callable[[], Any], seconds: float = 60) -> Any:
    limit = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < limit
        await asyncio.sleep(0.02)
    return found


async def test_this_host_answers_without_a_reach():
    progress = ProgressLog()
    answer = await answer_of(requests_to("false"), "here", hear=progress)
    assert answer.error is None
    assert set(answer.reply) >= {"targets", "refused", "unknown"}
    assert progress.of("here")[:3] == ["waiting", "connecting", "running"]


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"])
async def test_an_action_is_planned_on_every_supported_python(version):
    answer = await answer_of(requests_to("env -i {python} -", "w1", python=python_or_skip(version)), "w1")
    assert answer.error is None
    assert set(answer.reply) >= {"targets", "refused", "unknown"}


async def test_no_command_line_contains_the_request_or_a_word_that_ray_stop_matches(tmp_path):
    """Checks the command lines of all processes that a request starts on both hosts, while it runs."""
    request = {**PLAN, "stage": "do", "targets": [target(os.getppid())], "any": True, "marker": "raylet monitor.py"}
    seen: set[str] = set()
    before = sessions()
    sent = asyncio.ensure_future(
        requests_to("sh -c 'cat | {python} -'", "w1").send({"here": request, "w1": request}, ProgressLog(), allows_ray=True)
    )
    while not sent.done():
        seen |= lines_of(sessions() - before)
        await asyncio.sleep(0.005)
    await sent
    assert f"{sys.executable} -" in seen
    assert not [line for line in seen for word in (*WORDS_OF_RAY_STOP, "kill", "stage") if word in line]


def target(pid: int) -> dict[str, Any]:
    """A request to kill a process that will not be found, since its start time is wrong."""
    return {"what": "process", "pid": pid, "ticks": 1, "kind": "orphan"}


def sessions() -> set[str]:
    """The descendants of this process. A lab that other tests left running may be among them."""
    mine = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if fields[1] == str(os.getpid()) and fields[3] == path.parent.name != str(os.getsid(0)):
                mine.add(path.parent.name)
    return mine


def lines_of(sessions: set[str]) -> set[str]:
    lines = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if path.read_text().rpartition(")")[2].split()[3] in sessions:
                lines.add(path.with_name("cmdline").read_text().replace("\0", " ").strip())
    return lines


async def test_a_host_that_hangs_delays_no_other():
    reach = "sh -c 'case {name} in w2) exec sleep 600;; *) exec {python} -;; esac'"
    progress = ProgressLog()
    sent = asyncio.ensure_future(
        requests_to(reach, "w1", "w2", "w3").send(dict.fromkeys(("w1", "w2", "w3"), PLAN), progress, allows_ray=True)
    )
    await until(lambda: "answered" in progress.of("w1") and "answered" in progress.of("w3"), 60)
    assert progress.of("w2") == ["waiting", "connecting"]
    sent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent


async def test_a_silent_host_gets_an_error(tmp_path):
    answers = await requests_to(NEVER.format(folder=tmp_path), "w1").send({"w1": PLAN}, ProgressLog(), patience=1, allows_ray=True)
    assert re.fullmatch(r"w1: timed out, no answer for \d+ s", str(answers["w1"].error))
    await until(lambda: not alive(tmp_path))


async def test_each_report_of_progress_restarts_the_timeout(tmp_path):
    script(
        tmp_path,
        "slow",
        'for i in 1 2 3 4 5 6; do echo \'{"tell": "step", "done": \'$i\', "of": 6}\'; sleep 0.5; done; echo \'{"done": []}\'',
    )
    progress = ProgressLog()
    answers = await requests_to(f"sh {tmp_path}/slow", "w1").send({"w1": PLAN}, progress, patience=2, allows_ray=True)
    assert answers["w1"].reply == {"done": []}
    assert ("w1", Progress("step", 6, 6)) in progress.entries


async def test_only_a_limited_number_of_hosts_is_asked_at_once(tmp_path):
    """Each host answers only when the test allows it, and keeps its place until then."""
    script(tmp_path, "held", f"echo $$ >> {tmp_path}/pids; until [ -e {tmp_path}/go ]; do sleep 0.2; done; echo '{{\"done\": []}}'")
    names, progress = [f"w{number}" for number in range(HOSTS_AT_ONCE + 3)], ProgressLog()
    sent = asyncio.ensure_future(requests_to(f"sh {tmp_path}/held", *names).send(dict.fromkeys(names, PLAN), progress, allows_ray=True))
    await until(lambda: len(alive(tmp_path)) >= HOSTS_AT_ONCE, 60)
    assert sorted(map(len, map(progress.of, names))) == [1] * 3 + [2] * HOSTS_AT_ONCE, "three are waiting, the others are connecting"
    assert len(alive(tmp_path)) == HOSTS_AT_ONCE
    (tmp_path / "go").touch()
    assert all(answer.reply for answer in (await sent).values())
    assert len((tmp_path / "pids").read_text().split()) == HOSTS_AT_ONCE + 3


async def test_a_cancellation_ends_every_child_at_once(tmp_path):
    names = ["w1", "w2", "w3"]
    sent = asyncio.ensure_future(
        requests_to(NEVER.format(folder=tmp_path), *names).send(dict.fromkeys(names, PLAN), ProgressLog(), allows_ray=True)
    )
    await until(lambda: len(alive(tmp_path)) == 3, 60)
    sent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent
    await until(lambda: not alive(tmp_path))


async def test_closing_ends_every_child_at_once_and_starts_no_more(tmp_path):
    names = [f"w{number}" for number in range(HOSTS_AT_ONCE + 3)]
    sent = requests_to(NEVER.format(folder=tmp_path), *names, places={name: RayPlace("session_x", "ab") for name in names})
    task = asyncio.ensure_future(sent.send(dict.fromkeys(names, PLAN), ProgressLog(), allows_ray=True))
    await until(lambda: len(alive(tmp_path)) == HOSTS_AT_ONCE, 60)
    sent.close()
    answers = await asyncio.wait_for(task, 10)
    assert not any(answer.reply for answer in answers.values())
    await until(lambda: not alive(tmp_path))
    assert len((tmp_path / "pids").read_text().split()) == HOSTS_AT_ONCE


async def test_the_action_ends_when_cockpit_is_killed(tmp_path):
    """The acting probe waits for a process to end when its reader is killed."""
    with subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], start_new_session=True) as stubborn:
        ticks = int(Path(f"/proc/{stubborn.pid}/stat").read_text().rpartition(")")[2].split()[19])
        request = {
            "act": "kill",
            "stage": "do",
            "grace": 60,
            "any": True,
            "targets": [{**target(stubborn.pid), "ticks": ticks, "kind": "foreign"}],
        }
        program = (
            "import asyncio, json, sys\n"
            "from cockpit.config.settings import Config\n"
            "from cockpit.sources.probes.requests import ProbeRequests\n"
            "request = json.load(sys.stdin)\n"
            "def hear(host, progress): print(progress.text, flush=True)\n"
            "asyncio.run(ProbeRequests(Config(), 'here', {}).send({'here': request}, hear, allows_ray=True))\n"
        )
        with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cockpit:
            assert cockpit.stdin
            assert cockpit.stdout
            cockpit.stdin.write(json.dumps(request))
            cockpit.stdin.close()
            while "running" not in cockpit.stdout.readline():
                assert cockpit.poll() is None
            acting = [int(pid) for pid in Path(f"/proc/{cockpit.pid}/task/{cockpit.pid}/children").read_text().split()]
            assert acting
            cockpit.kill()
        try:
            await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in acting), 30)
            assert stubborn.poll() is None
        finally:
            stubborn.kill()


@pytest.mark.parametrize(
    ("reach", "error"),
    [
        ("no-such-program", "w1: no-such-program: no such file or directory"),
        ("sh -c 'echo Permission denied >&2; exit 255'", "w1: Permission denied"),
        ("sh -c 'echo Welcome; exit 1'", "w1: Welcome"),
        ("sh -c 'exit 127'", "w1: no Python to run there: exit code 127"),
        ("sh -c 'kill -9 $$'", "the probe of w1 was killed by signal 9"),
        ("""sh -c 'echo "{\\"error\\": \\"no token=abcdefgh here\\"}"'""", "w1: no token=••• here"),
    ],
)
async def test_a_failing_way_is_reported_in_one_sentence(reach, error):
    answer = await answer_of(requests_to(reach, "w1"), "w1")
    assert answer.reply is None
    assert answer.error == error


async def test_an_unknown_host_is_refused():
    assert (await answer_of(requests_to("sh"), "w9")).error == "cockpit has no way to reach w9: add it under `hosts` in the config"


async def test_a_ray_is_never_stopped_through_itself():
    sent = requests_to("ray", "w1", places={"w1": RayPlace("session_x", "ab")})
    answer = await answer_of(sent, "w1", {"act": "stop", "stage": "plan"}, allows_ray=False)
    assert answer.error == "w1: this can't be done through Ray, and cockpit has no other way to reach it"
    sent = requests_to("sh -c 'exit 255'", "w1", places={"w1": RayPlace("session_x", "ab")})
    answer = await answer_of(sent, "w1", {"act": "stop", "stage": "plan"}, allows_ray=False)
    assert answer.error == "the probe of w1 ended with exit code 255"


async def test_without_a_live_ray_the_errors_of_both_ways_are_reported():
    sent = requests_to("sh -c 'echo refused >&2; exit 255'", "w1", places={"w1": RayPlace("session_that_is_not_there", "ab")})
    answer = await answer_of(sent, "w1")
    assert answer.error == "w1: refused; through Ray: w1: no raylet of session_that_is_not_there runs on this host"
    sent.close()


async def test_a_host_whose_probe_has_spoken_is_not_asked_again_through_ray():
    reach = """sh -c 'echo "{\\"tell\\": \\"half done\\"}"; exit 255'"""
    answer = await answer_of(requests_to(reach, "w1", places={"w1": RayPlace("session_x", "ab")}), "w1")
    assert answer.error is not None
    assert "Ray" not in answer.error


def test_sshs_warning_about_host_keys_is_explained():
    changed = "@@@\nOffending ED25519 key in /home/me/.ssh/known_hosts:7\n  remove with:\nHost key verification failed.\r\n"
    assert last_words(changed) == "its host key has changed and does not match /home/me/.ssh/known_hosts:7; nothing was sent"
    assert "is unknown here" in last_words("Host key verification failed.")
    assert last_words("a\nme@w1: Permission denied (publickey,password).\n").startswith(
        "me@w1: Permission denied (publickey,password): ssh can't ask"
    )
    assert last_words("") == ""
    unknown = "srun: error: Unable to create step for job 2: Requested node configuration is not available\n"
    assert last_words(unknown).endswith("is not available: is it a node of that job? `squeue -h -j 2 -o %N` lists its nodes")
    denied = "srun: error: Unable to create step for job 2: Access/permission denied\n"
    assert last_words(denied).startswith("Unable to create step for job 2: Access/permission denied: Slurm starts steps in a job only for")
