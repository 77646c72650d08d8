"""What a hostile dashboard, host, file or name can make cockpit say, do or hold: real sockets, real processes, made to break it."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cockpit.actions.audit import Audit
from cockpit.actions.plan import Plan, Target
from cockpit.config.document import Document, InputError
from cockpit.findings.waiting import shell_word
from cockpit.sources.lenient_json import NotRayError, decode
from cockpit.sources.probes.decode import MEND_MAX_BYTES, Hello, Sample, read_line
from cockpit.sources.probes.pool import _parse_answer
from cockpit.sources.probes.process import parse_message
from cockpit.sources.ray import wire
from cockpit.sources.source import SourceError
from cockpit.text import clean
from cockpit.ui.block import MAX_CELL_CHARS, lay_out_cell, truncate_cell
from cockpit.ui.section import MAX_FACT_CHARS, facts

pytestmark = pytest.mark.process

COCKPIT = Path(sys.executable).with_name("cockpit")
EVIL = "\x1b]52;c;cm0=\x07\x1b]8;;file:///etc/shadow\x07\x1b[2J\x9b31m\x1bP1$r\x1b\\\u202egnp\u200b\U000e0041[bold][@click=app.quit]z[/]\t\0\udc80"
ACTIONS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e0fff]")
DEEP = 100_000
TOKEN = "t0ken" * 8
Answer = Callable[[BaseHTTPRequestHandler], None]


class Dashboard:
    """A server at which every request gets the same hostile answer; `heads` are the headers of all of them."""

    def __init__(self, answer: Answer) -> None:
        self.heads: list[str] = []
        told = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                told.heads.append(f"{self.path}\n{self.headers}")
                answer(self)

            def log_message(self, *_: Any) -> None:
                """Silence."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def answering(body: bytes, status: int = 200, reason: str = "OK", **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(f"HTTP/1.1 {status} {reason}\r\n".encode("utf-8", "replace"))
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.wfile.write(f"{name.replace('_', '-')}: {value}\r\n".encode())
        handler.wfile.write(b"\r\n" + body)

    return answer


def shown(words: str, home: Path, **env: str) -> str:
    """All that a command of cockpit prints in a terminal."""
    mine, its = pty.openpty()
    given = {
        "PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm-256color", "COCKPIT_PROBE_HOSTS": "never", "LANG": "C.UTF-8", **env,
    }  # fmt: skip
    done = subprocess.Popen([COCKPIT, *shlex.split(words)], stdin=its, stdout=its, stderr=its, env=given, start_new_session=True)
    os.close(its)
    told = b""
    try:
        while chunk := os.read(mine, 65536):
            told += chunk
    except OSError:  # its other end is closed
        pass
    os.close(mine)
    done.wait(60)
    return told.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


@pytest.fixture
def dashboard() -> Iterator[Callable[[Answer], Dashboard]]:
    made: list[Dashboard] = []
    yield lambda answer: (made.append(Dashboard(answer)), made[-1])[1]
    for each in made:
        each.close()


# What a dashboard answers


HEADERS = {
    "a reason that colours": answering(b"{}", 500, "\x9b31m\u202eno"),
    "an error that takes the clipboard": answering(EVIL.encode("utf-8", "replace") * 3, 500),
    "a redirect with a key in it": answering(b"", 302, Location=f"http://127.0.0.1:1/\x9b31m?token={TOKEN}"),
    "a redirect to a file": answering(b"", 302, Location="file:///etc/shadow"),
    "a redirect to itself": answering(b"", 302, Location="/api/version"),
    "a page": answering(f"<html>{EVIL}".encode("utf-8", "replace")),
    "a version that clears the screen": answering(json.dumps({"ray_version": EVIL, "session_name": EVIL}).encode()),
    "a year of twenty digits": answering(b'{"ray_version": "2.9"}', Date="Mon, 01 Jan 99999999999999999999 00:00:00 GMT"),
    "an offset of twenty digits": answering(b'{"ray_version": "2.9"}', Date="Mon, 01 Jan 2020 00:00:00 +99999999999999999999"),
    "lists within lists": answering(b"[" * DEEP + b"]" * DEEP),
    "a name for its encoding": answering(b"{}", Content_Encoding="\x9b31m"),
}


@pytest.mark.parametrize("answer", HEADERS.values(), ids=HEADERS)
def test_whatever_a_dashboard_answers_is_a_sentence(dashboard, answer, tmp_path):
    told = shown(f"status --address {dashboard(answer).url}", tmp_path, RAY_AUTH_TOKEN=TOKEN)
    assert "127.0.0.1" in told
    assert ACTIONS.findall(told) == []
    assert "cockpit has a bug" not in told
    assert "Traceback" not in told
    assert TOKEN not in told


