from __future__ import annotations

import msgspec
import pytest

from cockpit.actions.plan import Freed, losses_of, reply_of, sum_freed

KINDS = ("process", "session")
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123456789"


def test_a_probes_answer_becomes_targets_of_its_host():
    reply = reply_of(
        "w1", {"targets": [{"what": "process", "pid": 7, "ticks": 8, "gpus": [{"index": 0, "memory": 5}]}], "notes": ["n"]}, KINDS
    )
    (target,) = reply.targets
    assert (target.host, target.pid, target.gpu_memory) == ("w1", 7, 5)
    assert reply.notes == ("w1: n",)


def test_unknown_fields_of_a_newer_probe_are_ignored():
    row = {"what": "session", "path": "/tmp/ray/s", "colour": "red"}
    assert reply_of("w1", {"targets": [row], "more": 1}, KINDS).targets[0].path == "/tmp/ray/s"


def test_secrets_are_removed_from_the_answer_of_a_host():
    row = {"what": "process", "pid": 7, "command": f"serve --token {TOKEN}", "why": [f"saw {TOKEN}"], "reason": TOKEN}
    reply = reply_of("w1", {"refused": [row], "notes": [TOKEN], "weight": {"drivers": [{"pid": 3, "command": TOKEN}]}}, KINDS)
    assert TOKEN not in repr(reply.refused) + repr(reply.notes) + repr(losses_of(reply, "w1", followed=True))


def test_an_answer_of_another_shape_is_an_error():
    with pytest.raises(msgspec.ValidationError):
        reply_of("w1", {"targets": [{"what": "planet"}]}, KINDS)


def test_a_target_of_a_kind_that_the_action_does_not_know_is_an_error():
    with pytest.raises(msgspec.ValidationError, match=r"Invalid kind of target 'session' - at `\$.done`"):
        reply_of("w1", {"done": [{"what": "session", "path": "/tmp/ray/s"}]}, ("process",))


def test_freed_memory_is_the_sum_over_hosts_and_unknown_if_a_host_did_not_measure_it():
    assert sum_freed([Freed(gpu=3, disk=1), Freed(gpu=4), None]) == Freed(gpu=7, disk=None)


def test_memory_that_nvml_does_not_report_is_unknown():
    (target,) = reply_of("h", {"targets": [{"what": "process", "pid": 7, "gpus": [{"index": 0, "memory": None}]}]}, KINDS).targets
    assert target.gpu_memory is None


def test_notes_of_a_host_begin_with_its_title():
    reply = reply_of("vm", {"notes": ["n"], "unknown": ["u"], "targets": [{"what": "process", "pid": 3}]}, KINDS, "head")
    assert (reply.notes, reply.unknown, reply.targets[0].host) == (("head: n",), ("head: u",), "vm")
