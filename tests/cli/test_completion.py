"""Tests the completion in a shell: names come from files and from the last recording, and a shell can run none of them."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete, get_completion_class
from msgspec.structs import replace

from cockpit.cli.known_names import last_recorded
from cockpit.cli.main import main
from cockpit.config.settings import config_path
from cockpit.config.themes import shipped_folder
from cockpit.model import Cluster, Job, Session
from cockpit.recording.folder import recordings_path
from tests.recording.recorded import write
from tests.world import NOW, actor, node, snapshot

SESSION = "session_2026-11-23_00-00-00_000000_7"


def record(**more):
    state = snapshot(taken=NOW, nodes=(node(1), node(2)), **more)
    write(recordings_path() / "cluster", [state])
    return state


def offered(*words, begun=""):
    return [item.value for item in ShellComplete(main, {}, "cockpit", "_COCKPIT_COMPLETE").get_completions([*words], begun)]


def test_actions_are_offered_as_commands():
    assert offered(begun="kill-") == ["kill-actor", "kill-orphans"]


@pytest.mark.parametrize("command", ["launch", "recover", "check"])
def test_presets_are_offered(command):
    assert offered(command, begun="openrlhf-g") == ["openrlhf-grpo"]


def test_hosts_of_the_config_are_offered_before_recorded_hosts():
    config_path().parent.mkdir(parents=True)
    config_path().write_text("hosts: [gpu7, {name: gpu8, address: 10.0.0.8}]\n")
    nodes = record().nodes
    assert offered("kill-orphans") == ["gpu7", "gpu8", *(each.title for each in nodes)]


def test_a_mistake_in_the_config_hides_no_recorded_host():
    config_path().parent.mkdir(parents=True)
    config_path().write_text("hosts: 5\n")
    nodes = record().nodes
    assert offered("stop") == [each.title for each in nodes]


def test_jobs_are_offered_where_a_job_is_expected():
    record(jobs=(Job("ppo-7b", status="RUNNING"), Job("rm-72b", status="FAILED")))
    for command in ("stop-job", "delete-job"):
        assert offered(command) == ["ppo-7b", "rm-72b"]
    assert offered("report", "--job", begun="rm") == ["rm-72b"]


def test_nodes_and_actors_are_offered_by_name():
    known = record(actors=(replace(actor(1), name="critic"),))
    assert offered("kill-actor") == ["critic"]
    assert offered("drain-node") == [each.title for each in known.nodes]
    assert offered("logs", begun="cri") == ["critic"]


def test_the_recorded_session_and_other_sessions_are_offered():
    record(cluster=Cluster(session=SESSION), sessions=(Session(host="node1", name="session_old", path="/tmp/ray/session_old"),))
    assert offered("stop", "--session") == [SESSION, "session_old"]


def test_themes_are_offered():
    assert offered("--theme") == sorted(file.stem for file in shipped_folder().glob("*.yaml"))


@pytest.mark.parametrize("name", ["$(reboot)", "a;b", "a b", "a\nb", "`id`", "-rf", "a'b", "ä"])
def test_a_name_that_a_shell_could_run_is_not_offered(name):
    record(jobs=(Job("fine", status="RUNNING"), Job(name, status="RUNNING")))
    assert offered("stop-job") == ["fine"]


def test_without_a_recording_nothing_is_offered():
    assert last_recorded().nodes is None
    assert offered("stop-job") == []


def test_a_damaged_recording_is_no_error():
    record()
    for file in (recordings_path() / "cluster").iterdir():
        file.write_bytes(b"nothing of ours")
    assert offered("stop-job") == []


@pytest.mark.process  # click asks bash for its release
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell):
    made = get_completion_class(shell)
    assert made is not None
    assert "_COCKPIT_COMPLETE" in made(main, {}, "cockpit", "_COCKPIT_COMPLETE").source()
