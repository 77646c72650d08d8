from __future__ import annotations

import asyncio
import json
import stat

import pytest

from cockpit.model import Cluster
from cockpit.notify.notifier import Notifier
from cockpit.notify.robots import ChatBotRefusedError
from cockpit.notify.sent_state import FILE, cluster_folder, load_sent
from cockpit.recording.folder import Lock
from tests.notify.said import HEAD, finding, robot, snapshot

JSON = robot()


class World:
    """A notifier, and the messages that it sent."""

    def __init__(self, root, targets=(JSON,)):
        self.root, self.targets, self.sent, self.faults = root, targets, [], []
        self.answer = None
        self.notifier = self.begin()

    def begin(self):
        self.notifier = Notifier(self.targets, self.root, self.faults.append, send=self._send)
        return self.notifier

    async def _send(self, target, message):
        if self.answer is not None:
            await self.answer(target)
        self.sent.append(([one.subject for one in message.begun], [one.subject for one in message.ended]))

    async def see(self, *findings, begin=0, end=14, cluster=HEAD):
        """Feeds snapshots with these findings, each handled before the next."""
        for at in range(begin, end, 2):
            heard = len(self.faults)
            self.notifier.on_snapshot(snapshot(*findings, at=at, cluster=cluster))
            await until(lambda heard=heard: len(self.faults) > heard)


async def until(fact):
    while not fact():
        await asyncio.sleep(0.001)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "cockpit" / "notify")


async def test_start_and_end_are_sent_once_despite_a_restart(world):
    await world.see(finding("w1"), finding("w2"))
    await until(lambda: world.sent == [(["w1", "w2"], [])])
    folder = world.root / cluster_folder(HEAD)
    await until(lambda: (folder / FILE).exists())
    world.notifier.close()
    world.begin()
    await world.see(finding("w1"), begin=500, end=640)
    await until(lambda: world.sent[1:] == [([], ["w2"])])
    world.notifier.close()


async def test_the_file_of_sent_notices_is_complete_and_private(world):
    await world.see(finding("w1"))
    path = world.root / cluster_folder(HEAD) / FILE
    await until(path.exists)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one["subject"] for told in json.loads(path.read_text()).values() for one in told] == ["w1"]
    assert "robot.example" not in path.read_text()
    assert [one.name for one in path.parent.iterdir() if "." in one.name] == [FILE]
    path.write_text("{")
    assert load_sent(path.parent) == {}
    world.notifier.close()


async def test_one_cockpit_sends_for_a_cluster_and_another_takes_over(world):
    first, second = world.notifier, World(world.root)
    await world.see(finding("w1"))
    await until(lambda: world.sent)
    await until((world.root / cluster_folder(HEAD) / FILE).exists)
    await second.see(finding("w1"))
    assert "another cockpit, pid" in (second.notifier.holder or "")
    assert second.sent == []
    first.close()
    await second.see(finding("w1"), finding("w2"), begin=40, end=60)
    assert second.notifier.holder is None
    await until(lambda: second.sent == [(["w2"], [])])
    second.notifier.close()


async def test_another_cluster_has_its_own_lock_and_sent_notices(world):
    await world.see(finding("w1"))
    await world.see(finding("w1"), begin=20, end=40, cluster=Cluster("http://other:8265"))
    await until(lambda: len(world.sent) == 2)
    lock = Lock(world.root / cluster_folder(HEAD))
    assert lock.take()
    lock.release()
    world.notifier.close()


def test_hosts_that_share_a_home_share_no_sent_notices(monkeypatch):
    names = []
    for host in ("a", "b"):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        names.append((cluster_folder(Cluster("http://127.0.0.1:8265")), cluster_folder(HEAD)))
    assert names[0][0] != names[1][0]
    assert names[0][1] == names[1][1]


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ChatBotRefusedError("it answered HTTP 500"), "it answered HTTP 500"),
        (LookupError("https://robot.example/hook/0123456789"), "cockpit has a bug: LookupError"),
    ],
    ids=["refused", "of a bug only the type is shown"],
)
async def test_a_failed_delivery_is_a_fault_until_one_succeeds(world, error, fault):
    async def fail(_):
        raise error

    world.answer = fail
    await world.see(finding("w1"))
    await until(lambda: world.faults[-1] == f"target 1 (json): {fault}")
    world.answer = None
    await world.see(finding("w1"), begin=14, end=24)
    await until(lambda: world.faults[-1] is None)
    await world.see(finding("w1"), finding("w2"), begin=24, end=60)
    await until(lambda: world.sent == [(["w1"], []), (["w2"], [])])
    world.notifier.close()


async def test_a_hanging_target_delays_neither_snapshots_nor_other_targets_nor_the_end(tmp_path):
    world = World(tmp_path / "cockpit" / "notify", (robot(), robot("slack")))

    async def hang(target):
        if target.form == "json":
            await asyncio.Event().wait()

    world.answer = hang
    await world.see(finding("w1"))
    await until(lambda: world.sent == [(["w1"], [])])
    others = asyncio.all_tasks() - {asyncio.current_task()}
    world.notifier.close()
    await asyncio.gather(*others, return_exceptions=True)
    assert all(task.done() for task in others)


async def test_a_failed_save_is_a_fault_and_without_its_folder_nothing_is_sent(world, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cockpit.notify.notifier.save_sent", full)
        await world.see(finding("w1"))
        await until(lambda: world.faults[-1] == "the list of sent messages can't be saved: no space left on device")
    world.notifier.close()
    (tmp_path / "file").write_text("no folder")
    lost = World(tmp_path / "file")
    await lost.see(finding("w1"))
    assert lost.faults[-1].startswith("the list of sent messages can't be saved: ")
    assert lost.sent == []
    lost.notifier.close()
