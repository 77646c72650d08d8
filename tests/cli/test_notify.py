from __future__ import annotations

import os
import re
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
from click.testing import CliRunner

from cockpit.cli.main import main
from cockpit.notify.robots import ChatBotRefusedError
from tests.cli.programs import started

SECRET = "0a1b2c3d4e5f6789"
CONFIG = f"""
notify:
  - {{webhook: "https://robot.example/send/{SECRET}", form: feishu, secret: "{SECRET}"}}
  - {{command: [/opt/page, --key, {SECRET}], level: warning}}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*words, config=CONFIG):
        path = tmp_path / "config" / "cockpit" / "config.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config)
        return CliRunner().invoke(main, list(words))

    return invoke


@pytest.fixture
def heard(monkeypatch):
    """The kinds of targets that got a message; the command fails."""
    targets = []

    async def send(target, message):
        assert message.is_test
        targets.append(target.kind)
        if target.command:
            raise ChatBotRefusedError("it ended with exit code 7: no pager")

    monkeypatch.setattr("cockpit.cli.notify.deliver", send)
    return targets


def test_the_answer_of_each_target_is_printed(run, heard):
    answer = run("notify", "--test")
    assert answer.output == "target 1 (feishu): accepted\ntarget 2 (command): failed: it ended with exit code 7: no pager\n"
    assert (answer.exit_code, heard) == (1, ["feishu", "command"])
    heard.clear()
    assert (run("notify", "--test", "--target", "1").exit_code, heard) == (0, ["feishu"])


@pytest.mark.parametrize(
    ("words", "config", "code", "said"),
    [
        (("notify", "--test", "--target", "3"), CONFIG, 3, "expected a number from 1 to 2"),
        (("notify",), CONFIG, 3, "add --test; `cockpit watch` notifies of findings"),
        (("notify", "--test"), "", 1, "`notify`"),
        (("watch",), "", 1, "`notify`"),
        (("watch", "--readonly"), CONFIG, 1, "cockpit is read-only (--readonly)"),
    ],
)
def test_where_nothing_is_sent_it_says_why(run, heard, tmp_path, words, config, code, said):
    answer = run(*words, config=config)
    assert (answer.exit_code, said in answer.output, heard) == (code, True, []), answer.output
    assert not (tmp_path / "state" / "cockpit").exists()


def test_the_config_is_printed_without_addresses_secrets_and_arguments(run):
    text = run("config", "print").output
    assert SECRET not in text
    assert "robot.example" not in text
    assert '"form": "feishu"' in text
    assert '"command": ["/opt/page", "•••"]' in text


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        (f"{{webhook: [{SECRET}], form: slack}}", "notify[0].webhook: expected an address"),
        (f"{{webhook: {SECRET}, form: slack}}", "webhook: expected an address"),
        (f"{{webhook: 'https://{SECRET}'}}", "form is missing"),
        ("{webhook: 'https://h/x', form: feishu, secret: 123456789}", "notify[0].secret: expected text"),
        (f"{{webhook: 'https://h/x', form: {SECRET}}}", "notify[0].form: expected feishu, dingtalk, wecom, slack or json"),
        (f"{{webhook: 'https://h/x', form: slack, secret: {SECRET}}}", "only feishu and dingtalk sign"),
        (f"{{command: [x], webhook: 'https://{SECRET}', form: json}}", "expected either webhook or command"),
        ("{command: [bin/page]}", "give the program's full path"),
        ("{command: [/bin/page, '--key=${KEY}']}", "every user of this host can read its arguments"),
        (f"https://h/{SECRET}", "notify[0]: expected {webhook: …, form: …} or {command: […]}"),
    ],
)
def test_a_mistake_names_its_place_and_repeats_no_secret(run, entry, mistake):
    answer = run("config", "print", config=f"notify:\n  - {entry}\n")
    assert answer.exit_code == 3
    assert re.search(r"config\.yaml:2: ", answer.output)
    assert mistake in answer.output
    assert SECRET not in answer.output
    assert "123456789" not in answer.output


def test_the_unit_calls_this_cockpit(run):
    text = run("watch", "--unit", "--address", "http://head:8265").stdout
    assert re.search(r"^ExecStart=/\S+ watch --address http://head:8265$", text, re.MULTILINE)
    assert "systemctl --user enable --now cockpit-watch" in text
    assert "EnvironmentFile=-%E/cockpit/environment" in text


@pytest.mark.process
def test_watch_sends_findings_and_a_second_watch_ends(run, tmp_path):
    bodies: Queue[str] = Queue()

    class Robot(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.put(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_): ...

    env = {**os.environ, "HOOK": "", "PYTHONUNBUFFERED": "1"}
    cockpit = str(Path(sys.executable).with_name("cockpit"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Robot) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        env["HOOK"] = f"http://127.0.0.1:{server.server_port}/{SECRET}"
        run("config", "path", config='notify: [{webhook: "${HOOK}", form: json}]')
        with started([sys.executable, "-m", "tests.fakes.dashboard", "--nodes", "2"], env) as dashboard:
            address = dashboard.stdout.readline().strip().removeprefix("address=")
            with started([cockpit, "watch", "--address", address], env) as child:
                said = child.stdout.readline()
                with started([cockpit, "watch", "--address", address], env) as second:
                    assert second.wait() == 1
                    assert f"pid {child.pid} on" in second.stderr.read()
                body = bodies.get(timeout=120)
                child.send_signal(signal.SIGTERM)
                assert child.wait() == 128 + signal.SIGTERM
                assert SECRET not in child.stdout.read() + child.stderr.read() + said
        server.shutdown()
    assert "STARTED" in said
    assert '"begun":[{"key":"finding:placement-group-pending' in body
