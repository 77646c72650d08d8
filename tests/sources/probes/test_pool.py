from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cockpit.config.reach import NO_PROMPT, HostEntry
from cockpit.config.settings import Config
from cockpit.model import AgentReport, Fault, Gpu, Host, Node
from cockpit.sources.probes.host_probe import ProbeTimings, why_it_ended
from cockpit.sources.probes.pool import ProbePool, has_complete_sample
from cockpit.sources.probes.process import LineCutter
from cockpit.sources.probes.spawn import kill_and_reap, local_command, spawn, watch_words
from cockpit.sources.ray.nodes import NodeFacts
from cockpit.sources.source import SourceError
from cockpit.times.clock import CLOCK
from tests.sources.probes.recording_listener import RecordingListener

pytestmark = pytest.mark.process

FAKE = Path(__file__).with_name("fake_probe.py")
REACH = f"{sys.executable} {FAKE} --read {{name}}"
DEFAULT = Config()
HERE = socket.gethostname()
QUICK = ProbeTimings(
    tick=0.02,
    idle_tick=0.02,
    silence=0.4,
    restart=1.2,
    first_pause=0.1,
    longest_pause=0.4,
    settled=60,
    grace=0.3,
    min_turn=0.3,
    answer_timeout=5,
)


class Lab:
    """A pool whose probes are fakes; it runs until the test ends."""

    def __init__(self) -> None:
        self.listener = RecordingListener()
        self.children: list[subprocess.Popen[bytes]] = []
        self.hosts: ProbePool
        self.task: asyncio.Task[None]

    def begin(self, *, timings: ProbeTimings = QUICK, config: Config = DEFAULT) -> ProbePool:
        whole = Config(
            hosts=config.hosts,
            interval=config.interval,
            reach=REACH if config.reach == DEFAULT.reach else config.reach,
            probe_hosts=config.probe_hosts,
        )
        self.hosts = ProbePool(whole, self.listener, timings=timings)
        self.task = asyncio.create_task(self.hosts.run())
        return self.hosts

    def want(self, *names: str) -> None:
        self.hosts.set_targets({name: HostEntry(name) for name in names})

    async def until(self, what: Callable[[], Any], seconds: float = 60) -> Any:
        """Wait until `what` returns something true, and return it."""
        limit = time.monotonic() + seconds
        while not (fact := what()):
            if self.task.done():
                self.task.result()
            assert time.monotonic() < limit, f"never came true; faults: {self.listener.faults}"
            await asyncio.sleep(0.01)
        return fact

    def pid(self, name: str) -> int:
        return int(self.listener.hosts[name].nodes[0])


@pytest.fixture
async def lab(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lab]:
    lab = Lab()

    def local(words: list[str]) -> list[str]:
        return [sys.executable, str(FAKE), *words, "well"]

    def noted(command: list[str]) -> subprocess.Popen[bytes]:
        lab.children.append(spawn(command))
        return lab.children[-1]

    monkeypatch.setattr("cockpit.sources.probes.pool.local_command", local)
    monkeypatch.setattr("cockpit.sources.probes.host_probe.spawn", noted)
    monkeypatch.setattr("cockpit.sources.probes.process.spawn", noted)
    yield lab
    lab.task.cancel()
    with suppress(asyncio.CancelledError):
        await lab.task
    for child in lab.children:  # no child outlives cockpit
        with suppress(subprocess.TimeoutExpired):
            child.wait(60)
        assert child.returncode is not None


async def test_a_new_interval_restarts_this_hosts_probe_without_a_fault(lab):
    hosts = lab.begin()
    await lab.until(lambda: HERE in lab.listener.hosts)
    first = lab.pid(HERE)
    hosts.set_interval(7)
    await lab.until(lambda: lab.pid(HERE) != first)
    assert "7" in lab.children[1].args
    assert lab.listener.reports == []
    hosts.set_interval(0)
    await lab.until(lambda: "0.5" in lab.children[-1].args)