def test_a_redirect_takes_the_token_nowhere(dashboard, tmp_path):
    thief = dashboard(answering(b"{}"))
    asks, lures = answering(b'{"authentication_mode": "token"}'), answering(b"", 307, Location=f"{thief.url}/api/version")
    named = dashboard(lambda handler: (asks if "authentication_mode" in handler.path else lures)(handler))
    told = shown(f"status --address {named.url}", tmp_path, RAY_AUTH_TOKEN=TOKEN)
    assert "redirects to" in told
    assert [head for head in named.heads if TOKEN in head], "it is sent where a person has named the address"
    assert thief.heads == []


def test_cookies_are_neither_kept_nor_sent_back(dashboard, tmp_path):
    """A dashboard that sets a thousand with every answer would be sent ever more of them, until nothing else is done."""
    baker = dashboard(answering(b'{"authentication_mode": "disabled", "ray_version": "2.60.0"}', Set_Cookie="a=b"))
    shown(f"status --address {baker.url}", tmp_path)
    assert len(baker.heads) >= 3
    assert not [head for head in baker.heads if "cookie" in head.lower()]


def test_what_a_job_calls_its_metadata_is_not_built_before_anybody_asks():
    """Three bytes of JSON are a hundred in Python: 128 MB would be more than this host has."""
    (job,) = decode(b'[{"type": "SUBMISSION", "metadata": {"a": [[],[]], "b": "\\u00e9", "cockpit_preset": 5}}]', tuple[wire.Job, ...])
    assert job.texts == {"a": "[[],[]]", "b": "é", "cockpit_preset": "5"}
    assert job.get_text("b") == "é"
    assert job.get_text("cockpit_preset") is None
    assert job.get_text("a") is None
    assert job.get_text("z") is None


def test_a_list_of_more_than_ray_ever_lists_is_refused():
    def listing(number: int) -> bytes:
        entries = ",".join('{"actor_id":"a"}' for _ in range(number))
        return f'{{"result": true, "data": {{"result": {{"total": {number}, "result": [{entries}]}}}}}}'.encode()

    told = decode(listing(wire.MAX_DECODED_ENTRIES), wire.Reply[wire.Listed[wire.Actor]])
    assert told.data is not None
    assert len(told.data.result.result) == wire.MAX_DECODED_ENTRIES
    with pytest.raises(NotRayError, match="unexpected JSON"):
        decode(listing(wire.MAX_DECODED_ENTRIES + 1), wire.Reply[wire.Listed[wire.Actor]])


# What a probe says: over there anything may have answered


def nested(before: str, after: str = "}") -> bytes:
    return f"{before}{'[' * DEEP}{']' * DEEP}{after}".encode()


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_line(nested('{"taken":1,"x":'), Sample),
        lambda: read_line(nested('{"hello":1,"x":'), Hello),
        lambda: _parse_answer(nested('{"x":'), "w1"),
    ],
)
def test_what_is_nested_without_end_is_a_fault_of_that_host(read):
    with pytest.raises(SourceError):
        read()
    assert parse_message(nested('{"x":')) is None


def test_a_number_that_no_float_holds_is_not_known():
    """Else it would come out wherever something is divided: on a page of the screen."""
    sample = read_line(b'{"taken": 1, "disks": [{"path": "/", "used": %s, "total": 5}], "cpus": -%s}' % (b"9" * 400, b"9" * 4000), Sample)
    assert sample.disks is not None
    assert (sample.disks[0].used, sample.disks[0].total, sample.cpus) == (None, 5, None)
    assert parse_message(b'{"tell": "x", "done": %s}' % (b"9" * 400)) == {"tell": "x", "done": None}


@pytest.mark.parametrize("half", [b"\\udc80", b"\\uD800", b"\xed\xa0\x80", b"\xff"])
def test_half_a_character_of_a_host_stops_no_action_on_others(half):
    """It can't be written into the log of actions, without which nothing is done."""
    said = parse_message(b'{"targets": [{"command": "train %s", "name": "\\ud83d\\ude80"}]}' % half)
    assert said is not None
    assert json.dumps(said, ensure_ascii=False).encode().decode().startswith('{"targets": [{"command": "train ')
    assert said["targets"][0]["name"] == "🚀"


def test_a_title_of_a_thousand_digits_hides_no_host():
    sample = read_line(b'{"taken": 1, "processes": [{"pid": 5, "command": "%s"}]}' % (b"7" * 1000), Sample)
    assert sample.processes is not None
    assert sample.processes[0].command == "7" * 1000


def test_what_is_no_json_is_mended_only_as_far_as_keys_can_wait():
    assert read_line(b'{"taken": 1, "cpu": NaN}', Sample).cpu is None
    with pytest.raises(SourceError, match="larger than"):
        read_line(b'{"taken": 1, "cpu": NaN, "x": "%s"}' % (b"x" * MEND_MAX_BYTES), Sample)


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"NaN", b"9" * 400])
def test_numbers_beyond_all_numbers_are_unknown_or_refused(number):
    try:
        (job,) = decode(b'[{"start_time": %s}]' % number, tuple[wire.Job, ...])
    except NotRayError:
        return
    assert job.start_time is None


