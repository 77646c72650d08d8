from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from msgspec.structs import replace

from cockpit.model import (
    Amount,
    Communicator,
    CountGap,
    CountGroup,
    Host,
    HostMemory,
    Job,
    MemoryUser,
    NcclRank,
    NcclReport,
    RayProcess,
    ShmUser,
    Snapshot,
)
from cockpit.recording import frames
from cockpit.recording.frames import Change, Frame, FrameError, State, decode_frame, make_frame, tables_of
from cockpit.recording.writer import pack
from tests import world
from tests.recording.recorded import differences, snapshots


def played(*written: Snapshot) -> Snapshot:
    state, before = State(), None
    for snapshot in written:
        now = tables_of(snapshot)
        state.apply(msgspec.msgpack.decode(pack(make_frame(before, now)), type=Frame))
        before = now
    return state.snapshot()


def test_a_key_frame_is_complete_and_many_changes_add_up_to_the_last_snapshot():
    assert differences(world.snapshot(), played(world.snapshot())) == []
    written = list(snapshots(60))
    assert differences(written[-1], played(*written)) == []


def test_engines_are_read_back_while_their_numbers_change():
    first = replace(world.snapshot(), engines=(world.engine(), world.engine(9, kv_cache=None, unanswered=world.NOW)))
    second = replace(first, taken=first.taken + 10, engines=(world.engine(running=7, read=world.NOW + 10),))
    assert differences(first, played(first)) == []
    assert played(first, second).engines == second.engines
    assert played(first, replace(second, engines=None)).engines is None


def test_unknown_is_not_empty():
    empty = replace(Snapshot(), taken=5.0, nodes=(), processes=())
    assert differences(Snapshot(), played(Snapshot())) == []
    assert differences(empty, played(empty)) == []
    assert played(empty, replace(empty, nodes=None)).nodes is None


def test_what_nccl_reported_is_recorded_without_secrets_and_forgotten_with_the_job():
    rank = NcclRank(rank=3, address="10.0.0.1", pid=4003, gpu=3, process="process:node1:4003:7")
    gap = CountGap("AllReduce", (CountGroup(412, 7), CountGroup(411, 1, (rank,))))
    one = Communicator(hash="0x1", size=8, answered=8, counts={"AllGather": 4}, gaps=(gap,), unchanged_since=world.NOW - 60)
    report = NcclReport(job="job:ppo-7b", asked=world.NOW, versions=("2.29.7",), communicators=(one,), number=1)
    before = world.snapshot(nccl=(report,))
    assert played(before).nccl == (report,)
    secret = replace(report, problems=("node1: --api-key sk-1234567890abcdef1234",))
    assert "sk-1234" not in str(played(before, replace(before, nccl=(secret,))).nccl)
    assert played(before, replace(before, nccl=())).nccl == ()


def test_an_unchanged_frame_is_small_and_moved_rows_are_not_written_again():
    now = world.snapshot()
    later = replace(now, taken=now.taken + 5)
    assert len(pack(make_frame(tables_of(now), tables_of(later)))) < 200
    now = world.snapshot()
    turned = replace(now, actors=(*reversed(now.actors or ()),))
    frame = make_frame(tables_of(now), tables_of(turned))
    assert frame.actors is not None
    assert all(isinstance(one, tuple) for one in frame.actors.edit or ())
    assert played(now, turned).actors == turned.actors


def test_a_hosts_processes_sessions_and_largest_users_are_read_back():
    memory, users = HostMemory(5, 10), (MemoryUser(2, 900), MemoryUser(1, 500))
    node = world.node(1, probed=True)
    host = Host(
        "node1",
        cpu=3.0,
        memory=memory,
        shm=Amount(1, 2),
        processes=(world.process(7),),
        sessions=(),
        memory_users=users,
        wrote={"s": {"j": 5.0}},
        shm_users=(ShmUser("root", 5), ShmUser(None, 9)),
    )
    now = Snapshot(taken=1.0, nodes=(node,), hosts={"node1": host}, processes=host.processes, sessions=())
    assert played(now).hosts == {"node1": host}


def test_a_machine_is_in_a_frame_only_once():
    now = world.snapshot()
    assert pack(make_frame(None, tables_of(now))).count(b"GPU-1-0") == 1
    again = played(now)
    assert again.index.machine(again.nodes[0]) == now.index.machine(now.nodes[0])


def test_titles_between_two_samples_are_not_recorded():
    process = replace(world.process(7), command="ray::A.run", titles=((5.0, "ray::A.begin"), (6.0, "ray::A.run")))
    frame = pack(make_frame(None, tables_of(Snapshot(processes=(process, world.process(8))))))
    assert b"ray::A.run" in frame
    assert b"ray::A.begin" not in frame


def test_the_memory_of_isolated_workers_is_recorded_in_steps_so_that_few_frames_need_the_row():
    def at(used: int) -> Snapshot:
        raylet = RayProcess("raylet", 21, kill_at=100_000, kill_used=used, charged=used + 1000)
        return Snapshot(hosts={"w1": Host("w1", rays=(raylet,))})

    raylets = played(at(50_400)).hosts["w1"].rays
    assert raylets
    assert (raylets[0].kill_used, raylets[0].charged) == (50_000, 51_000)
    assert make_frame(tables_of(at(50_400)), tables_of(at(50_100))).hosts is None
    assert make_frame(tables_of(at(50_400)), tables_of(at(60_000))).hosts is not None


def test_environments_are_not_recorded():
    now = Snapshot(jobs=(Job("a", runtime_env={"env_vars": {"NAME": "value"}}),))
    assert b"env_vars" not in pack(make_frame(None, tables_of(now)))


@pytest.mark.parametrize(
    "change",
    [
        Change(edit=[(0, 5)]),
        Change(edit=[(-1, 1)]),
        Change(edit=[(0, 0)]),
        Change(at=[3], by=[1]),
        Change(at=[-1], by=[1]),
        Change(at=[0], by=[1]),
    ],
)
def test_a_frame_that_refers_to_missing_rows_is_refused(change):
    state = State()
    state.apply(make_frame(None, tables_of(Snapshot(nodes=(world.node(1),)))))
    with pytest.raises(FrameError):
        state.apply(Frame(1.0, nodes=change))


def test_rows_cannot_be_multiplied_without_end(monkeypatch):
    monkeypatch.setattr(frames, "MAX_ROWS", 100)
    state = State()
    state.apply(make_frame(None, tables_of(Snapshot(nodes=tuple(map(world.node, range(1, 60)))))))
    with pytest.raises(FrameError, match="more than 100 rows"):
        state.apply(Frame(1.0, nodes=Change(edit=[(0, 59), (0, 59)])))


def test_unknown_fields_of_a_frame_take_no_memory():
    """A megabyte of lists, and an invalid number; an earlier version created all of them."""
    lists = b"\xdd" + (1 << 20).to_bytes(4, "big") + b"\x90" * (1 << 20)
    block = b"\x83\xa5taken\x01\xa7unknown" + lists + b"\xa5other\xcb\x7f\xf0" + bytes(6)
    tracemalloc.start()
    try:
        assert decode_frame(block).taken == 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
