"""All facts that a probe sends reach the model."""

from __future__ import annotations

import pytest

from cockpit.model import CpuLimit, Fault, Host, HttpProxy, OomKill, Pointer, Process, RayProcess, Session, TaskLimit, TempDir
from cockpit.report.status import ProcessStatus
from cockpit.sources.probes import decode
from cockpit.sources.source import SourceError


def decode_sample(line: bytes, skew: float = 0.0) -> Host:
    return decode.make_host(decode.read_line(line, decode.Sample), "w1", (), 1.0, skew, local=False)


def test_a_probe_cannot_report_facts_of_another_host_or_decide_what_belongs_to_the_followed_ray():
    host = decode_sample(
        b'{"taken": 1.0, "processes": [{"pid": 7, "host": "w2", "ours": true, "other_job": "x"}], "faults": [{"source": "a", "text": "b",'
        b' "since": 1.0, "host": "w2", "cause": "gcs", "sources": ["c"]}], "sessions": [{"name": "s", "path": "/s", "host": "w2"}],'
        b' "oom_kills": [{"by": "ray", "host": "w2", "ours": true}]}'
    )
    assert host.processes == (Process(host="w1", pid=7),)
    assert host.sessions == (Session(host="w1", name="s", path="/s"),)
    assert host.oom_kills == (OomKill("ray", host="w1"),)
    assert host.faults == (Fault("a", "b", 1.0, "w1"),)


@pytest.mark.parametrize("part", ['"processes": [{"ticks": 7}]', '"sessions": [{"name": "s"}]', '"oom_kills": [{"pid": 7}]'])
def test_a_sample_with_an_entry_without_identity_is_refused(part):
    with pytest.raises(SourceError):
        decode.read_line(b'{"taken": 1.0, ' + part.encode() + b"}", decode.Sample)


def test_what_a_probe_remembers_of_a_process_passes_through_unchanged():
    seen = b'[200,2000,100,1000,"/tmp/ray/session_x","02",5000,0]'
    line = b'{"taken": 1.0, "processes": [{"pid": 7, "ticks": 9, "past": ' + seen + b'}, {"pid": 8, "past": null}]}'
    host = decode.make_host(decode.read_line(line, decode.Sample), "w1", (), 1.0, 0.0, local=False)
    assert host.processes
    assert [process.past for process in host.processes] == [(200, 2000, 100, 1000, "/tmp/ray/session_x", "02", 5000, 0), None]
    assert "past" not in ProcessStatus.__struct_fields__


def test_the_new_titles_of_a_worker_get_moments_of_our_clock_without_secrets_and_are_limited():
    titles = b'[[1.5, "ray::A.run"], [-4, "hf_%s"], [0.25, "%s"]]' % (b"aB3" * 12, b"x" * 999)
    line = b'{"taken": 5.0, "processes": [{"pid": 7, "titles": %s}, {"pid": 8}, {"pid": 9, "titles": [%s]}]}'
    line = line % (titles, b",".join([b'[1, "ray::A"]'] * 99))
    host = decode.make_host(decode.read_line(line, decode.Sample), "w1", (), 100.0, 95.0, local=False)
    assert host.processes
    first, second, third = (process.titles for process in host.processes)
    assert [moment for moment, _ in first] == [98.5, 100.0, 99.75]
    assert first[0][1] == "ray::A.run"
    assert "aB3aB3" not in first[1][1]
    assert len(first[2][1]) == decode.MAX_TITLE_CHARS
    assert (second, len(third)) == ((), decode.MAX_TITLES)


def test_facts_that_explain_findings_are_read_and_those_that_are_not_sent_are_unknown():
    host = decode_sample(
        b'{"taken": 1.0, "memory": {"used": 1, "total": 2, "host_total": 4, "kill_at": null}, "driver": "580.1",'
        b' "gpus": [{"index": 0, "recovery": "reset", "remap": true, "slowed": ["thermal"]}],'
        b' "rays": [{"role": "raylet", "pid": 7, "session": "s", "node": "n", "state": "T", "ray": "2.60.0", "python": "3.11.7",'
        b' "visible": "0,1", "files": 5, "files_limit": 1024, "frameworks": {"verl": "0.5.0"},'
        b' "tasks": [{"what": "user", "used": 9, "limit": 4096, "path": null}]}],'
        b' "temps": [{"path": "/tmp/ray", "owner": "ann", "writable": false}],'
        b' "pointers": [{"path": "/tmp/ray/session_latest", "target": "s", "alive": null}]}'
    )
    assert host.memory.host_total == 4
    assert host.gpus
    assert (host.gpus[0].recovery, host.gpus[0].remap, host.gpus[0].slowed, host.driver) == ("reset", True, ("thermal",), "580.1")
    tasks = (TaskLimit("user", 9, 4096),)
    assert host.rays == (RayProcess("raylet", 7, "s", "n", "T", "2.60.0", "3.11.7", "0,1", 5, 1024, {"verl": "0.5.0"}, tasks),)
    assert host.temps == (TempDir("/tmp/ray", "ann", False),)
    assert host.pointers == (Pointer("/tmp/ray/session_latest", "s", None),)
    host = decode_sample(b'{"taken": 1.0}')
    assert host.rays is host.temps is host.pointers is host.oom_kills is host.driver is host.memory.host_total is None