# Names


def test_marks_without_number_on_one_letter_are_four():
    assert clean("Z" + "\u0301" * 100_000 + "!") == "Z" + "\u0301" * 4 + "�!"
    assert clean("e\u0301\u0323 क्षि ❤\ufe0f") == "e\u0301\u0323 क्षि ❤\ufe0f"


def test_of_a_name_of_a_million_letters_only_what_can_be_drawn_is_looked_at():
    assert truncate_cell("漢" * 1_000_000) == "漢" * MAX_CELL_CHARS + "…"
    assert truncate_cell((("a" * 10**6, "ok"), ("b", "bad"))) == (("a" * MAX_CELL_CHARS, "ok"), ("b", "bad"))
    assert "".join(text for text, _ in lay_out_cell(truncate_cell("漢" * 1_000_000), 9, False)) == "漢漢漢漢… "
    section = facts("x", "X", [("name", "x" * (MAX_FACT_CHARS + 5))], 100)
    assert section.rows is not None
    assert section.rows[-1].value == "… and 5 more characters"


@pytest.mark.parametrize("name", ["x; touch /tmp/pwned", "$(reboot)", "a`id`", "a'b", "--yes all", EVIL])
def test_a_name_in_a_command_that_somebody_copies_is_one_word(name):
    assert shlex.split(shell_word(name)) == [clean(name)]


# Files


YAML = {
    "a switch that is none": 'a: !!bool "x"',
    "a number that is none": 'a: !!int ""',
    "a time that is none": 'a: !!timestamp "x"',
    "a number of base 60 too large": f"a: {'1:' * 400}1.0",
    "a number of base 60 that takes minutes": f"a: {'1:' * 400_000}1",
    "merged keys without number": "a: &a {k: 1, j: 2}\n"
    + "".join(f"{chr(98 + n)}: &{chr(98 + n)} {{<<: [{','.join(['*' + chr(97 + n)] * 9)}]}}\n" for n in range(20)),
    "a program": 'a: !!python/object/apply:os.system ["id"]',
    "depth": "[" * 10_000,
    "a key that takes the clipboard, twice": '"\\e]52;c;eA==\\a": 1\n"\\e]52;c;eA==\\a": 2',
    "itself": "&a [*a]",
    "a merge with itself": "&a {<<: *a}",
}


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_a_hostile_file_is_a_mistake_in_one_sentence(text):
    with pytest.raises(InputError) as caught:
        Document(text, "preset.yaml")
    assert str(caught.value).startswith("preset.yaml")
    assert ACTIONS.findall(str(caught.value)) == []


# What is said and written


def test_no_name_forges_a_line_in_the_log_of_actions_or_harms_who_reads_it(tmp_path):
    forged = '{"act": "clean", "user": "root", "outcome": "forged"}'
    target = Target("process", host=f"w1\n{forged}", pid=5, command=f"{EVIL[:-1]}\n{forged}\r\u2028{forged}", why=(f"\n{forged}",))
    audit = Audit(tmp_path / "acts.jsonl", lambda: 5.0)
    audit.begin(Plan("kill-orphans", "Kill orphans", (target,), hosts=("w1",)))
    (line,) = (tmp_path / "acts.jsonl").read_bytes().decode().splitlines()
    assert ACTIONS.findall(line) == []
    assert json.loads(line)["outcome"] == "begun"
    assert json.loads(line)["plan"][0]["command"].startswith("\x1b]52"), "who reads it as JSON gets what it was"


def test_a_traceback_shows_no_secret():
    fail = "def fail(): raise KeyError('password=' + SAID)"
    code = f"SAID = 'hunter2hunter2'\nfrom cockpit.cli import entry, main\n{fail}\nmain.main = fail\nentry.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "KeyError" in done.stderr
    assert "hunter2hunter2" not in done.stderr


def test_a_password_in_the_way_to_hosts_is_not_printed(tmp_path):
    told = shown("config print", tmp_path, COCKPIT_REACH="sshpass -p Passw0rd99 ssh {address} {python} -")
    assert "reach:" in told
    assert "Passw0rd99" not in told


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "latin-1"},
        *({"TERM": term, "COLUMNS": "999999999", "LC_ALL": "xx_YY.UTF-8"} for term in ("../../../etc/passwd", "\x1b[31m", "x" * 5000, "")),
    ],
    ids=["few letters", "a path", "a colour", "long", "empty"],
)
def test_a_terminal_that_knows_few_letters_or_has_a_hostile_name_gets_an_answer(tmp_path, env):
    told = shown("status --address http://127.0.0.1:1", tmp_path, **env)
    assert "Jobs: unknown" in told
    assert "Traceback" not in told
    assert ACTIONS.findall(told) == []
