"""What rings when something critical begins, and how it is written to a terminal."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time

import pytest

from cockpit.model import Finding
from cockpit.ui.alarm import MIN_ALARM_INTERVAL_S, SETTLING_S, Alarm, alarm_sequence
from tests.ui.screen import shown, until
from tests.world import NOW, snapshot

LATER = NOW + SETTLING_S + 1


def found(subject="w1", level="critical", text="w1 is dead"):
    return Finding("node-dead", level, subject, text)


def at(moment, *findings):
    return snapshot(taken=moment, findings=findings)


def settled():
    alarm = Alarm()
    assert not alarm.take_new(at(NOW), frozenset())
    return alarm


def test_findings_of_the_start_never_ring():
    alarm = settled()
    assert not alarm.take_new(at(NOW + SETTLING_S / 2, found()), frozenset())
    assert not alarm.take_new(at(LATER, found()), frozenset())


def test_a_new_critical_finding_rings_once_and_again_if_it_begins_again():
    alarm = settled()
    assert alarm.take_new(at(LATER, found()), frozenset()) == [found()]
    assert not alarm.take_new(at(LATER + 60, found()), frozenset())
    assert not alarm.take_new(at(LATER + 61), frozenset())
    assert alarm.take_new(at(LATER + 62, found()), frozenset()) == [found()]


def test_warnings_and_hidden_findings_do_not_ring_even_if_they_are_shown_again():
    alarm = settled()
    assert not alarm.take_new(at(LATER, found(level="warning")), frozenset())
    assert not alarm.take_new(at(LATER + 20, found()), {found().key})
    assert not alarm.take_new(at(LATER + 40, found()), frozenset())


def test_findings_that_begin_together_ring_once_and_those_that_follow_soon_wait():
    alarm = settled()
    assert len(alarm.take_new(at(LATER, found("w1"), found("w2")), frozenset())) == 2
    three = (found("w1"), found("w2"), found("w3"))
    assert not alarm.take_new(at(LATER + 1, *three), frozenset())
    assert alarm.take_new(at(LATER + MIN_ALARM_INTERVAL_S + 1, *three), frozenset()) == [found("w3")]


def test_the_notification_is_one_line_without_control_characters():
    hostile = found(text="\x1b]0;PWNED\x07\x9d \x1b\\ a\nb \u202e 4;1;100 " + "x" * 500)
    rung = alarm_sequence([hostile, found()], {})
    assert rung.startswith("\x07\x1b]9;cockpit: ")
    assert rung.endswith(" (and 1 more)\x07")
    inner = rung[len("\x07\x1b]9;") : -1]
    assert inner.isprintable()
    assert len(inner) < 240
    assert alarm_sequence([hostile], {}, ascii=True).isascii()


@pytest.mark.process
def test_inside_tmux_the_notification_is_wrapped():
    for env in ({"TMUX": "/tmp/tmux-0/default,1,0"}, {"TERM": "tmux-256color"}):
        assert alarm_sequence([found()], env) == "\x07\x1bPtmux;\x1b\x1b]9;cockpit: w1 is dead\x07\x1b\\"
    assert alarm_sequence([found()], {"TERM": "xterm-256color"}) == "\x07\x1b]9;cockpit: w1 is dead\x07"


@pytest.mark.parametrize("quiet", [False, True])
async def test_the_screen_rings_unless_it_is_to_be_quiet(make, quiet, monkeypatch):
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    app = make(at(NOW), quiet=quiet)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "node1" in shown(app))
        written = []
        monkeypatch.setattr(app._driver, "write", written.append)
        await pilot.press("p")  # a picture that is paused is no reason to sleep
        app.take(at(LATER, found()))
        assert ("\x07\x1b]9;cockpit: w1 is dead\x07" in written) is not quiet


@pytest.mark.process
@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")
@pytest.mark.parametrize(("passes", "wrapped"), [("on", True), ("off", True), ("on", False)])
def test_a_real_tmux_rings_and_hands_on_what_is_wrapped(tmp_path, passes, wrapped):
    """Bare it never arrives; wrapped it does where passthrough is on, and where it isn't nothing of it is seen."""
    config, said = tmp_path / "tmux.conf", tmp_path / "said"
    config.write_text(f"set -g allow-passthrough {passes}\nset -g status off\n")
    said.write_text(alarm_sequence([found()], {"TMUX": "x"} if wrapped else {}), newline="")
    socket = str(tmp_path / "socket")
    script = f"sleep 1; cat {said}; sleep 1; echo DO''NE; sleep 30"
    master, slave = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "TMUX"} | {"TERM": "xterm-256color"}
    client = subprocess.Popen(
        ["tmux", "-S", socket, "-f", str(config), "new-session", script],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    try:
        seen = _read_until(master, b"DONE")
    finally:
        subprocess.run(["tmux", "-S", socket, "kill-server"], check=False, capture_output=True)
        client.wait(60)
        os.close(master)
    assert b"\x07" in seen
    assert (b"\x1b]9;cockpit: w1 is dead\x07" in seen) is (wrapped and passes == "on")
    assert wrapped or b"w1 is dead" not in seen
    assert passes == "on" or b"w1 is dead" not in seen


def _read_until(master, word):
    seen, end = b"", time.monotonic() + 60
    while word not in seen and time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                seen += os.read(master, 65536)
            except OSError:
                break
    assert word in seen, seen
    return seen