def test_the_network_interfaces_of_a_process_are_read_without_secrets():
    line = b'{"taken": 1.0, "processes": [{"pid": 7, "sockets": {"nccl": "hf_%s", "gloo": null, "there": ["lo", "eth0"]}}]}' % (b"aB3" * 12)
    host = decode.make_host(decode.read_line(line, decode.Sample), "w1", (), 1.0, 0.0, local=False)
    assert host.processes
    sockets = host.processes[0].sockets
    assert sockets
    assert (sockets.gloo, sockets.there) == (None, ("lo", "eth0"))
    assert "aB3aB3" not in str(sockets)


def test_the_environment_of_a_raylet_is_read_without_secrets():
    host = decode_sample(
        b'{"taken": 1.0, "proxy": {"variable": "http_proxy", "proxy": "proxy:3128", "exceptions": "localhost"}, "rays": [{"role": "raylet",'
        b' "pid": 7, "cpu_limit": {"affinity": 8, "quota": 3.5, "path": "/sys/fs/cgroup/cpu.max"}, "locked_memory": 65536,'
        b' "rdma": ["mlx5_0"], "loopback_line": "127.0.1.1 w1 --api-key=sk-verysecret",'
        b' "addresses": ["10.0.0.1"], "network": "b net:[1]", "gloo": "eth0",'
        b' "proxy": {"variable": "ALL_PROXY", "proxy": "http://ann:verysecret@proxy:3128", "exceptions": ""}}]}'
    )
    assert host.proxy == HttpProxy("http_proxy", "proxy:3128", "localhost")
    assert host.rays
    raylet = host.rays[0]
    assert (raylet.cpu_limit, raylet.locked_memory) == (CpuLimit(8, 3.5, "/sys/fs/cgroup/cpu.max"), 65536)
    assert (raylet.rdma, raylet.addresses, raylet.network, raylet.gloo) == (("mlx5_0",), ("10.0.0.1",), "b net:[1]", "eth0")
    assert raylet.proxy
    assert raylet.loopback_line
    assert (raylet.proxy.variable, raylet.loopback_line.startswith("127.0.1.1 w1 ")) == ("ALL_PROXY", True)
    assert "verysecret" not in str(host)


def test_times_of_another_clock_are_converted_and_secrets_removed():
    host = decode_sample(
        b'{"taken": 1.0, "written": {"session_1": {"raysubmit_1": 100.0}},'
        b' "oom_kills": [{"by": "kernel", "moment": 50.0, "pid": 3, "name": "python",'
        b' "text": "python serve.py --api-key=sk-verysecret was killed"}]}',
        skew=7.0,
    )
    assert host.wrote == {"session_1": {"raysubmit_1": 107.0}}
    assert host.oom_kills
    assert (host.oom_kills[0].host, host.oom_kills[0].moment, host.oom_kills[0].pid) == ("w1", 57.0, 3)
    assert "verysecret" not in host.oom_kills[0].text


def test_the_files_that_fill_a_disk_are_read_without_secrets():
    token = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
    filler = b'{"kind": "file", "path": "/data/%s.bin", "size": 5, "command": "x --token %s", "job": null, "more": 1}' % (
        (token.encode(),) * 2
    )
    host = decode_sample(
        b'{"taken": 1.0, "filled": [{"path": "/tmp/ray", "seen": 5.0, "whole": true, "fillers": [%s]}]}' % filler, skew=7.0
    )
    (disk,) = host.filled
    assert (disk.path, disk.whole, disk.seen, disk.fillers[0].size) == ("/tmp/ray", True, 12.0, 5)
    assert token not in repr(host)
