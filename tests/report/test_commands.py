from __future__ import annotations

import pytest

from cockpit.report.commands import remedy_command


@pytest.mark.parametrize(
    ("action", "about", "command"),
    [
        (None, (), None),
        ("kill", ("process:w1:7:70",), None),
        ("kill-orphans", ("node:1", "process:w1:7:70"), "cockpit kill-orphans"),
        ("stop-job", ("job:ppo 7b", "node:1"), "cockpit stop-job 'ppo 7b'"),
        ("stop-job", ("job:a", "job:b"), "cockpit stop-job ID"),
        ("stop", ("session:w1:/tmp/ray/session_1",), "cockpit stop --session session_1"),
        ("stop", ("session:w1:/tmp/ray/session_1", "session:w1:/tmp/ray/session_2"), "cockpit stop --session NAME"),
        ("clean", (), "cockpit clean"),
    ],
)
def test_the_command_of_a_remedy_is_complete(action, about, command):
    assert remedy_command(action, about) == command
