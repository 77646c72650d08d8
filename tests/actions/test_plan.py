from __future__ import annotations

import msgspec
import pytest

from cockpit.actions.plan import Freed, losses_of, reply_of, sum_freed

KINDS = ("process", "session")
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123456789"


def test_a_probes_answer_becomes_targets_of_its_host_and_notes_that_begin_with_its_title():
    row = {"what": "process", "pid": 7, "ticks": 8, "gpus": [{"index": 0, "memory": 5}]}
    reply = reply_of("w1", {"targets": [row], "notes": ["n"]}, KINDS)
    (target,) = reply.targets
    assert (target.host, target.pid, target.gpu_memory) == ("w1", 7, 5)
    assert reply.notes == ("w1: n",)
    unmeasured = {**row, "gpus": [{"index": 0, "memory": None}], "field_of_a_newer_probe": "red"}
    reply = reply_of("vm", {"notes": ["n"], "unknown": ["u"], "targets": [unmeasured], "more": 1}, KINDS, "head")
    assert (reply.notes, reply.unknown, reply.targets[0].host) == (("head: n",), ("head: u",), "vm")
    assert reply.targets[0].gpu_memory is None


def test_secrets_are_removed_from_the_answer_of_a_host():
    row = {"what": "process", "pid": 7, "command": f"serve --token {TOKEN}", "why": [f"saw {TOKEN}"], "reason": TOKEN}
    reply = reply_of("w1", {"refused": [row], "notes": [TOKEN], "weight": {"drivers": [{"pid": 3, "command": TOKEN}]}}, KINDS)
    assert TOKEN not in repr(reply.refused) + repr(reply.notes) + repr(losses_of(reply, "w1", followed=True))


def test_an_answer_of_another_shape_or_of_a_kind_that_the_action_does_not_know_is_an_error():
    with pytest.raises(msgspec.ValidationError):
        reply_of("w1", {"targets": [{"what": "planet"}]}, KINDS)
    with pytest.raises(msgspec.ValidationError, match=r"Invalid kind of target 'session' - at `\$.done`"):
        reply_of("w1", {"done": [{"what": "session", "path": "/tmp/ray/s"}]}, ("process",))


def test_freed_memory_is_the_sum_over_hosts_and_unknown_if_a_host_did_not_measure_it():
    assert sum_freed([Freed(gpu=3, disk=1), Freed(gpu=4), None]) == Freed(gpu=7, disk=None)