async def test_this_host_is_watched_without_being_a_target_and_a_killed_probe_is_reported_and_restarted(lab):
    began = time.time()
    lab.begin()
    host = await lab.until(lambda: lab.listener.hosts.get(HERE))
    assert (host.local, host.cpu, host.cpus, host.addresses) == (True, 12.5, 4, ("10.0.0.9",))
    assert began - 1 < host.taken < time.time() + 1
    assert host.processes is None
    assert host.gpus is None
    assert lab.listener.faults == {}
    first = lab.pid(HERE)
    os.kill(first, signal.SIGKILL)
    await lab.until(lambda: lab.listener.reports)
    assert lab.listener.reports == [(HERE, f"the probe of {HERE} was killed by signal 9; started again")]
    await lab.until(lambda: lab.pid(HERE) != first)
    assert lab.listener.faults == {}


@pytest.mark.parametrize("wakes_up", [False, True])
async def test_a_probe_that_hangs_is_reported_and_then_replaced_unless_it_wakes_up_in_time(lab, wakes_up):
    lab.begin(config=Config(interval=0.5), timings=replace(QUICK, restart=60) if wakes_up else QUICK)
    await lab.until(lambda: HERE in lab.listener.hosts)
    first = lab.pid(HERE)
    os.kill(first, signal.SIGSTOP)
    text = await lab.until(lambda: lab.listener.faults.get(HERE))
    assert text == f"the probe of {HERE} has not answered for 2 s"
    if wakes_up:
        os.kill(first, signal.SIGCONT)
    else:
        await lab.until(lambda: lab.pid(HERE) != first)
        assert lab.listener.reports[-1][1].endswith("s; started again")
    await lab.until(lambda: HERE not in lab.listener.faults)
    assert len(lab.children) == (1 if wakes_up else 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("refused-1", "refused-1: ssh: connect to host 10.0.0.2 port 22: Connection refused"),
        ("nologin-1", "nologin-1: This account is currently not available."),
        ("nopython-1", "nopython-1: no Python to run there: bash: line 1: python3: command not found"),
        ("chatty-1", f"chatty-1: Permission denied (publickey): {NO_PROMPT}"),
        ("dies-1", "the probe of dies-1 was killed by signal 9; started again"),
        ("leaves-1", "the probe of leaves-1 ended by itself; started again"),
        ("closes-1", "the probe of closes-1 was killed by signal 9; started again"),
        ("silent-1", "the probe of silent-1 has not answered for 6 s"),
    ],
)
async def test_a_failure_is_reported_in_one_sentence(lab, name, text):
    lab.begin()
    lab.want(name)
    assert await lab.until(lambda: lab.listener.faults.get(name), 15) == text


async def test_a_failing_probe_is_restarted_after_ever_longer_pauses(lab):
    lab.begin(timings=replace(QUICK, longest_pause=60))
    lab.want("refused-1")
    began = time.monotonic()
    await lab.until(lambda: len(lab.listener.reports) == 4)
    assert time.monotonic() - began > 0.1 * 0.8 * (1 + 2 + 4)


async def test_refresh_restarts_a_pausing_probe_at_once(lab):
    hosts = lab.begin(timings=replace(QUICK, first_pause=60, longest_pause=60))
    lab.want("refused-1")
    await lab.until(lambda: len(lab.listener.reports) == 1)
    hosts.refresh()
    await lab.until(lambda: len(lab.listener.reports) == 2)


async def test_a_missing_command_is_named(lab):
    lab.begin(config=Config(reach="no-such-command {address}"))
    lab.want("w1")
    assert await lab.until(lambda: lab.listener.faults.get("w1")) == "w1: no-such-command: no such file or directory"


async def test_a_name_that_could_be_an_option_starts_nothing_and_this_host_is_not_watched_twice(lab):
    lab.begin()
    lab.want("-oProxyCommand=id", HERE, "well-1")
    await lab.until(lambda: {HERE, "well-1"} <= lab.listener.hosts.keys())
    assert lab.listener.faults["-oProxyCommand=id"].endswith("can't be the name of a host")
    assert all("-oProxyCommand=id" not in child.args for child in lab.children)
    assert len(lab.children) == 2


@pytest.mark.parametrize("name", ["banner-1", "halves-1", "huge-1"])
async def test_banners_halves_of_lines_and_lines_that_are_too_long_hide_no_sample(lab, name):
    lab.begin()
    lab.want(name)
    await lab.until(lambda: lab.listener.samples.count(name) > 3)
    assert lab.listener.reports == []


