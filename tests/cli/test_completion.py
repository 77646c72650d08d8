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


@pytest.mark.parametrize(
    ("hosts", "names"), [("[gpu7, {name: gpu8, address: 10.0.0.8}]", ["gpu7", "gpu8"]), ("5", [])], ids=["named", "a mistake"]
)
def test_hosts_of_the_config_are_offered_before_recorded_hosts(hosts, names):
    config_path().parent.mkdir(parents=True)
    config_path().write_text(f"hosts: {hosts}\n")
    recorded = [each.title for each in record().nodes]
    assert offered("kill-orphans") == [*names, *recorded]


@pytest.mark.parametrize(
    ("words", "begun", "names"),
    [
        ((), "kill-", ["kill-actor", "kill-orphans"]),
        *(((command,), "openrlhf-g", ["openrlhf-grpo"]) for command in ("launch", "recover", "check")),
        *(((command,), "", ["ppo-7b", "rm-72b"]) for command in ("stop-job", "delete-job")),
        (("report", "--job"), "rm", ["rm-72b"]),
        (("kill-actor",), "", ["critic"]),
        (("logs",), "cri", ["critic"]),
        (("drain-node",), "", [node(1).title, node(2).title]),
        (("stop", "--session"), "", [SESSION, "session_old"]),
        (("--theme",), "", sorted(file.stem for file in shipped_folder().glob("*.yaml"))),
    ],
)
def test_each_command_is_offered_the_names_that_it_takes(words, begun, names):
    record(
        jobs=(Job("ppo-7b", status="RUNNING"), Job("rm-72b", status="FAILED")),
        actors=(replace(actor(1), name="critic"),),
        cluster=Cluster(session=SESSION),
        sessions=(Session(host="node1", name="session_old", path="/tmp/ray/session_old"),),
    )
    assert offered(*words, begun=begun) == names


@pytest.mark.parametrize("name", ["$(reboot)", "a;b", "a b", "a\nb", "`id`", "-rf", "a'b", "ä"])
def test_a_name_that_a_shell_could_run_is_not_offered(name):
    record(jobs=(Job("fine", status="RUNNING"), Job(name, status="RUNNING")))
    assert offered("stop-job") == ["fine"]


def test_without_a_recording_or_with_a_damaged_one_nothing_is_offered():
    assert last_recorded().nodes is None
    assert offered("stop-job") == []
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
