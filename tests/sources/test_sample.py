"""What a probe says reaches the model whole."""

from __future__ import annotations

from cockpit.model import Process, Session
from cockpit.sources import sample
from cockpit.status import ProcessStatus


def test_every_fact_of_a_process_and_of_a_session_is_read():
    for known, read in ((Process, sample._Process), (Session, sample._Session)):
        assert set(known.__struct_fields__) - {"host"} == set(read.__struct_fields__)


def test_what_a_probe_has_seen_passes_through_unchanged():
    seen = b'[[200,2000,100,1000,"/tmp/ray/session_x","02",5000],null]'
    line = b'{"taken": 1.0, "processes": [{"pid": 7, "ticks": 9, "past": ' + seen + b'}, {"pid": 8, "past": null}]}'
    host = sample.host_of(sample.read_sample(line), "w1", (), 1.0, 0.0, local=False)
    assert host.processes
    assert [process.past for process in host.processes] == [((200, 2000, 100, 1000, "/tmp/ray/session_x", "02", 5000), None), None]
    assert "past" not in ProcessStatus.__struct_fields__
