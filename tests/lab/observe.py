"""What a person on a host of the lab sees of cockpit: the output of `status`, and the screen in a real terminal."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from cockpit.sources.probes import payload
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host, Lab, Process, is_alive

Facts = dict[str, Any]
COCKPIT = Path(sys.executable).with_name("cockpit")
NVML = """
import json, pynvml as n
n.nvmlInit()
gpus = []
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    m = n.nvmlDeviceGetMemoryInfo(h)
    gpus.append([i, n.nvmlDeviceGetUUID(h), n.nvmlDeviceGetName(h), n.nvmlDeviceGetUtilizationRates(h).gpu, m.used, m.total])
print(json.dumps(gpus))
"""


def write_config(lab: Lab) -> None:
    """Configures cockpit on every host so that it reaches the others as the lab's operator does."""
    reach = f"ssh -F {lab.ssh_config} -o BatchMode=yes -o ConnectTimeout=2 {{name}} {{python}} -"
    for host in lab.hosts.values():
        folder = host.folder / "run" / "lab" / "home" / ".config" / "cockpit"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(f"reach: {json.dumps(reach)}\n")


def run_json(host: Host, command: str, timeout: float = 120) -> tuple[int, Facts, str]:
    """Runs a command of cockpit that prints JSON: its exit code, the JSON, and stderr."""
    printed = host.ssh(f"stderr=$(mktemp); {command} 2>$stderr; code=$?; echo; echo $code; cat $stderr; rm $stderr", timeout=timeout)
    raw, _, rest = printed.rpartition("}\n\n")
    code, _, stderr = (rest if raw else printed.lstrip("\n")).partition("\n")
    return int(code), json.loads(raw + "}") if raw else {}, stderr


def once(host: Host, words: str = "", env: str = "") -> tuple[int, Facts, str]:
    """Runs `cockpit status --json` once: its exit code, the status, and stderr."""
    return run_json(host, f"{env} {COCKPIT} status --json {words}")


def action(host: Host, words: str, env: str = "") -> tuple[int, Facts, str]:
    """Runs one action by its command with `--json`: its exit code, plan and outcome, and stderr."""
    return run_json(host, f"{env} {COCKPIT} {words} --json")


def ask_probe(host: Host, request: Facts) -> Facts:
    """The answer of a probe that acts, sent to the host as usual."""
    (host.tmp / "act.py").write_bytes(payload.program(["--no-lifeline", "act", json.dumps(request)], acting=True))
    answer: Facts = json.loads(host.ssh("python3 - < /tmp/act.py", timeout=120).splitlines()[-1])
    return answer