async def test_a_flood_neither_stops_the_loop_nor_hides_other_hosts(lab):
    lab.begin()
    lab.want("floods-1", "well-1")
    await lab.until(lambda: "floods-1" in lab.listener.hosts)
    before, turns = lab.listener.samples.count("well-1"), 0
    while lab.listener.samples.count("well-1") < before + 10:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10, "the loop was blocked during the flood"


async def test_a_strange_text_or_number_spoils_only_its_own_field_and_a_sample_that_cannot_be_read_is_a_fault(lab):
    lab.begin()
    lab.want("odd-1", "broken-1")
    host = await lab.until(lambda: lab.listener.hosts.get("odd-1"))
    assert host.cpu is None
    assert host.memory_users[0].command == "half ? surrogate"
    text = await lab.until(lambda: lab.listener.faults.get("broken-1"))
    assert text == "the output of the probe of broken-1 can't be read: Expected `float | null`, got `str` - at `$.cpu`"


async def test_times_of_a_host_with_another_clock_are_converted_and_secrets_removed(lab):
    began = time.time()
    lab.begin()
    lab.want("skewed-1")
    host = await lab.until(lambda: lab.listener.hosts.get("skewed-1"))
    (process,) = host.processes
    assert (process.host, process.kind, process.command) == ("skewed-1", "worker", "python train.py --api-key=•••")
    assert began - 1 < process.started + 100 < time.time() + 1
    assert began - 1 < host.sessions[0].started + 100 < time.time() + 1
    assert began - 1 < host.faults[0].since + 12 < time.time() + 1
    assert (host.faults[0].source, host.faults[0].host, host.sessions[0].host) == ("nvml", "skewed-1", "skewed-1")
    assert began - 1 < host.taken < time.time() + 1


async def test_a_host_whose_clock_is_set_does_not_look_older(lab):
    lab.begin()
    lab.want("set-1")
    await lab.until(lambda: lab.listener.hosts.get("set-1"))
    began = lab.listener.hosts["set-1"].processes[0].started
    seen = set()
    while len(seen) < 10:
        host = lab.listener.hosts["set-1"]
        assert abs(CLOCK() - host.taken) < 10
        assert abs(host.processes[0].started - began) < 3
        seen.add(host.taken)
        await asyncio.sleep(0.05)
    assert lab.listener.faults == {}


async def test_a_host_that_is_no_longer_a_target_is_dropped_after_a_while(lab):
    lab.begin()
    lab.want("well-1", "well-2")
    await lab.until(lambda: {"well-1", "well-2"} <= lab.listener.hosts.keys())
    child = next(child for child in lab.children if child.pid == lab.pid("well-1"))
    lab.want("well-2")
    assert child.poll() is None
    await lab.until(lambda: lab.listener.dropped == ["well-1"])
    await lab.until(lambda: child.poll() == -signal.SIGKILL)
    assert HERE in lab.listener.hosts


async def test_a_target_that_turns_out_to_be_this_host_is_dropped_at_once(lab):
    """The probe of a busy host may be the last one to report its addresses."""
    hosts = lab.begin(timings=replace(QUICK, grace=10_000))
    hosts.set_targets({"well-1": HostEntry("well-1", "10.0.0.9"), "well-2": HostEntry("well-2")})
    await lab.until(lambda: {HERE, "well-1", "well-2"} <= lab.listener.hosts.keys())
    hosts.set_targets({})
    assert lab.listener.dropped == ["well-1"]
    child = next(child for child in lab.children if child.pid == lab.pid("well-1"))
    await lab.until(lambda: child.poll() == -signal.SIGKILL)


async def test_a_host_that_becomes_a_target_again_in_time_keeps_its_probe(lab):
    lab.begin(timings=replace(QUICK, grace=0.5))
    lab.want("well-1")
    await lab.until(lambda: "well-1" in lab.listener.hosts)
    pid = lab.pid("well-1")
    lab.want()
    lab.want("well-1")
    count = len(lab.listener.samples)
    await lab.until(lambda: len(lab.listener.samples) > count + 30)
    assert (lab.pid("well-1"), lab.listener.dropped) == (pid, [])


