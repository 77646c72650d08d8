"""Tests that the titles of Ray's workers are followed between two samples."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from cockpit.probe.sample import titles
from cockpit.probe.sample.titles import MAX_CHANGES, MAX_FOLLOWED, MAX_HANGS, OTHERS_EVERY_S, Title, TitleFiles, TitleReader
from tests.probe.waiting import until

ONE, TWO = (7, 70), (8, 80)


class World:
    """Titles of processes, a clock, and what was read."""

    def __init__(self) -> None:
        self.now, self.titles, self.read, self.hangs = 100.0, {}, [], {}
        self.reader = TitleReader(self._read, lambda: self.now)

    def _read(self, worker):
        self.read.append(worker)
        if worker in self.hangs:
            self.hangs[worker].wait()
        return self.titles.get(worker, "")

    def look(self, seconds: float = 0.5, **changed: str) -> None:
        """Reads the titles after so many seconds."""
        self.now += seconds
        self.titles.update({(ONE if name == "one" else TWO): title for name, title in changed.items()})
        self.reader.read()


def test_a_sample_has_the_titles_since_the_sample_before_and_their_moments():
    world = World()
    assert world.reader.take([ONE, TWO]) == {}, "nothing was read yet"
    world.look(one="ray::WorkerDict", two="ray::WorkerDict")
    assert world.reader.take([ONE, TWO]) == {ONE: Title("ray::WorkerDict"), TWO: Title("ray::WorkerDict")}
    world.look(one="ray::WorkerDict.actor_generate_sequences")
    world.look()
    world.look(one="ray::WorkerDict")
    moments = ((101.0, "ray::WorkerDict.actor_generate_sequences"), (102.0, "ray::WorkerDict"))
    assert world.reader.take([ONE, TWO]) == {ONE: Title("ray::WorkerDict", moments), TWO: Title("ray::WorkerDict")}
    world.look()
    assert world.reader.take([ONE])[ONE] == Title("ray::WorkerDict"), "each change is told once"


def test_a_sample_has_the_last_titles_of_a_worker_that_has_ended_once():
    world = World()
    world.reader.take([ONE, TWO])
    world.look(one="ray::A.train", two="ray::A.train")
    world.reader.take([ONE, TWO])
    world.look(one="ray::A.update_weights")
    world.look(one="")
    assert world.reader.take([TWO]) == {
        TWO: Title("ray::A.train"),
        ONE: Title("ray::A.update_weights", ((101.0, "ray::A.update_weights"),)),
    }
    world.look()
    assert world.reader.take([TWO]) == {TWO: Title("ray::A.train")}


def test_a_process_that_ends_or_becomes_another_program_gets_no_new_title():
    world = World()
    world.reader.take([ONE])
    world.look(one="ray::A.run")
    world.look(one="")
    world.look(one="/usr/bin/python train.py")
    assert world.reader.take([ONE]) == {ONE: Title("ray::A.run")}
    assert world.reader.take([(7, 71)]) == {}, "another process with the same pid has no title of the first one"


def test_only_the_last_changes_are_kept():
    world = World()
    world.reader.take([ONE])
    for number in range(3 * MAX_CHANGES):
        world.look(one=f"ray::A.m{number}")
    found = world.reader.take([ONE])[ONE]
    assert len(found.changes) == MAX_CHANGES
    assert found.changes[-1][1] == found.text == f"ray::A.m{3 * MAX_CHANGES - 1}"


def test_of_very_many_workers_the_first_ones_are_read_at_each_look_and_the_others_once_a_sample():
    world = World()
    workers = [(pid, 1) for pid in range(1, MAX_FOLLOWED + 11)]
    world.titles = dict.fromkeys(workers, "ray::A")
    world.reader.take(workers)
    world.look()
    assert len(world.read) == len(workers)
    world.read.clear()
    world.look(seconds=OTHERS_EVERY_S / 2)
    assert world.read == workers[:MAX_FOLLOWED]
    world.titles = dict.fromkeys(workers, "ray::A.run")
    world.look(seconds=OTHERS_EVERY_S / 2 + 0.1)
    found = world.reader.take(workers)
    assert {title.text for title in found.values()} == {"ray::A.run"}
    assert [one for one in workers if found[one].changes] == workers[:MAX_FOLLOWED]


def test_a_process_that_hangs_keeps_no_other_from_being_read(monkeypatch):
    monkeypatch.setattr(titles, "HANGS_AFTER_S", 0.05)
    world = World()
    world.reader.take([ONE, TWO])
    world.look(one="ray::A", two="ray::B")
    world.hangs[ONE] = threading.Event()
    world.look(one="ray::A.run", two="ray::B.run")
    world.look(two="ray::B")
    assert world.read.count(ONE) == 2, "it is not asked again while it hangs"
    found = world.reader.take([ONE, TWO])
    assert found[ONE] == Title("ray::A")
    assert [text for _, text in found[TWO].changes] == ["ray::B.run", "ray::B"]
    world.hangs.pop(ONE).set()
    while world.reader.take([ONE])[ONE].text == "ray::A":
        world.reader.read()


def test_very_many_processes_that_hang_delay_a_look_by_a_few_of_them_only(monkeypatch):
    monkeypatch.setattr(titles, "HANGS_AFTER_S", 0.05)
    world, forever = World(), threading.Event()
    hanging = [(pid, 1) for pid in range(1000, 1000 + 3 * MAX_HANGS)]
    world.hangs = dict.fromkeys(hanging, forever)
    world.reader.take([ONE, *hanging, TWO])
    for look in (1, 2, 3):
        world.look(one=f"ray::A.m{look}", two="ray::B")
        assert world.read.count(ONE) == look
        assert len([one for one in world.read if one in world.hangs]) == look * MAX_HANGS
    world.look(one="ray::A.m4")
    assert {one: title.text for one, title in world.reader.take([ONE, *hanging, TWO]).items()} == {ONE: "ray::A.m4", TWO: "ray::B"}
    forever.set()


@pytest.mark.process
def test_the_title_of_a_process_that_has_ended_is_empty():
    files = TitleFiles()
    assert files.read((1 << 30, 0)) == ""
    child = subprocess.Popen(["sleep", "100"])
    until(lambda: files.read((child.pid, 1)) != "")  # it is empty for an instant after the start of a program
    child.kill()
    child.wait()
    assert files.read((child.pid, 1)) == ""


@pytest.mark.process
def test_the_files_of_processes_that_are_no_longer_followed_are_closed():
    files, me = TitleFiles(), os.getpid()
    before = len(os.listdir("/proc/self/fd"))
    for start in range(MAX_FOLLOWED + 3):
        assert files.read((me, start)) == files.read((me, start)) != ""
    assert len(os.listdir("/proc/self/fd")) == before + MAX_FOLLOWED
    files.close_others([(me, 0)])
    assert len(os.listdir("/proc/self/fd")) == before + 1
    files.close_others([])
    assert len(os.listdir("/proc/self/fd")) == before
