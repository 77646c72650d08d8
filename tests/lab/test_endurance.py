"""A screen that runs for days survives prompts of ssh, being stopped, and changes of the terminal's size."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest

from cockpit.config.reach import DEFAULT_REACH
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import SSHD, Host, Lab, Process
from tests.lab.observe import COCKPIT, Screen, screen, write_config
from tests.lab.usage import usage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

PATIENCE = 90.0
ASKPASS = "#!/bin/sh\necho asked >>/tmp/asked\nsleep infinity\n"
PROMPT = re.compile(r"password:|authenticity of host|\(yes/no|passphrase", re.IGNORECASE)


def reached_by(lab: Lab, *options: str) -> None:
    """Lets cockpit on the head reach w1 by an ssh that may ask: without BatchMode."""
    plain = DEFAULT_REACH.replace("-o BatchMode=yes ", "").replace("ssh ", f"ssh {' '.join(options)} -F {lab.ssh_config} ", 1)
    config = lab["head"].folder / "run" / "lab" / "home" / ".config" / "cockpit" / "config.yaml"
    config.write_text(f"reach: {json.dumps(plain)}\nhosts: [w1]\nprobe_hosts: always\n")


@pytest.fixture
def asking(cluster: Cluster) -> Iterator[Host]:
    """The head, where ssh has a program to ask with. Restores ssh's configuration afterwards."""
    write_config(cluster.lab)
    head = cluster.head
    (head.tmp / "askpass").write_text(ASKPASS)
    (head.tmp / "askpass").chmod(0o755)
    yield head
    write_config(cluster.lab)


def says_so(head: Host, words: str) -> None:
    """The fault is on the screen, no prompt is, and no ssh waits for an answer."""
    with screen(head, "--readonly", env="SSH_ASKPASS=/tmp/askpass SSH_ASKPASS_REQUIRE=force DISPLAY=:0") as shown:
        shown.until("nodes 2/2", words, within=PATIENCE)
        shown.press("F")
        text = shown.till(lambda text: "a key or an agent" in text or "known_hosts" in text, within=PATIENCE)
        assert not PROMPT.search(text)
        shown.press("1")
        shown.until("Overview", "nodes 2/2")
        assert not (head.tmp / "asked").exists()
        eventually(lambda: not [process for process in head.matching("ssh", "w1") if "[mux]" not in process.text], within=PATIENCE)


def test_an_ssh_that_would_ask_for_a_password_does_not_ask(asking: Host, lab: Lab):
    w1 = lab["w1"]
    options = "-o PidFile=/tmp/sshd.pid -o PubkeyAuthentication=no -o KbdInteractiveAuthentication=no -o UsePAM=no"
    w1.ssh(f"{SSHD} -p 2222 -h {lab.folder}/host {options} && until test -s /tmp/sshd.pid; do sleep 0.05; done")
    reached_by(lab, "-p", "2222")
    try:
        says_so(asking, "Permission denied (password)")
    finally:
        w1.ssh("kill $(cat /tmp/sshd.pid)")


def test_an_ssh_that_would_ask_about_a_host_key_does_not_ask(asking: Host, lab: Lab):
    reached_by(lab, "-o", "StrictHostKeyChecking=ask", "-o", "UserKnownHostsFile=/tmp/nobody-known")
    says_so(asking, "its host key is unknown here")


@pytest.fixture
def watched(cluster: Cluster) -> Iterator[Screen]:
    """A screen on which everything has been drawn."""
    write_config(cluster.lab)
    with screen(cluster.head) as shown:
        shown.until("nodes 2/2", "jobs 0 running", within=PATIENCE)
        yield shown


@pytest.fixture
def typed(cluster: Cluster) -> Iterator[Screen]:
    """The same, started from a shell with job control: tmux would at once continue a stopped program of its own."""
    write_config(cluster.lab)
    with screen(cluster.head) as shown:
        shown._tmux("respawn-pane", "-k", "bash --norc -i")
        shown.type(f"{COCKPIT}\n")
        shown.until("nodes 2/2", "jobs 0 running", within=PATIENCE)
        yield shown


def program_of(head: Host) -> Process:
    return next(process for process in head.matching(str(COCKPIT)) if "bash" not in process.text and "tmux" not in process.text)


def goes_on(shown: Screen) -> None:
    """The shell has the terminal; `fg` returns it."""
    shown.until("Stopped", within=PATIENCE)
    shown.type("fg\n")


