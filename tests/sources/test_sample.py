"""What a probe says reaches the model whole."""

from __future__ import annotations

from cockpit.model import Host, OomKill, Pointer, Process, RayProcess, Session, TempDir
from cockpit.sources import sample
from cockpit.status import ProcessStatus


def said(line: bytes, skew: float = 0.0) -> Host:
    return sample.host_of(sample.read_sample(line), "w1", (), 1.0, skew, local=False)


def test_every_fact_that_is_told_with_its_host_is_read():
    for known, read in ((Process, sample._Process), (Session, sample._Session), (OomKill, sample._OomKill)):
        assert set(known.__struct_fields__) - {"host"} == set(read.__struct_fields__)


def test_what_a_probe_has_seen_passes_through_unchanged():
    seen = b'[[200,2000,100,1000,"/tmp/ray/session_x","02",5000],null]'
    line = b'{"taken": 1.0, "processes": [{"pid": 7, "ticks": 9, "past": ' + seen + b'}, {"pid": 8, "past": null}]}'
    host = sample.host_of(sample.read_sample(line), "w1", (), 1.0, 0.0, local=False)
    assert host.processes
    assert [process.past for process in host.processes] == [((200, 2000, 100, 1000, "/tmp/ray/session_x", "02", 5000), None), None]
    assert "past" not in ProcessStatus.__struct_fields__


def test_what_explains_things_is_read():
    host = said(
        b'{"taken": 1.0, "memory": {"used": 1, "total": 2, "host_total": 4, "kill_at": null}, "driver": "580.1",'
        b' "gpus": [{"index": 0, "recovery": "reset", "remap": true, "slowed": ["thermal"]}],'
        b' "rays": [{"role": "raylet", "pid": 7, "session": "s", "node": "n", "state": "T", "ray": "2.60.0", "python": "3.11.7",'
        b' "visible": "0,1", "files": 5, "files_limit": 1024, "frameworks": {"verl": "0.5.0"}}],'
        b' "temps": [{"path": "/tmp/ray", "owner": "ann", "writable": false}],'
        b' "pointers": [{"path": "/tmp/ray/session_latest", "target": "s", "alive": null}]}'
    )
    assert host.memory.host_total == 4
    assert host.gpus
    assert (host.gpus[0].recovery, host.gpus[0].remap, host.gpus[0].slowed, host.driver) == ("reset", True, ("thermal",), "580.1")
    assert host.rays == (RayProcess("raylet", 7, "s", "n", "T", "2.60.0", "3.11.7", "0,1", 5, 1024, {"verl": "0.5.0"}),)
    assert host.temps == (TempDir("/tmp/ray", "ann", False),)
    assert host.pointers == (Pointer("/tmp/ray/session_latest", "s", None),)


def test_what_a_probe_does_not_say_is_unknown():
    host = said(b'{"taken": 1.0}')
    assert host.rays is host.temps is host.pointers is host.oom_kills is host.driver is host.memory.host_total is None


def test_times_of_another_clock_are_ours_and_secrets_are_taken_out():
    host = said(
        b'{"taken": 1.0, "wrote": {"raysubmit_1": 100.0}, "oom_kills": [{"by": "kernel", "moment": 50.0, "pid": 3, "name": "python",'
        b' "text": "python serve.py --api-key=sk-verysecret was killed"}]}',
        skew=7.0,
    )
    assert host.wrote == {"raysubmit_1": 107.0}
    assert host.oom_kills
    assert (host.oom_kills[0].host, host.oom_kills[0].moment, host.oom_kills[0].pid) == ("w1", 57.0, 3)
    assert "verysecret" not in host.oom_kills[0].text