async def test_of_forty_hosts_thirty_two_run_at_once_and_each_has_its_turn(lab):
    lab.begin(timings=replace(QUICK, min_turn=2.0, silence=20.0))
    names = [f"calm-{number}" for number in range(40)]
    lab.want(*names)
    most = 0

    def all_heard() -> bool:
        nonlocal most
        most = max(most, sum(watch.child is not None for watch in lab.hosts._probes.values()))
        return set(names) <= lab.listener.hosts.keys()

    await lab.until(all_heard, 60)
    assert most == 32
    assert lab.listener.reports == []


async def test_a_host_with_a_complete_sample_makes_room_for_others_and_is_not_restarted(lab):
    lab.begin(timings=replace(QUICK, max_running=2, min_turn=60.0))
    lab.want("calm-1", "calm-2", "calm-3", "calm-4", "calm-5")
    first = {"calm-1", "calm-2"}
    await lab.until(lambda: first <= lab.listener.hosts.keys())
    lab.hosts.set_complete_hosts(first)
    await lab.until(lambda: {"calm-3", "calm-4"} <= lab.listener.hosts.keys())
    lab.hosts.set_complete_hosts(lab.listener.hosts.keys())
    await lab.until(lambda: "calm-5" in lab.listener.hosts)
    assert len(lab.children) == 6
    assert lab.listener.reports == []


async def test_a_host_that_hangs_delays_no_other(lab):
    lab.begin(timings=replace(QUICK, max_running=4))
    lab.want(*[f"silent-{number}" for number in range(6)], "well-1", "well-2")
    await lab.until(lambda: {"well-1", "well-2"} <= lab.listener.hosts.keys(), 20)


async def test_probes_of_other_hosts_can_be_forbidden(lab):
    lab.begin(config=Config(probe_hosts="never"))
    lab.want("well-1")
    await lab.until(lambda: lab.listener.samples.count(HERE) > 3)
    assert len(lab.children) == 1


async def test_closing_waits_for_no_child(lab, monkeypatch):
    hosts = lab.begin(timings=replace(QUICK, max_starts_per_tick=32))
    lab.want(*[f"stops-{number}" for number in range(12)], *[f"silent-{number}" for number in range(12)])
    await lab.until(lambda: len(lab.children) == 25 and sum(name.startswith("stops") for name in lab.listener.hosts) == 12, 20)
    waiting: list[threading.Thread] = []
    wait = subprocess.Popen.wait
    monkeypatch.setattr(subprocess.Popen, "wait", lambda *words: (waiting.append(threading.current_thread()), wait(*words))[1])
    hosts.close()
    assert threading.current_thread() not in waiting
    await lab.task
    assert len(lab.children) == 25
    for child in lab.children:
        assert child.wait(60) == -signal.SIGKILL


async def test_no_more_probes_are_started_while_killed_ones_hang_in_the_kernel(lab):
    lab.begin()
    lab.want("refused-1")
    await lab.until(lambda: lab.listener.reports)
    stuck = [spawn(["sleep", "60"]) for _ in range(3)]
    lab.hosts._probes["refused-1"]._ended.extend(stuck)
    await lab.until(lambda: "stuck in its kernel" in lab.listener.faults["refused-1"])
    for process in stuck:
        kill_and_reap(process)
    await lab.until(lambda: lab.listener.faults["refused-1"].endswith("Connection refused"))


def test_a_child_of_another_user_ends_when_its_pipes_close(monkeypatch):
    child = spawn(["cat"])

    def refused() -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(child, "kill", refused)
    kill_and_reap(child)
    assert child.wait(60) == 0


async def test_the_real_probe_works_on_this_host_and_through_a_pipe():
    listener = RecordingListener()
    hosts = ProbePool(Config(reach=f"sh -c 'cat | {sys.executable} -'", interval=0.5), listener)
    task = asyncio.create_task(hosts.run())
    hosts.set_targets({"w1": HostEntry("w1")})
    limit = time.monotonic() + 60
    while not {HERE, "w1"} <= {name for name, host in listener.hosts.items() if host.processes is not None}:
        assert time.monotonic() < limit, listener.faults
        await asyncio.sleep(0.02)
    for name in (HERE, "w1"):
        host = listener.hosts[name]
        assert host.addresses
        assert host.memory.total > 0
        assert all(process.host == name and process.ticks for process in host.processes or ())
    with subprocess.Popen(["sleep", "60"], env={"FLAVOUR": "vanilla"}) as other:
        ticks = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[19]
        for name in (HERE, "w1"):
            assert (await hosts.ask(name, ["environ", str(other.pid), ticks]))["environ"] == {"FLAVOUR": "vanilla"}
            with pytest.raises(SourceError, match="has ended"):
                await hosts.ask(name, ["environ", str(other.pid), "7"])
        other.kill()
    hosts.close()
    await task