def test_a_stopped_screen_that_continues_soon_shows_the_present(cluster: Cluster, typed: Screen):
    program = program_of(cluster.head)
    program.freeze()
    cluster.submit("later", "sleep 1000")
    eventually(lambda: cluster.job("later") == "RUNNING", within=PATIENCE)
    begun = time.monotonic()
    eventually(lambda: time.monotonic() - begun > 20, within=PATIENCE)  # longer than the age at which facts become stale
    assert program.outer.status() == "stopped"
    asked = requests_of(program)
    goes_on(typed)
    typed.until("jobs 1 running", within=PATIENCE)
    typed.till(lambda text: re.search(r"\b[0-9]s ago", text) and "✖" not in text, within=PATIENCE)
    assert requests_of(program) <= asked + 2
    typed.press("5")
    typed.until("later", "RUNNING", within=PATIENCE)
    cluster.stop_jobs()


def requests_of(program: Process) -> int:
    """Its open connections to Ray's dashboard: the number of parallel requests."""
    return sum(each.raddr.port == 8265 for each in program.outer.net_connections("tcp") if each.raddr)


def test_repeated_stops_leave_no_threads_behind(cluster: Cluster, typed: Screen):
    program = program_of(cluster.head)
    threads = program.outer.num_threads()
    for _ in range(5):
        program.freeze()
        goes_on(typed)
        typed.until("nodes 2/2", within=PATIENCE)
    eventually(lambda: program.outer.num_threads() <= threads + 1, within=PATIENCE)
    typed.press("2")
    typed.until("w1", "head", within=PATIENCE)
    # A key that was pressed before the program continued is lost.
    eventually(lambda: not program.is_alive() or typed.press("q"), within=PATIENCE, every=1.0)
    typed.press("C-u")
    typed.type("stty -a\n")
    typed.until(" icanon", " echo ", within=PATIENCE)


def test_ctrl_z_returns_the_terminal_and_fg_takes_it_back(cluster: Cluster, typed: Screen):
    typed.press("C-z")
    goes_on(typed)
    typed.until("nodes 2/2", within=PATIENCE)
    typed.press("2")
    typed.until("w1", "head", within=PATIENCE)


def test_ctrl_z_also_stops_the_programs_around_it(cluster: Cluster):
    write_config(cluster.lab)
    with screen(cluster.head) as shown:
        shown._tmux("respawn-pane", "-k", "bash --norc -i")
        shown.type(f"sh -c '{COCKPIT}; true'\n")  # as under make, uvx and sudo
        shown.until("nodes 2/2", within=PATIENCE)
        shown.press("C-z")
        goes_on(shown)
        shown.until("nodes 2/2", within=PATIENCE)
        shown.press("2")
        shown.until("w1", "head", within=PATIENCE)


def test_ctrl_z_does_nothing_without_a_shell_that_could_continue_it(watched: Screen):
    watched.press("C-z")
    watched.press("2")
    watched.until("NODES 2", within=PATIENCE)


@pytest.mark.timeout(900)
def test_a_terminal_changes_its_size_a_thousand_times(watched: Screen):
    program = watched.program.outer
    turn(watched, 500)
    files = usage(program, 0.0).files
    # Memory is highest, 35 MB more, when the caches are full: after some ten thousand sizes.
    assert any(growth_of(watched, 1000) < 1 for _ in range(30)), "a leak would grow every time"
    watched.resize(160, 50)
    text = watched.until("nodes 2/2", "Overview", within=PATIENCE)
    assert "Traceback" not in text
    eventually(lambda: usage(program, 0.0).files <= files + 2)  # an open request has one, too


def growth_of(shown: Screen, times: int) -> float:
    """MB that this many changes of size add."""
    program = shown.program.outer
    before = usage(program, 0.0).memory
    turn(shown, times)
    return usage(program, 0.0).memory - before


def turn(shown: Screen, times: int) -> None:
    """Uses every size from too small to very large, and changes the page now and then."""
    for number in range(times):
        shown.resize(20 + 37 * number % 240, 5 + 13 * number % 70)
        if number % 50 == 0:
            shown.press(str(number // 50 % 6 + 1))
    shown.resize(120, 40)
    shown.press("1")
    shown.until("Overview", "nodes 2/2", within=PATIENCE)
