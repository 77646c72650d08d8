from __future__ import annotations

import msgspec
import pytest

from cockpit.actions.plan import Freed, Plan, Receipt, Target, Unreached
from cockpit.actions.plan_text import MAX_LINE_CHARS, count_targets, headline, plan_lines, reasons, receipt_lines, summary
from cockpit.model import Hold

GIB = 1 << 30
ORPHAN = Target(
    "process", "w1", ("its raylet 100 is dead",), pid=4711, ticks=9, started=1000.0, user="train", kind="orphan",
    command="python serve.py", gpus=(Hold(0, 40 * GIB), Hold(1, 39 * GIB)),
)  # fmt: skip
FOLDER = Target("session", "head", path="/tmp/ray/session_1", size=3 * GIB, files=20, age=86400.0, owner="root", keeps=("ckpt/a.pt",))


def plan(**more):
    return Plan("kill-orphans", "Kill orphans", **{"targets": (ORPHAN,), "hosts": ("head", "w1"), **more})


def test_a_plan_has_the_exact_processes_and_marks_those_beyond_the_requested_session():
    beyond = Target("process", "w1", pid=8, ticks=1, beyond=True, command="vim monitor.py")
    text = "\n".join(plan_lines(plan(targets=(ORPHAN, beyond)), now=4600.0))
    for word in ("w1", "4711", "orphan", "train", "started 1h00m ago", "79G of GPU 0,1", "python serve.py", "its raylet 100 is dead"):
        assert word in text
    assert "NOT in that session  vim monitor.py" in text


def test_a_plan_names_its_ray_if_there_are_several():
    assert "Ray cluster" not in plan_lines(plan(session="session_a", address="http://a"), now=0.0)
    lines = plan_lines(plan(session="session_a", address="http://a", beside=("session_b",)), now=0.0)
    assert lines[2:5] == ["Ray cluster", "  session_a at http://a", "  other Ray sessions here: session_b"]


def test_a_plan_lists_losses_refusals_and_unreachable_hosts():
    refused = Target("process", "w1", pid=5, ticks=1, reason="it is a worker")
    silent = {"hosts": ("w1", "w7"), "unreached": (Unreached("w7", "w7: timed out"),)}
    lines = plan_lines(plan(losses=("3 actors end",), refused=(refused,), notes=("n",), **silent), 0.0)
    assert [line for line in lines if line.strip() in ("3 actors end", "w1 pid 5: it is a worker", "w7: timed out", "n")]
    assert lines[0] == "Kill orphans: 1 process on 1 of 2 hosts, 79G of GPU memory"


def test_equal_reasons_are_listed_once_with_all_their_targets():
    refused = [Target("process", "w1", pid=pid, reason="it is a worker") for pid in range(10, 20)]
    refused += [Target("process", "w2", pid=5, reason="it has ended"), Target("process", "w3", pid=6, reason="it has ended")]
    refused += [Target("host", host, name=host, reason=f"{host}: 2 Ray sessions run") for host in ("w4", "w5")]
    refused += [Target("host", "w6", name="w6", reason="no Ray runs"), Target("session", "w7", path="/tmp/ray/s", reason="it lives")]
    assert reasons(refused) == [
        "10 processes on w1 (pids 10, 11, 12, 13, 14, 15, 16, 17, 2 more): it is a worker",
        "2 processes on 2 hosts (w2 pid 5, w3 pid 6): it has ended",
        "2 hosts (w4, w5): 2 Ray sessions run",
        "w6: no Ray runs",
        "w7 /tmp/ray/s: it lives",
    ]
    failed = tuple(Target("process", "w1", pid=pid, error="state D") for pid in (1, 2))
    assert "  2 processes on w1 (pids 1, 2): state D" in receipt_lines(Receipt("kill", "Kill", failed=failed))


def test_an_empty_plan_says_that_nothing_would_be_done_unless_something_is_undecided():
    assert headline(plan(targets=())) == "Kill orphans: nothing on 2 hosts"
    unsure = plan(targets=(), hosts=("w1",), unknown=("w1: 2 processes hold GPU memory and can't be classified",))
    first, _, head, reason, *_ = plan_lines(unsure, 0.0)
    assert first == "Kill orphans: nothing found on 1 host; not everything could be checked"
    assert (head, reason) == ("Unknown", "  w1: 2 processes hold GPU memory and can't be classified")


