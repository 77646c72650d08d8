"""A screen in a browser, as textual-serve starts it: over pipes, and read-only whatever was asked for."""

from __future__ import annotations

import os
import subprocess

import pytest
from click.testing import CliRunner

from cockpit.cli.main import main
from cockpit.cli.options import why_no_screen
from tests.cli.programs import PROGRAM

BROWSER = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver", "COLUMNS": "120", "ROWS": "30"}
NOWHERE = "http://127.0.0.1:9"


def test_a_browser_needs_no_terminal_and_makes_cockpit_read_only(monkeypatch: pytest.MonkeyPatch):
    assert why_no_screen() is not None
    for name, value in BROWSER.items():
        monkeypatch.setenv(name, value)
    assert why_no_screen() is None
    monkeypatch.setenv("COCKPIT_READONLY", "0")
    assert "readonly: true  # it is shown in a browser\n" in CliRunner().invoke(main, ["config", "print"]).output


def read_until(stream, wanted: bytes) -> bytes:
    """Everything up to the first time that `wanted` is there; all of it if the stream ends first."""
    read = b""
    while wanted not in read and (data := os.read(stream.fileno(), 1 << 16)):
        read += data
    return read


@pytest.mark.process
def test_the_screen_is_drawn_over_pipes_and_ends_with_them():
    command = [*PROGRAM, "--ascii", "--address", NOWHERE]
    with subprocess.Popen(command, env={**os.environ, **BROWSER}, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        drawn = read_until(running.stdout, b"read-only")
        assert drawn.startswith(b"__GANGLION__\n"), "by this textual-serve knows that the screen begins"
        assert b"read-only" in drawn
        running.stdin.close()  # the browser is gone
        running.stdout.read()
        assert running.wait(60) == 129