class Watcher:
    """A long-running `cockpit status --json --watch` on a host: its newest status, and how soon it reports a change."""

    def __init__(self, host: Host, words: str = "", env: str = "") -> None:
        self.host, self.file = host, host.tmp / "watched.jsonl"
        self.file.write_text("")
        program = f"exec env {env} {COCKPIT} status --json --watch --interval 0.5 {words} >/tmp/watched.jsonl 2>/tmp/watched.stderr"
        self.process = host.spawn("bash", "-c", program)

    @property
    def now(self) -> Facts:
        """The newest status."""
        lines = self.file.read_bytes().splitlines(keepends=True)
        whole = next((line for line in reversed(lines) if line.endswith(b"\n")), b"{}")
        facts: Facts = json.loads(whole)
        return facts

    @property
    def probe(self) -> Process:
        """The probe of its own host. Raises `ValueError` while there is none."""
        ours = {child.pid for child in self.process.outer.children(recursive=True)}
        probe, *_ = (process for process in self.host.matching("cockpit.probe") if process.outer.pid in ours)
        return probe

    def until(self, fact: Callable[[Facts], object], within: float = 120) -> float:
        """Waits until the newest status satisfies `fact`; returns the seconds that it took."""
        began = time.monotonic()
        try:
            eventually(lambda: _is_true(fact, self.now), within, every=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says: {brief(self.now)}") from error
        return time.monotonic() - began

    def fault(self, source: str, words: str = "", host: str | None = None, within: float = 120) -> float:
        """Waits until this source has a fault with these words."""
        return self.until(lambda now: [text for text in faults(now, source, host) if words in text], within)

    def trusts(self, within: float = 120) -> float:
        """Waits until no source has a fault."""
        return self.until(lambda now: not now["faults"], within)

    def end(self) -> None:
        with contextlib.suppress(psutil.Error):
            self.process.outer.terminate()
            self.process.outer.wait(60)


def _is_true(fact: Callable[[Facts], object], facts: Facts) -> object:
    """Whether a fact is true. A fact that depends on something unknown is false."""
    with contextlib.suppress(TypeError, KeyError):
        return fact(facts)
    return None


def faults(facts: Facts, source: str = "", host: str | None = None) -> list[str]:
    """The faults of a source, or of a group of sources: `ray.` means all questions to Ray."""
    return [each["text"] for each in facts["faults"] if each["source"].startswith(source) and host in (None, each["host"])]


def node(facts: Facts, name: str) -> Facts:
    """The node of this host; the living one if the node was restarted."""
    named = [each for each in facts["nodes"] or () if each["host"] == name]
    return next(iter(sorted(named, key=lambda each: each["state"] != "ALIVE")), {})


def kinds(facts: Facts, host: str) -> dict[int, str]:
    """The kind of each process of a host, by pid."""
    return {each["pid"]: each["kind"] for each in facts["processes"] or () if each["host"] == host}


def kinds_on(facts: Facts, host: str) -> set[str]:
    """The kinds of processes of a host."""
    return set(kinds(facts, host).values())


def brief(facts: Facts) -> str:
    """The important part of a status, for the message of a failed test."""
    nodes = [{key: each[key] for key in ("host", "state", "age")} for each in facts.get("nodes") or ()]
    processes = [
        (each["host"], each["pid"], each["kind"], (each["command"] or "")[:60], each["why"]) for each in facts.get("processes") or ()
    ]
    return "\n".join(map(str, (facts.get("cluster"), nodes, facts.get("faults"), facts.get("sessions"), *processes)))


def listed(cluster: Cluster, what: str) -> list[dict[str, Any]]:
    """What `ray list` prints."""
    found: list[dict[str, Any]] = json.loads(cluster.command(cluster.head, f"ray list {what} --format json --limit 1000 --detail"))
    return found


def by_nvml(host: Host) -> list[list[Any]]:
    """A host's GPUs as NVML shows them to a program on that host."""
    found: list[list[Any]] = json.loads(host.ssh(f"{sys.executable} -c {shlex.quote(NVML)}"))
    return found


def by_cockpit(facts: Facts, host: str) -> list[list[Any]]:
    """The same GPUs as cockpit shows them."""
    fields = ("index", "uuid", "name", "utilization", "memory_used", "memory_total")
    return [[gpu[field] for field in fields] for gpu in node(facts, host)["gpus"]]


class Screen:
    """cockpit in a terminal of a host, held by tmux."""

    def __init__(self, host: Host, words: str = "", *, size: tuple[int, int] = (160, 50), env: str = "") -> None:
        self.host, self.socket = host, host.tmp / "tmux.socket"
        line = f"exec env {env} {COCKPIT} {words}"
        tmux = "tmux -S /tmp/tmux.socket -f /dev/null"
        host.ssh(
            f"LC_ALL=C.UTF-8 {tmux} new-session -d -x {size[0]} -y {size[1]} {shlex.quote('sleep infinity')} \\;"
            f" set -g remain-on-exit on \\; set -g status off \\; respawn-pane -k {shlex.quote(line)}"
        )

    def _tmux(self, *words: str) -> str:
        """Runs tmux from outside the host: over ssh each key would cost a login."""
        return subprocess.run(["tmux", "-S", str(self.socket), *words], capture_output=True, text=True, check=True).stdout

    @property
    def text(self) -> str:
        """The text on the screen."""
        return self._tmux("capture-pane", "-p")

    @property
    def raw(self) -> str:
        """The text on the screen with its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def program(self) -> Process:
        """Cockpit's process."""
        pid = int(self._tmux("display-message", "-p", "#{pane_pid}"))
        return next(process for process in self.host.processes() if process.pid == pid)

    def family(self) -> list[psutil.Process]:
        """Cockpit's process and all its children."""
        return [self.program.outer, *self.program.outer.children(recursive=True)]

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def until(self, *words: str, within: float = 120) -> str:
        """Waits until all these words are on the screen; returns its text."""
        return self.till(lambda text: all(word in text for word in words), within)

    def till(self, fact: Callable[[str], object], within: float = 120) -> str:
        """Waits until `fact` is true of the screen's text; returns the text."""
        try:
            return eventually(lambda: (text := self.text) and fact(text) and text, within, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen says:\n{self.text}") from error

    def settled(self) -> None:
        """Waits until cockpit has started: the screen is drawn and the program is idle between refreshes."""
        self.until("Overview")
        eventually(lambda: self.program.outer.cpu_percent(0.5) < 50, within=120)

    def quit(self) -> float:
        """Presses `q`; the seconds until no process of cockpit runs. Other labs' processes are paused meanwhile."""
        family = self.family()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.nice(-15)
        began = time.monotonic()
        self.press("q")
        try:
            gone(family)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen says:\n{self.text}") from error
        return time.monotonic() - began

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._tmux("kill-server")


def gone(family: list[psutil.Process], within: float = 120) -> None:
    """Waits until none of these processes runs."""
    eventually(lambda: not any(map(is_alive, family)), within, every=0.005)


@contextlib.contextmanager
def screen(host: Host, words: str = "", *, size: tuple[int, int] = (160, 50), env: str = "") -> Iterator[Screen]:
    """A terminal with cockpit in it."""
    made = Screen(host, words, size=size, env=env)
    try:
        yield made
    finally:
        made.close()