def test_an_id_is_shown_only_for_things_without_a_name():
    critic = Target("actor", "head", id="ab" * 16, class_="Critic", job="02000000", state="ALIVE")
    lines = "\n".join(plan_lines(Plan("kill-actor", "Kill actor", (critic, msgspec.structs.replace(critic, name="vllm-1"))), 0.0))
    assert "actor Critic  abababababab  ALIVE" in lines
    assert "actor vllm-1  Critic  ALIVE" in lines
    assert "02000000" not in lines


def test_kept_files_are_listed_and_things_are_counted_by_kind():
    text = "\n".join(plan_lines(Plan("clean", "Clean", targets=(FOLDER,), hosts=("head",)), 0.0))
    assert "kept: ckpt/a.pt" in text
    assert "/tmp/ray/session_1  3.0G  20 files  1d00h old  of root" in text
    assert count_targets((ORPHAN, FOLDER, FOLDER)) == "1 process and 2 session folders"


def test_a_receipt_names_the_unreached_host():
    receipt = Receipt(
        "kill-orphans", "Kill orphans", done=(ORPHAN,), failed=(Target("process", "w2", pid=6, error="state D"),),
        unreached=(Unreached("w7", "w7: timed out"),), hosts=tuple(f"w{n}" for n in range(32)), freed=Freed(gpu=79 * GIB), took=2.13,
    )  # fmt: skip
    assert summary(receipt) == "Kill orphans: 1 process of 2 on 31 of 32 hosts (w7: timed out), 79G of GPU memory freed (measured), 2.1 s"
    assert "  w2 pid 6: state D" in receipt_lines(receipt)


def test_unknown_hosts_do_not_count_as_missed():
    more = {"hosts": ("head",), "unreached": (Unreached("other hosts", "name them"),)}
    assert headline(plan(**more)).startswith("Kill orphans: 1 process on 1 host,")
    assert "other hosts: name them" in "\n".join(plan_lines(plan(**more), 0.0))
    assert summary(Receipt("stop", "Stop", done=(ORPHAN,), **more)) == "Stop: 1 process on 1 host (other hosts: name them), 0.0 s"


def test_a_clusters_text_cannot_control_the_terminal():
    lines = plan_lines(plan(targets=(Target("process", "w1", pid=8, command="a\x1b]0;x\x07b\n\u202ec"),)), 0.0)
    assert not any(ord(char) < 32 or char == "\u202e" for line in lines for char in line)


def test_a_host_has_its_nodes_name_in_plans_and_receipts():
    where = {"hosts": ("vm",), "titles": {"vm": "head"}}
    refused = Target("process", "vm", pid=5, ticks=1, reason="it is a worker")
    orphan = msgspec.structs.replace(ORPHAN, host="vm")
    lines = plan_lines(plan(targets=(orphan,), refused=(refused,), unreached=(Unreached("vm", "vm: timed out"),), **where), 0.0)
    assert "vm" not in "\n".join(lines)
    assert "head" in lines
    assert [line for line in lines if line.strip() in ("head pid 5: it is a worker", "head: timed out")]
    receipt = Receipt("kill", "Kill", done=(orphan,), failed=(refused, msgspec.structs.replace(refused, pid=6)), **where)
    assert "  2 processes on head (pids 5, 6): it is a worker" in receipt_lines(receipt)
    assert "  head pid 4711: done" in receipt_lines(receipt)


def test_a_long_name_or_reason_of_one_target_does_not_hide_the_next_one():
    first = Target("actor", "ray", ("why " * 100_000,), id="ab" * 16, name="n" * 100_000, class_="C" * 100_000)
    second = Target("actor", "ray", id="cd" * 16, name="second")
    lines = plan_lines(Plan("kill-actor", "Kill actor", (first, second), hosts=("ray",), losses=("l" * 100_000,)), 0.0)
    assert "  actor second" in lines
    assert max(map(len, lines)) <= MAX_LINE_CHARS


@pytest.mark.parametrize("name", ["Refused", "note", "Its reason, in its own words", "What ends with it"])
def test_no_name_of_a_node_looks_like_a_heading_of_cockpit(name):
    lines = plan_lines(plan(titles={"w1": name}), 0.0)
    assert name not in lines
    assert f"host {name}" in lines
