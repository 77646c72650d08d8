from __future__ import annotations

import json
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from cockpit.cli import line as line_command
from cockpit.cli.line import answer_line, print_line
from cockpit.cli.main import main
from cockpit.cli.service import attach_line_writer, write_line_of
from cockpit.config.settings import Config
from cockpit.files.status_line import line_path, lines_path, read_line
from tests.world import snapshot

HEAD = "http://head:8265"
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.fixture(autouse=True)
def folder(home):
    lines_path().mkdir(parents=True)


def leave(seconds=0.0, code=0, address=HEAD):
    line_path(address).write_text(json.dumps({"text": "ray 2 nodes · OK", "code": code, "written": time.time() - seconds}))


@pytest.mark.parametrize("code", range(4))
def test_it_prints_the_saved_line_and_ends_with_its_code(code, capsys):
    leave(code=code)
    assert print_line(None) == code
    assert capsys.readouterr().out == "ray 2 nodes · OK\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (61, "1 min old"),
        (3 * MINUTE + 5, "3 min old"),
        (HOUR + 50 * MINUTE, "110 min old"),
        (3 * HOUR, "3 h old"),
        (47 * HOUR, "47 h old"),
        (9 * DAY, "9 d old"),
    ],
)
def test_an_old_line_shows_its_age_and_is_at_least_a_warning(seconds, words, capsys):
    leave(seconds + 1)
    assert print_line(None) == 1
    assert capsys.readouterr().out == f"ray 2 nodes · OK ({words})\n"
    leave(seconds + 1, code=2)
    assert print_line(None) == 2


def test_the_fast_path_takes_only_commands_that_it_fully_understands(monkeypatch):
    asked = []
    monkeypatch.setattr(line_command, "print_line", lambda address: asked.append(address) or 2)
    assert answer_line(["status", "--line"]) == 2
    assert answer_line(["status", "--line", "--address", HEAD]) == 2
    for words in (["status"], ["status", "--line", "--json"], ["logs", "--line"], ["status", "--line", "--address", "head"], ["--line"]):
        assert answer_line(words) is None
    monkeypatch.setenv("COCKPIT_ADDRESS", HEAD)
    assert answer_line(["status", "--line"]) is None
    assert asked == [None, HEAD]


def test_the_full_parser_accepts_addresses_as_people_type_them(monkeypatch):
    leave()
    leave(address="http://other:8265", code=2)
    assert CliRunner().invoke(main, ["status", "--line", "--address", "head"]).exit_code == 0
    assert CliRunner().invoke(main, ["--address", "other:8265", "status", "--line"]).exit_code == 2
    monkeypatch.setenv("COCKPIT_ADDRESS", "http://nobody:1")
    told = CliRunner().invoke(main, ["status", "--line"])
    assert (told.exit_code, told.stdout) == (3, "–\n"), "there is no line of it"


@pytest.mark.parametrize("other", [("--json",), ("--watch",), ("--at", "-5m")])
def test_line_excludes_json_watch_and_at(other):
    told = CliRunner().invoke(main, ["status", "--line", *other])
    assert told.exit_code != 0
    assert "with --json, --watch or --at" in str(told.exception) + told.output


def test_one_sample_writes_a_line_unless_cockpit_is_read_only():
    shot = snapshot()
    write_line_of(Config(readonly=True), shot)
    attach_line_writer(Config(readonly=True), SimpleNamespace(poller=None))
    assert list(lines_path().iterdir()) == []
    write_line_of(Config(), shot)
    left = read_line(shot.cluster.address, time.time())
    assert left is not None
    assert left.text.startswith("ray 2 nodes")


@pytest.mark.process
def test_the_fast_path_imports_nothing_slow():
    """A prompt waits for this command."""
    code = """
import sys
from cockpit.cli.entry import main
sys.argv = ["cockpit", "status", "--line"]
try:
    main()
except SystemExit as end:
    print(end.code)
print(*sys.modules)
"""
    leave()
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60)
    line, exit_code, loaded = ran.stdout.splitlines()
    assert (line, exit_code) == ("ray 2 nodes · OK", "0")
    assert not {"click", "msgspec", "yaml", "httpx", "textual", "asyncio", "platformdirs", "cockpit.cli.main"} & set(loaded.split())
