"""Tests `cockpit logs`: finding the target, printing its log, and errors without one."""

from __future__ import annotations

import asyncio

import pytest

from cockpit.cli.logs import find_logs, print_log
from cockpit.config.settings import Config
from cockpit.config.slurm import NodeNames
from cockpit.model import Cluster, Job
from cockpit.monitor.logs import Log
from cockpit.sources.source import SourceError
from tests.world import actor, node, process, snapshot


class FakeMonitor:
    """A monitor with one snapshot; the file of each log has the name of its target."""

    def __init__(self, *lines, dead=(), **seen):
        self.lines, self.dead = lines, dead
        self.poller, self.logs, self.config = self, self, Config(slurm_nodes=(NodeNames("gpu-a-02", ("c27n02", "10.0.0.2")),))
        self.snapshot = snapshot(cluster=Cluster("http://10.0.0.1:8265"), **seen)
        self.closed = False
        self.others = ()

    def log(self, label, file):
        async def follow(lines, on):
            yield self.lines

        return Log(label, file, "node1", follow)

    def job_log(self, job):
        return self.log("job", f"job {job.id}")

    async def logs_of(self, thing):
        return (self.log("out", thing.key), *self.others)

    async def logs_of_pid(self, node, pid):
        return (self.log("out", f"{pid} on {node.title}"),)

    async def dead_actors(self):
        return self.dead

    def close(self):
        self.closed = True


async def meant(target, host=None, **seen):
    return (await find_logs(FakeMonitor(**seen), target, host))[0].file


SHORTENED = actor(1, id="097930b0b3e9191b53eac34f03000000")


@pytest.mark.parametrize(
    ("target", "file", "seen"),
    [
        ("ppo-7b", "job ppo-7b", {}),
        ("02000000", "job ppo-7b", {}),
        ("ppo-8b", "job ppo-8b", {"jobs": None}),  # while jobs are unknown it may be one
        ("1001", "job 1001", {"jobs": (Job("1001", None, "1001", "RUNNING"),)}),  # rather than a pid
        ("actor1", actor(1).key, {}),
        (actor(2).id, actor(2).key, {}),
        ("LLMRayActor", actor(2).key, {}),
        ("097930b0b3e9", SHORTENED.key, {"actors": (SHORTENED,)}),
        ("old", actor(9).key, {"dead": (actor(9, name="old", state="DEAD"),)}),
        ("node2", node(2).key, {}),
        ("10.0.0.2", node(2).key, {}),
        ("gpu-a-02", node(2).key, {}),
        ("c27n02", node(2).key, {}),
        ("1001", actor(1).key, {}),
        ("1200", process(1200).key, {}),
    ],
)
async def test_a_target_is_a_job_an_actor_a_pid_or_a_node(target, file, seen):
    assert await meant(target, **seen) == file


async def test_an_ambiguous_target_lists_the_actors():
    with pytest.raises(
        SourceError, match=r"CriticModelActor matches 4 actors: actor4 \(PENDING_CREATION\), .*; give the name or the id of one"
    ):
        await meant("CriticModelActor")
    assert await meant("twin", "node2", actors=(actor(1, name="twin"), actor(2, name="twin", node=node(2).id))) == actor(2).key


async def test_a_pid_of_two_nodes_needs_a_host():
    both = (actor(1, pid=7), actor(2, pid=7, node=node(2).id))
    with pytest.raises(SourceError, match="pid 7 is on node1, node2: add --host NAME"):
        await meant("7", actors=both)
    assert await meant("7", "node2", actors=both) == actor(2).key


async def test_an_ended_worker_is_searched_on_the_given_host():
    assert await meant("4242", "node2") == "4242 on node2"
    with pytest.raises(SourceError, match="no process with pid 4242 is known; if it has ended, add --host"):
        await meant("4242")
    with pytest.raises(SourceError, match="there is no node nope"):
        await meant("4242", "nope")


def printed(monkeypatch, monitor, target, *, terminal=False, **wanted):
    async def sample_once(config, **how):
        return monitor

    monkeypatch.setattr("cockpit.cli.logs.sample_once", sample_once)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    return asyncio.run(print_log(Config(), target, **wanted))


@pytest.mark.parametrize("terminal", [True, False])
def test_a_log_shows_no_secret_on_a_terminal_and_is_raw_in_a_pipe(monkeypatch, capsys, terminal):
    lines = ("step 1", "HF_TOKEN=c0ffee4dead9", "password:", "  c0ffee4dead9")
    assert printed(monkeypatch, FakeMonitor(*lines), "ppo-7b", terminal=terminal) == 0
    shown = ("step 1", "HF_TOKEN=•••", "password:", "  •••")
    assert capsys.readouterr().out.splitlines() == list(shown if terminal else lines)


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("nope", ""),
        ("ppo-7", "; did you mean ppo-7b?"),
        ("gcs", f". Ray's own logs are those of a node: `cockpit logs {node(1).title} --log gcs_server.out`"),
    ],
)
def test_an_unknown_target_is_one_sentence_and_exit_code_3(monkeypatch, capsys, target, advice):
    monitor = FakeMonitor()
    assert printed(monkeypatch, monitor, target) == 3
    said = capsys.readouterr()
    assert said.err == f"cockpit: there is no job, actor, process or node {target} in the Ray cluster at http://10.0.0.1:8265{advice}\n"
    assert said.out == ""
    assert monitor.closed


class Growing(FakeMonitor):
    """A monitor whose log never stops growing."""

    def log(self, label, file):
        async def follow(lines, on):
            yield list(map(str, range(lines)))
            for number in range(lines, 1000):
                yield [f"later {number}"]

        return Log(label, file, "node1", follow)


def test_of_a_growing_log_exactly_n_lines_are_printed(monkeypatch, capsys):
    assert printed(monkeypatch, Growing(), "ppo-7b", lines=3) == 0
    assert capsys.readouterr().out.splitlines() == ["0", "1", "2"]
    assert printed(monkeypatch, Growing(), "ppo-7b", lines=3, follow=True) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1000


def test_a_log_from_before_a_restart_is_announced_in_a_pipe_too(monkeypatch, capsys):
    monitor = FakeMonitor("line")

    async def logs_of(thing):
        return (monitor.log("err-before", "worker.err"), monitor.log("out", "worker.out"))

    monitor.logs_of = logs_of
    assert printed(monkeypatch, monitor, "actor1") == 0
    assert capsys.readouterr().err == "cockpit: worker.err on node1, of the process before the restart; --log shows another: out\n"
    assert printed(monkeypatch, monitor, "actor1", log="err-before") == 0
    assert capsys.readouterr().err == "", "that one was asked for"


def test_another_log_is_chosen_by_its_label(monkeypatch, capsys):
    monitor = FakeMonitor("line")
    monitor.others = (monitor.log("err", "actor1.err"),)
    assert printed(monkeypatch, monitor, "actor1", log="err", terminal=True) == 0
    assert capsys.readouterr().err == "cockpit: actor1.err on node1; --log shows another: out\n"
    assert printed(monkeypatch, monitor, "actor1", log="x") == 3
    assert capsys.readouterr().err == "cockpit: actor1 has no log x; it has: out, err\n"