async def test_no_probe_is_reported_after_this_program_stood_still(lab):
    lab.begin(config=Config(interval=0.5), timings=replace(QUICK, frozen_after=0.5))
    lab.want("well-1")
    await lab.until(lambda: {HERE, "well-1"} <= lab.listener.hosts.keys())
    pids = lab.pid(HERE), lab.pid("well-1")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3)  # the whole program is blocked, as on a suspended laptop
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    count = len(lab.listener.samples)
    await lab.until(lambda: len(lab.listener.samples) > count + 4)
    assert lab.listener.reports == []
    assert (lab.pid(HERE), lab.pid("well-1")) == pids


async def test_a_sample_that_lay_in_the_pipe_keeps_its_real_age(lab):
    lab.begin(config=Config(interval=0.5), timings=replace(QUICK, frozen_after=0.5))
    await lab.until(lambda: HERE in lab.listener.hosts)
    first = lab.listener.hosts[HERE]
    time.sleep(0.3)
    os.kill(lab.pid(HERE), signal.SIGSTOP)
    time.sleep(1.5)
    taken = first.taken
    await lab.until(lambda: lab.listener.hosts[HERE] is not first)
    assert lab.listener.hosts[HERE].taken < time.time() - 1
    os.kill(lab.pid(HERE), signal.SIGCONT)
    await lab.until(lambda: lab.listener.hosts[HERE].taken > taken + 1.4)


async def test_listen_yields_answers_until_the_end_and_closing_it_ends_the_probe(lab):
    hosts = lab.begin(config=Config(hosts=(HostEntry("well-1"),), reach=f"{sys.executable} {FAKE} --read log {{name}}"))
    log = ["log", "s", "a.out", "-1"]
    for host in (HERE, "well-1"):
        assert [answer["text"] async for answer in hosts.listen(host, log)] == ["one\n", "two\n", ""]
    assert not hosts._asked
    answers = hosts.listen(HERE, [*log, "--follow"])
    assert (await anext(answers))["text"] == "one\n"
    (child,) = hosts._asked
    await answers.aclose()
    assert not hosts._asked
    await lab.until(lambda: child.process.poll() is not None)


async def test_a_probe_that_ends_before_its_last_answer_is_an_error(lab):
    answers = lab.begin().listen(HERE, ["log", "s", "a.out", "-1", "--follow", "dies"])
    assert [(await anext(answers))["text"] for _ in range(2)] == ["one\n", "two\n"]
    with pytest.raises(SourceError, match="no space left on device"):
        await anext(answers)


async def test_this_host_and_another_answer_a_question_and_cancelling_ends_the_child(lab):
    known = (HostEntry("well-1"), HostEntry("silent-1"))
    hosts = lab.begin(config=Config(hosts=known, reach=f"{sys.executable} {FAKE} --read environ {{name}}"))
    assert await hosts.ask(HERE, ["environ", "7", "99"]) == {"pid": 7, "environ": {"A": "1"}}
    assert lab.children[0].args[-4:] == ["environ", "7", "99", "well"]
    assert await hosts.ask("well-1", ["environ", "7", "99"]) == {"pid": 7, "environ": {"A": "1"}}
    task = asyncio.create_task(hosts.ask("silent-1", ["environ", "7", "99"]))
    child = await lab.until(lambda: next((child for child in lab.children if "silent-1" in child.args), None))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await lab.until(lambda: child.poll() == -signal.SIGKILL)


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("w9", "cockpit has no way to reach w9: add it under `hosts` in the config"),
        ("refused-1", "refused-1: ssh: connect to host 10.0.0.2 port 22: Connection refused"),
        ("silent-1", "the probe of silent-1 did not answer within 1 s"),
    ],
)
async def test_a_question_without_an_answer_raises_the_reason(lab, host, text):
    known = tuple(HostEntry(name) for name in ("refused-1", "silent-1"))
    hosts = lab.begin(config=Config(hosts=known), timings=replace(QUICK, answer_timeout=1.0))
    with pytest.raises(SourceError) as caught:
        await hosts.ask(host, ["environ", "7", "99"])
    assert str(caught.value) == text


