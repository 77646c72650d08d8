from __future__ import annotations

import msgspec
import pytest

from cockpit.model import Actor, AgentReport, Job, Node, Process
from cockpit.recording.redaction import pack_row, redact_texts

SECRET = "hf_" + "abcdefGHIJKLmnopqrSTUVwxyz01234567"


def unpacked(row):
    return msgspec.msgpack.decode(pack_row(row))


def test_default_values_are_not_written_and_names_are_those_that_a_reader_expects():
    assert unpacked(Node("a", "w1")) == {"id": "a", "host": "w1"}
    assert unpacked(AgentReport(gpus=()))["gpus"] == []
    assert unpacked(Process(pid=1, rss=0))["rss"] == 0
    assert unpacked(Actor("a", "Policy"))["class"] == "Policy"
    assert msgspec.msgpack.decode(pack_row(Actor("a", "Policy")), type=Actor) == Actor("a", "Policy")


@pytest.mark.parametrize("text", [f"--token {SECRET}", f"{SECRET} " + "x" * 2000, f"HF_TOKEN={SECRET}"])
def test_a_deeply_nested_secret_is_hidden(text):
    assert SECRET not in repr(redact_texts({"a": [(Process(pid=1, why=(text,)),)]}))


def test_metadata_are_judged_by_their_names():
    assert unpacked(Job("a", metadata={"password": "plain-words", "team": "rl"}))["metadata"] == {"password": "•••", "team": "rl"}