NO_EXEC = (
    'Error from server (Forbidden): pods "w1" is forbidden: User "me" cannot get resource "pods/exec" in API group "" in the namespace "r"'
)
"""The error as kubectl prints it."""


@pytest.mark.parametrize(
    ("code", "last", "spoke", "text"),
    [
        (-9, "", True, "the probe of w1 was killed by signal 9; started again"),
        (137, "Killed", True, "the probe of w1 was killed by signal 9; started again"),
        (255, "w1: Permission denied", False, "w1: w1: Permission denied"),
        (255, "", False, "the probe of w1 ended with exit code 255; started again"),
        (127, "", False, "w1: no Python to run there: exit code 127"),
        (126, "sh: python3: Permission denied", False, "w1: no Python to run there: sh: python3: Permission denied"),
        (
            1,
            "Python 2.7 is too old there: the probe needs 3.8 or later",
            False,
            "w1: Python 2.7 is too old there: the probe needs 3.8 or later",
        ),
        (1, "KeyError: 'x'", True, "w1: KeyError: 'x'"),
        (
            1,
            NO_EXEC,
            False,
            (
                'no right to get pods/exec: w1: User "me" cannot get resource "pods/exec" in API group "" in the namespace "r"; '
                "packaging/kubernetes-role.yaml has the Role that allows it"
            ),
        ),
        (
            1,
            "Error from server (Forbidden): not today",
            False,
            "w1: Error from server (Forbidden): not today; packaging/kubernetes-role.yaml has the Role that allows it",
        ),
        (0, "Connection to w1 closed.", True, "the probe of w1 ended by itself; started again"),
    ],
)
def test_why_a_probe_ended(code, last, spoke, text):
    assert why_it_ended("w1", code, last, spoke=spoke, restarts=True) == text


def test_a_line_that_is_too_long_is_dropped():
    lines = LineCutter(longest=5)
    assert lines.cut(b"12345\n123456\n12") == [b"12345"]
    assert lines.cut(b"3456789" * 100) == []
    assert lines.cut(b"\nok\n") == [b"ok"]
    assert lines.dropped == 2


def test_the_probe_imports_nothing_from_the_current_folder(tmp_path, monkeypatch):
    for name in ("psutil", "pynvml", "cockpit", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger')")
    monkeypatch.chdir(tmp_path)
    with spawn(local_command(watch_words(2.0))) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        child.kill()
    assert line.startswith(b'{"hello"')


@pytest.mark.parametrize(
    ("facts", "expected", "without_an_agent"),
    [
        ({"gpus": (Gpu(0),)}, True, True),
        ({}, True, True),
        ({"unanswered": ("disks",)}, True, True),
        ({"unanswered": ("nvml",)}, False, False),
        ({"unanswered": ("nvml",), "faults": (Fault("nvml", "NVML has not answered for 6 s", 94.0),)}, True, True),
        ({"processes": None}, False, False),
        ({"nodes": ()}, True, True),
        ({"faults": (Fault("nvml", "NVML has not answered for 6 s", 94.0),)}, True, True),
        ({"faults": (Fault("nvml", "NVML has not answered for 2 s", 98.0),)}, False, True),
    ],
)
def test_a_sample_is_complete_with_the_gpus_that_rays_agent_sees_or_when_nvml_hangs(facts, expected, without_an_agent):
    rays = NodeFacts(nodes=(Node("n1", "w1", agent=AgentReport(gpus=(Gpu(0),))),), workers=(), holders=())
    host = Host("w1", **{"processes": (), "nodes": ("n1",), **facts})
    assert has_complete_sample(host, rays, 100.0) is expected
    assert has_complete_sample(host, None, 100.0) is without_an_agent, "it does not wait for GPUs that Ray's agent does not report either"
